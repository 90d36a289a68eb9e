"""Inputs for trying a function out: supplied. ``ringside run`` takes them from here."""


def arguments(function, world_size, rank, options):
    return None
