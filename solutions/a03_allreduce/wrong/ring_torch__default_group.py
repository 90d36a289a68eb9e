# fails: test_given_group_is_used
"""All ranks of the job take part."""

import torch
import torch.distributed as dist
from shards import shard_bounds


def all_reduce(group, x):
    place, world_size = dist.get_rank(), dist.get_world_size()
    previous = (place - 1) % world_size
    following = (place + 1) % world_size
    total = x.contiguous()  # x itself, unless it has gaps

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, owner % world_size)
        return total[lo:hi]

    def exchange(outgoing, incoming):
        sending = dist.P2POp(dist.isend, outgoing, following)
        receiving = dist.P2POp(dist.irecv, incoming, previous)
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
