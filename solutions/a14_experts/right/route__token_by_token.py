"""Loops over tokens, with room counted down."""

import math

import numpy as np
from given.experts import Routing


def capacity(num_tokens, num_experts, k, factor):
    if k < 1 or k > num_experts or factor <= 0:
        raise ValueError("k or factor is out of range")
    return int(np.ceil(factor * k * num_tokens / num_experts))


def route(scores, k, room):
    num_tokens, num_experts = scores.shape
    experts = np.zeros((num_tokens, k), np.int64)
    weights, kept = np.zeros((num_tokens, k), scores.dtype), np.zeros((num_tokens, k), bool)
    left = np.full(num_experts, room)
    for t in range(num_tokens):
        own = scores[t].copy()
        for j in range(k):
            experts[t, j] = e = int(np.argmax(own))  # the lowest of equal ones
            own[e] = -np.inf
            if left[e]:
                left[e] -= 1
                kept[t, j] = True
        best = scores[t, experts[t]]
        logs = best - np.logaddexp.reduce(best)
        weights[t] = np.where(kept[t], np.exp(logs), 0)
    return Routing(experts, weights, kept)


def balance_loss(scores, experts):
    wide = scores.astype(np.float64)
    logs = wide - np.logaddexp.reduce(wide, axis=1)[:, None]
    e = scores.shape[1]
    f = np.array([np.mean(experts == i) for i in range(e)])
    return float(e * math.fsum(f * np.exp(logs).mean(axis=0)))
