"""Experts, and what routes tokens to them: supplied, nothing to write.

An expert is a small network of two layers, ``y = relu(x W1) W2``, with weights of its own. A layer
of experts has many, and each token goes through k of them alone:

    token --> gate: k experts and k weights --> sum of weight * expert(token)

Experts are dealt out to ranks in parts that follow one another, as equal as can be:

    shard_bounds(8, 3, rank)        rank 0: experts 0 1 2    rank 1: 3 4 5    rank 2: 6 7
"""

from typing import NamedTuple

import numpy as np

import ringside


class Routing(NamedTuple):
    """Where T tokens go; what ``route.route`` returns.

    Attributes:
        experts: shape (T, k), int64: the numbers of each token's experts, the best first.
        weights: shape (T, k), the dtype of the scores: what each expert's answer is multiplied by.
        kept: shape (T, k), bool: False where the expert was full, so that the token isn't sent.
    """

    experts: np.ndarray
    weights: np.ndarray
    kept: np.ndarray


class Expert:
    """Two layers with a relu between them.

    Args:
        w1: shape (d, hidden).
        w2: shape (hidden, d).
    """

    def __init__(self, w1, w2):
        self.w1, self.w2 = w1, w2

    def forward(self, x):
        """Return ``(y, saved)`` for tokens x of shape (n, d); ``saved`` is for ``backward``."""
        self._count(len(x), 4)
        h = np.maximum(x @ self.w1, 0)
        return h @ self.w2, (x, h)

    def backward(self, saved, dy):
        """Return ``(dx, (dw1, dw2))``: the gradients of x and of the weights."""
        x, h = saved
        self._count(len(x), 8)
        dh = (dy @ self.w2.T) * (h > 0)
        return dh @ self.w1.T, (x.T @ dh, h.T @ dy)

    def _count(self, n, flops):
        if n:  # an expert without tokens does nothing
            ringside.compute(num_flops=flops * n * self.w1.size)


def shard_bounds(n, world_size, rank):
    """Bounds ``(lo, hi)`` of part ``rank`` when n things are cut into ``world_size`` parts."""
    length, longer = divmod(n, world_size)
    lo = rank * length + min(rank, longer)
    return lo, lo + length + (1 if rank < longer else 0)


def owners(num_experts, world_size):
    """The rank of each expert, an array of shape (num_experts,)."""
    sizes = [hi - lo for lo, hi in (shard_bounds(num_experts, world_size, r)
                                    for r in range(world_size))]  # fmt: skip
    return np.repeat(np.arange(world_size), sizes)


def drawn_experts(num_experts, d, hidden, seed, dtype="float64"):
    """Experts with weights that depend on the seed and their number alone."""
    found = []
    for number in range(num_experts):
        rng = np.random.default_rng([seed, number])
        w1 = rng.standard_normal((d, hidden)) / np.sqrt(d)
        w2 = rng.standard_normal((hidden, d)) / np.sqrt(hidden)
        found.append(Expert(w1.astype(dtype), w2.astype(dtype)))
    return found


def serial_forward(experts, x, routing):
    """The layer on one rank with all experts: y, shape (T, d)."""
    return _serial(experts, x, routing)[0]


def serial_backward(experts, x, routing, dy):
    """The layer's gradients on one rank.

    Returns:
        ``(dx, dweights, gradients)``: shapes (T, d) and (T, k), and per expert (dw1, dw2).
    """
    _, parts = _serial(experts, x, routing)
    dx, dweights, gradients = np.zeros_like(x), np.zeros_like(routing.weights), []
    for expert, (token, choice, answer, saved) in zip(experts, parts, strict=True):
        weights = routing.weights[token, choice][:, None]
        one, gradient = expert.backward(saved, weights * dy[token])
        np.add.at(dx, token, one)
        dweights[token, choice] = (answer * dy[token]).sum(axis=1)
        gradients.append(gradient)
    return dx, dweights, gradients


def _serial(experts, x, routing):
    y, parts = np.zeros_like(x), []
    for number, expert in enumerate(experts):
        token, choice = np.nonzero((routing.experts == number) & routing.kept)
        answer, saved = expert.forward(x[token])
        np.add.at(y, token, routing.weights[token, choice][:, None] * answer)
        parts.append((token, choice, answer, saved))
    return y, parts
