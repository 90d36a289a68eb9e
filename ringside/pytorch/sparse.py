"""all_reduce of sparse tensors: every member gets all entries and adds them up itself.

A sparse gradient (of ``nn.Embedding(sparse=True)``) has other rows on every rank. Gloo gathers
sizes, indices and values one after another; here they travel in one collective.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ringside.arrays import Array
from ringside.pytorch import tensors


def packed(tensor: torch.Tensor) -> Array:
    """Indices and values, one after the other, as bytes."""
    whole = tensor.detach().coalesce()
    indices, values = whole.indices().contiguous(), whole.values().contiguous()
    return np.concatenate([tensors.memory(indices), tensors.memory(values)])


def unpacked(data: Array, like: torch.Tensor) -> torch.Tensor:
    """The sparse tensor that ``packed`` made ``data`` of; shape and dtype are those of ``like``."""
    dims, inner = like.sparse_dim(), tuple(like.shape[like.sparse_dim() :])
    nbytes_of_entry = 8 * dims + like.element_size() * int(np.prod(inner, dtype=np.int64))
    count = len(data) // nbytes_of_entry
    indices = torch.empty(dims, count, dtype=torch.int64)
    values = torch.empty(count, *inner, dtype=like.dtype)
    cut = 8 * dims * count
    tensors.memory(indices)[:] = data[:cut]
    tensors.memory(values)[:] = data[cut:]
    return torch.sparse_coo_tensor(indices, values, tuple(like.shape))


def add_up(tensor: torch.Tensor, gathered: list[Any]) -> None:
    """Put the sum of all members' tensors in the place of ``tensor``."""
    with torch.no_grad():
        # All members add in the order of ranks, so that their sums are equal to the last bit.
        total = unpacked(gathered[0], tensor)
        for data in gathered[1:]:
            total = total + unpacked(data, tensor)
        tensor.copy_(total.coalesce())
