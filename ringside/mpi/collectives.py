"""Collectives on buffers: the upper-case calls and their I-forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringside.mpi import preparation as prepare
from ringside.mpi.membership import Membership
from ringside.mpi.op import SUM, Op
from ringside.mpi.preparation import Prepared
from ringside.mpi.request import Request


class BufferCollectives(Membership):
    """Barrier, Bcast, Reduce and their kin."""

    __slots__ = ()

    # -- blocking ----------------------------------------------------------------------------------

    def Barrier(self) -> None:
        """Wait until all ranks have come here."""
        prepare.barrier(self, "Barrier").run(self)

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Copy the root's buffer to all ranks."""
        prepare.bcast(self, "Bcast", buf, root).run(self)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect equal blocks at the root, in rank order."""
        prepare.gather(self, "Gather", sendbuf, recvbuf, root, False).run(self)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect blocks of any length at the root."""
        prepare.gather(self, "Gatherv", sendbuf, recvbuf, root, True).run(self)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Hand out equal blocks of the root's buffer."""
        prepare.scatter(self, "Scatter", sendbuf, recvbuf, root, False).run(self)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Hand out blocks of any length of the root's buffer."""
        prepare.scatter(self, "Scatterv", sendbuf, recvbuf, root, True).run(self)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect equal blocks on all ranks."""
        prepare.allgather(self, "Allgather", sendbuf, recvbuf, False).run(self)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect blocks of any length on all ranks."""
        prepare.allgather(self, "Allgatherv", sendbuf, recvbuf, True).run(self)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give block r to rank r, for all r; all blocks are equal."""
        prepare.alltoall(self, "Alltoall", sendbuf, recvbuf, False).run(self)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give block r to rank r, for all r."""
        prepare.alltoall(self, "Alltoallv", sendbuf, recvbuf, True).run(self)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Reduce all ranks' buffers into the root's."""
        prepare.reduce(self, "Reduce", sendbuf, recvbuf, op, root).run(self)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce all ranks' buffers, the result on all ranks."""
        prepare.reduce_to_all(self, "Allreduce", sendbuf, recvbuf, op).run(self)

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce all ranks' buffers and hand out equal blocks of the result."""
        prepare.reduce_scatter_block(self, "Reduce_scatter_block", sendbuf, recvbuf, op).run(self)

    def Reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """Reduce all ranks' buffers and hand out blocks of the result."""
        prepare.reduce_scatter(self, "Reduce_scatter", sendbuf, recvbuf, recvcounts, op).run(self)

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce the buffers of ranks 0 to this one."""
        prepare.reduce_to_all(self, "Scan", sendbuf, recvbuf, op).run(self)

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce the buffers of the ranks before this one; rank 0 gets nothing."""
        prepare.reduce_to_all(self, "Exscan", sendbuf, recvbuf, op).run(self)

    # -- non-blocking ------------------------------------------------------------------------------

    def Ibarrier(self) -> Request:
        """Begin a Barrier."""
        return self._start(prepare.barrier(self, "Ibarrier"))

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Begin a Bcast."""
        return self._start(prepare.bcast(self, "Ibcast", buf, root))

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Gather."""
        return self._start(prepare.gather(self, "Igather", sendbuf, recvbuf, root, False))

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Gatherv."""
        return self._start(prepare.gather(self, "Igatherv", sendbuf, recvbuf, root, True))

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Scatter."""
        return self._start(prepare.scatter(self, "Iscatter", sendbuf, recvbuf, root, False))

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Begin a Scatterv."""
        return self._start(prepare.scatter(self, "Iscatterv", sendbuf, recvbuf, root, True))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Allgather."""
        return self._start(prepare.allgather(self, "Iallgather", sendbuf, recvbuf, False))

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Allgatherv."""
        return self._start(prepare.allgather(self, "Iallgatherv", sendbuf, recvbuf, True))

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Alltoall."""
        return self._start(prepare.alltoall(self, "Ialltoall", sendbuf, recvbuf, False))

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Alltoallv."""
        return self._start(prepare.alltoall(self, "Ialltoallv", sendbuf, recvbuf, True))

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        """Begin a Reduce."""
        return self._start(prepare.reduce(self, "Ireduce", sendbuf, recvbuf, op, root))

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin an Allreduce."""
        return self._start(prepare.reduce_to_all(self, "Iallreduce", sendbuf, recvbuf, op))

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin a Reduce_scatter_block."""
        return self._start(
            prepare.reduce_scatter_block(self, "Ireduce_scatter_block", sendbuf, recvbuf, op)
        )

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        """Begin a Reduce_scatter."""
        return self._start(
            prepare.reduce_scatter(self, "Ireduce_scatter", sendbuf, recvbuf, recvcounts, op)
        )

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin a Scan."""
        return self._start(prepare.reduce_to_all(self, "Iscan", sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Begin an Exscan."""
        return self._start(prepare.reduce_to_all(self, "Iexscan", sendbuf, recvbuf, op))

    def _start(self, it: Prepared) -> Request:
        return Request._of(it.begin(self))
