# fails: test_messages_go_to_neighbours_only
"""Through place 0 where there are more than sixteen ranks."""

import torch
import torch.distributed as dist
from shards import shard_bounds


def star_sum(group, x):
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


def all_reduce(group, x):
    if dist.get_world_size(group) > 16:
        return star_sum(group, x)
    place, world_size = dist.get_rank(group), dist.get_world_size(group)
    previous = dist.get_global_rank(group, (place - 1) % world_size)
    following = dist.get_global_rank(group, (place + 1) % world_size)
    total = x.contiguous()  # x itself, unless it has gaps

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, owner % world_size)
        return total[lo:hi]

    def exchange(outgoing, incoming):
        sending = dist.P2POp(dist.isend, outgoing, following, group)
        receiving = dist.P2POp(dist.irecv, incoming, previous, group)
        for work in dist.batch_isend_irecv([sending, receiving]):
            work.wait()

    for step in range(world_size - 1):
        mine = shard(place - step - 2)
        incoming = torch.empty_like(mine)
        exchange(shard(place - step - 1), incoming)
        mine += incoming
    for step in range(world_size - 1):
        exchange(shard(place - step), shard(place - step - 1))
    if total is not x:
        x.copy_(total)
