"""Layers on one rank, each with its backward pass: supplied, nothing to write.

    matmul        a @ b, counted as work on the modelled machine
    gelu          z * Phi(z), in the tanh form of GPT-2
    layer_norm    (x - mean) / sqrt(var + 1e-5) * gamma + beta, of each row
    attention     softmax(q k^T / sqrt(head_dim) + mask) v, of each head, causal

A backward pass takes the gradient with respect to the output and returns the gradients with
respect to the inputs. Only ``matmul`` counts as work; the rest counts as nothing. All results are
new arrays of the inputs' dtype; nothing that is given changes.
"""

import math

import numpy as np

import ringside

ROOT = math.sqrt(2 / math.pi)
EPSILON = 1e-5


def matmul(a, b, phase="product"):
    """``a @ b``, of matrices or of stacks of matrices, declared as work; contiguous.

    Args:
        a, b: shapes ``(..., m, k)`` and ``(..., k, n)``.
        phase: what timelines call it.
    """
    stack = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    m, k, n = *a.shape[-2:], b.shape[-1]
    ringside.compute(num_flops=2 * stack * m * k * n, phase=phase)
    return np.ascontiguousarray(a @ b)


def gelu(z):
    """Of each element: ``0.5 z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3)))``."""
    return 0.5 * z * (1 + np.tanh(ROOT * (z + 0.044715 * z**3)))


def gelu_backward(z, grad):
    """The gradient with respect to z."""
    t = np.tanh(ROOT * (z + 0.044715 * z**3))
    return grad * (0.5 * (1 + t) + 0.5 * z * (1 - t**2) * ROOT * (1 + 3 * 0.044715 * z**2))


def layer_norm(x, gamma, beta):
    """Normalise the last dimension of x.

    Args:
        x: shape ``(..., d)``.
        gamma, beta: shape ``(d,)``.

    Returns:
        ``(n, kept)``: the result, and what ``layer_norm_backward`` needs.
    """
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    normal = centred * scale
    return normal * gamma + beta, (normal, scale, gamma)


def layer_norm_backward(kept, grad):
    """The gradients with respect to x, gamma and beta."""
    normal, scale, gamma = kept
    rows = tuple(range(grad.ndim - 1))
    g = grad * gamma
    mean = g.mean(axis=-1, keepdims=True)
    slope = (g * normal).mean(axis=-1, keepdims=True)
    return (
        scale * (g - mean - normal * slope),
        (grad * normal).sum(axis=rows),
        grad.sum(axis=rows),
    )


def attention(q, k, v):
    """Causal attention: position t looks at positions 0 to t.

    Args:
        q, k, v: shape ``(B, heads, T, head_dim)``; there may be no heads.

    Returns:
        ``(o, kept)``: shape ``(B, heads, T, head_dim)``, and what ``attention_backward`` needs.
    """
    length, head_dim = q.shape[-2:]
    scores = matmul(q, k.swapaxes(-1, -2), "scores") / math.sqrt(head_dim)  # (B, heads, T, T)
    scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    weights /= weights.sum(axis=-1, keepdims=True)
    return matmul(weights, v, "weighted sum"), (q, k, v, weights)


def attention_backward(kept, grad):
    """The gradients with respect to q, k and v."""
    q, k, v, weights = kept
    grad_v = matmul(weights.swapaxes(-1, -2), grad, "backward weighted sum")
    grad_w = matmul(grad, v.swapaxes(-1, -2), "backward weighted sum")
    grad_s = weights * (grad_w - (grad_w * weights).sum(axis=-1, keepdims=True))
    grad_s /= math.sqrt(q.shape[-1])
    return (
        matmul(grad_s, k, "backward scores"),
        matmul(grad_s.swapaxes(-1, -2), q, "backward scores"),
        grad_v,
    )
