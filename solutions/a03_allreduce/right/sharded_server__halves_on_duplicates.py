"""Both halves in flight at once, each on its own duplicate."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


class Server:
    def __init__(self, comm, x):
        self.up, self.down = comm.Dup(), comm.Dup()
        self.rank, self.p = comm.rank, comm.size
        self.x = np.array(x)
        self.result = np.empty_like(self.x)

    def cut(self, array, owner):
        lo, hi = shard_bounds(len(array), self.p, owner)
        return array[lo:hi]

    def run(self):
        others = [(self.rank + k) % self.p for k in range(1, self.p)]
        back = [self.down.Irecv(self.cut(self.result, r), r) for r in others]
        boxes = {r: np.empty_like(self.cut(self.x, self.rank)) for r in others}
        gets = [self.up.Irecv(boxes[r], r) for r in reversed(others)]
        sends = [self.up.Isend(self.cut(self.x, r), r) for r in others]
        MPI.Request.Waitall(gets)
        mine = self.cut(self.result, self.rank)
        mine[:] = self.cut(self.x, self.rank)
        for box in boxes.values():
            mine += box
        sends += [self.down.Isend(mine, r) for r in others]
        MPI.Request.Waitall(sends + back)
        self.up.Free()
        self.down.Free()
        return self.result


def all_reduce(comm, x):
    return Server(comm, x).run()
