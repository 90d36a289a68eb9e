"""The small GPT of ``model.py`` in torch, in parts: supplied, nothing to write.

    kept whole on each rank     words, positions, gamma, beta, bo, b2
    cut by heads of keys        Wq, bq, Wk, bk, Wv, bv (columns), Wo (rows)
    cut by hidden units         W1, b1 (columns), W2 (rows)
    cut by words                head (rows)

The arrays are those of ``model.make_weights``; names, shapes and layers stand there. A query head
is where its key head is. Part r of n things are those of ``model.shard_bounds(n, p, r)``.

Nothing here reads a value of a tensor: lengths are Python numbers. So generation can be traced on
fake tensors at sizes that no CPU holds.
"""

import math

import torch
from torch.nn import functional

LAST, FIRST = -1, 0  # the dimension along which a weight is cut, and what is dealt out there
CUTS = {
    **dict.fromkeys(("Wk", "bk", "Wv", "bv"), (LAST, "keys")),
    **dict.fromkeys(("Wq", "bq"), (LAST, "queries")),
    **dict.fromkeys(("W1", "b1"), (LAST, "units")),
    "Wo": (FIRST, "queries"),
    "W2": (FIRST, "units"),
    "head": (FIRST, "words"),
}


def of_layer(weights, layer):
    """The weights of one layer, by their short names: ``Wq`` stands for ``0.Wq`` in layer 0."""
    names = (name for name in weights if name.startswith(f"{layer}."))
    return {name.partition(".")[2]: weights[name] for name in names}


def layer_norm(x, gamma, beta):
    """As ``model.layer_norm``."""
    return functional.layer_norm(x, gamma.shape, gamma, beta)


def gelu(z):
    """As ``model.gelu``."""
    return functional.gelu(z, approximate="tanh")


def positions_of(counts, cache, device):
    """The position of each row: those of a sequence follow what the cache has of it."""
    parts = [
        torch.arange(first, first + n, device=device)
        for first, n in zip(cache.lengths, counts, strict=True)
    ]
    return torch.cat(parts)


def last_rows(counts):
    """The row of each sequence's last position: ``[3, 1]`` gives ``[2, 3]``."""
    return [sum(counts[: b + 1]) - 1 for b in range(len(counts))]


def attend(q, k, v, first):
    """As ``model.attend``, of one sequence."""
    n, heads, head_dim = q.shape
    positions, kv_heads = k.shape[:2]
    if kv_heads == 0:
        return torch.empty_like(q)
    group = heads // kv_heads
    q = q.reshape(n, kv_heads, group, head_dim).permute(1, 2, 0, 3)
    q = q.reshape(kv_heads, group * n, head_dim)
    scores = (q @ k.permute(1, 2, 0)).reshape(kv_heads, group, n, positions) / math.sqrt(head_dim)
    if n > 1:
        places = torch.arange(positions, device=q.device)
        scores = scores.masked_fill(places > first + places[:n, None], -math.inf)
    weights = scores.softmax(dim=-1).reshape(kv_heads, group * n, positions)
    y = (weights @ v.permute(1, 0, 2)).reshape(kv_heads, group, n, head_dim)
    return y.permute(2, 0, 1, 3).reshape(n, heads, head_dim)


class Cache:
    """Keys and values of B sequences in all layers: room for the longest, filled from 0 on.

    Args:
        sizes: a ``model.Sizes``, of the whole model.
        batch: B.
        kv_heads: heads of keys that this cache holds: one rank's.
        like: a tensor whose dtype and device it takes.
    """

    def __init__(self, sizes, batch, kv_heads, like):
        shape = (sizes.layers, batch, sizes.longest, kv_heads, sizes.head_dim)
        self.keys, self.values = (
            torch.empty(shape, dtype=like.dtype, device=like.device) for _ in range(2)
        )
        self.lengths = [0] * batch

    def attend(self, layer, q, k, v, counts):
        """Store a layer's new keys and values, and let the new queries look at all so far.

        Args:
            q, k, v: shapes ``(rows, heads * head_dim)`` and twice ``(rows, kv_heads * head_dim)``.
            counts: how many of the rows belong to each sequence, a list of B numbers.

        Returns:
            Shape ``(rows, heads * head_dim)``. The cache's lengths are as before: call ``advance``
            after the last layer.
        """
        kv_heads, head_dim = self.keys.shape[3:]
        q = q.reshape(len(q), q.shape[1] // head_dim, head_dim)
        k, v = (each.reshape(len(each), kv_heads, head_dim) for each in (k, v))
        found, row = [], 0
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
            found.append(attend(q[rows], *seen, first))
            row += n
        return torch.cat(found).flatten(1)

    def advance(self, counts):
        """Count the new positions: after the last layer."""
        self.lengths = [first + n for first, n in zip(self.lengths, counts, strict=True)]
