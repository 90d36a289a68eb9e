"""What is supplied: the digits, and networks as data. Nothing to write."""
