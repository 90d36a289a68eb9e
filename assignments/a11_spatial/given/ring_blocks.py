"""Scores of one block of attention, announced and with its time: supplied for ring_attention.

    scores[b, h, i, j]  =  sum over c of  q[b, h, i, c] k[b, h, j, c]  /  sqrt(width)

A block is this rank's queries against the keys of one rank. Each block is announced to the network.
In tests of order the network answers with factors that scale the queries, so that a block can't
have been computed before; everywhere else they are 1.
"""

import math

import numpy as np

import ringside


def block_scores(q, k, source):
    """The scores of one block; virtual time passes for them and for the product with the values.

    Args:
        q: all of this rank's queries, shape ``(batch, heads, n, width)``.
        k: all keys of one rank, shape ``(batch, heads, m, width)``: as many heads as ``q``.
        source: the rank that these keys belong to.

    Returns:
        A new array, shape ``(batch, heads, n, m)``, of the dtype of ``q``. Nothing is masked.
    """
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"queries of shape {q.shape} and keys of shape {k.shape} differ in batch, heads or "
            "width: repeat the keys' heads until there are as many as the queries'"
        )
    phase = f"block {source}"
    q = ringside.announce(phase, q, 0)
    num_flops = 4 * q.size * k.shape[2]  # scores, and weights times values
    ringside.compute(num_flops=num_flops, phase=phase)
    return q @ k.swapaxes(-1, -2) / np.asarray(math.sqrt(q.shape[3]), q.dtype)
