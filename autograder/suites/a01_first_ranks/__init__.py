"""The hidden suite of a01_first_ranks."""
