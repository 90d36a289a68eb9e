"""Moodle: its grading worksheet, and files for its gradebook."""
