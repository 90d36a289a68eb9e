"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run trials.py:column_layer --ranks 3 -- --n 5 --widths 4,7     x (5, 4), W (4, 7)
    ringside run trials.py:mlp_layer --ranks 3 -- --n 5 --widths 4,7        d = 4, h = 7
    ringside run trials.py:attention_layer --ranks 3 -- --n 2 --widths 6,5,4,3
                                                  d = 6, 5 heads of 4, sequences of 3
    ringside run trials.py:loss_layer --ranks 3 -- --n 5 --widths 11        11 words
    ringside run mlp.py:measured_layer --ranks 4 -- --n 256 --widths 512,2048
    ringside run trials_torch.py:measured_pair --ranks 4 -- --n 256 --widths 512,2048

``n`` is the number of samples, B.
"""

import numpy as np
from layers import (
    attention,
    attention_backward,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
)  # fmt: skip
from shards import shard_bounds

OPTIONS = {"widths"}
INSTEAD = {  # a layer's forward and backward pass, one after the other
    f"{module}.py:{prefix}{way}": f"trials.py:{layer}"
    for module, prefix, layer in (
        ("linear", "column_", "column_layer"),
        ("linear", "row_", "row_layer"),
        ("mlp", "", "mlp_layer"),
        ("attention", "", "attention_layer"),
        ("cross_entropy", "", "loss_layer"),
    )
    for way in ("forward", "backward")
}
WIDTHS = {
    "column_layer": (4, 7),
    "row_layer": (7, 4),
    "mlp_layer": (4, 7),
    "measured_layer": (512, 2048),
    "measured_pair": (512, 2048),
    "attention_layer": (6, 5, 4, 3),
    "loss_layer": (11,),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    whole = _whole(function, options)
    return None if whole is None else parts(function, whole, world_size, rank)


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None for functions that aren't known here."""
    whole = _whole(function, options)
    return None if whole is None else results(function, whole, world_size, rank)


def _whole(function, options):
    if function not in WIDTHS:
        return None
    widths = options.others.get("widths", WIDTHS[function])
    widths = (widths,) if isinstance(widths, int) else tuple(widths)
    return drawn(function, options.n, widths, np.random.default_rng(options.seed), options.dtype)


# -- the whole layer, on one rank ------------------------------------------------------------------


def drawn(function, n, widths, rng, dtype="float64"):
    """Random arguments of the whole layer, as one rank alone would get them."""

    def normal(*shape, scale=1.0):
        return (scale * rng.standard_normal(shape)).astype(dtype)

    def weight(d_in, d_out):
        return normal(d_in, d_out, scale=d_in**-0.5)

    if function in ("column_layer", "row_layer"):
        d_in, d_out = widths
        return normal(n, d_in), weight(d_in, d_out), normal(d_out), normal(n, d_out)
    if function in ("mlp_layer", "measured_layer"):
        d, h = widths
        params = (1 + normal(d, scale=0.1), normal(d), weight(d, h), normal(h), weight(h, d))
        return normal(n, d), (*params, normal(d)), normal(n, d)
    if function == "measured_pair":  # torch's weights have shape (out, in)
        d, h = widths
        params = [weight(d, h).T.copy(), normal(h), weight(h, d).T.copy(), normal(d)]
        return params, normal(n, d), normal(n, d)
    if function == "attention_layer":
        d, heads, head_dim, length = widths
        inner = heads * head_dim
        params = (
            1 + normal(d, scale=0.1), normal(d), weight(d, 3 * inner), normal(3 * inner),
            weight(inner, d), normal(d),
        )  # fmt: skip
        return normal(n, length, d), params, head_dim, normal(n, length, d)
    (vocab_size,) = widths
    words = rng.integers(vocab_size, size=n)
    return normal(n, vocab_size, scale=3.0), words, vocab_size, normal(n)


def parts(function, whole, world_size, rank):
    """A rank's part of ``drawn``."""

    def cut(array, axis):
        lo, hi = shard_bounds(array.shape[axis], world_size, rank)
        return np.ascontiguousarray(array.take(range(lo, hi), axis=axis))

    if function == "measured_pair":
        return whole  # each rank takes its part of the weights itself
    if function == "column_layer":
        x, W, b, grad_y = whole
        return x, cut(W, 1), cut(b, 0), cut(grad_y, 1)
    if function == "row_layer":
        x, W, b, grad_y = whole
        return cut(x, 1), cut(W, 0), b, grad_y
    if function in ("mlp_layer", "measured_layer"):
        x, (gamma, beta, W1, b1, W2, b2), grad_y = whole
        return x, (gamma, beta, cut(W1, 1), cut(b1, 0), cut(W2, 0), b2), grad_y
    if function == "attention_layer":
        x, params, head_dim, grad_y = whole
        return x, heads_of(params, head_dim, world_size, rank), head_dim, grad_y
    logits, words, vocab_size, grad_losses = whole
    return cut(logits, 1), words, vocab_size, grad_losses


def heads_of(params, head_dim, world_size, rank):
    """A rank's heads of attention's parameters, or of their gradients."""
    gamma, beta, W, b, V, c = params
    heads = V.shape[0] // head_dim
    lo, hi = (head_dim * bound for bound in shard_bounds(heads, world_size, rank))
    inner = heads * head_dim
    columns = [
        *range(lo, hi),
        *range(inner + lo, inner + hi),
        *range(2 * inner + lo, 2 * inner + hi),
    ]
    return gamma, beta, W[:, columns], b[columns], V[lo:hi].copy(), c


def serial(function, whole):
    """All results of the whole layer on one rank, a tuple of arrays."""
    if function in ("column_layer", "row_layer"):
        x, W, b, grad_y = whole
        return x @ W + b, grad_y @ W.T, x.T @ grad_y, grad_y.sum(axis=0)
    if function in ("mlp_layer", "measured_layer"):
        return _serial_mlp(*whole)
    if function == "measured_pair":
        return _serial_pair(*whole)
    if function == "attention_layer":
        return _serial_attention(*whole)
    logits, words, _, grad_losses = whole
    rows = np.arange(len(words))
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    grad = np.exp(log_p)
    grad[rows, words] -= 1
    return -log_p[rows, words], grad * grad_losses[:, None]


def results(function, whole, world_size, rank):
    """What a rank should get, of ``serial``."""
    found = serial(function, whole)
    if function == "column_layer":
        y, grad_x, grad_W, grad_b = found
        _, W, b, y = parts(function, (whole[0], grad_W, grad_b, y), world_size, rank)
        return y, grad_x, W, b
    if function == "row_layer":
        y, grad_x, grad_W, grad_b = found
        x, W, b, y = parts(function, (grad_x, grad_W, grad_b, y), world_size, rank)
        return y, x, W, b
    if function == "measured_layer":
        return found[:2]
    if function == "measured_pair":
        return found
    if function in ("mlp_layer", "attention_layer"):
        y, grad_x, *grads = found
        _, own, *_ = parts(function, (y, tuple(grads), *whole[2:]), world_size, rank)
        return y, grad_x, *own
    losses, grad = found
    return losses, parts(function, (grad, *whole[1:]), world_size, rank)[0]


def _serial_mlp(x, params, grad_y):
    gamma, beta, W1, b1, W2, b2 = params
    normal, kept = layer_norm(x, gamma, beta)
    z = normal @ W1 + b1
    a = gelu(z)
    grad_z = gelu_backward(z, grad_y @ W2.T)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_z @ W1.T)
    return (
        a @ W2 + b2 + x, grad_x + grad_y, grad_gamma, grad_beta,
        normal.T @ grad_z, grad_z.sum(axis=0), a.T @ grad_y, grad_y.sum(axis=0),
    )  # fmt: skip


def _serial_pair(params, x, grad_y):
    W1, b1, W2, b2 = params
    z = x @ W1.T + b1
    return gelu(z) @ W2.T + b2, gelu_backward(z, grad_y @ W2) @ W1


def _serial_attention(x, params, head_dim, grad_y):
    gamma, beta, W, b, V, c = params
    (B, T, _), heads = x.shape, V.shape[0] // head_dim

    def apart(columns):  # (B, T, heads * head_dim) to (B, heads, T, head_dim)
        return columns.reshape(B, T, heads, head_dim).swapaxes(1, 2)

    def together(each):
        return each.swapaxes(1, 2).reshape(B, T, heads * head_dim)

    normal, kept = layer_norm(x, gamma, beta)
    q, k, v = (apart(each) for each in np.split(normal @ W + b, 3, axis=-1))
    o, kept_heads = attention(q, k, v)
    o = together(o)
    grads = attention_backward(kept_heads, apart(grad_y @ V.T))
    grad_qkv = np.concatenate([together(each) for each in grads], axis=-1)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_qkv @ W.T)
    rows, attended, qkv_rows, y_rows = (
        each.reshape(B * T, each.shape[2]) for each in (normal, o, grad_qkv, grad_y)
    )
    return (
        o @ V + c + x, grad_x + grad_y, grad_gamma, grad_beta,
        rows.T @ qkv_rows, qkv_rows.sum(axis=0), attended.T @ y_rows, y_rows.sum(axis=0),
    )  # fmt: skip
