"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run overlap.py:measured_step --ranks 4 -- --n 256 --bucket-bytes 600000
    ringside run torch_trials.py:measured_ddp --ranks 4 -- --n 256 --bucket-bytes 600000

Layers of widths n -> n -> n -> n -> n; each rank has another batch of 16 samples.
"""

import numpy as np
from cases import greedy
from model import Model, loss_gradient, random_parameters

LAYERS, BATCH = 4, 16
MEASURED = ("measured_step", "measured_ddp")
OPTIONS = {"bucket_bytes"}
INSTEAD = {  # these make gradients and a model, and try the function on them
    "buckets.py:average": "trials.py:try_average -- --lengths '[3, 5]' --buckets '[[1], [0]]'",
    "buckets.py:fusion_cycle": "trials.py:try_fusion -- --lengths '[3, 5]' --threshold-bytes 64",
    "overlap.py:backward": "trials.py:try_step -- --widths '[4, 6, 3]' --buckets '[[3, 2, 1, 0]]'",
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    if function not in MEASURED:
        return None
    params = _params(options)
    bucket_bytes = int(options.others.get("bucket_bytes", 25 * 2**20))
    if function == "measured_ddp":
        return params, *_batch(rank, options), bucket_bytes
    return params, *_batch(rank, options), greedy([each.nbytes for each in params], bucket_bytes)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get: the gradients of all ranks' batches in one."""
    if function not in MEASURED:
        return None
    model = Model(_params(options))
    parts = [_batch(each, options) for each in range(world_size)]
    x, target = (np.concatenate(each) for each in zip(*parts, strict=True))
    model.backward(loss_gradient(model.forward(x), target))
    return model.gradients()


def _params(options):
    widths = [options.n] * (LAYERS + 1)
    return random_parameters(widths, np.random.default_rng(options.seed), options.dtype)


def _batch(rank, options):
    rng = np.random.default_rng([options.seed, rank])
    drawn = rng.standard_normal((2, BATCH, options.n)).astype(options.dtype)
    return drawn[0], drawn[1]
