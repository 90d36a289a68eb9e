"""The calls that take lists of tensors, and a division before."""

import torch.distributed as dist

def gather(inside, shards):
    size = dist.get_world_size(inside)
    wholes = [shard.new_empty(size * len(shard)) for shard in shards]
    works = [dist.all_gather(list(whole.chunk(size)), shard, group=inside, async_op=True) for whole, shard in zip(wholes, shards, strict=True)]
    for work in works:
        work.wait()
    return wholes

def synchronise(inside, between, gradients):
    shards, replicas = (dist.get_world_size(inside), dist.get_world_size(between))
    for gradient in gradients:
        if len(gradient) % shards:
            raise ValueError(f"{len(gradient)} elements can't be cut into {shards} equal parts.")
    parts = [gradient.new_empty(len(gradient) // shards) for gradient in gradients]

    def scatter(k):
        return dist.reduce_scatter(parts[k], list((gradients[k] / (shards * replicas)).chunk(shards)), group=inside, async_op=True)
    reductions = []
    scatters = [scatter(0)] if parts else []
    for k, part in enumerate(parts):
        scatters[k].wait()
        if k + 1 < len(parts):
            scatters.append(scatter(k + 1))
        reductions.append(dist.all_reduce(part, group=between, async_op=True))
    for part, reduction in zip(parts, reductions, strict=True):
        reduction.wait()
    return parts
