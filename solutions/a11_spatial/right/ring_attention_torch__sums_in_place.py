"""The sums of gradients are added to where they came in."""

import torch
import torch.distributed as dist
from attention_torch import backward_block, forward_block

def ring_attention(group, q, k, v, lengths, causal=False):
    p, rank = (dist.get_world_size(group), dist.get_rank(group))
    if len(lengths) != p or lengths[rank] != q.shape[2]:
        raise ValueError(f"q has {q.shape[2]} positions on rank {rank} of {p}, and lengths is {lengths}: it must have an entry for each rank, and the rank's own is q.shape[2].")
    return _RingAttention.apply(q, k, v, group, lengths, causal)

def _start_to_pass_on(group, tensors, length):
    p, rank = (dist.get_world_size(group), dist.get_rank(group))
    after, before = (dist.get_global_rank(group, (rank + step) % p) for step in (1, -1))
    coming = [each.new_empty(*each.shape[:2], length, each.shape[3]) for each in tensors]
    calls = [dist.P2POp(dist.isend, each, after, group) for each in tensors]
    calls += [dist.P2POp(dist.irecv, each, before, group) for each in coming]
    return (coming, dist.batch_isend_irecv(calls))

def _wait(works):
    for work in works:
        work.wait()

class _RingAttention(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v, group, lengths, causal):
        p, rank = (dist.get_world_size(group), dist.get_rank(group))
        k, v = (k.contiguous(), v.contiguous())
        present, out, lse = ([k, v], None, None)
        for step in range(p):
            source = (rank - step) % p
            works = []
            if step < p - 1:
                coming, works = _start_to_pass_on(group, present, lengths[source - 1])
            if step == 0:
                out, lse = forward_block(q, *present, source, diagonal=causal)
            elif source < rank or not causal:
                o, each = forward_block(q, *present, source)
                new = torch.logaddexp(lse, each)
                out, lse = (torch.exp(lse - new) * out + torch.exp(each - new) * o, new)
            _wait(works)
            if step < p - 1:
                present = coming
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.ring = (group, lengths, causal)
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        group, lengths, causal = ctx.ring
        p, rank = (dist.get_world_size(group), dist.get_rank(group))
        present, dq, sums, adding = ([k, v], q.new_zeros(q.shape), None, [])
        for step in range(p):
            source, works = ((rank - step) % p, [])
            if step < p - 1:
                coming, works = _start_to_pass_on(group, present, lengths[source - 1])
            own = []
            if source <= rank or not causal:
                diagonal = causal and source == rank
                part, *own = backward_block(dout, q, *present, out, lse, source, diagonal)
                dq += part
            _wait(adding)
            sums = own if sums is None else sums
            if step > 0 and own:
                for total, each in zip(sums, own, strict=True):
                    total += each
            if p > 1:
                sums, adding = _start_to_pass_on(group, sums, lengths[source - 1])
            _wait(works)
            if step < p - 1:
                present = coming
        _wait(adding)
        return (dq, *sums, None, None, None)
