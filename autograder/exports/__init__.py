"""Scores for learning platforms: Canvas, Moodle, Gradescope, and a plain CSV."""

from __future__ import annotations

KINDS = ("canvas", "moodle", "gradescope", "csv", "nbgrader")
VISIBILITY = ("visible", "after_due_date", "after_published", "hidden")  # of Gradescope's tests
