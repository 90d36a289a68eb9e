"""The messages and the work of decoding on p ranks, without the arithmetic: supplied.

Each rank declares the products of its part, and sends arrays as large as those that travel. So it
says how long a large model takes on a modelled machine, although nobody computes it:

    given = sizes, [1] * 3, [100] * 3, 1, 2
    result = ringside.run("given/token_time.py:steps", 4, given, machine=...)
    result.makespan_s

``decode.py`` is compared with this program.
"""

import numpy as np

import ringside
from given.model import Sizes, shard_bounds


def steps(comm, sizes, new, before, num_steps, unit=8):
    """A number of steps one after another: in each, some new positions of each sequence.

    Args:
        comm: the ranks that take part.
        sizes: of the model, a ``Sizes`` or a tuple of its numbers.
        new: new positions of each sequence in the first step; later steps have one each.
        before: positions of each sequence that the cache has at the beginning.
        num_steps: how many tokens of each sequence are chosen.
        unit: bytes of an element.
    """
    sizes = sizes if isinstance(sizes, Sizes) else Sizes(*sizes)
    before = list(before)
    for _ in range(num_steps):
        _step(comm, sizes, new, before, unit)
        before = [old + more for old, more in zip(before, new, strict=True)]
        new = [1] * len(before)


def _step(comm, sizes, new, before, unit):
    def mine(n):
        lo, hi = shard_bounds(n, comm.Get_size(), comm.Get_rank())
        return hi - lo

    def product(rows, k, n, phase):
        nbytes = unit * (rows * k + k * n + rows * n)
        ringside.compute(num_flops=2 * rows * k * n, nbytes=nbytes, phase=phase)

    def summed():
        comm.Allreduce(np.zeros(rows * d * unit, "uint8"), np.empty(rows * d * unit, "uint8"))

    rows, d, units = sum(new), sizes.d, mine(sizes.hidden)
    kv = mine(sizes.kv_heads) * sizes.head_dim
    q = kv * (sizes.heads // sizes.kv_heads)
    for _ in range(sizes.layers):
        for width in (q, kv, kv):
            product(rows, d, width, "q k v")
        for more, old in zip(new, before, strict=True):
            nbytes = 2 * unit * (more * q + (old + more) * kv)
            flops = 4 * more * (old + more) * q
            ringside.compute(num_flops=flops, nbytes=nbytes, phase="attention")
        product(rows, q, d, "o")
        summed()
        product(rows, d, units, "up")
        product(rows, units, d, "down")
        summed()
    product(len(new), d, mine(sizes.vocabulary), "head")
    best = np.zeros((len(new), 2))
    comm.Allgather(best, np.empty((comm.Get_size(), *best.shape)))
