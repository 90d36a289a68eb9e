"""Gradient descent with delays, in one process: supplied, nothing to write.

    w(t+1) = w(t) - lr * gradient of f_t at (w_0(t - lag_0), ..., w_(S-1)(t - lag_(S-1)))

``params[s]`` are the parameters of stage s, and ``f_t`` is the loss of minibatch t. What the lag of
each stage is in a pipeline of S stages, with and without vertical sync, says ``lags``.
"""

import numpy as np
from given.model import Piece, loss, loss_gradient


def lags(num_stages, vertical_sync=False):
    """By how many updates a stage's version is older than the newest one, once all is under way."""
    return [num_stages - 1 if vertical_sync else num_stages - 1 - s for s in range(num_stages)]


def unscaled(kind, minibatch, stage, array):
    """What a pass gets, unless a test scales it."""
    return array


def chain_gradient(params, minibatch, x, target, pass_input=unscaled):
    """Loss of a minibatch, and its gradients per stage, at ``params``, which stages have.

    Args:
        pass_input: gives the input of a pass, of its kind ("F" or "B"), minibatch, stage, and the
            input that it would have: where passes are announced, a test scales it.
    """
    saved, grads = [], []
    for stage, own in enumerate(params):
        x = pass_input("F", minibatch, stage, x)
        x, of_pass = Piece(stage, 0.0, 0.0).forward(minibatch, own, x)
        saved.append(of_pass)
    grad = loss_gradient(x, target)
    for stage, own in reversed(list(enumerate(params))):
        grad = pass_input("B", minibatch, stage, grad)
        grad, of_own = Piece(stage, 0.0, 0.0).backward(minibatch, own, saved[stage], grad)
        grads.append(of_own)
    return loss(x, target), grads[::-1]


def delayed_descent(params, inputs, targets, lr, delays, pass_input=unscaled):
    """Train in double precision.

    Args:
        params: per stage, weights and biases in turn.
        inputs, targets: one array a minibatch.
        delays: per stage its lag; all 0 is plain gradient descent.
        pass_input: as ``chain_gradient`` has it.

    Returns:
        ``(params, losses)``: per stage the parameters at the end, and the loss of each minibatch.
    """
    history = [[[np.asarray(param, "float64") for param in own] for own in params]]
    losses = []
    for t, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        used = [history[max(0, t - delay)][s] for s, delay in enumerate(delays)]
        value, grads = chain_gradient(used, t, np.asarray(x, "float64"), target, pass_input)
        losses.append(value)
        history.append(
            [
                [w - lr * g for w, g in zip(*own, strict=True)]
                for own in zip(history[t], grads, strict=True)
            ]
        )
    return history[-1], losses
