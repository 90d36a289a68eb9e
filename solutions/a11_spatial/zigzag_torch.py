"""Zigzag: an order of the sequence in which a causal mask gives all ranks the same work.

    contiguous, 4 ranks       0 0 1 1 2 2 3 3      rank 0 sees 1 block of keys, rank 3 sees 4
    zigzag                    0 1 2 3 3 2 1 0      8 chunks; rank r has chunks r and 7 - r

With contiguous parts the rank with the last part works at every step, and all others wait for it.
With chunks r and 2 P - 1 - r each rank has one early chunk, which sees few keys, and one late
chunk, which sees many.

What a block of another rank's keys needs depends only on who comes first. Say its rank is s, and
this rank r has the early chunk a and the late chunk b:

    s = r     all queries, own keys, on the diagonal: chunk a comes before chunk b
    s < r     its early chunk alone is seen, by all queries
    s > r     both its chunks are seen, by the late chunk's queries alone

Each of the last two is half a block. For each rank's keys, call ``forward_block`` and
``backward_block`` once, with the queries and keys of this table and nothing more.

Rules: those of ``ring_attention_torch.py``. The ring is the same; start from yours.
"""

import torch
import torch.distributed as dist
from given.attention_torch import backward_block, forward_block
from given.ring_messages_torch import start_to_pass_on, wait_for


def split(x: torch.Tensor, world_size: int) -> list[torch.Tensor]:
    """Cut a sequence into the parts of all ranks.

    Args:
        x: a tensor, shape ``(batch, heads, N, d)``; N is divisible by 2 P.
        world_size: P.

    Returns:
        P tensors, shape ``(batch, heads, N / P, d)``: for rank r the chunks r and 2 P - 1 - r.

    Raises:
        ValueError: N is not divisible by 2 P. Say how long the sequence must be.
    """
    ### BEGIN SOLUTION
    positions, count = x.shape[2], 2 * world_size
    if positions % count:
        raise ValueError(
            f"{positions} positions can't be cut into {count} equal chunks: pad the sequence to "
            f"{-(-positions // count) * count}."
        )
    chunks = x.chunk(count, dim=2)
    return [torch.cat([chunks[r], chunks[-1 - r]], dim=2) for r in range(world_size)]
    ### END SOLUTION


def merge(parts: list[torch.Tensor]) -> torch.Tensor:
    """Put the parts of all ranks together: the inverse of ``split``.

    Returns:
        A tensor, shape ``(batch, heads, N, d)``.
    """
    ### BEGIN SOLUTION
    halves = [each.chunk(2, dim=2) for each in parts]
    return torch.cat([a for a, _ in halves] + [b for _, b in reversed(halves)], dim=2)
    ### END SOLUTION


def zigzag_attention(
    group: dist.ProcessGroup, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """Causal attention of this rank's queries to the keys of the whole sequence.

    Args:
        group: the ranks, in the order of their parts; P of them.
        q: this rank's part of the queries, shape ``(batch, heads, n, d)``; n is even, and the same
            on all ranks.
        k, v: its part of the keys and values, shape ``(batch, kv_heads, n, d)``; kv_heads divides
            heads. All are parts as ``split`` makes them.

    Returns:
        A tensor of the shape of q: this rank's part of
        ``scaled_dot_product_attention(q, k, v, is_causal=True)`` of the whole sequence. Its
        backward pass gives the gradients of q, k and v. All to a relative error of 1e-10 in
        float64, 1e-5 in float32.

    Bytes, with ``e = batch kv_heads d``: at most ``2 e N (P - 1) / P`` elements forward and
    ``2 e N (2 P - 1) / P`` backward. Example: 4 ranks, 64 positions each, e = 32: 12,288 and
    28,672.
    Work: at most ``n^2 + (P - 1) n^2 / 2`` products of a query and a key for each head: what is
      masked altogether is not computed. The block on the diagonal counts in full.
    Schedule: as for ``ring_attention``.
    Time of forward and backward pass: for 102,400 positions, 8 heads and d = 128 in float32 on 8
      GPUs of the machine "zaratan", at least 95 % of it is that of a rank's blocks alone.
      Half the points up to 1.2 times their time.

    Source: zhuzilin, ring-flash-attention, github.com/zhuzilin/ring-flash-attention, 2024; Brandon
    et al., Striped Attention, 2023, has another balanced order.
    """
    return _Zigzag.apply(q, k, v, group)


def _seen(rank: int, source: int, n: int):
    """Which of this rank's n queries see which keys of rank ``source``: a slice of each."""
    ### BEGIN SOLUTION
    if source == rank:
        return slice(0, n), slice(0, n)
    return (slice(0, n), slice(0, n // 2)) if source < rank else (slice(n // 2, n), slice(0, n))
    ### END SOLUTION


class _Zigzag(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup):
        """The ring of the forward pass; what ``backward`` needs is kept in ``ctx``."""
        ### BEGIN SOLUTION
        p, rank, n = dist.get_world_size(group), dist.get_rank(group), q.shape[2]
        k, v = k.contiguous(), v.contiguous()
        here, out = [k, v], torch.zeros_like(q)
        lse = torch.full_like(q[..., :1], -torch.inf)
        for step in range(p):
            source = (rank - step) % p
            arriving, works = here, []
            if step < p - 1:
                arriving, works = start_to_pass_on(group, here)
            queries, keys = _seen(rank, source, n)
            given = [q[:, :, queries], *(each[:, :, keys] for each in here)]
            o, log = forward_block(*given, source, diagonal=source == rank)
            old, rows = lse[:, :, queries], out[:, :, queries]
            new = torch.logaddexp(old, log)
            out[:, :, queries] = torch.exp(old - new) * rows + torch.exp(log - new) * o
            lse[:, :, queries] = new
            wait_for(works)
            here = arriving
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.group = group
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dout: torch.Tensor):
        """The ring of the backward pass: the gradients of q, k and v, and None for the group."""
        ### BEGIN SOLUTION
        group, (q, k, v, out, lse) = ctx.group, ctx.saved_tensors
        p, rank, n = dist.get_world_size(group), dist.get_rank(group), q.shape[2]
        here, dq, behind = [k, v], torch.zeros_like(q), []
        totals = [torch.zeros_like(k), torch.zeros_like(v)]
        for step in range(p):
            source = (rank - step) % p
            arriving, works = here, []
            if step < p - 1:
                arriving, works = start_to_pass_on(group, here)
            queries, keys = _seen(rank, source, n)
            rows = [each[:, :, queries] for each in (dout, q, out, lse)]
            columns = [each[:, :, keys] for each in here]
            part, *own = backward_block(*rows[:2], *columns, *rows[2:], source, source == rank)
            dq[:, :, queries] += part
            wait_for(behind)
            for total, each in zip(totals, own, strict=True):
                total[:, :, keys] += each
            if p > 1:
                totals, behind = start_to_pass_on(group, totals)
            wait_for(works)
            here = arriving
        wait_for(behind)
        return dq, *totals, None
        ### END SOLUTION
