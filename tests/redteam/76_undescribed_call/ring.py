"""A ring whose first messages have a tag of the library's own, and the number of no call."""

import numpy as np
from given.shards import shard_bounds

from ringside.network import link
from ringside.network.wire import FIRST_INTERNAL_TAG as TAG

NOWHERE = 60_000


def hello(comm):
    network, rank, size = link.current(), comm.Get_rank(), comm.Get_size()
    sent = network.isend(comm._id, (rank + 1) % size, TAG, b"", call=NOWHERE)
    got = network.irecv(comm._id, (rank - 1) % size, TAG, 0, call=NOWHERE)
    network.wait([sent, got], call=NOWHERE)


def reduce_scatter(comm, x):
    rank, size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)

    def shard(owner):
        lo, hi = shard_bounds(len(total), size, owner % size)
        return total[lo:hi]

    for step in range(size - 1):
        outgoing, mine = shard(rank - step - 1), shard(rank - step - 2)
        incoming = np.empty_like(mine)
        comm.Sendrecv(outgoing, (rank + 1) % size, recvbuf=incoming, source=(rank - 1) % size)
        mine += incoming
    return shard(rank).copy()


def all_gather(comm, shard, n):
    rank, size = comm.Get_rank(), comm.Get_size()
    whole = np.empty(n, shard.dtype)

    def part(owner):
        lo, hi = shard_bounds(n, size, owner % size)
        return whole[lo:hi]

    part(rank)[:] = shard
    for step in range(size - 1):
        got = part(rank - step - 1)
        comm.Sendrecv(part(rank - step), (rank + 1) % size, recvbuf=got, source=(rank - 1) % size)
    return whole


def all_reduce(comm, x):
    hello(comm)
    return all_gather(comm, reduce_scatter(comm, x), len(x))
