"""Keys and values travel to the rank before, each in a call of its own."""

import torch
import torch.distributed as dist
from attention_torch import backward_block, forward_block

def split(x, world_size):
    positions, count = (x.shape[2], 2 * world_size)
    if positions % count:
        raise ValueError(f"{positions} positions can't be cut into {count} equal chunks: pad the sequence to {-(-positions // count) * count}.")
    chunks = x.chunk(count, dim=2)
    return [torch.cat([chunks[r], chunks[-1 - r]], dim=2) for r in range(world_size)]

def merge(parts):
    halves = [each.chunk(2, dim=2) for each in parts]
    return torch.cat([a for a, _ in halves] + [b for _, b in reversed(halves)], dim=2)

def zigzag_attention(group, q, k, v):
    return _Zigzag.apply(q, k, v, group)

def _seen(rank, source, n):
    if source == rank:
        return (slice(0, n), slice(0, n))
    return (slice(0, n), slice(0, n // 2)) if source < rank else (slice(n // 2, n), slice(0, n))

def _start(group, tensors):
    p, rank = (dist.get_world_size(group), dist.get_rank(group))
    after, before = (dist.get_global_rank(group, (rank + step) % p) for step in (-1, 1))
    arriving = [torch.empty_like(each) for each in tensors]
    works = [dist.irecv(each, before, group) for each in arriving]
    works += [dist.isend(each, after, group) for each in tensors]
    return (arriving, works)

def _complete(works):
    for work in works:
        work.wait()

class _Zigzag(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v, group):
        p, rank, n = (dist.get_world_size(group), dist.get_rank(group), q.shape[2])
        k, v = (k.contiguous(), v.contiguous())
        here, works = ([k, v], [])
        for step in range(p):
            source = (rank + step) % p
            if step < p - 1:
                arriving, works = _start(group, here)
            queries, keys = _seen(rank, source, n)
            given = [q[:, :, queries], *(each[:, :, keys] for each in here)]
            o, log = forward_block(*given, source, diagonal=source == rank)
            if step == 0:
                out, lse = (o, log)
            else:
                old, rows = (lse[:, :, queries], out[:, :, queries])
                new = torch.logaddexp(old, log)
                out[:, :, queries] = torch.exp(old - new) * rows + torch.exp(log - new) * o
                lse[:, :, queries] = new
            if step < p - 1:
                _complete(works)
                here = arriving
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.group = group
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        group, n = (ctx.group, q.shape[2])
        p, rank = (dist.get_world_size(group), dist.get_rank(group))
        here, dq, totals, behind = ([k, v], torch.zeros_like(q), None, [])
        for step in range(p):
            source = (rank + step) % p
            if step < p - 1:
                arriving, works = _start(group, here)
            queries, keys = _seen(rank, source, n)
            rows = [each[:, :, queries] for each in (dout, q, out, lse)]
            columns = [each[:, :, keys] for each in here]
            part, *own = backward_block(*rows[:2], *columns, *rows[2:], source, diagonal=source == rank)
            dq[:, :, queries] += part
            _complete(behind)
            if step == 0:
                totals = own
            else:
                for total, each in zip(totals, own, strict=True):
                    total[:, :, keys] += each
            if p > 1:
                totals, behind = _start(group, totals)
            if step < p - 1:
                _complete(works)
                here = arriving
        _complete(behind)
        return (dq, *totals, None)
