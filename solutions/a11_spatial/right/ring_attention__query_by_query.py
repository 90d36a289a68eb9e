"""The softmax is brought up to date for one query at a time; requests are persistent."""

import math

import numpy as np
from mpi4py import MPI
from ring_blocks import block_scores


class Query:
    def __init__(self, width, dtype):
        self.high, self.total = -math.inf, 0.0
        self.out = np.zeros(width, dtype)

    def see(self, scores, values):
        if not len(scores):
            return
        high = np.maximum(self.high, scores.max())
        factor = np.exp(self.high - high)
        weights = np.exp(scores - high)
        self.total = self.total * factor + weights.sum()
        self.out = (self.out * factor + weights @ values).astype(self.out.dtype)
        self.high = high


def attention(comm, q, k, v, lengths, causal=False):
    p, rank = comm.Get_size(), comm.Get_rank()
    ok = len(lengths) == p and q.shape[2] == k.shape[2] == v.shape[2] == lengths[rank]
    if not ok or q.shape[1] % k.shape[1]:
        raise ValueError("arguments don't fit each other")
    group, longest = q.shape[1] // k.shape[1], max(lengths)
    spot = (2, k.shape[0], k.shape[1], longest, k.shape[3])
    slots = [np.zeros(spot, q.dtype) for _ in range(2)]
    slots[0][:, :, :, : lengths[rank]] = k, v
    starts = [sum(lengths[:r]) for r in range(p)]
    queries = {place: Query(q.shape[3], q.dtype) for place in np.ndindex(q.shape[:3])}
    for step in range(p):
        source, n = (rank - step) % p, lengths[(rank - step) % p]
        here, there = slots[step % 2], slots[1 - step % 2]
        started = []
        if step < p - 1:
            coming = np.empty((*spot[:3], lengths[(source - 1) % p], spot[4]), q.dtype)
            leaving = np.ascontiguousarray(here[:, :, :, :n])
            started = [
                comm.Recv_init(coming, (rank - 1) % p, 3),
                comm.Send_init(leaving, (rank + 1) % p, 3),
            ]
            MPI.Prequest.Startall(started)
        keys, values = (each[:, :, :n].repeat(group, axis=1) for each in here)
        scores = block_scores(q, keys, source)
        for (b, h, i), query in queries.items():
            seen = min(n, max(0, starts[rank] + i + 1 - starts[source])) if causal else n
            query.see(scores[b, h, i, :seen], values[b, h, :seen])
        if started:
            MPI.Request.Waitall(started)
            for each in started:
                each.Free()
            there[:, :, :, : lengths[(source - 1) % p]] = coming
    result = np.empty(q.shape, q.dtype)
    for place, query in queries.items():
        result[place] = query.out / query.total
    return result
