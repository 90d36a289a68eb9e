"""The hidden suite of a02_sgd, a file a module."""
