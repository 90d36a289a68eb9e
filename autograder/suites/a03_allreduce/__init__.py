"""The hidden suite of a03_allreduce."""
