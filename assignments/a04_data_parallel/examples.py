"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run step.py:train_step --ranks 3 -- --n 11 --sizes 4,0,7 --widths 64,32,10

``n`` samples in all; ``sizes`` says how many each rank has, else they are dealt out evenly.
For ``accumulated_step`` each rank's samples are cut into ``microbatches`` pieces.
"""

import numpy as np
from model import init_params, loss_and_gradients

WIDTHS = (64, 128, 64, 10)
LR, MOMENTUM = 0.1, 0.9
STEPS = ("train_step", "accumulated_step")
OPTIONS = {"sizes", "widths", "microbatches"}
INSTEAD = {  # models and optimizers are made on the ranks
    f"step_torch.py:{name}": f"trials_torch.py:{name}"
    for name in ("train_step", "broadcast_parameters")
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function == "broadcast_parameters":
        return (init_params(_widths(options), [options.seed, rank], options.dtype),)
    if function not in STEPS:
        return None
    params, velocity = _state(options)
    x, y = _samples(world_size, options)[rank]
    if function == "train_step":
        return params, velocity, x, y, LR, MOMENTUM
    pieces = int(options.others.get("microbatches", 3))
    microbatches = list(zip(np.array_split(x, pieces), np.array_split(y, pieces), strict=True))
    return params, velocity, microbatches, LR, MOMENTUM


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None for functions that aren't known here."""
    if function == "broadcast_parameters":
        return init_params(_widths(options), [options.seed, 0], options.dtype)
    if function not in STEPS:
        return None
    params, velocity = _state(options)
    parts = _samples(world_size, options)
    x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    loss, gradients = loss_and_gradients(params, x, y)
    velocity = [MOMENTUM * v + g for v, g in zip(velocity, gradients, strict=True)]
    return [p - LR * v for p, v in zip(params, velocity, strict=True)], velocity, loss


def _widths(options):
    return tuple(options.others.get("widths", WIDTHS))


def _state(options):
    """Parameters and velocity, the same on all ranks."""
    params = init_params(_widths(options), options.seed, options.dtype)
    velocity = init_params(_widths(options), options.seed + 1, options.dtype)
    return params, [0.1 * v for v in velocity]


def _samples(world_size, options):
    """Every rank's ``(x, y)``."""
    widths = _widths(options)
    sizes = options.others.get("sizes")
    if sizes is None:
        sizes = [len(part) for part in np.array_split(np.arange(options.n), world_size)]
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if len(sizes) != world_size:
        raise ValueError(f"--sizes names {len(sizes)} ranks, and there are {world_size}.")
    rng = np.random.default_rng([options.seed, 7])
    parts = []
    for size in sizes:
        x = rng.standard_normal((size, widths[0])).astype(options.dtype)
        parts.append((x, rng.integers(widths[-1], size=size)))
    return parts
