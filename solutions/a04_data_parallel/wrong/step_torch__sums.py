# fails: test_one_step_on_2_4_and_8_ranks
"""Sums over all samples, never divided."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def broadcast_parameters(group, model):
    source = dist.get_global_rank(group, 0)
    for p in model.parameters():
        dist.broadcast(p.detach(), source, group=group)


def train_step(group, model, optimizer, x, y):
    model.zero_grad()
    loss = cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    learning = [p for p in model.parameters() if p.requires_grad]
    numbers = [loss.detach().view(1), loss.new_tensor([len(x)])]
    flat = torch.cat([p.grad.flatten() for p in learning] + numbers)
    dist.all_reduce(flat, group=group)
    flat[-2] /= flat[-1]
    sizes = [p.numel() for p in learning]
    for p, g in zip(learning, flat[:-2].split(sizes), strict=True):
        p.grad = g.view_as(p)
    optimizer.step()
    return flat[-2].item()
