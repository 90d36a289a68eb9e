# fails: test_given_group_is_used
"""Peers named by their place in the group, not by their global rank."""

import torch
import torch.distributed as dist


def prefix_sum(group, x):
    place, world_size = dist.get_rank(group), dist.get_world_size(group)
    if place > 0:
        before = torch.empty_like(x)
        dist.recv(before, place - 1, group)
        x += before
    if place < world_size - 1:
        dist.send(x, place + 1, group)
