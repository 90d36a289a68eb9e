"""One block of attention, forward and backward: supplied, nothing to write.

    keys of rank 0 ... P-1            S = q k^T / sqrt(d)      a block of scores
    q  [ block ][ block ][ block ]    out = softmax(S) v       as if there were these keys alone
                                      lse = log sum exp(S)     of each row of S

``forward_block`` knows the keys of one block only. ``lse`` says how much they weigh, so that the
results of several blocks can be joined to that of all keys. ``backward_block`` needs ``out`` and
``lse`` of *all* keys, and gives what this block adds to the gradients.

Each block is announced with the rank whose keys it has. In tests of order the network answers with
factors that scale the keys (forward) or ``dout`` (backward), so that a block can't have been
computed before; everywhere else they are 1.
"""

import math

import torch

import ringside


@torch.no_grad()
def forward_block(q, k, v, source, diagonal=False):
    """Attention of queries to the keys of one block.

    Args:
        q: queries, shape ``(batch, heads, n, d)``.
        k, v: keys and values, shape ``(batch, kv_heads, m, d)``; kv_heads divides heads, and key
            head j serves the query heads ``j g, ..., j g + g - 1`` with g = heads / kv_heads.
        source: the place in the group of the rank whose keys these are.
        diagonal: query i sees the keys 0, ..., i of the block alone; then m = n.

    Returns:
        ``(out, lse)``: shapes ``(batch, heads, n, d)`` and ``(batch, heads, n, 1)``, new tensors.
    """
    with ringside.phase("forward block"):
        k = ringside.announce(f"forward {source}", k)
        scores = _scores(q, k, diagonal)
        lse = torch.logsumexp(scores, dim=-1, keepdim=True)
        out = _per_query_head(torch.exp(scores - lse), v)
    return out, lse


@torch.no_grad()
def backward_block(dout, q, k, v, out, lse, source, diagonal=False):
    """What one block adds to the gradients.

    Args:
        dout: the gradient of ``out``.
        q, k, v, source, diagonal: as for ``forward_block``.
        out, lse: of the queries and *all* keys that they see, joined.

    Returns:
        ``(dq, dk, dv)``, new tensors of the shapes of q, k and v.
    """
    with ringside.phase("backward block"):
        dout = ringside.announce(f"backward {source}", dout)
        # A weight is at most 1, but lse of scaled keys may be far below the score: see above.
        weights = torch.exp((_scores(q, k, diagonal) - lse).clamp(max=0))
        dv = _per_key_head(weights, dout, v)
        dweights = _grouped(dout, v) @ v.unsqueeze(2).mT
        delta = (dout * out).sum(dim=-1, keepdim=True)
        dscores = weights * (dweights.flatten(1, 2) - delta) / math.sqrt(q.shape[-1])
        return _per_query_head(dscores, k), _per_key_head(dscores, q, k), dv


def _grouped(x, k):
    """Heads of queries, by the head of keys that serves them: (batch, kv_heads, g, n, d)."""
    return x.unflatten(1, (k.shape[1], -1))


def _scores(q, k, diagonal):
    if diagonal and q.shape[2] != k.shape[2]:
        raise ValueError(
            f"a block on the diagonal has as many keys as queries, not {k.shape[2]} and "
            f"{q.shape[2]}: give it the queries' own keys."
        )
    scores = (_grouped(q, k) @ k.unsqueeze(2).mT).flatten(1, 2) / math.sqrt(q.shape[-1])
    if diagonal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


def _per_query_head(weights, v):
    return (_grouped(weights, v) @ v.unsqueeze(2)).flatten(1, 2)


def _per_key_head(weights, x, k):
    return (_grouped(weights, k).mT @ _grouped(x, k)).sum(dim=2)
