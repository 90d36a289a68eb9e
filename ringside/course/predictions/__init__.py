"""Predictions that readers make before a cell runs, and see beside its result."""
