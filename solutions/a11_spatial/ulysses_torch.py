"""Ulysses: from parts of the sequence to parts of the heads, and back, on torch.distributed.

    4 heads, 8 positions, 2 ranks; a letter stands for the rank that has it

                   before          all-to-all       after attention, all-to-all
    positions      0123 4567       0123 4567        0123 4567
    head 0         aaaa bbbb       aaaa aaaa        aaaa bbbb
    head 1         aaaa bbbb       aaaa aaaa        aaaa bbbb
    head 2         aaaa bbbb       bbbb bbbb        aaaa bbbb
    head 3         aaaa bbbb       bbbb bbbb        aaaa bbbb

Between two attentions each rank has its part of the sequence, with all heads. A head of attention
looks at all positions, but no head looks at another one. So each rank takes some of the heads,
with all positions, and calls an attention that knows nothing of ranks.

Rules:

- ``group`` is a process group of p >= 1 ranks in any order; it need not be the world. The rank at
  place r has the positions ``r n, ..., r n + n - 1`` of a sequence of ``N = p n``.
- The only collective is the all-to-all; messages from rank to rank are allowed too. Make no group
  of your own.
- Tensors are float64, float32 or bfloat16, and travel as what they are. They may have gaps, and so
  may gradients. Several calls may stand in one graph.
- The file runs unchanged under ``torchrun``, with gloo on CPUs and with NCCL on GPUs.

Source: Jacobs et al., DeepSpeed Ulysses: system optimizations for enabling training of extreme long
sequence transformer models, 2023.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist


def attention(
    group: dist.ProcessGroup, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attend: Callable
) -> torch.Tensor:
    """This rank's positions of ``attend`` on the whole sequence, with a gradient for autograd.

    Args:
        group: the ranks that take part; p of them.
        q: this rank's queries, shape ``(batch, heads, n, width)``, n the same on all ranks.
        k, v: this rank's keys and values, shape ``(batch, kv_heads, n, width)``. ``heads`` is a
            multiple of ``kv_heads``: with g = heads / kv_heads, query head h looks at key head
            ``h // g``.
        attend: ``attend(q, k, v)`` gives the result for some heads: from shapes
            ``(batch, some, N, width)`` and ``(batch, some / g, N, width)`` to the shape of its
            first argument. It may be any function of tensors that autograd knows.

    Returns:
        A tensor of the shape and dtype of ``q``.

    Raises:
        ValueError: before any message, if ``heads`` or ``kv_heads`` is not divisible by p.

    - Values and gradients: those of one rank that has the whole sequence, to a relative error of
      1e-12 in float64 (1e-5 in float32, 0.03 in bfloat16), in the Frobenius norm; norms below 1
      count as 1.
    - Work: each rank calls ``attend`` for ``heads / p`` of the heads.
    - Bytes: in the forward pass a rank sends and receives at most
      ``(2 + 2 kv_heads / heads) N d (p - 1) / p^2`` elements, times batch, where d is
      ``heads * width``; in the backward pass as many again. Example: N = 8192, d = 1024, p = 8,
      as many key heads as heads: 4 * 8192 * 1024 * 7 / 64 = 3,670,016 elements. A ring of keys and
      values sends 2 * 8192 * 1024 * 7 / 8, four times as many.
    - Time of both passes: at most 1.05 times ``work / p`` and 8 all-to-alls, of which each takes
      ``(p - 1) (alpha + m beta)`` for m bytes from each rank to each other one; half the points up
      to 1.5 times.
    """
    ### BEGIN SOLUTION
    p = dist.get_world_size(group)
    for name, heads in (("heads", q.shape[1]), ("kv_heads", k.shape[1])):
        if heads % p:
            raise ValueError(
                f"{name} ({heads}) is not divisible by {p} ranks: take a number of ranks that "
                "divides it"
            )
    q, k, v = (_Exchange.apply(each, 1, 2, group) for each in (q, k, v))
    return _Exchange.apply(attend(q, k, v), 2, 1, group)


def _exchanged(x, cut, joined, group):
    """Cut a dimension into a part for each rank, and join what comes along another one."""
    outgoing = torch.stack(x.chunk(dist.get_world_size(group), dim=cut))
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing, group=group)
    return torch.cat(incoming.unbind(), dim=joined)


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cut, joined, group):
        ctx.back = joined, cut, group
        return _exchanged(x, cut, joined, group)

    @staticmethod
    def backward(ctx, dy):
        # What came from a rank goes back to it.
        return _exchanged(dy, *ctx.back), None, None, None

    ### END SOLUTION
