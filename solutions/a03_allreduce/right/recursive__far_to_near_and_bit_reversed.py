"""Doubling from far to near, halving from near to far; the first ranks fold."""

import numpy as np


def bits(k, steps):
    return int(format(k, "b").zfill(steps)[::-1], 2) if steps else 0


def enter(comm, total):
    """The first ranks are the extra ones: rank k < extra folds onto core + k."""
    p = comm.size
    steps = p.bit_length() - 1
    core = 1 << steps
    extra = p - core
    if comm.rank < extra:
        comm.send(total, core + comm.rank)
        return None, comm.recv(source=core + comm.rank)
    if comm.rank >= core:
        total = total + comm.recv(source=comm.rank - core)
    return comm.rank - extra, total


def leave(comm, total):
    core = 1 << (comm.size.bit_length() - 1)
    if comm.rank >= core:
        comm.send(total, comm.rank - core)
    return total


def recursive_doubling(comm, x):
    place, total = enter(comm, x.copy())
    if place is None:
        return total
    extra = comm.size - (1 << (comm.size.bit_length() - 1))
    distance = (comm.size - extra) // 2
    while distance:
        mate = (place ^ distance) + extra
        put = comm.isend(total, mate)
        total = total + comm.recv(source=mate)
        put.wait()
        distance //= 2
    return leave(comm, total)


def halving_doubling(comm, x):
    place, total = enter(comm, x.copy())
    if place is None:
        return total
    core = 1 << (comm.size.bit_length() - 1)
    extra, steps = comm.size - core, core.bit_length() - 1
    parts = np.array_split(total, core)

    def go(distance, held):
        """Halve between near partners first; the held shards get fewer; then come back."""
        if distance == core:
            return
        mate = place ^ distance
        keep = [k for k in held if bits(k, steps) & distance == place & distance]
        give = [k for k in held if k not in keep]
        put = comm.isend(np.concatenate([parts[k] for k in give]), mate + extra)
        got = comm.recv(source=mate + extra)
        put.wait()
        for k in keep:
            parts[k] = parts[k] + got[: len(parts[k])]
            got = got[len(parts[k]) :]
        go(2 * distance, keep)
        box = np.empty(sum(len(parts[k]) for k in give), x.dtype)
        comm.Sendrecv(
            np.concatenate([parts[k] for k in keep]), mate + extra, recvbuf=box, source=mate + extra
        )
        for k in give:
            parts[k], box = box[: len(parts[k])].copy(), box[len(parts[k]) :]

    go(1, list(range(core)))
    return leave(comm, np.concatenate(parts))
