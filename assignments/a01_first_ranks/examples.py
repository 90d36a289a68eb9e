"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

ringside run ping.py:ping --ranks 2 -- --nbytes 1000 --repetitions 10
ringside run broken.py:collect --ranks 4 -- --rows 3 --n 5
ringside run where.py:where --ranks 8 --machine zaratan -- --visible 0,1,2,3
"""

import os

import numpy as np

from ringside.inputs import vector

OPTIONS = {"nbytes", "repetitions", "partner", "lengths", "equal", "rows", "visible"}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    others = options.others
    trips = [int(others.get("repetitions", 100))]
    if "partner" in others:
        trips.append(int(others["partner"]))
    if function == "ping":
        return (int(others.get("nbytes", 8)), *trips)
    if function == "bounce":
        return (vector(options.n, options.dtype, rank, options.seed), *trips)
    if function == "mean_and_deviation":
        return (_elements(rank, options),)
    if function == "collect":
        return (_rows(rank, options),)
    if function == "where":
        return (_visible(rank, others),)
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where it gets None."""
    if function == "bounce" and rank == 0 and world_size > 1:
        return vector(options.n, options.dtype, 0, options.seed)
    if function == "exchange":
        return vector(options.n, options.dtype, (rank - 1) % world_size, options.seed)
    if function == "mean_and_deviation":
        every = np.concatenate([_elements(peer, options) for peer in range(world_size)])
        return float(every.mean()), float(every.std())
    if function == "collect" and rank == 0:
        return np.array([_rows(peer, options) ** 2 for peer in range(world_size)])
    return None


def _elements(rank, options):
    """A rank's elements: ``--lengths [3,0,2] --equal 0.5``, else three times its rank."""
    lengths = options.others.get("lengths")
    n = 3 * rank + 1 if lengths is None else lengths[rank]
    if "equal" in options.others:
        return np.full(n, float(options.others["equal"]))
    return vector(n, "float64", rank, options.seed)


def _rows(rank, options):
    rows = int(options.others.get("rows", 3))
    return vector(rows * options.n, "float64", rank, options.seed).reshape(rows, options.n)


def _visible(rank, others):
    """``--visible 0,1``, or a list with each rank's: ``--visible "['0,1', None]"``."""
    if "visible" not in others:
        return os.environ.get("CUDA_VISIBLE_DEVICES")
    given = others["visible"]
    if isinstance(given, list):
        return given[rank]
    # 0,1 has been read as a pair of numbers.
    return ",".join(map(str, given)) if isinstance(given, tuple) else str(given)
