"""ZeRO stage 1: every rank has all parameters, and the optimizer's state of its shard alone.

    gradients           the mean             Adam on one's own        parameters
    rank 0  g0 g1 g2    rank 0  g0 . .       rank 0  w0  m0 v0        rank 0  w0 w1 w2
    rank 1  g0 g1 g2    rank 1  . g1 .       rank 1  w1  m1 v1        rank 1  w0 w1 w2
    rank 2  g0 g1 g2    rank 2  . . g2       rank 2  w2  m2 v2        rank 2  w0 w1 w2

              reduce-scatter       norm: one number        all-gather

Adam keeps two numbers for each parameter, m and v. In plain data parallelism every rank keeps all
of them and computes the whole update. Here each rank keeps those of its shard, and updates its
shard. The bytes stay the same, since an all-reduce is a reduce-scatter and an all-gather: the
update has moved in between.

Parameters and gradients are flat vectors of Psi elements, float64 or float32. N ranks take shards
of ``ceil(Psi / N)`` elements. The last shards may be shorter, or empty if there are more ranks than
elements: pad, or cut unevenly, as you like. Library collectives are allowed. A lower-case
``allreduce`` hands each rank's object to every rank, and counts as 8 (N - 1) bytes for one float:
use it for numbers only.
"""

import numpy as np
from given.adam import adam
from mpi4py import MPI


def init_state(comm: MPI.Comm, params: np.ndarray):
    """The optimizer's state before the first step: m = v = 0 and no updates yet.

    Args:
        comm: any communicator; N ranks.
        params: shape ``(Psi,)``, the same on all ranks.

    Returns:
        This rank's state, whatever you need: dicts, lists and tuples of arrays, numbers, strings.
    """
    ### BEGIN SOLUTION
    shard_size = -(-len(params) // comm.Get_size())
    m, v = np.zeros((2, shard_size), params.dtype)
    return {"m": m, "v": v, "t": 0}
    ### END SOLUTION


def step(
    comm: MPI.Comm,
    params: np.ndarray,
    gradient: np.ndarray,
    state,
    lr: float,
    decay: float = 0.0,
    clip: float | None = None,
) -> tuple:
    """One step of Adam with the mean of all ranks' gradients.

    Args:
        comm: any communicator; N ranks.
        params: shape ``(Psi,)``, the same on all ranks.
        gradient: shape ``(Psi,)``, of ``params``' dtype: that of this rank's samples.
        state: what ``init_state`` or the step before returned on this rank. It is all that a rank
            remembers: the tests save it and load it in another process, as a checkpoint.
        lr, decay: as ``given.adam.adam`` takes them.
        clip: None, or the greatest norm: where the norm is greater, the mean gradient is multiplied
            by ``clip / norm``.

    Returns:
        ``(params, state, norm)``: a new array of the same dtype, the state after the step, and a
        float, the Euclidean norm of the whole mean gradient (all shards together) before it was
        clipped. Parameters and norm are equal on all ranks, bit for bit.

    - Values: those of ``given.adam.adam`` on one rank that has the mean gradient, to 1e-12 in
      float64 (1e-5 in float32).
    - State: at most ``2 ceil(Psi / N)`` elements of ``params``' dtype, and 64 bytes for numbers. An
      ``int`` or a ``float`` counts as 8 bytes. Psi = 11 on 4 ranks: 6 elements.
    - Bytes: each rank sends and receives at most ``2 (N - 1) ceil(Psi / N)`` elements, and
      ``16 (N - 1)`` bytes for the norm. Psi = 11 on 4 ranks in float64: 18 elements, and
      144 + 48 bytes.
    - Time: at most 1.05 times that of a reduce-scatter, an all-reduce of one number, the update of
      ``ceil(Psi / N)`` elements and an all-gather, each by a ring.
    """
    ### BEGIN SOLUTION
    world_size, shard_size = comm.Get_size(), len(state["m"])
    padded = np.zeros(world_size * shard_size, params.dtype)
    padded[: len(params)] = gradient
    g = np.empty(shard_size, params.dtype)
    comm.Reduce_scatter_block(padded, g)
    g /= world_size
    square = np.array([g @ g], "float64")
    total = np.empty_like(square)
    comm.Allreduce(square, total)  # over all shards: a shard's own norm would be too small
    norm = float(np.sqrt(total[0]))
    if clip is not None and norm > clip:
        g *= clip / norm
    padded[: len(params)] = params
    rank, t = comm.Get_rank(), state["t"] + 1
    own = padded[rank * shard_size : (rank + 1) * shard_size]
    w, m, v = adam(own, g, state["m"], state["v"], t, lr, decay)
    gathered = np.empty_like(padded)
    comm.Allgather(w, gathered)
    return gathered[: len(params)].copy(), {"m": m, "v": v, "t": t}, norm
    ### END SOLUTION


def measured_step(comm: MPI.Comm, params: np.ndarray, gradient: np.ndarray):
    """One step as the run on a cluster measures it: supplied, nothing to write.

    Args:
        params: shape ``(Psi,)``, the same on all ranks.
        gradient: of this rank.

    Returns:
        The parameters after the first step, and the norm.
    """
    params, _, norm = step(comm, params, gradient, init_state(comm, params), 0.01, 0.1, 1.0)
    return params, norm
