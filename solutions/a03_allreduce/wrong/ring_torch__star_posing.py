# fails: test_messages_go_to_neighbours_only
"""Everything through place 0."""

import torch
import torch.distributed as dist


def all_reduce(group, x):
    place, world_size = dist.get_rank(group), dist.get_world_size(group)
    ranks = [dist.get_global_rank(group, other) for other in range(world_size)]
    total = x.contiguous()
    if place == 0:
        for rank in ranks[1:]:
            incoming = torch.empty_like(total)
            dist.recv(incoming, rank, group)
            total += incoming
        for rank in ranks[1:]:
            dist.send(total, rank, group)
    else:
        dist.send(total, ranks[0], group)
        dist.recv(total, ranks[0], group)
    if total is not x:
        x.copy_(total)
