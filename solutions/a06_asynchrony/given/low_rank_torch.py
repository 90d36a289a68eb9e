"""Where a low-rank approximation begins: nothing to write."""

import numpy as np
import torch


def start_matrix(num_columns, approx_rank, seed, dtype):
    """A random matrix of shape ``(num_columns, approx_rank)``, the same wherever the seed is."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((num_columns, approx_rank))).to(dtype)
