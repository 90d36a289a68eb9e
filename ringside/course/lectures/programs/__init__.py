"""Programs that the lectures' pictures are drawn from: run on ranks, and read by whoever wants."""
