"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

The functions of ``predict.py`` and ``planner.py`` need no ranks: call them in Python, or with
``try_predict`` and ``try_planner`` of ``callers.py``.
"""


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    return None
