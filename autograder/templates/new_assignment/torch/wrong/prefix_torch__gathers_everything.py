# fails: test_only_point_to_point_calls
"""The library gathers all tensors, and everybody sums."""

import torch
import torch.distributed as dist


def prefix_sum(group, x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    for part in parts[: dist.get_rank(group)]:
        x += part
