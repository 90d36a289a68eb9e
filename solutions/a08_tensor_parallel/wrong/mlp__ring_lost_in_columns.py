# fails: test_inputs_stay_as_they_were
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

Rules for every function of this module:

- ``comm`` is any mpi4py communicator, of p >= 1 ranks in any order; it need not be
  ``COMM_WORLD``. The library's collectives are allowed.
- "Part r" of h hidden units is what ``shards.shard_bounds(h, p, r)`` says: p need not divide h, and
  a part may be empty. There may be no samples (B = 0).
- Arrays are all float64 or all float32, and travel and are returned as what they are. Those that
  are given are not modified, may be read-only and need not be contiguous; results are new arrays
  that share no memory with them.
- Values: those of the whole layer on one rank, to 1e-12 in float64 (1e-5 in float32) in the
  Frobenius norm: ``|got - right| <= 1e-12 max(1, |right|)``, for each array.
- y, grad_x and the gradients of gamma, beta and b2 are equal on all ranks, bit for bit: these
  parameters are updated on each rank, and must not drift apart.
- Work: matrix products go through ``layers.matmul``, which counts them. On a rank with n hidden
  units ``forward`` takes ``4 B d n`` floating-point operations and ``backward`` ``8 B d n``;
  computing ``n W1_r`` again in ``backward`` is allowed.
- Bytes: in ``forward`` and in ``backward`` each rank sends and receives at most
  ``2 (p - 1) max(ceil(B / p) d, B ceil(d / p))`` elements: one all-reduce of B rows of d elements,
  however it is made. ``8 d`` elements and ``64 (p - 1)`` bytes more are free. Weights and their
  gradients never travel. Collectives count as in ``linear.py``.
- Memory: what ``forward`` has allocated and still keeps when it returns, y included, is at most
  ``4 B ceil(h / p) + 6 B d`` elements and 64 KiB.
- A send may wait until its receive is posted (rendezvous), messages of different ranks may
  arrive in any order, and every request that is started is completed. A call keeps nothing for
  the next one but ``saved``.
- Time of ``forward`` and ``backward`` together, for a GPT's layer on 2 to 64 ranks, inside a node
  and across nodes: at most 1.05 times the products of the largest part (with the first once more
  if it is computed again) and two ring all-reduces; half the points up to 1.5 times.

Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

import numpy as np
from layers import gelu, gelu_backward, layer_norm, layer_norm_backward, matmul
from mpi4py import MPI
from shards import shard_bounds



def _ring(comm, total):
    """Sums total in place."""
    p, r = comm.size, comm.rank
    flat = total.reshape(-1)
    cuts = [shard_bounds(flat.size, p, k) for k in range(p)]
    for step in range(2 * (p - 1)):
        give, take = (r - step) % p, (r - step - 1) % p
        (a, b), (lo, hi) = cuts[give], cuts[take]
        got = np.empty(hi - lo, flat.dtype)
        comm.Sendrecv(flat[a:b].copy(), (r + 1) % p, recvbuf=got, source=(r - 1) % p)
        flat[lo:hi] = flat[lo:hi] + got if step < p - 1 else got


def shard(params, world_size, rank):
    """This rank's part of the parameters.

    Args:
        params: the whole ones, a tuple of six arrays.

    Returns:
        A tuple of six new, contiguous arrays: part r of the hidden units, and what every rank has
        whole.
    """
    gamma, beta, W1, b1, W2, b2 = params
    lo, hi = shard_bounds(W1.shape[1], world_size, rank)
    parts = gamma, beta, W1[:, lo:hi], b1[lo:hi], W2[lo:hi], b2
    return tuple(np.array(part, order="C") for part in parts)


def forward(comm, x, params):
    """The layer's result, whole on all ranks.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(B, d)``, the same on all ranks.
        params: this rank's part, a tuple of six arrays.

    Returns:
        ``(y, saved)``: shape ``(B, d)``; and whatever ``backward`` wants.
    """
    gamma, beta, W1, b1, W2, b2 = params
    n, kept = layer_norm(x, gamma, beta)
    z = matmul(n, W1, "forward 1") + b1  # (B, h/p)
    a = gelu(z)
    y = np.empty_like(x)
    y[...] = matmul(a, W2, "forward 2")
    _ring(comm, y)
    y += b2 + x
    return y, (n, kept, z, a, W1, W2)


def backward(comm, saved, grad_y):
    """All gradients of the layer.

    Args:
        comm: the ranks that take part; p of them.
        saved: what ``forward`` returned on this rank.
        grad_y: gradient with respect to y, shape ``(B, d)``, the same on all ranks.

    Returns:
        ``(grad_x, grads)``: shape ``(B, d)``, whole on all ranks; and a tuple of six arrays, the
        gradients of this rank's ``params``.
    """
    n, kept, z, a, W1, W2 = saved
    grad_W2, grad_b2 = matmul(a.T, grad_y, "backward 2"), grad_y.sum(axis=0)
    grad_z = gelu_backward(z, matmul(grad_y, W2.T, "backward 2"))  # (B, h/p)
    grad_W1, grad_b1 = matmul(n.T, grad_z, "backward 1"), grad_z.sum(axis=0)
    grad_n = np.empty_like(grad_y)
    grad_n[...] = matmul(grad_z, W1.T, "backward 1")
    _ring(comm, grad_n)
    # Layer norm after the sum: its parameters' gradients are then whole, and alike, everywhere.
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    return grad_x + grad_y, (grad_gamma, grad_beta, grad_W1, grad_b1, grad_W2, grad_b2)


def measured_layer(comm, x, params, grad_y):
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
