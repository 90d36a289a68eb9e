"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run stage.py:measured_step --ranks 4 -- --n 256 --schedule gpipe --microbatches 16
    ringside run torch_trials.py:measured_pipeline --ranks 4 -- --n 256 --microbatches 16

Each stage has two layers n -> n -> n, each microbatch 32 samples; the actions are those of your
``schedule.py``.
"""

from dataclasses import replace

import numpy as np
import schedule
from actions import text
from model import Piece, loss_gradient, random_parameters

SAMPLES = 32
MEASURED = ("measured_step", "measured_pipeline")
OPTIONS = {"schedule", "microbatches"}
INSTEAD = {
    "stage.py:run": "stage.py:measured_step",
    "pipeline_torch.py:run": "torch_trials.py:measured_pipeline",
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function not in MEASURED:
        return None
    options = _in_float64(function, options)
    name = str(options.others.get("schedule", "one_f_one_b"))
    count = int(options.others.get("microbatches", 8))
    actions = getattr(schedule, name)(world_size, count, rank)
    inputs, targets = _batch(count, options)
    return (
        _params(rank, options),
        text(actions),
        [SAMPLES] * count,
        inputs if rank == 0 else None,
        targets if rank == world_size - 1 else None,
    )


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get: its gradients of the whole batch."""
    if function not in MEASURED:
        return None
    options = _in_float64(function, options)
    inputs, targets = _batch(int(options.others.get("microbatches", 8)), options)
    x, target = np.concatenate(inputs), np.concatenate(targets)
    pieces = [Piece(_params(stage, options)) for stage in range(world_size)]
    kept = []
    for piece in pieces:
        x, saved = piece.forward(0, x)
        kept.append(saved)
    grad = loss_gradient(x, target, len(x))
    for piece, saved in zip(reversed(pieces), reversed(kept), strict=True):
        grad = piece.backward(0, saved, grad)
    return pieces[rank].grads


def _in_float64(function, options):
    """The torch pipeline computes in float64, whatever was asked for."""
    return replace(options, dtype="float64") if function == "measured_pipeline" else options


def _params(stage, options):
    rng = np.random.default_rng([options.seed, stage])
    return random_parameters([options.n] * 3, rng, options.dtype)


def _batch(count, options):
    rng = np.random.default_rng([options.seed, 10**6])
    drawn = rng.standard_normal((2, count, SAMPLES, options.n)).astype(options.dtype)
    return list(drawn[0]), list(drawn[1])
