"""Scores for learning platforms: Canvas, Moodle, Gradescope, and a plain CSV."""
