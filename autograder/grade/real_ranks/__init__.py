"""Real MPI and gloo ranks, started inside a sandbox."""
