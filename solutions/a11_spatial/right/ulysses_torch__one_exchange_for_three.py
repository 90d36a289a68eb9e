"""Queries, keys and values travel together, head by head in turn: rank r has heads r, r + p, ..."""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_to_all_single


def exchange(group, x):
    """x (p, ...): part r goes to place r; the library's exchange knows its gradient."""
    x = x.contiguous()
    return all_to_all_single(torch.empty_like(x), x, group=group)


def attention(group, q, k, v, attend):
    p, (b, heads, n, d) = dist.get_world_size(group), q.shape
    kv = k.shape[1]
    if heads % p or kv % p:
        raise ValueError(f"heads {heads} and kv_heads {kv} must be divisible by p = {p}")
    g = heads // kv
    # A key head and its g query heads stay together.
    bundle = torch.cat([q.reshape(b, kv, g * n, d), k, v], dim=2)  # (b, kv, (g + 2) n, d)
    bundle = bundle.reshape(b, kv // p, p, (g + 2) * n, d).permute(2, 0, 1, 3, 4)
    came = exchange(group, bundle).reshape(p, b, kv // p, g + 2, n, d)
    whole = came.permute(1, 2, 3, 0, 4, 5).reshape(b, kv // p, g + 2, p * n, d)
    queries = whole[:, :, :g].reshape(b, heads // p, p * n, d)
    y = attend(queries, whole[:, :, g], whole[:, :, g + 1])
    y = y.reshape(b, kv // p, g, p, n, d).permute(3, 0, 1, 2, 4, 5)
    back = exchange(group, y)  # (p, b, kv / p, g, n, d)
    return back.permute(1, 2, 0, 3, 4, 5).reshape(b, heads, n, d)
