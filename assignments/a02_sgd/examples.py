"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run trials_torch.py:measured_step --ranks 1 -- --n 64 --widths 64,512,10

``n`` samples, the same on all ranks.
"""

from itertools import pairwise

import numpy as np

WIDTHS = (64, 1024, 1024, 10)
LR, MOMENTUM = 0.1, 0.9
OPTIONS = {"widths"}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``group``; None for functions that aren't known here."""
    if function != "measured_step":
        return None
    widths = tuple(options.others.get("widths", WIDTHS))
    rng = np.random.default_rng(options.seed)
    params = []
    for d_in, d_out in pairwise(widths):
        params.append((rng.standard_normal((d_in, d_out)) / np.sqrt(d_in)).astype(options.dtype))
        params.append((rng.standard_normal(d_out) / 10).astype(options.dtype))
    x = rng.standard_normal((options.n, widths[0])).astype(options.dtype)
    return params, x, rng.integers(widths[-1], size=options.n), LR, MOMENTUM


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None for functions that aren't known here."""
    if function != "measured_step":
        return None
    import torch  # takes seconds, and only this wants it

    params, x, y, lr, _ = arguments(function, world_size, rank, options)
    params = [torch.tensor(p, requires_grad=True) for p in params]
    scores = torch.from_numpy(x)
    for k in range(0, len(params), 2):
        scores = torch.addmm(params[k + 1], scores if k == 0 else scores.relu(), params[k])
    loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y))
    gradients = torch.autograd.grad(loss, params)
    updated = [(p - lr * g).detach().numpy() for p, g in zip(params, gradients, strict=True)]
    return updated, loss.item()
