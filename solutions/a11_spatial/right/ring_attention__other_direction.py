"""Blocks go to the previous rank, as two messages; keys come first."""

import numpy as np
from ring_blocks import block_scores


def attention(comm, q, k, v, lengths, causal=False):
    p, me = comm.Get_size(), comm.Get_rank()
    if len(lengths) != p or {q.shape[2], k.shape[2], v.shape[2]} != {lengths[me]}:
        raise ValueError("lengths don't fit")
    g, rest = divmod(q.shape[1], k.shape[1])
    if rest:
        raise ValueError("heads don't fit")
    first = [sum(lengths[:r]) for r in range(p)]
    state = None
    keys, values = (np.array(each, order="C") for each in (k, v))
    for step in range(p):
        source = (me + step) % p
        requests, coming = [], None
        if step < p - 1:
            n = lengths[(source + 1) % p]
            coming = [np.empty((*k.shape[:2], n, k.shape[3]), k.dtype) for _ in range(2)]
            for tag, (out, into) in enumerate(zip((keys, values), coming, strict=True)):
                requests.append(comm.Isend(out, (me - 1) % p, tag))
                requests.append(comm.Irecv(into, (me + 1) % p, tag))
        scores = block_scores(q, keys.repeat(g, axis=1), source)
        if causal:
            i = first[me] + np.arange(lengths[me])
            j = first[source] + np.arange(lengths[source])
            scores = np.where(j[None, :] <= i[:, None], scores, q.dtype.type(-1e30))
        state = merged(state, scores, values.repeat(g, axis=1))
        for request in requests:
            request.Wait()
        if coming:
            keys, values = coming
    _, total, out = state
    return out / total


def merged(state, scores, values):
    high = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - high)
    new = high, e.sum(axis=-1, keepdims=True), e @ values
    if state is None:
        return new
    top = np.maximum(state[0], high)
    old, fresh = np.exp(state[0] - top), np.exp(high - top)
    return top, old * state[1] + fresh * new[1], old * state[2] + fresh * new[2]
