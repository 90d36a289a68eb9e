"""A transformer's attention on p ranks: whole heads on each, and two all-reduces in all.

    x -- layer norm -- n --[f]-- n W_r + b_r -- heads of rank r -- o_r V_r --[g]-- + c -- + x -- y

    W (d, 3 H k)   [ Q of heads 0 ... H-1 | K of heads 0 ... H-1 | V of heads 0 ... H-1 ]
                     each head k columns wide
    W_r            [ Q of r's heads       | K of r's heads       | V of r's heads       ]
    V_r (n k, d)   the rows of V (H k, d) that belong to r's n heads

A head looks at its own q, k and v only, so heads are what is dealt out, not columns: a contiguous
p-th of W would be all of Q on the first ranks. Where p does not divide H, some ranks have one head
more. ``f`` and ``g`` are those of ``mlp.py``.

    params = (gamma, beta, W, b, V, c)
    shapes   (d,) (d,) (d, 3 H k) (3 H k,) (H k, d) (d,)     whole
                       (d, 3 n k) (3 n k,) (n k, d)          a rank's part: n of H heads

The rules of ``mlp.py`` hold here, without its bound on memory, and with these changes:

- "Part r" of H heads is what ``shards.shard_bounds(H, p, r)`` says; it may be empty.
- x has shape ``(B, T, d)``: B sequences of T positions, B >= 0, T >= 1. Attention is causal;
  ``layers.attention`` and ``layers.attention_backward`` do what a head does.
- Work: matrix products go through ``layers.matmul``; those in ``layers.attention`` do. A rank's
  products are those of its own heads, ``n / H`` of the whole layer's. You may compute up to a third
  of them again in ``backward``.
- Bytes: ``forward`` and ``backward`` need one all-reduce of B T rows of d elements each. A rank
  sends and receives in each at most ``2 (p - 1) max(ceil(B T / p) d, B T ceil(d / p))`` elements.
  Another ``8 d`` elements and ``64 (p - 1)`` bytes are free. Example: p = 4, B = 8, T = 4, d = 8 in
  float64: 2 * 3 * 64 * 8 = 3072 bytes, and 512 + 192 that are free.
- Time of both passes together, in a node and across nodes: at most 1.05 times the time of the
  matrix products of the rank with the largest part (what is computed again included), plus that of
  two ring all-reduces.

Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

import numpy as np
from given.layers import attention, attention_backward, layer_norm, layer_norm_backward, matmul
from given.shards import shard_bounds
from mpi4py import MPI


def shard(
    params: tuple[np.ndarray, ...], head_dim: int, world_size: int, rank: int
) -> tuple[np.ndarray, ...]:
    """This rank's part of the six whole parameters: a tuple of six new, contiguous arrays."""
    ### BEGIN SOLUTION
    gamma, beta, W, b, V, c = params
    num_heads = len(V) // head_dim
    lo, hi = shard_bounds(num_heads, world_size, rank)
    W = W.reshape(-1, 3, num_heads, head_dim)[:, :, lo:hi].reshape(len(W), -1)
    b = b.reshape(3, num_heads, head_dim)[:, lo:hi].reshape(-1)
    V = V[head_dim * lo : head_dim * hi]
    return tuple(np.array(part, order="C") for part in (gamma, beta, W, b, V, c))
    ### END SOLUTION


def forward(comm: MPI.Comm, x: np.ndarray, params: tuple[np.ndarray, ...], head_dim: int) -> tuple:
    """``(y, saved)``: the whole result, shape ``(B, T, d)``, on all ranks; what ``backward`` needs.

    Args:
        x: shape ``(B, T, d)``, the same on all ranks.
        params: this rank's part, a tuple of six arrays.
        head_dim: k columns a head.
    """
    ### BEGIN SOLUTION
    gamma, beta, W, b, V, c = params
    n, kept = layer_norm(x, gamma, beta)
    qkv = matmul(n, W, "forward qkv") + b  # (B, T, 3 n k)
    q, k, v = (_heads(each, head_dim) for each in np.split(qkv, 3, axis=-1))
    o, kept_heads = attention(q, k, v)
    o = _columns(o)
    y = matmul(o, V, "forward out")  # (B, T, d), one summand
    comm.Allreduce(MPI.IN_PLACE, y)
    return y + c + x, (n, kept, kept_heads, o, W, V, head_dim)


def _heads(columns, head_dim):
    """(B, T, n k) to (B, n, T, k)."""
    B, T, width = columns.shape
    return columns.reshape(B, T, width // head_dim, head_dim).swapaxes(1, 2)


def _columns(heads):
    """(B, n, T, k) to (B, T, n k)."""
    B, n, T, head_dim = heads.shape
    return heads.swapaxes(1, 2).reshape(B, T, n * head_dim)


def _rows(x):
    """(B, T, d) to (B T, d)."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])

    ### END SOLUTION


def backward(
    comm: MPI.Comm, saved, grad_y: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """``(grad_x, grads)``: the whole gradient of x, and those of this rank's six ``params``.

    Args:
        saved: what ``forward`` returned on this rank.
        grad_y: gradient with respect to y, shape ``(B, T, d)``, the same on all ranks.
    """
    ### BEGIN SOLUTION
    n, kept, kept_heads, o, W, V, head_dim = saved
    grad_V = matmul(_rows(o).T, _rows(grad_y), "backward out")
    grad_o = matmul(grad_y, V.T, "backward out")  # (B, T, n k)
    grads = attention_backward(kept_heads, _heads(grad_o, head_dim))
    grad_qkv = np.concatenate([_columns(each) for each in grads], axis=-1)
    grad_W = matmul(_rows(n).T, _rows(grad_qkv), "backward qkv")
    grad_n = matmul(grad_qkv, W.T, "backward qkv")  # (B, T, d), one summand
    comm.Allreduce(MPI.IN_PLACE, grad_n)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    grad_b, grad_c = grad_qkv.sum(axis=(0, 1)), grad_y.sum(axis=(0, 1))
    return grad_x + grad_y, (grad_gamma, grad_beta, grad_W, grad_b, grad_V, grad_c)
    ### END SOLUTION
