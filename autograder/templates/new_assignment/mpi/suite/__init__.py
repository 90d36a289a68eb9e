"""The hidden suite of a00_name."""
