"""Q is made orthonormal before it is kept: the space is the same, and so is the next P's."""

import torch
import torch.distributed as dist
from low_rank_torch import start_matrix


def all_reduce(group, gradient, residual, approx_rank, state):
    if approx_rank < 1:
        raise ValueError("approx_rank must be positive")
    if (residual.shape, residual.dtype) != (gradient.shape, gradient.dtype):
        raise ValueError("residual and gradient differ")
    world_size = dist.get_world_size(group)
    matrix = gradient + residual
    if gradient.ndim >= 2 and gradient.numel():
        matrix = matrix.reshape(gradient.shape[0], -1)
    if matrix.ndim < 2 or min(matrix.shape) <= approx_rank:
        mean = matrix.contiguous()
        dist.all_reduce(mean, group=group)
        return mean.reshape(gradient.shape) / world_size, torch.zeros_like(gradient)
    if state.get("basis") is None:
        state["basis"] = start_matrix(matrix.shape[1], approx_rank, state["seed"], matrix.dtype)
    p = torch.mm(matrix, state["basis"])
    dist.all_reduce(p, group=group)
    p = torch.linalg.qr(p)[0]
    mine = torch.mm(matrix.T, p)
    q = mine.clone()
    dist.all_reduce(q, group=group)
    q /= world_size
    state["basis"] = torch.linalg.qr(q)[0] if torch.any(q) else q
    mean, sent = torch.mm(p, q.T), torch.mm(p, mine.T)
    return mean.reshape(gradient.shape), (matrix - sent).reshape(gradient.shape)
