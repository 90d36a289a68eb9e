"""Which samples each rank takes: one shuffled order an epoch, dealt out like cards.

    the order of an epoch, n = 10:   7 3 9 0 5 1 8 2 6 4        the same on every rank

    p = 1   rank 0   7 3 9 0 5 1 8 2 6 4
    p = 4   rank 0   7       5       6
            rank 1     3       1       4
            rank 2       9       8
            rank 3         0       2
                     step 0  step 1  step 2                     one sample a rank and step

Cut like this, four ranks take together in each step what one rank alone would take in a step
of four samples. So the number of ranks does not change what is learned.

A rank knows the arguments and nothing else: it sends and receives nothing. The result is the same
in any process (Python's ``hash`` of a string is not), whatever was called before. NumPy's and
Python's global random generators stay as they are.
"""

import numpy as np


def shard(n: int, world_size: int, rank: int, epoch: int, seed: int) -> np.ndarray:
    """Indices of the samples that a rank takes in an epoch.

    Args:
        n: number of samples, at least 0; may be less than ``world_size``.
        world_size: number of ranks p, at least 1.
        rank: this rank, 0 to p - 1.
        epoch: 0, 1, 2, ...
        seed: the training run's, at least 0.

    Returns:
        A new array of dtype int64, shape ``(n // p,)`` or ``(n // p + 1,)``, that the caller
        may write to.

    - Coverage: over all ranks, each of 0, ..., n - 1 stands in exactly one shard: none twice,
      none left out, none added to fill up. ``n % p`` shards are one longer than the others.
    - Order: with one rank it is a random permutation. Each pair of epoch and seed has an order of
      its own, which resembles no other. So ``seed + epoch`` as the only seed is wrong: epoch 1 of
      seed 2 would be epoch 2 of seed 1.
    - Steps: for every k, the first k indices of all ranks together are the first
      ``min(k p, n)`` of the order on one rank.
    """
    ### BEGIN SOLUTION
    order = np.random.default_rng([seed, epoch]).permutation(n)
    return order[rank::world_size].astype(np.int64)
    ### END SOLUTION
