"""A run: what is run, on which ranks, and what came of it."""
