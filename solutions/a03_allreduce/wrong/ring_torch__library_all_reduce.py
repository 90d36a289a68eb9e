# fails: test_only_point_to_point_calls
"""torch does it."""

import torch.distributed as dist


def all_reduce(group, x):
    total = x.contiguous()
    dist.all_reduce(total, group=group)
    if total is not x:
        x.copy_(total)
