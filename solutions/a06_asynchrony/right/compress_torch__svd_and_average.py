"""The singular vectors of P are the columns, and the all-reduces average."""

import math

import torch
import torch.distributed as dist
from low_rank_torch import start_matrix


def all_reduce(group, gradient, residual, approx_rank, state):
    if approx_rank < 1:
        raise ValueError("approx_rank")
    if residual.shape != gradient.shape or residual.dtype != gradient.dtype:
        raise ValueError("residual")
    whole = gradient + residual
    columns = math.prod(gradient.shape[1:])
    if gradient.ndim < 2 or min(gradient.shape[0], columns) <= approx_rank:
        return averaged(group, whole), torch.zeros_like(residual)
    matrix = whole.flatten(1)
    start = state.get("last")
    if start is None:
        start = start_matrix(columns, approx_rank, state["seed"], gradient.dtype)
    left = torch.linalg.svd(averaged(group, matrix @ start), full_matrices=False).U
    mine = left.T @ matrix  # (r, m)
    both = averaged(group, mine)
    state["last"] = both.T.contiguous()
    sent = left @ mine
    return (left @ both).unflatten(1, gradient.shape[1:]), whole - sent.view(gradient.shape)


def averaged(group, tensor):
    result = tensor.contiguous().clone()
    dist.all_reduce(result, op=dist.ReduceOp.AVG, group=group, async_op=True).wait()
    return result
