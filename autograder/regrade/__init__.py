"""Grading again after a suite was mended."""
