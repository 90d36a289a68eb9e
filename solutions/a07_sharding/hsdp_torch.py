"""Hybrid sharding (HSDP): shards inside a fast group, replicas across the slow links.

    R = 2 replicas of S = 4 ranks; a flat layer A B C D has 4 parts

                 inside: fast links                      p = R S = 8 ranks
    node 0       rank 0: A   rank 1: B   rank 2: C   rank 3: D
                      |           |           |           |       between: slow links
    node 1       rank 4: A   rank 5: B   rank 6: C   rank 7: D

Plain sharding cuts each layer into p parts, so every gather crosses the slow links. Here a node
holds a whole copy, cut into S parts. Gathers stay inside. Gradients are reduced in two levels:

    1. reduce-scatter inside: rank 1 has the sum over node 0 of part B, rank 5 that over node 1
    2. all-reduce between: ranks 1 and 5 add up what they have

That costs memory: a rank keeps 1/S of a layer instead of 1/p. Both levels can work at the same
time, on two different layers: while layer 2's gradient is between, layer 1's is inside.

Rules:

- ``inside`` and ``between`` are process groups, of S >= 1 and R >= 1 ranks in any order. Only
  all-gathers and reduce-scatters on ``inside`` and all-reduces on ``between`` may be called.
- Lists may be empty. Layers may have no elements. All tensors of a list have one dtype.
"""

import torch
import torch.distributed as dist


def gather(inside: dist.ProcessGroup, shards: list[torch.Tensor]) -> list[torch.Tensor]:
    """Put the layers together from their shards.

    Args:
        inside: the ranks that hold the parts of one copy, in their order; S of them.
        shards: this rank's part of each layer, flat tensors; part r on rank r of ``inside``.

    Returns:
        A list of the whole layers, flat tensors of S times the shard's elements.

    Communication: a rank sends at most (S - 1) / S of the layers' bytes, all inside.
    """
    ### BEGIN SOLUTION
    size = dist.get_world_size(inside)
    wholes = [shard.new_empty(size * len(shard)) for shard in shards]
    started = [
        dist.all_gather_into_tensor(whole, shard, group=inside, async_op=True)
        for whole, shard in zip(wholes, shards, strict=True)
    ]
    for each in started:
        each.wait()
    return wholes
    ### END SOLUTION


def synchronise(
    inside: dist.ProcessGroup, between: dist.ProcessGroup, gradients: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Average the layers' gradients over all R S ranks; each rank keeps its part.

    Args:
        inside: the S ranks that hold the parts of one copy.
        between: the R ranks that hold this rank's part, one of each copy.
        gradients: this rank's own gradient of each layer, flat tensors; the first one was ready
            first.

    Returns:
        A list of flat tensors: of each gradient part r of the mean over all R S ranks, on rank r
        of ``inside``.

    Raises:
        ValueError: the elements of a gradient can't be divided by S; on all ranks, before any
            message.

    Communication: a rank sends at most (S - 1) / S of the gradients' bytes inside, and between at
    most 2 (R - 1) / R of its parts' bytes. Example: 8000 bytes of gradients, R = 2, S = 4: at most
    6000 bytes inside and 2000 between.
    Time: at most 1.05 times that of a program in which one reduce-scatter is under way at a time,
    and the all-reduce of each part is under way as soon as the part is there. A whole step (two
    gathers, then this) takes at most 0.6 times that of plain sharding on two nodes of ``zaratan``.

    Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.2.2 (hybrid sharding).
    """
    ### BEGIN SOLUTION
    shards, replicas = dist.get_world_size(inside), dist.get_world_size(between)
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
            scatters.append(scatter(k + 1))  # inside, while this one is between
        reductions.append(dist.all_reduce(part, group=between, async_op=True))
    for part, reduction in zip(parts, reductions, strict=True):
        reduction.wait()
        part /= shards * replicas
    return parts
    ### END SOLUTION
