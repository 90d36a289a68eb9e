"""Messages from rank to rank; heads are dealt out in contiguous runs, one tensor after the other."""

import torch
import torch.distributed as dist


def attention(group, q, k, v, attend):
    p = group.size()
    if q.shape[1] % p or k.shape[1] % p:
        raise ValueError(f"{q.shape[1]} and {k.shape[1]} heads can't be shared by {p} ranks")
    with_heads = [ToHeads.apply(each, group) for each in (q, k, v)]
    return ToPositions.apply(attend(*with_heads), group)


def swapped(pieces, group):
    """Piece r goes to place r; returns what comes from each place."""
    ranks, me = dist.get_process_group_ranks(group), group.rank()
    came = [torch.zeros_like(each, memory_format=torch.contiguous_format) for each in pieces]
    came[me] = pieces[me]
    ops = []
    for distance in range(1, len(ranks)):
        there, here = (me + distance) % len(ranks), (me - distance) % len(ranks)
        ops.append(dist.P2POp(dist.isend, pieces[there].contiguous(), ranks[there], group))
        ops.append(dist.P2POp(dist.irecv, came[here], ranks[here], group))
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()
    return came


def to_heads(x, group):
    return torch.cat(swapped(x.tensor_split(group.size(), 1), group), 2)


def to_positions(x, group):
    return torch.cat(swapped(x.tensor_split(group.size(), 2), group), 1)


class ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return to_heads(x, group)

    @staticmethod
    def backward(ctx, grad):
        return to_positions(grad, ctx.group), None


class ToPositions(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return to_positions(x, group)

    @staticmethod
    def backward(ctx, grad):
        return to_heads(grad, ctx.group), None
