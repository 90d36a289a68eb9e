"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run sgd.py:measured_step --ranks 2 -- --n 256 --width 512
    ringside run callers_torch.py:measured_step --ranks 1 -- --n 256 --width 512

A network 64 -> width -> width -> 10; every rank has n samples of its own, drawn at random.
"""

import numpy as np

CLASSES, PIXELS, WIDTH = 10, 64, 1024
LR, MOMENTUM = 0.1, 0.9
OPTIONS = {"width"}
INSTEAD = {"sgd_torch.py:train_step": "callers_torch.py:measured_step"}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for other functions."""
    if function != "measured_step":
        return None
    return *_state(options), *_samples(rank, options), LR, MOMENTUM


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get: torch takes the same step, and goes backward by itself."""
    if function != "measured_step":
        return None
    import torch

    params, velocity = _state(options)
    leaves = [torch.tensor(p, requires_grad=True) for p in params]
    x, y = (torch.tensor(each) for each in _samples(rank, options))
    for k in range(0, len(leaves), 2):
        x = (x.relu() if k else x) @ leaves[k] + leaves[k + 1]
    loss = torch.nn.functional.cross_entropy(x, y)
    loss.backward()
    velocity = [MOMENTUM * v + p.grad.numpy() for v, p in zip(velocity, leaves, strict=True)]
    params = [p - LR * v for p, v in zip(params, velocity, strict=True)]
    return params, velocity, loss.item()


def _state(options):
    """Parameters and velocity, the same on all ranks."""
    width = int(options.others.get("width", WIDTH))
    rng = np.random.default_rng(options.seed)
    params, velocity = [], []
    for d_in, d_out in ((PIXELS, width), (width, width), (width, CLASSES)):
        for shape in ((d_in, d_out), (d_out,)):
            drawn = rng.standard_normal((2, *shape)) / np.sqrt(d_in)
            params.append(drawn[0].astype(options.dtype))
            velocity.append(0.1 * drawn[1].astype(options.dtype))
    return params, velocity


def _samples(rank, options):
    rng = np.random.default_rng([options.seed, rank])
    x = rng.standard_normal((options.n, PIXELS)).astype(options.dtype)
    return x, rng.integers(CLASSES, size=options.n)
