"""The probe on mpi4py: a script for `ringside launch`, on real ranks or on simulated ones.

On simulated ranks its clock is the virtual one, so that it finds the machine model's own numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from ringside.jobs.calibrate.probe.measurements import cores, measure, memory_bytes

_GO, _EARLY = 8, 7  # tags


class OverMpi:
    """Real or simulated MPI, arrays of float64."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def about(self) -> dict[str, Any]:
        return {
            "transport": "mpi4py",
            "library": " ".join(MPI.Get_library_version().splitlines()[0].rstrip("\0").split()),
            "device": "cpu",
            "host": MPI.Get_processor_name(),
            "cores": cores(),
            "memory_bytes": memory_bytes(self.comm.allgather(MPI.Get_processor_name())),
        }

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = self.comm.allgather(value)
        return values

    def barrier(self) -> None:
        self.comm.Barrier()

    def seconds(self, work: Callable[[], object]) -> float:
        start_s = MPI.Wtime()
        work()
        return float(MPI.Wtime() - start_s)

    def buffer(self, nbytes: int) -> Any:
        return np.zeros(nbytes, np.uint8) if nbytes % 8 else np.zeros(nbytes // 8)

    def send(self, buffer: Any, dest: int) -> None:
        self.comm.Send(buffer, dest)

    def receive(self, buffer: Any, source: int) -> None:
        self.comm.Recv(buffer, source)

    def all_reduce(self, buffer: Any) -> None:
        self.comm.Allreduce(MPI.IN_PLACE, buffer)

    def is_eager(self, nbytes: int, peer: int, patience_s: float) -> bool | None:
        buffer, go = np.zeros(nbytes, np.uint8), np.zeros(1)
        if self.rank > peer:
            self.comm.Recv(go, peer, _GO)
            self.comm.Recv(buffer, peer, _EARLY)
            return False  # only the sender knows
        request = self.comm.Isend(buffer, peer, _EARLY)
        start_s, done = MPI.Wtime(), False
        while not done and MPI.Wtime() - start_s < patience_s:
            done = request.Test()
        # Only now does the peer post its receive: until here nothing but an eager send could end.
        self.comm.Send(go, peer, _GO)
        request.Wait()
        return done

    def poll_s(self) -> float | None:
        if self.size < 2:
            return None
        request = self.comm.Irecv(np.zeros(1), (self.rank + 1) % self.size, _GO)
        request.Test()
        polls = 200
        seconds = self.seconds(lambda: [request.Test() for _ in range(polls)])
        # Nobody sends before all have polled, so that every Test has found nothing.
        self.comm.Barrier()
        self.comm.Send(np.zeros(1), (self.rank - 1) % self.size, _GO)
        request.Wait()
        return seconds / polls

    def products(self) -> list[tuple[str, int, Callable[[], object]]]:
        products: list[tuple[str, int, Callable[[], object]]] = []
        for dtype in ("float32", "float64"):
            a = np.ones((1024, 1024), dtype)
            products.append((dtype, 1024, partial(np.matmul, a, a, out=np.empty_like(a))))
        return products

    def copies(self) -> list[tuple[int, Callable[[], object]]]:
        copies: list[tuple[int, Callable[[], object]]] = []
        for nbytes in (2**20, 2**23, 2**26):
            a = np.ones(nbytes // 8)
            copies.append((2 * nbytes, partial(np.copyto, np.ones_like(a), a)))
        return copies

    def one_element(self) -> tuple[int, Callable[[], object]]:
        x, count = np.zeros(1), 1000
        return count, lambda: [np.add(x, x, out=x) for _ in range(count)]


if __name__ == "__main__":
    # On the handle itself: what records a student's calls would be measured with them.
    world = MPI.COMM_WORLD
    plain = MPI.Intracomm(world) if type(world) is not MPI.Intracomm else world
    __record__ = measure(OverMpi(plain))
