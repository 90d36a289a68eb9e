"""Inputs for trying a function out: supplied. ``ringside run`` takes them from here.

The functions of ``memory.py`` and ``offload.py`` need no ranks: call them in Python.
"""


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get."""
    return None
