"""A table says first which fragments have their turn after which step."""

from collections import defaultdict

import torch
import torch.distributed as dist


def train(group, model, loss, inner, outer_lr, outer_momentum, num_steps, period, num_fragments):
    if num_steps < 0 or period < 1 or num_fragments not in range(1, period + 1):
        raise ValueError("num_steps, period, num_fragments")
    if outer_momentum < 0 or outer_momentum >= 1:
        raise ValueError("outer_momentum")
    table = defaultdict(list)
    for f in range(num_fragments):
        times = set(range(period + f * period // num_fragments, num_steps + 1, period))
        for taken in times | ({num_steps} if num_steps else set()):
            table[taken].append(f)
    learning = [each for each in model.parameters() if each.requires_grad]
    anchor = torch.cat([each.detach().flatten() for each in learning])
    parts = [
        range(f * len(anchor) // num_fragments, (f + 1) * len(anchor) // num_fragments)
        for f in range(num_fragments)
    ]
    velocity = torch.zeros_like(anchor)
    for step in range(num_steps):
        for param in learning:
            param.grad = None
        loss(model, step).backward()
        inner.step()
        turns = [parts[f] for f in table.get(step + 1, []) if len(parts[f])]
        if not turns:
            continue
        flat = torch.cat([each.detach().flatten() for each in learning])
        chosen = torch.cat([torch.arange(each.start, each.stop) for each in turns])
        travelling = flat[chosen]  # all fragments of this turn in one vector
        dist.all_reduce(travelling, group=group)
        d = anchor[chosen] - travelling / group.size()
        velocity[chosen] = outer_momentum * velocity[chosen] + d
        anchor[chosen] = anchor[chosen] - outer_lr * (d + outer_momentum * velocity[chosen])
        flat[chosen] = anchor[chosen]
        with torch.no_grad():
            at = 0
            for param in learning:
                param.copy_(flat[at : at + param.numel()].reshape(param.shape))
                at += param.numel()
