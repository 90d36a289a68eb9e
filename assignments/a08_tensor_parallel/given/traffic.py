"""The messages of one training step, for real, without the arithmetic: supplied.

Each function sends what its kind of parallelism sends, in arrays of zeros of the right shapes;
``cost.py`` says what moves, and what for. The network counts the bytes:

    result = ringside.run("given/traffic.py:data_parallel", 4, ((6, 8, 5), 12))
    sum(ringside.checking.ring_bytes.sent_as_ring(result))
"""

from itertools import pairwise

import numpy as np
from given.shards import shard_bounds


def data_parallel(comm, widths, batch):
    """Every rank has all weights and some samples."""
    for d_in, d_out in reversed(list(pairwise(widths))):
        _sum(comm, (d_in, d_out))


def model_parallel(comm, widths, batch, backward="reduce_scatter"):
    """Every rank has all samples and some columns of each layer."""
    for d in widths[1:]:
        _gather(comm, batch, d)
    for d in reversed(widths[1:-1]):
        if backward == "all_reduce":
            _sum(comm, (batch, d))
        else:
            _scatter(comm, batch, d)


def paired(comm, widths, batch):
    """By columns, by rows, by columns, by rows."""
    for d in widths[2::2]:
        _sum(comm, (batch, d))
    for d in reversed(widths[2:-1:2]):
        _sum(comm, (batch, d))


def hybrid(comm, widths, batch, model_size, data_size, backward="reduce_scatter"):
    """Groups of ``model_size`` ranks that follow one another, each with a part of the batch."""
    group, place = divmod(comm.rank, model_size)
    model, data = comm.Split(group, comm.rank), comm.Split(place, comm.rank)
    lo, hi = shard_bounds(batch, data_size, group)
    model_parallel(model, widths, hi - lo, backward)
    for d_in, d_out in reversed(list(pairwise(widths))):
        lo, hi = shard_bounds(d_out, model_size, place)
        _sum(data, (d_in, hi - lo))


def _sum(comm, shape):
    comm.Allreduce(np.zeros(shape), np.empty(shape))


def _columns(comm, n, d):
    """Elements of every rank's columns of an array of shape (n, d)."""
    bounds = [shard_bounds(d, comm.size, rank) for rank in range(comm.size)]
    return [n * (hi - lo) for lo, hi in bounds]


def _gather(comm, n, d):
    counts = _columns(comm, n, d)
    comm.Allgatherv(np.zeros(counts[comm.rank]), [np.empty(n * d), counts])


def _scatter(comm, n, d):
    counts = _columns(comm, n, d)
    comm.Reduce_scatter(np.zeros(n * d), np.empty(counts[comm.rank]), counts)
