"""Gradient descent with delays, in one process: supplied, nothing to write.

    w(t+1) = w(t) - lr * gradient of f_t at (w_0(t - lag_0), ..., w_(S-1)(t - lag_(S-1)))

``params[s]`` are the parameters of stage s, and ``f_t`` is the loss of minibatch t. What the lag of
each stage is in a pipeline of S stages, with and without vertical sync, says ``lags``.
"""

from contextlib import nullcontext

import numpy as np
from model import Piece, loss, loss_gradient


def lags(num_stages, vertical_sync=False):
    """By how many updates a stage's version is older than the newest one, once all is under way."""
    return [num_stages - 1 if vertical_sync else num_stages - 1 - s for s in range(num_stages)]


def delayed_descent(params, inputs, targets, lr, delays, factors=None):
    """Train in double precision.

    Args:
        params: per stage, weights and biases in turn.
        inputs, targets: one array a minibatch.
        delays: per stage its lag; all 0 is plain gradient descent.
        factors: of a run whose passes are announced.

    Returns:
        ``(params, losses)``: per stage the parameters at the end, and the loss of each minibatch.
    """
    history = [[[np.asarray(each, "float64") for each in own] for own in params]]
    pieces = [Piece(stage, 0.0, 0.0) for stage in range(len(params))]
    losses = []
    for t, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        used = [history[max(0, t - delay)][s] for s, delay in enumerate(delays)]
        x, kept = np.asarray(x, "float64"), []
        for stage, piece in enumerate(pieces):
            with _answered(factors, stage):
                x, saved = piece.forward(t, used[stage], x)
            kept.append(saved)
        losses.append(loss(x, target))
        grad, newest = loss_gradient(x, target), []
        for stage, piece in reversed(list(enumerate(pieces))):
            with _answered(factors, stage):
                grad, grads = piece.backward(t, used[stage], kept[stage], grad)
            newest.append([w - lr * g for w, g in zip(history[t][stage], grads, strict=True)])
        history.append(newest[::-1])
    return history[-1], losses


def _answered(factors, stage):
    return nullcontext() if factors is None else factors.of_rank(stage)
