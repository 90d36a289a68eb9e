"""All layers travel as one, where speed isn't asked for: gathers alone."""

import torch
import torch.distributed as dist

def gather(inside, shards):
    size = dist.get_world_size(inside)
    if not shards:
        return []
    joined = torch.cat(list(shards))
    rows = joined.new_empty(size, len(joined))
    dist.all_gather_into_tensor(rows.view(-1), joined, group=inside)
    return [each.reshape(-1) for each in rows.split([len(shard) for shard in shards], dim=1)]

def synchronise(inside, between, gradients):
    shards, replicas = (dist.get_world_size(inside), dist.get_world_size(between))
    for gradient in gradients:
        if len(gradient) % shards:
            raise ValueError(f"{len(gradient)} elements can't be cut into {shards} equal parts.")
    parts = [gradient.new_empty(len(gradient) // shards) for gradient in gradients]

    def scatter(k):
        return dist.reduce_scatter_tensor(parts[k], gradients[k], group=inside, async_op=True)
    reductions = []
    scatters = [scatter(0)] if parts else []
    for k, part in enumerate(parts):
        scatters[k].wait()
        if k + 1 < len(parts):
            scatters.append(scatter(k + 1))
        reductions.append(dist.all_reduce(part, group=between, async_op=True))
    for part, reduction in zip(parts, reductions, strict=True):
        reduction.wait()
        part /= shards * replicas
    return parts
