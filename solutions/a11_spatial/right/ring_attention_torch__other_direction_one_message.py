"""Keys and values travel together, to the rank before."""

import torch
import torch.distributed as dist
from attention_torch import backward_block, forward_block


class Neighbours:
    def __init__(self, group, lengths):
        self.group, self.lengths = group, lengths
        self.p, self.rank = group.size(), group.rank()

    def turn(self, pair, step):
        """The pair of this step goes on; that of the next step comes."""
        if self.p == 1:
            return pair, []
        length = self.lengths[(self.rank + step + 1) % self.p]
        buffer = pair.new_empty(*pair.shape[:3], length, pair.shape[4])
        to, source = (
            dist.get_global_rank(self.group, (self.rank + way) % self.p) for way in (-1, 1)
        )
        return buffer, [
            dist.irecv(buffer, source, self.group),
            dist.isend(pair, to, self.group),
        ]


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, ring, causal):
        pair = torch.stack([k, v])
        for step in range(ring.p):
            source = (ring.rank + step) % ring.p
            works = []
            if step + 1 < ring.p:
                coming, works = ring.turn(pair, step)
            if source == ring.rank:
                out, lse = forward_block(q, pair[0], pair[1], source, causal)
            elif not causal or source < ring.rank:
                o, l = forward_block(q, pair[0], pair[1], source)
                share = torch.sigmoid(l - lse)
                out = out + share * (o - out)
                lse = torch.logaddexp(lse, l)
            for work in works:
                work.wait()
            if works:
                pair = coming
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.rest = ring, causal
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        ring, causal = ctx.rest
        pair, dq, slopes, behind = torch.stack([k, v]), 0, None, []
        for step in range(ring.p):
            source = (ring.rank + step) % ring.p
            works = []
            if step + 1 < ring.p:
                coming, works = ring.turn(pair, step)
            if not causal or source <= ring.rank:
                a, b, c = backward_block(
                    dout, q, pair[0], pair[1], out, lse, source, causal and source == ring.rank
                )
                dq, own = dq + a, torch.stack([b, c])
            else:
                own = torch.zeros_like(pair)
            for work in behind:
                work.wait()
            slopes = own if slopes is None else slopes + own
            slopes, behind = ring.turn(slopes, step)
            for work in works:
                work.wait()
            if works:
                pair = coming
        for work in behind:
            work.wait()
        return dq, slopes[0], slopes[1], None, None


def ring_attention(group, q, k, v, lengths, causal=False):
    if len(lengths) != group.size() or lengths[group.rank()] != q.size(2):
        raise ValueError(f"{lengths} must name {q.size(2)} positions for rank {group.rank()}.")
    return Attend.apply(q, k, v, Neighbours(group, lengths), causal)
