"""Results of blocks are merged by the logarithm of their sums; blocks travel as objects."""

import numpy as np
from ring_blocks import block_scores


def attention(comm, q, k, v, lengths, causal=False):
    p, rank = comm.Get_size(), comm.Get_rank()
    if len(lengths) != p:
        raise ValueError(f"{len(lengths)} lengths for {p} ranks")
    if any(each.shape[2] != lengths[rank] for each in (q, k, v)):
        raise ValueError("parts are not as long as lengths says")
    if q.shape[1] % k.shape[1]:
        raise ValueError("heads must be a multiple of key heads")
    block, lse, result = np.array([k, v]), None, None
    for step in range(p):
        source = (rank - step) % p
        if step < p - 1:
            room = block.nbytes // block.shape[3] * max(lengths) + 1024
            receive = comm.irecv(bytearray(room), (rank - 1) % p)
            send = comm.isend(block, dest=(rank + 1) % p)
        if not (causal and source > rank):
            scores = block_scores(q, np.repeat(block[0], q.shape[1] // k.shape[1], 1), source)
            if causal and source == rank:
                scores[..., ~np.tri(lengths[rank], dtype=bool)] = -np.inf
            high = scores.max(axis=-1, keepdims=True)
            weights = np.exp(scores - high)
            total = weights.sum(axis=-1, keepdims=True)
            mine = weights @ np.repeat(block[1], q.shape[1] // k.shape[1], 1) / total
            here = high + np.log(total)
            if lse is None:
                lse, result = here, mine
            else:
                both = np.logaddexp(lse, here)
                result = result * np.exp(lse - both) + mine * np.exp(here - both)
                lse = both
        if step < p - 1:
            following = receive.wait()
            send.wait()
            block = following
    return result.astype(q.dtype)
