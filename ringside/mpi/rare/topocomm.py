"""Topocomm: ranks with neighbours, and the collectives among neighbours.

They travel as messages between neighbours, one an edge, and are counted and timed as such. Their
tags lie above all of the program's, where no wildcard sees them. On a grid, what goes out in one
direction comes in from the other::

    send blocks   to prev, to next    in every dimension
    receive       from prev: the block that it sent to its next
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ringside.mpi.buffers import Region, region, vector
from ringside.mpi.comm import Comm, Intracomm
from ringside.mpi.constants import PROC_NULL
from ringside.mpi.operation import GuardedSend, Operation, Receive, Together
from ringside.mpi.payload import Destination, IntoObject, IntoRegion, Payload, of_object
from ringside.mpi.rare.typed_blocks import typed_blocks
from ringside.mpi.request import Prequest, Request
from ringside.network.link import Call
from ringside.network.wire import FIRST_INTERNAL_TAG

Edge = tuple[int, int]  # a neighbour, and which of several messages it is to or from that one
Blocks = Callable[[Any, bool, int], list[Region]]


def _equal(spec: Any, writable: bool, number: int) -> list[Region]:
    if not number:
        return []
    whole = region(spec, writable, number)
    return [whole.part(i * whole.count, whole.count) for i in range(number)]


def _counted(spec: Any, writable: bool, number: int) -> list[Region]:
    return vector(spec, writable, number)[0] if number else []


class Topocomm(Intracomm):
    """A communicator whose ranks have neighbours."""

    __slots__ = ()

    def __init__(self, comm: Comm | None = None) -> None:
        super().__init__(comm)
        if comm is not None and comm and not isinstance(comm, type(self)):
            raise TypeError(f"expecting a {type(self).__name__} communicator")

    # -- the neighbours ----------------------------------------------------------------------------

    def _edges(self) -> tuple[list[Edge], list[Edge]]:
        """The neighbours that we receive from and those that we send to."""
        raise NotImplementedError

    @property
    def inedges(self) -> list[int]:
        """The ranks that we receive from."""
        return [rank for rank, _ in self._edges()[0]]

    @property
    def outedges(self) -> list[int]:
        """The ranks that we send to."""
        return [rank for rank, _ in self._edges()[1]]

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """The ranks that we receive from, and those that we send to."""
        return self.inedges, self.outedges

    @property
    def indegree(self) -> int:
        """The number of ranks that we receive from."""
        return len(self.inedges)

    @property
    def outdegree(self) -> int:
        """The number of ranks that we send to."""
        return len(self.outedges)

    @property
    def degrees(self) -> tuple[int, int]:
        """The numbers of ranks that we receive from and send to."""
        return self.indegree, self.outdegree

    # -- blocking ----------------------------------------------------------------------------------

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send one block to all neighbours, and collect equal blocks of theirs."""
        _finish(self._gathered("Neighbor_allgather", sendbuf, recvbuf, _equal))

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send one block to all neighbours, and collect theirs, of any length."""
        _finish(self._gathered("Neighbor_allgatherv", sendbuf, recvbuf, _counted))

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to each neighbour and receive one; all are equal."""
        _finish(self._exchanged("Neighbor_alltoall", sendbuf, recvbuf, _equal))

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to each neighbour and receive one, of any length."""
        _finish(self._exchanged("Neighbor_alltoallv", sendbuf, recvbuf, _counted))

    def Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to each neighbour and receive one, each of its own datatype."""
        _finish(self._exchanged("Neighbor_alltoallw", sendbuf, recvbuf, typed_blocks))

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """Send an object to all neighbours; return theirs in a list."""
        sent = of_object(sendobj)
        return self._objects("neighbor_allgather", [sent] * self.outdegree)

    def neighbor_alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send item i of the sequence to neighbour i; return theirs in a list."""
        items = list(sendobj)
        if len(items) != self.outdegree:
            raise ValueError(f"expecting {self.outdegree} items, got {len(items)}")
        return self._objects("neighbor_alltoall", [of_object(item) for item in items])

    # -- non-blocking ------------------------------------------------------------------------------

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin a Neighbor_allgather."""
        return self._gathered("Ineighbor_allgather", sendbuf, recvbuf, _equal)

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin a Neighbor_allgatherv."""
        return self._gathered("Ineighbor_allgatherv", sendbuf, recvbuf, _counted)

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin a Neighbor_alltoall."""
        return self._exchanged("Ineighbor_alltoall", sendbuf, recvbuf, _equal)

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin a Neighbor_alltoallv."""
        return self._exchanged("Ineighbor_alltoallv", sendbuf, recvbuf, _counted)

    def Ineighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin a Neighbor_alltoallw."""
        return self._exchanged("Ineighbor_alltoallw", sendbuf, recvbuf, typed_blocks)

    # -- persistent --------------------------------------------------------------------------------

    def Neighbor_allgather_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ineighbor_allgather."""
        return self._again(self._gathered, "Neighbor_allgather_init", sendbuf, recvbuf, _equal)

    def Neighbor_allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ineighbor_allgatherv."""
        return self._again(self._gathered, "Neighbor_allgatherv_init", sendbuf, recvbuf, _counted)

    def Neighbor_alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ineighbor_alltoall."""
        return self._again(self._exchanged, "Neighbor_alltoall_init", sendbuf, recvbuf, _equal)

    def Neighbor_alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ineighbor_alltoallv."""
        return self._again(self._exchanged, "Neighbor_alltoallv_init", sendbuf, recvbuf, _counted)

    def Neighbor_alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Prepare an Ineighbor_alltoallw."""
        return self._again(
            self._exchanged, "Neighbor_alltoallw_init", sendbuf, recvbuf, typed_blocks
        )

    # -- the messages ------------------------------------------------------------------------------

    def _gathered(self, name: str, sendbuf: Any, recvbuf: Any, blocks: Blocks) -> Request:
        into = blocks(recvbuf, True, self.indegree)
        out = region(sendbuf, False) if self.outdegree else None
        return self._request(name, [out] * self.outdegree if out is not None else [], into)

    def _exchanged(self, name: str, sendbuf: Any, recvbuf: Any, blocks: Blocks) -> Request:
        into = blocks(recvbuf, True, self.indegree)
        return self._request(name, blocks(sendbuf, False, self.outdegree), into)

    def _request(self, name: str, out: Sequence[Region], into: Sequence[Region]) -> Request:
        self._check_comm()
        call: Call = (name, ())
        sent = [Payload(data.read(), None, data, data.datatype.kind) for data in out]
        receives = self._post_receives(call, [IntoRegion(target) for target in into])
        sends = self._post_sends(call, sent)
        for receive in receives:
            if isinstance(receive, Receive):
                receive.target.await_data(self._link, call)
        return Request._of(Together(self._link, call, [*receives, *sends]))

    def _objects(self, name: str, sent: Sequence[Payload]) -> list[Any]:
        call: Call = (name, ())
        receives = self._post_receives(call, [IntoObject(None) for _ in range(self.indegree)])
        sends = self._post_sends(call, sent)
        numbers = [n for operation in (*receives, *sends) for n in operation.open()]
        objects = dict.fromkeys(range(self.indegree))
        completions = {c.request: c for c in self._link.wait(numbers, "all", call=call)}
        for index, operation in enumerate(receives):
            if operation.number:
                operation.take(completions[operation.number])
                objects[index] = operation.deliver()
        return list(objects.values())

    def _post_receives(self, call: Call, into: Sequence[Destination]) -> list[Operation]:
        receives: list[Operation] = []
        for (source, which), target in zip(self._edges()[0], into, strict=True):
            if source == PROC_NULL:
                receives.append(Operation(self._link, 0, call))
                continue
            tag = FIRST_INTERNAL_TAG + which
            number = self._link.irecv(
                self._id, source, tag, target.capacity, kind=target.kind, call=call
            )
            receives.append(Receive(self._link, number, call, target))
        return receives

    def _post_sends(self, call: Call, sent: Sequence[Payload]) -> list[Operation]:
        sends: list[Operation] = []
        for (dest, which), payload in zip(self._edges()[1], sent, strict=True):
            data, claimed, guarded, kind = payload
            if dest == PROC_NULL:
                continue
            tag = FIRST_INTERNAL_TAG + which
            number = self._link.isend(
                self._id, dest, tag, data, kind=kind, claimed=claimed, call=call
            )
            sends.append(
                Operation(self._link, number, call)
                if guarded is None
                else GuardedSend(self._link, number, call, guarded)
            )
        return sends

    def _again(
        self, begin: Callable[..., Request], name: str, sendbuf: Any, recvbuf: Any, blocks: Blocks
    ) -> Prequest:
        self._check_comm()

        def post() -> Operation:
            operation = begin(name, sendbuf, recvbuf, blocks)._operation
            assert operation is not None
            return operation

        return Prequest._persistent(post)


def _finish(request: Request) -> None:
    operation = request._operation
    assert operation is not None
    request._complete(operation.call, None)
