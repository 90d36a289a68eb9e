"""A classifier of linear layers, with explicit backward passes: supplied for train2d.

    y_i = x_i W_i^T + b_i       x_(i+1) = relu(y_i)       W_i (d_i, d_(i-1)), as in torch
    loss = - log softmax(y_L)[label], summed over samples

Only ``matmul`` counts as work on the modelled machine; the rest counts as nothing. All results are
new arrays of the inputs' dtype, and nothing that is given changes.
"""

import itertools

import numpy as np

import ringside


def matmul(a, b, phase="product"):
    """``a @ b`` of two matrices, declared as work; contiguous.

    Args:
        a, b: shapes ``(m, k)`` and ``(k, n)``.
        phase: what timelines call it, such as ``"forward 2"`` or ``"backward 2"``.
    """
    ringside.compute(num_flops=2 * a.shape[0] * a.shape[1] * b.shape[1], phase=phase)
    return np.ascontiguousarray(a @ b)


def relu(y):
    """The larger of y and 0, of each element."""
    return np.maximum(y, 0)


def relu_backward(x, grad):
    """The gradient with respect to y, where ``x`` is ``relu(y)``."""
    return grad * (x > 0)


def cross_entropy(logits, labels):
    """``(loss, grad)``: summed over samples, so that no number of samples is in it.

    Args:
        logits: shape ``(n, classes)``; n may be 0.
        labels: integers, shape ``(n,)``.

    Returns:
        ``loss``, a number, and its gradient with respect to the logits, shape ``(n, classes)``.
    """
    shifted = logits - logits.max(axis=1, keepdims=True, initial=-np.inf)
    exp = np.exp(shifted)
    total = exp.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = (np.log(total)[:, 0] - shifted[rows, labels]).sum()
    grad = exp / total
    grad[rows, labels] -= 1
    return float(loss), grad


def part_sizes(n, num_parts):
    """How many of n things each of the parts has: the first ones have one more than the others.

    >>> part_sizes(11, 4)
    [3, 3, 3, 2]
    """
    few, more = divmod(n, num_parts)
    return [few + (part < more) for part in range(num_parts)]


def part_bounds(n, num_parts, part):
    """Where a part begins, and where it ends.

    >>> [part_bounds(11, 4, part) for part in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 11)]
    """
    ends = np.cumsum([0, *part_sizes(n, num_parts)]).tolist()
    return ends[part], ends[part + 1]


def draw_params(widths, seed=0, dtype="float64"):
    """The whole model: a list of ``(W, b)``, shapes ``(d_i, d_(i-1))`` and ``(d_i,)``.

    Args:
        widths: ``[d_0, ..., d_L]``: features of a sample, hidden features, classes.
    """
    rng, params = np.random.default_rng(seed), []
    for d_in, d_out in itertools.pairwise(widths):
        W = rng.standard_normal((d_out, d_in)) / np.sqrt(d_in)
        params.append((W.astype(dtype), (rng.standard_normal(d_out) / 10).astype(dtype)))
    return params


def part_of_params(params, num_rows, row):
    """What the ranks of a grid's row ``row`` have: rows of each W, and elements of each b."""
    found = []
    for W, b in params:
        lo, hi = part_bounds(len(b), num_rows, row)
        found.append((W[lo:hi].copy(), b[lo:hi].copy()))
    return found


def pack(pairs):
    """All elements of a list of ``(W, b)``, or of their gradients, in one new array."""
    return np.concatenate([each.ravel() for pair in pairs for each in pair])


def unpack(flat, pairs):
    """The list of which ``flat`` holds the elements: of the shapes of ``pairs``."""
    shapes = [each.shape for pair in pairs for each in pair]
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]
    found = [p.reshape(s) for p, s in zip(np.split(flat, ends), shapes, strict=True)]
    return list(zip(found[::2], found[1::2], strict=True))


def sgd(params, gradients, learning_rate):
    """One step: new parameters, ``p - learning_rate * gradient``, of the same dtype."""
    rate = params[0][0].dtype.type(learning_rate)
    return [
        (W - rate * dW, b - rate * db) for (W, b), (dW, db) in zip(params, gradients, strict=True)
    ]
