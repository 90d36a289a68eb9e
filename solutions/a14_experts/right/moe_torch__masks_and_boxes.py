"""Masks of experts, results put in their places, and a box for what is under way."""

import torch
import torch.distributed as dist
from given.experts import owners
from torch import nn


class Experts(nn.Module):
    def __init__(self, group, gate, experts, shared, num_experts):
        super().__init__()
        self.group, self.gate, self.shared = group, gate, shared
        self.experts, self.num_experts = nn.ModuleList(experts), num_experts

    def forward(self, x):
        experts, weights, kept = self.gate(x)
        owner = torch.as_tensor(owners(self.num_experts, self.group.size()))
        index = [torch.nonzero((experts == e) & kept) for e in range(self.num_experts)]
        counts = torch.tensor([len(i) for i in index])
        every = torch.cat(index)
        p, mine = self.group.size(), len(self.experts)
        theirs = [int((owner == r).sum()) for r in range(p)]
        coming = torch.zeros(p * mine, dtype=torch.int64)
        dist.all_to_all_single(coming, counts, [mine] * p, theirs, group=self.group)
        table = coming.reshape(p, mine)
        sent = [int(c.sum()) for c in counts.split(theirs)]
        came = [int(c.sum()) for c in table]

        box = {}
        rows = x[every[:, 0]]
        rows = Begin.apply(rows, box, sent, came, self.group)
        shared = self.shared(x)
        rows = End.apply(rows, box, sent, came, self.group)
        place = torch.repeat_interleave(torch.arange(mine).repeat(p), coming)
        answers = torch.zeros_like(rows)
        for e, expert in enumerate(self.experts):
            own = torch.nonzero(place == e)[:, 0]
            answers = answers.index_copy(0, own, expert(rows[own]))
        box = {}
        answers = Begin.apply(answers, box, came, sent, self.group)
        answers = End.apply(answers, box, came, sent, self.group)
        y = torch.zeros_like(x).index_put(
            (every[:, 0],), weights[every[:, 0], every[:, 1]].unsqueeze(1) * answers, accumulate=True
        )
        return shared + y


class Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, box, sent, came, group):
        ctx.box = box
        out = rows.new_empty(sum(came), rows.shape[1])
        rows = rows.contiguous()
        box["work"] = dist.all_to_all_single(out, rows, came, sent, group, True), rows
        return out

    @staticmethod
    def backward(ctx, _):
        work, gradient, _ = ctx.box.pop("back")
        work.wait()
        return gradient, None, None, None, None


class End(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, box, sent, came, group):
        box.pop("work")[0].wait()
        ctx.all = box, sent, came, group
        return rows.clone()

    @staticmethod
    def backward(ctx, gradient):
        box, sent, came, group = ctx.all
        out, gradient = gradient.new_empty(sum(sent), gradient.shape[1]), gradient.contiguous()
        work = dist.all_to_all_single(out, gradient, sent, came, group, True)
        box["back"] = work, out, gradient
        return gradient, None, None, None, None
