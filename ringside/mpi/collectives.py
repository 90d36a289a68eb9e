"""Collectives on buffers: the upper-case calls and their I-forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringside.mpi.op import SUM, Op
from ringside.mpi.operation import CollectiveOperation
from ringside.mpi.preparation import Preparation, Prepared
from ringside.mpi.request import Request


class Collectives(Preparation):
    """Barrier, Bcast, Reduce and their kin."""

    __slots__ = ()

    # -- blocking ----------------------------------------------------------------------------------

    def Barrier(self) -> None:
        """Wait until all ranks have come here."""
        self._run(self._barrier("Barrier"))

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Copy the root's buffer to all ranks."""
        self._run(self._bcast("Bcast", buf, root))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect equal blocks at the root, in rank order."""
        self._run(self._gather("Gather", sendbuf, recvbuf, root, False))

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect blocks of any length at the root."""
        self._run(self._gather("Gatherv", sendbuf, recvbuf, root, True))

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Hand out equal blocks of the root's buffer."""
        self._run(self._scatter("Scatter", sendbuf, recvbuf, root, False))

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Hand out blocks of any length of the root's buffer."""
        self._run(self._scatter("Scatterv", sendbuf, recvbuf, root, True))

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect equal blocks on all ranks."""
        self._run(self._allgather("Allgather", sendbuf, recvbuf, False))

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect blocks of any length on all ranks."""
        self._run(self._allgather("Allgatherv", sendbuf, recvbuf, True))

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give block r to rank r, for all r; all blocks are equal."""
        self._run(self._alltoall("Alltoall", sendbuf, recvbuf, False))

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give block r to rank r, for all r."""
        self._run(self._alltoall("Alltoallv", sendbuf, recvbuf, True))

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give block r to rank r, for all r; each block has a datatype of its own."""
        self._run(self._alltoall_typed("Alltoallw", sendbuf, recvbuf))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Reduce all ranks' buffers into the root's."""
        self._run(self._reduce("Reduce", sendbuf, recvbuf, op, root))

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce all ranks' buffers, the result on all ranks."""
        self._run(self._reduce_to_all("Allreduce", sendbuf, recvbuf, op))

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce all ranks' buffers and hand out equal blocks of the result."""
        self._run(self._reduce_scatter_block("Reduce_scatter_block", sendbuf, recvbuf, op))

    def Reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """Reduce all ranks' buffers and hand out blocks of the result."""
        self._run(self._reduce_scatter("Reduce_scatter", sendbuf, recvbuf, recvcounts, op))

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce the buffers of ranks 0 to this one."""
        self._run(self._reduce_to_all("Scan", sendbuf, recvbuf, op))

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce the buffers of the ranks before this one; rank 0 gets nothing."""
        self._run(self._reduce_to_all("Exscan", sendbuf, recvbuf, op))

    # -- non-blocking ------------------------------------------------------------------------------

    def Ibarrier(self) -> Request:
        """Begin a Barrier."""
        return self._start(self._barrier("Ibarrier"))

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Begin a Bcast."""
        return self._start(self._bcast("Ibcast", buf, root))

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Gather."""
        return self._start(self._gather("Igather", sendbuf, recvbuf, root, False))

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Gatherv."""
        return self._start(self._gather("Igatherv", sendbuf, recvbuf, root, True))

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Scatter."""
        return self._start(self._scatter("Iscatter", sendbuf, recvbuf, root, False))

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Scatterv."""
        return self._start(self._scatter("Iscatterv", sendbuf, recvbuf, root, True))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Allgather."""
        return self._start(self._allgather("Iallgather", sendbuf, recvbuf, False))

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Allgatherv."""
        return self._start(self._allgather("Iallgatherv", sendbuf, recvbuf, True))

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Alltoall."""
        return self._start(self._alltoall("Ialltoall", sendbuf, recvbuf, False))

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Alltoallv."""
        return self._start(self._alltoall("Ialltoallv", sendbuf, recvbuf, True))

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Alltoallw."""
        return self._start(self._alltoall_typed("Ialltoallw", sendbuf, recvbuf))

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        """Begin a Reduce."""
        return self._start(self._reduce("Ireduce", sendbuf, recvbuf, op, root))

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin an Allreduce."""
        return self._start(self._reduce_to_all("Iallreduce", sendbuf, recvbuf, op))

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin a Reduce_scatter_block."""
        return self._start(
            self._reduce_scatter_block("Ireduce_scatter_block", sendbuf, recvbuf, op)
        )

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        """Begin a Reduce_scatter."""
        return self._start(
            self._reduce_scatter("Ireduce_scatter", sendbuf, recvbuf, recvcounts, op)
        )

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin a Scan."""
        return self._start(self._reduce_to_all("Iscan", sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin an Exscan."""
        return self._start(self._reduce_to_all("Iexscan", sendbuf, recvbuf, op))

    # -- running what was prepared -----------------------------------------------------------------

    def _run(self, it: Prepared) -> None:
        it.done(self._link.collective(self._id, it.name, it.spec, call=it.call, kind=it.kind))

    def _begin(self, it: Prepared) -> CollectiveOperation:
        number = self._link.icollective(self._id, it.name, it.spec, call=it.call, kind=it.kind)
        return CollectiveOperation(self._link, number, it.call, it.done, it.sent, it.received)

    def _start(self, it: Prepared) -> Request:
        return Request._of(self._begin(it))
