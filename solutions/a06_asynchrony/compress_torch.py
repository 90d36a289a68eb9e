"""PowerSGD: an all-reduce of a gradient in low rank, which keeps what it left out for later.

A matrix M of n x m numbers is replaced by a product of two thin ones, P of n x r and Q of m x r:

        m                  r
      +-------+          +--+       m
      |       |          |  |    +-------+
    n |   M   |   ~    n | P|    |  Q^T  | r         n m numbers against r (n + m)
      |       |          |  |    +-------+
      +-------+          +--+

Rank i has the gradient G_i, and the residual E_i: all that earlier calls left out on this rank.

    M_i  = G_i + E_i
    P    = mean over ranks of (M_i Q)             an all-reduce of n r numbers
    P    = P with its columns made orthonormal    after the all-reduce: the same on all ranks
    Q_i  = M_i^T P                                this rank's part, m x r
    Q    = mean over ranks of Q_i                 an all-reduce of m r numbers
    mean = P Q^T                                  the same on all ranks
    E_i  = M_i - P Q_i^T                          what was not sent of M_i stays here

P Q_i^T is what this rank sent. Nothing is lost: what stays in the residual is sent later. Q is kept
for the next call: gradients change slowly, so it is a good start for the next one.
"""

import torch
import torch.distributed as dist
from given.low_rank_torch import start_matrix


def all_reduce(
    group: dist.ProcessGroup,
    gradient: torch.Tensor,
    residual: torch.Tensor,
    approx_rank: int,
    state: dict,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Average a gradient over the ranks, approximated in rank ``approx_rank``.

    Args:
        group: a process group of p >= 1 ranks. Only all-reduces on it may be called.
        gradient: this rank's gradient, a tensor of float64 or float32 with any number of
            dimensions, also none, and any number of elements, also none. Gradients are finite.
        residual: the residual that this rank's last call returned, zeros in the first one; of the
            gradient's shape and dtype.
        approx_rank: r, 1 or more; the same on all ranks.
        state: a dict that belongs to this gradient and that the caller hands to each of its calls.
            Before the first call it holds ``"seed"`` only, a whole number that is the same on all
            ranks. Put what the next call needs there, under names of your own, and leave the seed.
            Nothing may be kept elsewhere.

    Returns:
        ``(mean, residual)``: two tensors of the gradient's shape and dtype.

    Raises:
        ValueError: ``approx_rank`` is below 1, or the residual's shape or dtype is not the
            gradient's; on all ranks, before any message.

    - The matrix: with more than two dimensions, the first one against all others. Example: a
      gradient of shape (8, 4, 3, 3) is a matrix with n = 8 and m = 36.
    - Uncompressed are gradients of fewer than two dimensions, and matrices with
      min(n, m) <= r: ``mean`` is then the mean of G_i + E_i, and the new residual is zeros.
    - Q in the first call is ``start_matrix(m, r, seed, dtype)`` of ``given/low_rank_torch.py``,
      moved to the gradient's device. Afterwards it is the Q of the call before.
    - Orthonormal columns: P's columns span the same space as before. If they depend on each other,
      as those of zeros do, P still has r orthonormal columns; any will do to complete it.
      ``torch.linalg.qr`` does all that.
    - The residual is M_i minus this rank's own part P Q_i^T, and not minus the mean.
    - Values: those of the formulas, to 1e-10 in float64 and 1e-3 in float32. ``mean`` is equal on
      all ranks bit for bit.
    - Bytes: all-reduces of at most r (n + m) elements in the gradient's dtype where it is
      compressed, and of n m elements where it is not. Example: a float32 gradient of 1024 x 4096
      in rank 4 is all-reduced in 4 * 5120 * 4 = 81,920 bytes, not in 16.8 MB.
    - Time: at most 1.05 times two all-reduces, of n r and of m r elements, each
      ``2 (p - 1) (alpha + ceil(elements / p) * itemsize * beta)``.

    Source: Vogels, Karimireddy, Jaggi, PowerSGD, NeurIPS 2019, algorithms 1 and 2.
    """
    ### BEGIN SOLUTION
    if approx_rank < 1:
        raise ValueError(f"approx_rank ({approx_rank}) is below 1")
    if residual.shape != gradient.shape or residual.dtype != gradient.dtype:
        raise ValueError(
            f"the residual is {tuple(residual.shape)}, {residual.dtype}; it must be as the "
            f"gradient: {tuple(gradient.shape)}, {gradient.dtype}"
        )
    corrected = gradient + residual
    if gradient.ndim < 2 or not gradient.numel():
        return _mean(group, corrected), torch.zeros_like(gradient)
    matrix = corrected.reshape(len(corrected), -1)  # (n, m)
    num_columns = matrix.shape[1]
    if min(matrix.shape) <= approx_rank:
        return _mean(group, corrected), torch.zeros_like(gradient)
    q = state.get("q")
    if q is None:
        q = start_matrix(num_columns, approx_rank, state["seed"], gradient.dtype)
        q = q.to(gradient.device)
    p = torch.linalg.qr(_mean(group, matrix @ q)).Q  # (n, r)
    own_q = matrix.T @ p  # (m, r)
    state["q"] = _mean(group, own_q)
    mean = p @ state["q"].T
    left_out = matrix - p @ own_q.T
    return mean.reshape(gradient.shape), left_out.reshape(gradient.shape)


def _mean(group, tensor):
    """The mean over all ranks, in a new tensor."""
    summed = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(summed, group=group)
    return summed / group.size()
    ### END SOLUTION
