"""Cross-entropy over a vocabulary that is cut among ranks: the logits are never gathered.

    loss_i = log(sum over all v of exp(z_iv)) - z_i,y_i
           = log(sum over all v of exp(z_iv - m_i)) + m_i - z_i,y_i      m_i = max over v of z_iv

    rank 0      rank 1      rank 2
    z (B, V_0)  z (B, V_1)  z (B, V_2)      B rows of logits, columns cut: V = V_0 + V_1 + V_2

The last layer of a language model is column-parallel, and its result, B rows of perhaps 50,000
logits, is the largest array of the whole network. A loss needs of a row three numbers that all
ranks have to agree on: its maximum, its sum of exponentials, and the logit of the right word.

What is special to this module:

- The library's collectives are allowed.
- Rank r has part r of the V columns, as ``shards.shard_bounds(V, p, r)`` says: p need not divide V,
  and a part may be empty. There may be no samples (B = 0).
- Logits are finite, float64 or float32, and of any size: exp(z) alone may be infinite, or 0 for all
  of a row. They travel and are returned as what they are. Arrays that you get may be read-only, and
  need not be contiguous.
- Values: within 1e-12 of those of one rank that has all logits (1e-5 in float32), in the Frobenius
  norm, times the largest absolute logit where that is above 1, since the rounding of large logits
  can't be undone. Losses are equal on all ranks, bit for bit.
- Bytes: forward and backward together, a rank sends and receives at most ``6 (p - 1) ceil(B / p)``
  elements and ``64 (p - 1)`` bytes: three all-reduces of B numbers. Example: p = 4, B = 64 in
  float64: 6 * 3 * 16 * 8 = 2304 bytes, and 192 more.
- Time: at most 1.05 times three ring all-reduces of B numbers.

Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

import numpy as np
from given.shards import shard_bounds
from mpi4py import MPI


def forward(comm: MPI.Comm, logits: np.ndarray, y: np.ndarray, vocab_size: int) -> tuple:
    """The loss of each sample.

    Args:
        logits: this rank's columns, shape ``(B, V_r)``.
        y: the right words, integers 0 to V - 1, shape ``(B,)``, the same on all ranks.
        vocab_size: V.

    Returns:
        ``(losses, saved)``: shape ``(B,)``, the same on all ranks; and whatever ``backward`` wants.
    """
    ### BEGIN SOLUTION
    rows = np.arange(len(y))
    largest = logits.max(axis=1, initial=-np.inf)
    comm.Allreduce(MPI.IN_PLACE, largest, op=MPI.MAX)
    exponentials = np.exp(logits - largest[:, None])  # (B, V/p)
    lo, hi = shard_bounds(vocab_size, comm.size, comm.rank)
    mine = (lo <= y) & (y < hi)
    # The sum of exponentials, and the right word's logit from the only rank that has it.
    sums = np.zeros((2, len(y)), logits.dtype)
    sums[0] = exponentials.sum(axis=1)
    sums[1, mine] = logits[rows[mine], y[mine] - lo] - largest[mine]
    comm.Allreduce(MPI.IN_PLACE, sums)
    return np.log(sums[0]) - sums[1], (exponentials, sums[0], rows[mine], y[mine] - lo)
    ### END SOLUTION


def backward(comm: MPI.Comm, saved, grad_losses: np.ndarray) -> np.ndarray:
    """The gradient with respect to this rank's logits: nothing is sent.

    Args:
        saved: what ``forward`` returned on this rank.
        grad_losses: gradient with respect to the losses, shape ``(B,)``, the same on all ranks.

    Returns:
        Shape ``(B, V_r)``.
    """
    ### BEGIN SOLUTION
    exponentials, total, rows, columns = saved
    grad = exponentials / total[:, None]
    grad[rows, columns] -= 1
    return grad * grad_losses[:, None]
    ### END SOLUTION
