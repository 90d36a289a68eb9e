"""Attention over a sequence that is cut among p ranks: keys and values go round a ring.

    a sequence of N positions on 4 ranks      q k v | q k v | q k v | q k v
                                              rank 0  rank 1  rank 2  rank 3

    step       rank 0 looks at    rank 1      rank 2      rank 3         every rank sends
    0          k v of 0           of 1        of 2        of 3           what it looks at
    1          of 3               of 0        of 1        of 2           to the next rank
    2          of 2               of 3        of 0        of 1
    3          of 1               of 2        of 3        of 0           nothing

A query needs the softmax over all N keys, and a rank never has all of them at once. So it keeps
three things for each query, and brings them up to date with each block of keys (online softmax):

    m   the largest score so far
    l   the sum of exp(score - m) so far
    o   the sum of exp(score - m) times the value so far        result  o / l

A later block may hold a larger score. Then m grows from m_old to m_new, and what l and o have so
far is multiplied by exp(m_old - m_new). Example: one block has the score 0, so m = 0 and l = 1. The
next has the score 2. Then m = 2 and l = 1 exp(0 - 2) + 1 = 1.135.

Source: Liu, Zaharia, Abbeel, Ring attention with blockwise transformers for near-infinite context,
2023; Milakov, Gimelshein, Online normalizer calculation for softmax, 2018.
"""

import numpy as np
from given.ring_blocks import block_scores
from mpi4py import MPI


def attention(
    comm: MPI.Comm,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    lengths: list[int],
    causal: bool = False,
) -> np.ndarray:
    """This rank's part of ``softmax(q k^T / sqrt(width)) v`` of the whole sequence.

    Args:
        comm: the ranks that take part; p >= 1 of them. Rank r has part r of the sequence.
        q: this rank's queries, shape ``(batch, heads, n, width)``, float64 or float32. Each length
            is at least 1.
        k, v: this rank's keys and values, shape ``(batch, kv_heads, n, width)``, of the dtype of
            ``q``. ``heads`` is a multiple of ``kv_heads``: with g = heads / kv_heads, query head h
            looks at key head ``h // g``.
        lengths: how many positions each rank has, a list of p numbers, the same on all ranks. They
            may differ; ``n`` is this rank's.
        causal: a query looks only at keys up to its own position in the whole sequence.

    Returns:
        An array of the shape and dtype of ``q``: this rank's queries' results.

    Raises:
        ValueError: before any message, if ``lengths`` doesn't have p numbers, ``q``, ``k`` and
            ``v`` don't have this rank's length, or ``heads`` is no multiple of ``kv_heads``. (The
            tests of this give all ranks such arguments.)

    - Values: those of the softmax over the whole sequence on one rank, to 1e-12 in float64 (1e-5
      in float32) of the largest. Scores may be several thousands, positive or negative: exp of
      them is infinite, or 0, in any floating-point type.
    - Work: each block goes through ``given.ring_blocks.block_scores``, once: all of this rank's
      queries against all keys of one rank. A block that the causal mask hides altogether may be
      left out.
    - Messages: only with the previous and the next rank of the ring, which may go the other way
      round than drawn. No library collectives.
    - Bytes: a rank sends and receives at most the keys and values of all parts but the shortest:
      ``2 batch kv_heads width (N - min(lengths))`` elements. Example: N = 1000 on 4 ranks, 250
      each, batch 1, 8 heads of width 64, of which k and v have 2: 2 * 2 * 64 * 750 = 192,000
      elements, and not four times as many.
    - Overlap: when block i of p begins (i = 0, 1, ..., p - 2), the rank has started i + 1 sends and
      i + 1 receives of whole blocks. A block may travel in several messages.
    - Not far ahead: when block i begins, the rank has waited for at most i + 2 blocks of other
      ranks, and has started to receive at most i + 3. Example: on 16 ranks, when block 0 begins,
      at most 2 of 15 others have come, and at most 3 receives have started.
    - Memory: at any time at most (1) four blocks of keys and values of other ranks, (2) eight
      arrays as large as ``q``, (3) eight as large as one block's scores, and 64 KiB.
    - Time: at most 1.05 times ``c + (p - 1) max(c, t)``, where c is the time of a block and t that
      of a message with keys and values of one rank, for equal lengths; half the points up to 1.5
      times.
    """
    ### BEGIN SOLUTION
    p, rank = comm.Get_size(), comm.Get_rank()
    if len(lengths) != p:
        raise ValueError(f"{len(lengths)} lengths for {p} ranks: give one for each rank")
    if not q.shape[2] == k.shape[2] == v.shape[2] == lengths[rank]:
        raise ValueError(
            f"q, k, v have {q.shape[2]}, {k.shape[2]}, {v.shape[2]} positions and lengths[{rank}] "
            f"is {lengths[rank]}: cut the sequence as lengths says"
        )
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} heads are no multiple of {k.shape[1]} key heads")
    positions = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    block, following = np.stack([k, v]), None
    m, o = np.full(q.shape[:3], -np.inf, q.dtype), np.zeros(q.shape, q.dtype)
    total = np.zeros(q.shape[:3], q.dtype)
    for step in range(p):
        source, requests = (rank - step) % p, []
        if step < p - 1:
            # Started before the block is computed, so that messages travel meanwhile.
            shape = (*block.shape[:3], lengths[source - 1], block.shape[4])
            following = np.empty(shape, q.dtype)
            requests = [
                comm.Irecv(following, source=(rank - 1) % p),
                comm.Isend(block, dest=(rank + 1) % p),
            ]
        # The own block comes first: there each query sees a key, so m is finite from then on.
        if not causal or source <= rank:
            keys, values = np.repeat(block, q.shape[1] // k.shape[1], axis=2)
            scores = block_scores(q, keys, source)
            if causal:
                hidden = positions[source] > positions[rank][:, None]
                scores[..., hidden] = -np.inf
            highest = np.maximum(m, scores.max(axis=-1))
            weights, shrink = np.exp(scores - highest[..., None]), np.exp(m - highest)
            total = total * shrink + weights.sum(axis=-1)
            o = o * shrink[..., None] + weights @ values
            m = highest
        MPI.Request.Waitall(requests)
        block = following
    return o / total[..., None]
    ### END SOLUTION
