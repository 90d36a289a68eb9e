"""The whole layers in NumPy, forward and backward, and what an all-reduce costs.

The oracle of the torch modules: the trusted process never imports torch.
"""

import math

import numpy as np

EPSILON = 1e-5  # of torch's layer norm
SLOPE, CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu(x):
    """torch's ``approximate="tanh"``, and its derivative."""
    inner = np.tanh(SLOPE * (x + CUBIC * x**3))
    slope = SLOPE * (1 + 3 * CUBIC * x**2)
    return 0.5 * x * (1 + inner), 0.5 * (1 + inner) + 0.5 * x * (1 - inner**2) * slope


def _wide(array):
    return None if array is None else array.astype("float64")


def _rows(array):
    return array.reshape(-1, array.shape[-1])


def pair(params, x, dz):
    """Linear, gelu, linear: ``(z, dx, [dW1, db1, dW2, db2])``."""
    w1, b1, w2, b2 = map(_wide, params)
    x, dz = _wide(x), _wide(dz)
    hidden, slope = gelu(x @ w1.T + (0 if b1 is None else b1))
    z = hidden @ w2.T + (0 if b2 is None else b2)
    d_hidden = (dz @ w2) * slope
    gradients = [
        _rows(d_hidden).T @ _rows(x),
        None if b1 is None else _rows(d_hidden).sum(axis=0),
        _rows(dz).T @ _rows(hidden),
        None if b2 is None else _rows(dz).sum(axis=0),
    ]
    return z, d_hidden @ w1, gradients


def block(params, x, dz, mask):
    """Norm, linear, gelu, linear, dropout by ``mask``, residual: ``(z, dx, gradients by name)``."""
    own = {name: _wide(each) for name, each in params.items()}
    x, dz = _wide(x), _wide(dz)
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    normal = centred * scale
    y = normal * own["norm_weight"] + own["norm_bias"]
    inner, dy, linear = pair([own[name] for name in ("w1", "b1", "w2", "b2")], y, dz * mask)
    gradients = dict(zip(("w1", "b1", "w2", "b2"), linear, strict=True))
    gradients |= {"norm_weight": (dy * normal).sum(axis=0), "norm_bias": dy.sum(axis=0)}
    d_normal = dy * own["norm_weight"]
    along = d_normal - d_normal.mean(axis=1, keepdims=True)
    along -= normal * (d_normal * normal).mean(axis=1, keepdims=True)
    return x + inner * mask, dz + along * scale, gradients


def part(array, p, rank, axis=0):
    """Part ``rank`` of p as torch's ``tensor_split`` makes it."""
    return None if array is None else np.array_split(array, p, axis=axis)[rank]


def all_reduce_bytes(p, rows, width, itemsize):
    """What a rank sends: p equal chunks of rows, or of columns, go round a ring twice."""
    return 2 * (p - 1) * max(-(-rows // p) * width, rows * -(-width // p)) * itemsize


def ring_s(machine, p, nbytes, rounds=2):
    """Seconds for ``rounds`` times round a ring: 2 for an all-reduce, 1 for an all-gather."""
    return rounds * (p - 1) * (machine.alpha_s + -(-nbytes // p) * machine.beta_s_per_byte)


def pair_flops(rows, widths):
    """Matrix products of forward and backward pass: three of each weight."""
    d_in, d_hidden, d_out = widths
    return 3 * 2 * rows * d_hidden * (d_in + d_out)
