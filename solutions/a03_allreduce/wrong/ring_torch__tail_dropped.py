# fails: test_sum_on_3_5_6_and_7_ranks
"""Shards of n // p elements; the rest is never summed."""

import torch
import torch.distributed as dist


def all_reduce(group, x):
    place, world_size = dist.get_rank(group), dist.get_world_size(group)
    previous = dist.get_global_rank(group, (place - 1) % world_size)
    following = dist.get_global_rank(group, (place + 1) % world_size)
    total = x.contiguous()  # x itself, unless it has gaps

    def shard(owner):
        size = len(total) // world_size
        return total[owner % world_size * size : (owner % world_size + 1) * size]

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
