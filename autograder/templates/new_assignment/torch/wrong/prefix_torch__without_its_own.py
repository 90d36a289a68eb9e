# fails: test_sums_on_1_2_and_4_ranks
"""The sum of the places before this one: an exclusive scan."""

import torch
import torch.distributed as dist


def prefix_sum(group, x):
    place, world_size = dist.get_rank(group), dist.get_world_size(group)
    before = torch.zeros_like(x)
    if place > 0:
        dist.recv(before, dist.get_global_rank(group, place - 1), group)
    if place < world_size - 1:
        dist.send(before + x, dist.get_global_rank(group, place + 1), group)
    x.copy_(before)
