"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here."""


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None: not known here."""
    return None
