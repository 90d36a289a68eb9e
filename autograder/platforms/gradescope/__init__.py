"""Gradescope: its list of submissions, its results, and an autograder for its container."""
