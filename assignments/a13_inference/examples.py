"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here."""


def arguments(function, world_size, rank, options):
    return None
