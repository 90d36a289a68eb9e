"""Persistent collectives: prepared once, started again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ringside.mpi import preparation as prepare
from ringside.mpi.membership import Membership
from ringside.mpi.op import SUM, Op
from ringside.mpi.preparation import Prepared
from ringside.mpi.rare.typed_blocks import alltoall_typed
from ringside.mpi.request import Prequest


class PersistentCollectives(Membership):
    """Barrier_init, Bcast_init, Reduce_init and their kin; ``info`` is a hint without effect."""

    __slots__ = ()

    def Barrier_init(self, info: Any = None) -> Prequest:
        """Prepare an Ibarrier."""
        return self._keep(lambda: prepare.barrier(self, "Barrier_init"))

    def Bcast_init(self, buf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Prepare an Ibcast."""
        return self._keep(lambda: prepare.bcast(self, "Bcast_init", buf, root))

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Prepare an Igather."""
        return self._keep(
            lambda: prepare.gather(self, "Gather_init", sendbuf, recvbuf, root, False)
        )

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Prepare an Igatherv."""
        return self._keep(
            lambda: prepare.gather(self, "Gatherv_init", sendbuf, recvbuf, root, True)
        )

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Prepare an Iscatter."""
        return self._keep(
            lambda: prepare.scatter(self, "Scatter_init", sendbuf, recvbuf, root, False)
        )

    def Scatterv_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None
    ) -> Prequest:
        """Prepare an Iscatterv."""
        return self._keep(
            lambda: prepare.scatter(self, "Scatterv_init", sendbuf, recvbuf, root, True)
        )

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Iallgather."""
        return self._keep(
            lambda: prepare.allgather(self, "Allgather_init", sendbuf, recvbuf, False)
        )

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Iallgatherv."""
        return self._keep(
            lambda: prepare.allgather(self, "Allgatherv_init", sendbuf, recvbuf, True)
        )

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ialltoall."""
        return self._keep(lambda: prepare.alltoall(self, "Alltoall_init", sendbuf, recvbuf, False))

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ialltoallv."""
        return self._keep(lambda: prepare.alltoall(self, "Alltoallv_init", sendbuf, recvbuf, True))

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ialltoallw."""
        return self._keep(lambda: alltoall_typed(self, "Alltoallw_init", sendbuf, recvbuf))

    def Reduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, info: Any = None
    ) -> Prequest:
        """Prepare an Ireduce."""
        return self._keep(lambda: prepare.reduce(self, "Reduce_init", sendbuf, recvbuf, op, root))

    def Allreduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Any = None
    ) -> Prequest:
        """Prepare an Iallreduce."""
        return self._keep(
            lambda: prepare.reduce_to_all(self, "Allreduce_init", sendbuf, recvbuf, op)
        )

    def Reduce_scatter_block_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Any = None
    ) -> Prequest:
        """Prepare an Ireduce_scatter_block."""
        return self._keep(
            lambda: prepare.reduce_scatter_block(
                self, "Reduce_scatter_block_init", sendbuf, recvbuf, op
            )
        )

    def Reduce_scatter_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Any = None,
    ) -> Prequest:
        """Prepare an Ireduce_scatter."""
        return self._keep(
            lambda: prepare.reduce_scatter(
                self, "Reduce_scatter_init", sendbuf, recvbuf, recvcounts, op
            )
        )

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Any = None) -> Prequest:
        """Prepare an Iscan."""
        return self._keep(lambda: prepare.reduce_to_all(self, "Scan_init", sendbuf, recvbuf, op))

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Any = None) -> Prequest:
        """Prepare an Iexscan."""
        return self._keep(lambda: prepare.reduce_to_all(self, "Exscan_init", sendbuf, recvbuf, op))

    def _keep(self, prepared: Callable[[], Prepared]) -> Prequest:
        self._check_comm()
        return Prequest._persistent(lambda: prepared().begin(self))
