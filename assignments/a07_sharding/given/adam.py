"""Adam with decoupled weight decay, as AdamW has it: supplied, nothing to write.

    m <- beta1 m + (1 - beta1) g                 mean of gradients
    v <- beta2 v + (1 - beta2) g^2               mean of their squares
    w <- w - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + decay w)

t counts the updates, from 1: m and v begin at 0, and dividing by ``1 - beta^t`` makes up for it.
Each element is updated by itself, so a part of the vectors can be updated without the rest.

An update counts as work on the modelled machine, in the phase "update" of a timeline.
"""

import numpy as np

import ringside

BETA1, BETA2, EPS = 0.9, 0.95, 1e-8
FLOPS = 14  # for each element


def adam(w, g, m, v, t, lr, decay=0.0):
    """One update of any number of elements.

    Args:
        w, g, m, v: weights, gradients and both means; arrays of one shape and dtype, which are
            not modified.
        t: number of this update, from 1.
        lr: learning rate.
        decay: weight decay.

    Returns:
        ``(w, m, v)``: new arrays of the same dtype.
    """
    ringside.compute(num_flops=FLOPS * w.size, phase="update")
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g**2
    direction = m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return w - lr * (direction + decay * w), m, v
