# fails: test_each_rank_works_on_its_own_samples
"""Samples are gathered, and every rank trains on all of them."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def broadcast_parameters(group, model):
    source = dist.get_global_rank(group, 0)
    for p in model.parameters():
        dist.broadcast(p.detach(), source, group=group)


def train_step(group, model, optimizer, x, y):
    parts = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, (x, y), group=group)
    x, y = (torch.cat(each) for each in zip(*parts, strict=True))
    model.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
