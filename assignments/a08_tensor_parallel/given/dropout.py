"""Dropout that depends on the position in the sequence, not on the rank: supplied.

A generator that a rank draws from gives other masks on other numbers of ranks, and the same mask
on all ranks if all have the same seed. Here position 17 has the same mask whoever has it.
"""

import numpy as np


def scaled_mask(seed, first, count, width, rate):
    """What positions ``first, ..., first + count - 1`` of a sequence are multiplied by.

    Returns:
        An array of shape ``(count, width)``, float64: 0 with probability ``rate``, else
        ``1 / (1 - rate)``, so that the mean stays.
    """
    drawn = [
        np.random.default_rng([seed, position]).random(width)
        for position in range(first, first + count)
    ]
    kept = np.array(drawn).reshape(count, width) >= rate
    return kept / (1 - rate)
