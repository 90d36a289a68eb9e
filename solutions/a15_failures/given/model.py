"""A linear model whose gradient is a sum over samples: supplied, nothing to write.

    sample   x = (features, target), n + 1 numbers
    loss     (params . features - target)^2 / 2
    gradient (params . features - target) features

Each sample is announced and takes 4 n floating-point operations of virtual time. In tests of order
the network answers with factors that scale the sample, the same on whichever rank it is computed:
so one that is left out, or counted twice, shows in the parameters.
"""

import numpy as np

import ringside


def gradient(params, x, step, first):
    """The sum of the gradients of some samples of a step.

    Args:
        params: shape ``(n,)``; not modified.
        x: shape ``(b, n + 1)``: samples that follow one another in the batch; b may be 0.
        step: the number of the step, from 0.
        first: the place of ``x[0]`` in the batch of this step, from 0.

    Returns:
        A new array, shape ``(n,)``: the *sum* over these b samples, and 0 without samples.
    """
    total = np.zeros_like(params)
    for place, sample in enumerate(x, first):
        sample = ringside.announce(f"step {step}", sample, place)
        ringside.compute(num_flops=4 * len(params), phase=f"step {step}")
        total += of_sample(params, sample)
    return total


def of_sample(params, sample):
    """The gradient of one sample, shape ``(n,)``."""
    features, target = sample[:-1], sample[-1]
    return (params @ features - target) * features
