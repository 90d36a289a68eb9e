"""The instructor's command line."""
