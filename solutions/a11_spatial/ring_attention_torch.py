"""Context parallelism: each rank keeps its queries, and all keys and values come round a ring.

    rank        0            1            2           each rank holds its part of the sequence:
    step 0    q0 k0v0      q1 k1v1      q2 k2v2       queries, keys and values
    step 1    q0 k2v2      q1 k0v0      q2 k1v1       keys and values have moved by one rank
    step 2    q0 k1v1      q1 k2v2      q2 k0v0
              out0         out1         out2          each row joined from three blocks

A softmax over all keys is joined from softmaxes over some. Let ``out`` and ``lse`` belong to the
keys seen so far, and ``o`` and ``l`` to a further block (``forward_block``)::

    new = log(exp(lse) + exp(l))          out = exp(lse - new) out + exp(l - new) o

Write ``torch.logaddexp(lse, l)`` for ``new``: the exponentials themselves may overflow.

In the backward pass keys and values go round once more. The sum of their gradients travels behind
them: each rank adds its summand (``backward_block``) and passes the sum on. After P
steps it is at home.

Rules:

- ``group`` is a process group of P >= 1 ranks in any order. Only point-to-point calls on it may be
  used, with the two neighbours in the ring: the places before and after its own, cyclically.
- Each block is computed by a function of ``given/attention_torch.py``, inside a
  ``torch.autograd.Function``: both its passes are yours.
- Tensors are float64 or float32, travel as what they are, and may have gaps. The gradient that
  autograd hands over isn't changed either. Several calls may stand in one graph.
- The file runs unchanged under ``torchrun``, with gloo or NCCL. ``given/ring_messages_torch.py``
  starts the messages of a step, and you wait for them after the block. You may send your own.
"""

import torch
import torch.distributed as dist
from given.attention_torch import backward_block, forward_block
from given.ring_messages_torch import start_to_pass_on, wait_for


def ring_attention(
    group: dist.ProcessGroup,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: list[int],
    causal: bool = False,
) -> torch.Tensor:
    """Attention of this rank's queries to the keys of the whole sequence.

    Args:
        group: the ranks, in the order of their parts of the sequence; P of them.
        q: this rank's queries, shape ``(batch, heads, n, d)``.
        k, v: its keys and values, shape ``(batch, kv_heads, n, d)``; kv_heads divides heads.
        lengths: positions of every rank's part, a list of P numbers >= 1; n is this rank's. They
            may differ.
        causal: a position sees itself and those before it alone.

    Returns:
        A tensor of the shape of q: this rank's part of
        ``scaled_dot_product_attention(q, k, v, is_causal=causal)`` of the whole sequence (with
        ``enable_gqa=True`` if kv_heads is smaller). Its backward pass gives the gradients of q, k
        and v. All to a relative error of 1e-10 in float64, 1e-5 in float32.

    Raises:
        ValueError: n isn't this rank's entry of ``lengths``, or there aren't P entries.

    Bytes, with N positions in all and ``e = batch kv_heads d`` elements for each: each rank sends
    and receives at most

    - forward: keys and values of all parts but one: ``2 e (N - min(lengths))`` elements. For equal
      parts that is ``2 e N (P - 1) / P``. Example: 4 ranks, 64 positions each, e = 32: 12,288
      elements.
    - backward: the same once more, and the sums of gradients: ``2 e N``. Example: 28,672 elements.
    Schedule: when a rank begins the block of step i < P - 1, forward or backward, it has started to
      send that step's keys and values on, and to receive those of step i + 1 and no later ones.
    Work: with ``causal``, blocks that are masked altogether are not computed: the rank at place r
      computes r + 1 blocks.
    Memory: between forward and backward pass a rank keeps at most 7 tensors of its part's size.
    Time of forward and backward pass: for 102,400 positions, 8 heads and d = 128 in float32 on 8 to
      64 GPUs of the machine "zaratan", at most 1.1 times that of a rank's blocks alone; half the
      points up to 1.5 times. It is traced on fake tensors (``ringside.trace_torch``), so nothing
      may depend on the elements' values.

    Source: Liu, Zaharia, Abbeel, Ring Attention with Blockwise Transformers, 2023; Dao,
    FlashAttention-2, 2023, section 3.1.
    """
    p, rank = dist.get_world_size(group), dist.get_rank(group)
    if len(lengths) != p or lengths[rank] != q.shape[2]:
        raise ValueError(
            f"q has {q.shape[2]} positions on rank {rank} of {p}, and lengths is {lengths}: it "
            "must have an entry for each rank, and the rank's own is q.shape[2]."
        )
    return _RingAttention.apply(q, k, v, group, lengths, causal)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        group: dist.ProcessGroup,
        lengths: list[int],
        causal: bool,
    ):
        """The ring of the forward pass; what ``backward`` needs is kept in ``ctx``."""
        ### BEGIN SOLUTION
        p, rank = dist.get_world_size(group), dist.get_rank(group)
        k, v = k.contiguous(), v.contiguous()
        present, out, lse = [k, v], None, None
        for step in range(p):
            source = (rank - step) % p
            coming, works = present, []
            if step < p - 1:
                coming, works = start_to_pass_on(group, present, lengths[source - 1])
            if step == 0:
                out, lse = forward_block(q, *present, source, diagonal=causal)
            elif source < rank or not causal:
                o, each = forward_block(q, *present, source)
                new = torch.logaddexp(lse, each)
                out, lse = torch.exp(lse - new) * out + torch.exp(each - new) * o, new
            wait_for(works)
            present = coming
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.ring = group, lengths, causal
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dout: torch.Tensor):
        """The ring of the backward pass: the gradients of q, k and v, and None for the rest."""
        ### BEGIN SOLUTION
        q, k, v, out, lse = ctx.saved_tensors
        group, lengths, causal = ctx.ring
        p, rank = dist.get_world_size(group), dist.get_rank(group)
        present, dq, adding = [k, v], torch.zeros_like(q), []
        sums = [torch.zeros_like(k), torch.zeros_like(v)]
        for step in range(p):
            source, own = (rank - step) % p, []
            coming, works = present, []
            if step < p - 1:
                coming, works = start_to_pass_on(group, present, lengths[source - 1])
            if source <= rank or not causal:
                diagonal = causal and source == rank
                part, *own = backward_block(dout, q, *present, out, lse, source, diagonal)
                dq += part
            wait_for(adding)  # the sums of this block, which came while it was computed
            if own:
                sums = [a + b for a, b in zip(sums, own, strict=True)]
            if p > 1:
                sums, adding = start_to_pass_on(group, sums, lengths[source - 1])
            wait_for(works)
            present = coming
        wait_for(adding)
        return dq, *sums, None, None, None
        ### END SOLUTION
