"""A transformer's MLP on p ranks: columns first, then rows, and two all-reduces in all.

    x ----- layer norm -- n --[f]-- n W1_r + b1_r -- gelu -- a_r W2_r --[g]-- + b2 -- + x -- y
      all ranks alike          |        each rank its own part          |      all ranks alike
                               |                                        |
                 forward       copy                                     all-reduce
                 backward      all-reduce                               copy

W1 (d, h) is cut by columns and W2 (h, d) by rows, at the same places. So the hidden units that a
rank computes are those that it needs next: GELU is applied to whole numbers, not to summands, and
the h columns between the two products are never sent. ``f`` and ``g`` are each other's backward
passes. Layer norm, ``b2`` and the residual are computed on all ranks alike.

    params = (gamma, beta, W1, b1, W2, b2)
    shapes   (d,)   (d,)  (d, h) (h,) (h, d) (d,)     whole
                          (d, n) (n,) (n, d)          a rank's part: n of h hidden units

What is special to this module:

- The library's collectives are allowed.
- "Part r" of h hidden units is what ``shards.shard_bounds(h, p, r)`` says: p need not divide h, and
  a part may be empty. There may be no samples (B = 0).
- All arrays are float64, or all are float32; so is what you send and what you return. Arrays that
  you get may be read-only, and need not be contiguous.
- Values: within 1e-12 of the whole layer's on one rank (1e-5 in float32), in the Frobenius norm.
  y, grad_x and the gradients of gamma, beta and b2 are equal on all ranks, bit for bit: each rank
  updates its copies of these parameters, and they must not drift apart.
- Work: matrix products go through ``layers.matmul``, which counts them. On a rank with n hidden
  units ``forward`` takes ``4 B d n`` floating-point operations and ``backward`` ``8 B d n``. You
  may compute the product with W1_r again in ``backward``.
- Bytes: ``forward`` and ``backward`` need one all-reduce of B rows of d elements each. A rank sends
  and receives in each at most ``2 (p - 1) max(ceil(B / p) d, B ceil(d / p))`` elements. Another
  ``8 d`` elements and ``64 (p - 1)`` bytes are free, for small sums of your own. Example: p = 4,
  B = 32, d = 16 in float64: 2 * 3 * 128 * 8 = 6144 bytes, and 1024 + 192 that are free. Weights and
  their gradients never travel.
- Memory: when ``forward`` returns, it keeps at most ``4 B ceil(h / p) + 6 B d`` elements and 64 KiB
  that it has allocated, y included. Example: p = 8, B = 64, d = 8, h = 1024 in float64: 344 KiB.
- Time of both passes together, for a GPT's layer on 2 to 64 ranks, in a node and across nodes: at
  most 1.05 times the time of the matrix products of the rank with the largest part (the first one
  twice if you compute it again), plus that of two ring all-reduces.

Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

import numpy as np
from given.layers import gelu, gelu_backward, layer_norm, layer_norm_backward, matmul
from given.shards import shard_bounds
from mpi4py import MPI


def shard(params: tuple[np.ndarray, ...], world_size: int, rank: int) -> tuple[np.ndarray, ...]:
    """This rank's part of the six whole parameters: a tuple of six new, contiguous arrays."""
    ### BEGIN SOLUTION
    gamma, beta, W1, b1, W2, b2 = params
    lo, hi = shard_bounds(W1.shape[1], world_size, rank)
    parts = gamma, beta, W1[:, lo:hi], b1[lo:hi], W2[lo:hi], b2
    return tuple(np.array(part, order="C") for part in parts)
    ### END SOLUTION


def forward(comm: MPI.Comm, x: np.ndarray, params: tuple[np.ndarray, ...]) -> tuple:
    """``(y, saved)``: the whole result, shape ``(B, d)``, on all ranks; what ``backward`` needs.

    ``saved`` may refer to ``x`` and ``params``: they don't change before ``backward``.

    Args:
        x: shape ``(B, d)``, the same on all ranks.
        params: this rank's part, a tuple of six arrays.
    """
    ### BEGIN SOLUTION
    gamma, beta, W1, b1, W2, b2 = params
    n, kept = layer_norm(x, gamma, beta)
    z = matmul(n, W1, "forward 1") + b1  # (B, h/p)
    a = gelu(z)
    y = matmul(a, W2, "forward 2")  # (B, d), one summand
    comm.Allreduce(MPI.IN_PLACE, y)
    y += b2 + x
    return y, (n, kept, z, a, W1, W2)
    ### END SOLUTION


def backward(
    comm: MPI.Comm, saved, grad_y: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """``(grad_x, grads)``: the whole gradient of x, and those of this rank's six ``params``.

    Args:
        saved: what ``forward`` returned on this rank.
        grad_y: gradient with respect to y, shape ``(B, d)``, the same on all ranks.
    """
    ### BEGIN SOLUTION
    n, kept, z, a, W1, W2 = saved
    grad_W2, grad_b2 = matmul(a.T, grad_y, "backward 2"), grad_y.sum(axis=0)
    grad_z = gelu_backward(z, matmul(grad_y, W2.T, "backward 2"))  # (B, h/p)
    grad_W1, grad_b1 = matmul(n.T, grad_z, "backward 1"), grad_z.sum(axis=0)
    grad_n = matmul(grad_z, W1.T, "backward 1")  # (B, d), one summand
    comm.Allreduce(MPI.IN_PLACE, grad_n)
    # Layer norm after the sum: its parameters' gradients are then whole, and alike, everywhere.
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    return grad_x + grad_y, (grad_gamma, grad_beta, grad_W1, grad_b1, grad_W2, grad_b2)
    ### END SOLUTION


def measured_layer(
    comm: MPI.Comm, x: np.ndarray, params: tuple[np.ndarray, ...], grad_y: np.ndarray
):
    """Forward and backward as the run on a cluster measures it: supplied, nothing to write.

    Args:
        x, grad_y: shape ``(B, d)``, the same on all ranks.
        params: this rank's part.

    Returns:
        ``(y, grad_x)``.
    """
    y, saved = forward(comm, x, params)
    grad_x, _ = backward(comm, saved, grad_y)
    return y, grad_x
