"""The residual is a projection; Q is kept transposed and in pieces of columns."""

import torch
import torch.distributed as dist
from low_rank_torch import start_matrix


def all_reduce(group, gradient, residual, approx_rank, state):
    if approx_rank < 1 or gradient.shape != residual.shape or gradient.dtype != residual.dtype:
        raise ValueError("arguments")
    share = (gradient + residual) / group.size()
    shape = gradient.shape
    small = gradient.ndim < 2 or gradient.numel() == 0
    if small or min(shape[0], gradient.numel() // shape[0]) <= approx_rank:
        share = share.contiguous()
        dist.all_reduce(share, group=group)
        return share, gradient.new_zeros(shape)
    share = share.reshape(shape[0], -1)
    if "columns" not in state:
        first = start_matrix(share.shape[1], approx_rank, state["seed"], gradient.dtype)
        state["columns"] = list(first.unbind(1))
    p = share @ torch.stack(state["columns"], dim=1)
    dist.all_reduce(p, group=group)
    p, _ = torch.linalg.qr(p, mode="reduced")
    q = torch.einsum("nm,nr->mr", share, p)
    rest = group.size() * (share - p @ q.T)
    q = q.contiguous()
    dist.all_reduce(q, group=group)
    state["columns"] = [column.clone() for column in q.unbind(1)]
    return torch.einsum("nr,mr->nm", p, q).reshape(shape), rest.reshape(shape)
