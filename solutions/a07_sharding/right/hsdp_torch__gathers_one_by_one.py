"""Each gather is waited for; all-reduces are kept with their parts, and divided as they end."""

from collections import deque

import torch.distributed as dist


def gather(inside, shards):
    wholes = []
    for shard in shards:
        wholes.append(shard.new_empty(dist.get_world_size(inside) * shard.numel()))
        dist.all_gather_into_tensor(wholes[-1], shard, group=inside)
    return wholes


def synchronise(inside, between, gradients):
    size = dist.get_world_size(inside)
    if any(gradient.numel() % size for gradient in gradients):
        raise ValueError("a gradient can't be cut into equal parts")
    parts, under_way = [], deque()
    for gradient in gradients:
        parts.append(gradient.new_empty(gradient.numel() // size))
        dist.reduce_scatter_tensor(parts[-1], gradient, group=inside)
        under_way.append((parts[-1], dist.all_reduce(parts[-1], group=between, async_op=True)))
    while under_way:
        part, work = under_way.popleft()
        work.wait()
        part.div_(size * dist.get_world_size(between))
    return parts
