"""The mean over a replica comes first, and the mean over replicas second."""

import torch.distributed as dist


def gather(inside, shards):
    wholes, works = [], []
    for shard in shards:
        whole = shard.new_zeros(dist.get_world_size(inside), len(shard))
        work = dist.all_gather(list(whole), shard, group=inside, async_op=True)
        wholes.append(whole.reshape(-1))
        works.append(work)
    for work in works:
        work.wait()
    return wholes


def synchronise(inside, between, gradients):
    size = dist.get_world_size(inside)
    for gradient in gradients:
        if len(gradient) % size != 0:
            raise ValueError(f"{len(gradient)} elements on {size} ranks")
    pending = None
    ended = []
    for gradient in [*gradients, None]:
        started = None
        if pending is not None:
            pending[1].wait()
        if gradient is not None:
            part = gradient.new_empty(len(gradient) // size)
            started = part, dist.reduce_scatter_tensor(part, gradient, group=inside, async_op=True)
        if pending is not None:
            pending[0].mul_(1 / size)
            work = dist.all_reduce(pending[0], group=between, async_op=True)
            ended.append((pending[0], work))
        pending = started
    for part, work in ended:
        work.wait()
        part.mul_(1 / dist.get_world_size(between))
    return [part for part, _ in ended]
