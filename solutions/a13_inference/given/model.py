"""A small GPT that generates text, on one rank: supplied. Its parts serve several ranks too.

    x = words[token] + positions[position]                          (rows, d)
    in each layer:
        n = layer_norm(x; gamma1, beta1)
        q, k, v = n Wq + bq, n Wk + bk, n Wv + bv                   H heads of q, G of k and v
        k and v are appended to the cache, q looks at all that the cache has of its sequence
        x = x + o Wo + bo
        x = x + gelu(layer_norm(x; gamma2, beta2) W1 + b1) W2 + b2
    logits = layer_norm(x; gamma, beta) head^T                      (rows, V)

A row is one position of one sequence. **Prefill** sends all positions of a prompt through the
layers at once, **decoding** sends one new position of each sequence. Both are one function:
sequences of different lengths stand one after another in the rows.

    tokens  [[5, 2, 7], [4]]     rows   5 2 7 4       counts [3, 1]

Names and shapes of the weights, with k = d / H, for layer 0 (layer 1: ``1.gamma1``, ...):

    words (V, d)   positions (longest, d)   gamma, beta (d,)   head (V, d)
    0.gamma1, 0.beta1 (d,)   0.Wq (d, H k)   0.bq (H k,)   0.Wk, 0.Wv (d, G k)   0.bk, 0.bv (G k,)
    0.Wo (H k, d)   0.bo (d,)
    0.gamma2, 0.beta2 (d,)   0.W1 (d, 4 d)   0.b1 (4 d,)   0.W2 (4 d, d)   0.b2 (d,)

Query head h looks at the key head ``h // (H / G)``. Where G < H, this is grouped-query attention.

``matmul`` and ``attend`` declare their operations and the bytes that they read and write, so that
virtual time passes on a modelled machine. In decoding the bytes of the weights dominate.
"""

import math
from dataclasses import dataclass

import numpy as np

import ringside

ROOT = math.sqrt(2 / math.pi)
EPSILON = 1e-5


@dataclass(frozen=True)
class Sizes:
    """How large the model is; ``heads`` divides ``d``, ``kv_heads`` divides ``heads``."""

    vocabulary: int = 29
    d: int = 24
    heads: int = 6
    kv_heads: int = 6
    layers: int = 2
    longest: int = 32  # positions of a sequence at most, prompt and new tokens together

    @property
    def head_dim(self):
        """Columns of a head."""
        return self.d // self.heads

    @property
    def hidden(self):
        """Hidden units of an MLP."""
        return 4 * self.d


def shapes(sizes):
    """The shape of each weight, by name."""
    d, q, kv = sizes.d, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    found = {"words": (sizes.vocabulary, d), "positions": (sizes.longest, d)}
    of_layer = {
        "gamma1": (d,), "beta1": (d,),
        "Wq": (d, q), "bq": (q,), "Wk": (d, kv), "bk": (kv,), "Wv": (d, kv), "bv": (kv,),
        "Wo": (q, d), "bo": (d,),
        "gamma2": (d,), "beta2": (d,),
        "W1": (d, sizes.hidden), "b1": (sizes.hidden,), "W2": (sizes.hidden, d), "b2": (d,),
    }  # fmt: skip
    for layer in range(sizes.layers):
        found |= {f"{layer}.{name}": shape for name, shape in of_layer.items()}
    return found | {"gamma": (d,), "beta": (d,), "head": (sizes.vocabulary, d)}


def make_weights(sizes, seed, dtype="float64"):
    """All weights, whole, by name: drawn so that the tokens depend on every part of the model."""
    rng, found = np.random.default_rng(seed), {}
    for name, shape in shapes(sizes).items():
        drawn = rng.standard_normal(shape)
        last = name.rpartition(".")[2]
        if last.startswith("gamma"):
            drawn = 1 + 0.2 * drawn
        elif len(shape) == 1:
            drawn *= 0.1 if last == "beta" else 0.4
        elif last.startswith("W"):
            drawn *= 2 / math.sqrt(shape[0])
        found[name] = drawn.astype(dtype)
    return found


def shard_bounds(n, world_size, rank):
    """Bounds ``(lo, hi)`` of part ``rank`` of n things: the first parts are one longer.

    >>> [shard_bounds(11, 4, rank) for rank in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 11)]
    """
    length, longer = divmod(n, world_size)
    lo = rank * length + min(rank, longer)
    return lo, lo + length + (1 if rank < longer else 0)


def of_layer(weights, layer):
    """The weights of one layer, by their short names: ``Wq`` stands for ``0.Wq`` in layer 0."""
    prefix = f"{layer}."
    return {
        name.removeprefix(prefix): array
        for name, array in weights.items()
        if name.startswith(prefix)
    }


def cut(weights, last, first):
    """The weights in new, contiguous arrays, some of them cut.

    Args:
        last: slices of the last dimension, by short name: ``{"Wq": slice(0, 8)}`` cuts the columns
            of Wq in every layer.
        first: slices of the first dimension.

    Returns:
        A dict with the same names. What has no slice is whole.
    """
    found = {}
    for name, array in weights.items():
        short = name.rpartition(".")[2]
        if short in last:
            array = array[..., last[short]]
        if short in first:
            array = array[first[short]]
        found[name] = np.array(array, order="C")
    return found


# -- layers ----------------------------------------------------------------------------------------


def matmul(a, b, phase="product"):
    """``a @ b`` of two matrices; declares its operations, and all bytes of a, b and the result."""
    result = a @ b
    ringside.compute(
        num_flops=2 * a.shape[0] * a.shape[1] * b.shape[1],
        nbytes=a.nbytes + b.nbytes + result.nbytes,
        phase=phase,
    )
    return result


def gelu(z):
    """Of each element: ``0.5 z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3)))``."""
    return 0.5 * z * (1 + np.tanh(ROOT * (z + 0.044715 * z**3)))


def layer_norm(x, gamma, beta):
    """``(x - mean) / sqrt(var + 1e-5) * gamma + beta``, of each row."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    return centred * scale * gamma + beta


def attend(q, k, v, first, phase="attention"):
    """Causal attention of one sequence's queries over the positions from 0 on.

    Args:
        q: shape ``(n, heads, head_dim)``: queries of the positions ``first`` to ``first + n - 1``.
        k, v: shape ``(first + n, kv_heads, head_dim)``: keys and values of all positions so far.
            ``kv_heads`` divides ``heads``; there may be no heads.

    Returns:
        Shape ``(n, heads, head_dim)``.
    """
    n, heads, head_dim = q.shape
    ringside.compute(
        num_flops=4 * n * len(k) * heads * head_dim,
        nbytes=2 * q.nbytes + k.nbytes + v.nbytes,
        phase=phase,
    )
    group = heads // max(1, k.shape[1])
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("nhc,mhc->hnm", q, k) / np.asarray(math.sqrt(head_dim), q.dtype)
    scores[:, np.arange(len(k)) > first + np.arange(n)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hnm,mhc->nhc", weights, v)


class Cache:
    """Keys and values of B sequences in all layers: room for the longest, filled from 0 on.

    Args:
        sizes: of the model.
        batch: B.
        kv_heads: heads of keys and values that this cache holds: all, or one rank's.
        dtype: of what it holds.
    """

    def __init__(self, sizes, batch, kv_heads, dtype="float64"):
        shape = (sizes.layers, batch, sizes.longest, kv_heads, sizes.head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.lengths = [0] * batch

    @property
    def nbytes(self):
        """Bytes of all keys and values, used or not."""
        return self.keys.nbytes + self.values.nbytes

    def attend(self, layer, q, k, v, counts):
        """Store a layer's new keys and values, and let the new queries look at all so far.

        Args:
            q, k, v: shapes ``(rows, heads * head_dim)`` and twice ``(rows, kv_heads * head_dim)``.
            counts: how many of the rows belong to each sequence, a list of B numbers.

        Returns:
            Shape ``(rows, heads * head_dim)``. The cache's lengths are as before: call ``advance``
            after the last layer.
        """
        heads, head_dim = self.keys.shape[3:]
        q = q.reshape(len(q), -1, head_dim)
        k, v = k.reshape(len(k), heads, head_dim), v.reshape(len(v), heads, head_dim)
        result, row = np.empty_like(q), 0
        for b, n in enumerate(counts):
            first, rows = self.lengths[b], slice(row, row + n)
            if first + n > self.keys.shape[2]:
                raise ValueError(
                    f"sequence {b} has {first} positions and {n} come, but the cache has room for "
                    f"{self.keys.shape[2]}: ask for fewer tokens, or a larger Sizes.longest"
                )
            self.keys[layer, b, first : first + n] = k[rows]
            self.values[layer, b, first : first + n] = v[rows]
            seen = self.keys[layer, b, : first + n], self.values[layer, b, : first + n]
            result[rows] = attend(q[rows], *seen, first)
            row += n
        return result.reshape(len(q), -1)

    def advance(self, counts):
        """Count the new positions: after the last layer."""
        self.lengths = [first + n for first, n in zip(self.lengths, counts, strict=True)]


# -- the whole model on one rank -------------------------------------------------------------------


def positions_of(tokens, cache):
    """The position of each row: those of a sequence follow what the cache has of it."""
    following = [
        first + np.arange(len(new)) for first, new in zip(cache.lengths, tokens, strict=True)
    ]
    return np.concatenate(following)


def last_rows(counts):
    """The row of each sequence's last position: ``[3, 1]`` gives ``[2, 3]``."""
    return np.cumsum(counts) - 1


def serial_forward(tokens, cache, weights, sizes):
    """What comes out of the last layer norm, for each sequence's last new position.

    Args:
        tokens: the new tokens of each sequence: a list of B lists, each of one token or more. The
            whole prompts in prefill, the token that was chosen last in decoding.
        cache: a ``Cache`` with all heads; the new positions are added to it.
        weights: all weights.

    Returns:
        Shape ``(B, d)``.
    """
    counts = [len(each) for each in tokens]
    x = weights["words"][np.concatenate(tokens)]
    x = x + weights["positions"][positions_of(tokens, cache)]
    for i in range(sizes.layers):
        w = of_layer(weights, i)
        normal = layer_norm(x, w["gamma1"], w["beta1"])
        qkv = (matmul(normal, w[f"W{name}"], name) + w[f"b{name}"] for name in "qkv")
        x = x + matmul(cache.attend(i, *qkv, counts), w["Wo"], "o") + w["bo"]
        normal = layer_norm(x, w["gamma2"], w["beta2"])
        inner = gelu(matmul(normal, w["W1"], "up") + w["b1"])
        x = x + matmul(inner, w["W2"], "down") + w["b2"]
    cache.advance(counts)
    return layer_norm(x[last_rows(counts)], weights["gamma"], weights["beta"])


def serial_generate(prompts, weights, sizes, num_tokens):
    """Greedy generation on one rank: the oracle of this assignment.

    Args:
        prompts: a list of B lists of tokens, each of one token or more.
        num_tokens: how many tokens each sequence gets, at least 1.

    Returns:
        The new tokens, an integer array of shape ``(B, num_tokens)``. Of equal logits the lowest
        token is chosen.
    """
    cache = Cache(sizes, len(prompts), sizes.kv_heads, weights["head"].dtype)
    chosen, tokens = [], prompts
    for _ in range(num_tokens):
        hidden = serial_forward(tokens, cache, weights, sizes)
        chosen.append(matmul(hidden, weights["head"].T, "head").argmax(axis=1))
        tokens = chosen[-1][:, None]
    return np.stack(chosen, axis=1)
