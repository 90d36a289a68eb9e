"""Two linear layers cut among ranks: by columns, or by rows.

    column-parallel  Y = X W + b                    row-parallel  Z = Y V + c

        d_in [ W_0 | W_1 | W_2 ]                        [ V_0 ]
                                                   d_in [ V_1 ]
    rank r  Y_r = X W_r + b_r                           [ V_2 ]
                                                    rank r  a summand  Y_r V_r
    every rank has X, and gets its own              Z = the sum of all + c,
    columns of Y: nothing is sent                   on every rank: one all-reduce

    backward                                        backward
    dX = the sum of all dY_r W_r^T,                 dY_r = dZ V_r^T
    on every rank: one all-reduce                   nothing is sent

What is special to this module:

- The library's collectives are allowed.
- "Part r" of n columns or rows is what ``shards.shard_bounds(n, p, r)`` says: p need not divide n,
  and a part may be empty. There may be no samples (B = 0).
- All arrays are float64, or all are float32; so is what you send and what you return. Arrays that
  you get may be read-only, and need not be contiguous.
- Values: within 1e-12 of the whole layer's on one rank (1e-5 in float32), in the Frobenius norm.
  Z, dX and the gradient of c are equal on all ranks, bit for bit.
- Work: matrix products go through ``layers.matmul``, which counts them. A rank multiplies only with
  its own part: ``2 B d_in d_out`` operations forward, d_in and d_out of that part, and twice as
  many backward.
- Bytes: forward and backward need one all-reduce of B rows of d elements (d of X, or of Z). A rank
  sends and receives at most ``2 (p - 1) max(ceil(B / p) d, B ceil(d / p))`` elements, and
  ``64 (p - 1)`` bytes more. Example: p = 4, B = 24, d = 16 in float64: 2 * 3 * 96 * 8 = 4608
  bytes, and 192 more. Weights and their gradients never travel. ``comm.allreduce`` (lower case)
  hands every rank's part to every rank, which is above the bound from 3 ranks on.
- Time of both passes together, on a cluster whose ranks are in nodes: at most 1.05 times the time
  of the matrix products of the rank with the largest part, plus that of one ring all-reduce.

Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

import numpy as np
from given.layers import matmul
from given.shards import shard_bounds
from mpi4py import MPI


def column_shard(
    W: np.ndarray, b: np.ndarray, world_size: int, rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """``(W_r, b_r)``: part r of the columns of W and of b, in new, contiguous arrays.

    Args:
        W, b: the whole layer, shapes ``(d_in, d_out)`` and ``(d_out,)``.
    """
    ### BEGIN SOLUTION
    lo, hi = shard_bounds(W.shape[1], world_size, rank)
    return W[:, lo:hi].copy(), b[lo:hi].copy()
    ### END SOLUTION


def row_shard(
    W: np.ndarray, b: np.ndarray, world_size: int, rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """``(W_r, b)``: part r of the rows of W and all of b, in new, contiguous arrays."""
    ### BEGIN SOLUTION
    lo, hi = shard_bounds(W.shape[0], world_size, rank)
    return W[lo:hi].copy(), b.copy()
    ### END SOLUTION


def column_forward(comm: MPI.Comm, x: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Y_r, shape ``(B, n)``: this rank's columns of ``x @ W + b``.

    Args:
        x: shape ``(B, d_in)``, the same on all ranks.
        W, b: this rank's part, shapes ``(d_in, n)`` and ``(n,)``; n may differ from rank to rank.
    """
    ### BEGIN SOLUTION
    return matmul(x, W, "column forward") + b  # (B, n)
    ### END SOLUTION


def column_backward(
    comm: MPI.Comm, x: np.ndarray, W: np.ndarray, grad_y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(grad_x, grad_W, grad_b)``: the whole gradient of x, and those of this rank's part.

    Args:
        x, W: as in the forward pass.
        grad_y: gradient with respect to this rank's columns, shape ``(B, n)``.
    """
    ### BEGIN SOLUTION
    grad_x = matmul(grad_y, W.T, "column backward")  # (B, d_in), one summand
    comm.Allreduce(MPI.IN_PLACE, grad_x)
    return grad_x, matmul(x.T, grad_y, "column backward"), grad_y.sum(axis=0)
    ### END SOLUTION


def row_forward(comm: MPI.Comm, x: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Z, shape ``(B, d_out)``: the whole result, on all ranks.

    Args:
        x: this rank's columns of the input, shape ``(B, n)``; n may differ from rank to rank.
        W, b: this rank's rows, shape ``(n, d_out)``, and the whole b.
    """
    ### BEGIN SOLUTION
    y = matmul(x, W, "row forward")  # (B, d_out), one summand
    comm.Allreduce(MPI.IN_PLACE, y)
    return y + b  # once, not once a rank
    ### END SOLUTION


def row_backward(
    comm: MPI.Comm, x: np.ndarray, W: np.ndarray, grad_y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(grad_x, grad_W, grad_b)``, with respect to this rank's x and W, and to the whole b.

    Args:
        x, W: as in the forward pass.
        grad_y: gradient with respect to Z, shape ``(B, d_out)``, the same on all ranks.
    """
    ### BEGIN SOLUTION
    grad_x = matmul(grad_y, W.T, "row backward")  # (B, n)
    return grad_x, matmul(x.T, grad_y, "row backward"), grad_y.sum(axis=0)
    ### END SOLUTION
