"""Columns are made orthonormal one by one, and unit vectors replace those that vanish."""

import torch
import torch.distributed as dist
from low_rank_torch import start_matrix


def all_reduce(group, gradient, residual, approx_rank, state):
    if approx_rank < 1 or residual.shape != gradient.shape or residual.dtype != gradient.dtype:
        raise ValueError("approx_rank or residual")
    total = gradient + residual
    n = total.shape[0] if total.ndim > 1 else 1
    m = total[0].numel() if n and total.ndim > 1 else 0
    if min(n, m) <= approx_rank or total.ndim < 2:
        mean = total.contiguous().clone()
        dist.all_reduce(mean, group=group)
        return mean / group.size(), torch.zeros_like(total)
    matrix = total.reshape(n, m)
    if "Q" not in state:
        state["Q"] = start_matrix(m, approx_rank, state["seed"], total.dtype)
    p = matrix @ state["Q"]
    dist.all_reduce(p, group=group)
    p = orthonormal(p / group.size())
    own = matrix.t() @ p
    q = own.clone()
    dist.all_reduce(q, group=group)
    state["Q"] = q / group.size()
    return (p @ state["Q"].t()).view_as(total), (matrix - p @ own.t()).view_as(total)


def orthonormal(p):
    p = p.clone()
    for k in range(p.shape[1]):
        for candidate in (p[:, k].clone(), *torch.eye(p.shape[0], dtype=p.dtype)):
            rest = candidate.clone()
            for _ in range(2):
                for j in range(k):
                    rest = rest - (p[:, j] @ rest) * p[:, j]
            if rest.norm() > 1e-5 * candidate.norm():
                p[:, k] = rest / rest.norm()
                break
    return p
