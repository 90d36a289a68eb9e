# fails: test_unequal_numbers_of_samples
"""Every rank's mean counts alike, however many samples it has."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def broadcast_parameters(group, model):
    source = dist.get_global_rank(group, 0)
    for p in model.parameters():
        dist.broadcast(p.detach(), source, group=group)


def train_step(group, model, optimizer, x, y):
    model.zero_grad()
    loss = cross_entropy(model(x), y, reduction="sum") / max(1, len(x))
    loss.backward()
    learning = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([p.grad.flatten() for p in learning] + [loss.detach().view(1)])
    dist.all_reduce(flat, group=group)
    flat /= dist.get_world_size(group)
    for p, g in zip(learning, flat[:-1].split([p.numel() for p in learning]), strict=True):
        p.grad = g.view_as(p)
    optimizer.step()
    return flat[-1].item()
