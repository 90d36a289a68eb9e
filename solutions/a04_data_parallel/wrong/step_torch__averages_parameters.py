# fails: test_one_step_on_2_4_and_8_ranks
"""Each rank steps alone, then parameters are averaged: velocities drift apart."""

import torch.distributed as dist
from torch.nn.functional import cross_entropy


def broadcast_parameters(group, model):
    source = dist.get_global_rank(group, 0)
    for p in model.parameters():
        dist.broadcast(p.detach(), source, group=group)


def train_step(group, model, optimizer, x, y):
    model.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    for p in model.parameters():
        if p.requires_grad:
            dist.all_reduce(p.detach(), group=group)
            p.detach().div_(dist.get_world_size(group))
    mean = loss.detach().clone()
    dist.all_reduce(mean, group=group)
    return mean.item() / dist.get_world_size(group)
