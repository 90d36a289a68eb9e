"""A generator hands out the blocks; receives are posted two blocks ahead; the state is a class."""

from collections import deque

import numpy as np
from ring_blocks import block_scores


class Softmax:
    """The largest score, the sum and the weighted values of some queries so far."""

    def __init__(self, shape, dtype):
        self.high = np.full((*shape[:-1], 1), -np.inf, dtype)
        self.low = np.zeros_like(self.high)
        self.out = np.zeros(shape, dtype)

    def add(self, scores, values):
        new = np.maximum(self.high, scores.max(axis=-1, keepdims=True))
        both = np.concatenate([self.low, self.out], axis=-1) * np.exp(self.high - new)
        ones = np.ones((*values.shape[:-1], 1), values.dtype)
        both += np.exp(scores - new) @ np.concatenate([ones, values], axis=-1)
        self.high, self.low, self.out = new, both[..., :1], both[..., 1:]


def blocks_of(comm, k, v, lengths):
    """Source, keys and values, beginning with the own ones."""
    p, rank = comm.size, comm.rank
    coming, sent, block = deque(), [], np.array((k, v))

    def post(step):
        if step < p:
            buffer = np.empty((*block.shape[:3], lengths[(rank - step) % p], block.shape[4]), k.dtype)
            coming.append((buffer, comm.Irecv(buffer, (rank - 1) % p)))

    post(1)
    for step in range(p):
        post(step + 2)
        if step < p - 1:
            sent.append(comm.Isend(block, (rank + 1) % p))
        yield (rank - step) % p, *block
        if step < p - 1:
            sent.pop().Wait()
            block, request = coming.popleft()
            request.Wait()


def attention(comm, q, k, v, lengths, causal=False):
    if len(lengths) != comm.size:
        raise ValueError(f"there are {comm.size} ranks and {len(lengths)} lengths")
    if {each.shape[2] for each in (q, k, v)} != {lengths[comm.rank]}:
        raise ValueError("a part isn't as long as lengths says")
    if q.shape[1] % k.shape[1]:
        raise ValueError("query heads must be a multiple of key heads")
    softmax = Softmax(q.shape, q.dtype)
    for source, keys, values in blocks_of(comm, k, v, lengths):
        if causal and source > comm.rank:
            continue
        which = np.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
        scores = block_scores(q, keys[:, which], source)
        if causal and source == comm.rank:
            later = np.triu_indices(lengths[source], 1)
            scores[:, :, later[0], later[1]] = -np.inf
        softmax.add(scores, values[:, which])
    return softmax.out / softmax.low
