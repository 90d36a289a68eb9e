"""Differences to the anchor travel, as outer gradients of a torch optimizer for each fragment."""

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector


def train(group, model, loss, inner, outer_lr, outer_momentum, num_steps, period, num_fragments):
    if num_steps < 0 or period < 1 or num_fragments < 1 or num_fragments > period:
        raise ValueError("numbers")
    if not 0 <= outer_momentum < 1:
        raise ValueError("momentum")
    params = [each for each in model.parameters() if each.requires_grad]
    start = parameters_to_vector(params).detach().clone()
    n = len(start)
    ends = [f * n // num_fragments for f in range(num_fragments + 1)]
    anchors = [start[ends[f] : ends[f + 1]].clone() for f in range(num_fragments)]
    nesterov = outer_momentum > 0
    outers = [
        torch.optim.SGD([each], lr=outer_lr, momentum=outer_momentum, nesterov=nesterov)
        for each in anchors
    ]
    for step in range(num_steps):
        inner.zero_grad()
        loss(model, step).backward()
        inner.step()
        taken = step + 1
        for f, (anchor, outer) in enumerate(zip(anchors, outers, strict=True)):
            mine = taken >= period and (taken - f * period // num_fragments) % period == 0
            if not (mine or taken == num_steps) or not len(anchor):
                continue
            flat = parameters_to_vector(params).detach().clone()
            delta = anchor - flat[ends[f] : ends[f + 1]]
            work = dist.all_reduce(delta, dist.ReduceOp.AVG, group=group, async_op=True)
            work.wait()
            anchor.grad = delta
            outer.step()
            flat[ends[f] : ends[f + 1]] = anchor
            at = 0
            for param in params:
                param.data.copy_(flat[at : at + param.numel()].view_as(param))
                at += param.numel()
