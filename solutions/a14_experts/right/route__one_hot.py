"""Masks in place of indices, and partial sorting by a key that holds the tie."""

import numpy as np
from given.experts import Routing


def capacity(num_tokens, num_experts, k, factor):
    if not (0 < k <= num_experts and factor > 0):
        raise ValueError(f"k = {k}, E = {num_experts}, factor = {factor}")
    return -int(-factor * k * num_tokens // num_experts)


def route(scores, k, room):
    t, e = scores.shape
    order = np.lexsort((np.broadcast_to(np.arange(e), (t, e)), -scores), axis=1)[:, :k]
    onehot = order[:, :, None] == np.arange(e)  # (T, k, E)
    before = np.cumsum(onehot.sum(axis=1), axis=0) - onehot.sum(axis=1)
    kept = (onehot * (before < room)[:, None, :]).any(axis=2)
    best = np.take_along_axis(scores, order, 1)
    share = np.exp(best - best[:, :1])
    return Routing(order.astype(np.int64), share / share.sum(1, keepdims=True) * kept, kept)


def balance_loss(scores, experts):
    e = scores.shape[1]
    p = np.exp(scores - scores.max(1, keepdims=True))
    p = (p / p.sum(1, keepdims=True)).mean(0)
    return float(e * p[experts].sum() / experts.size)
