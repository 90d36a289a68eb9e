"""What each collective gives to the network, and what it does with the value that comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ringside.arrays import Array
from ringside.mpi.buffers import Region, is_in_place, region, vector
from ringside.mpi.constants import ERR_BUFFER, ERR_OTHER, ERR_TRUNCATE
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.membership import Membership
from ringside.mpi.op import Op
from ringside.mpi.operation import CollectiveOperation
from ringside.network.link import Call, Link, current, format_call
from ringside.network.wire import KINDS

_SAME_LENGTH = "All ranks must give buffers of the same length."
_LONG_ENOUGH = "Give every rank a receive buffer of the length of its part."
_EQUAL_PARTS = "For parts of unequal length use the v-form, such as Gatherv, with receive counts."
_COUNTS = "Each receive count must be what that rank sends here."


class Prepared(NamedTuple):
    """A collective before it is posted."""

    name: str
    spec: tuple[Any, ...]
    call: Call
    done: Callable[[Any], None]
    sent: Sequence[Region] = ()
    received: Sequence[Region] = ()

    @property
    def kind(self) -> int:
        """Of this rank's buffer, of ``wire.KINDS``."""
        return next((block.datatype.kind for block in (*self.received, *self.sent)), 0)

    def run(self, comm: Membership) -> None:
        """Take part, and return when that is done."""
        link = comm._link
        value = link.collective(comm._id, self.name, self.spec, call=self.call, kind=self.kind)
        self._remark(link)
        self.done(value)

    def _remark(self, link: Link) -> None:
        """Say if this rank sends one dtype and receives another: bytes are taken as they come."""
        kinds = [block[0].datatype.kind for block in (self.sent, self.received) if block]
        if len(kinds) == 2 and all(kinds) and kinds[0] != kinds[1]:
            sent, received = (KINDS[kind] for kind in kinds)
            link.remark(
                "kind",
                f"{format_call(self.call)} at {link.place} sends an array of {sent} and takes the "
                f"bytes that come for {received}. Give both arrays the same dtype.",
            )

    def begin(self, comm: Membership) -> CollectiveOperation:
        """Begin to take part."""
        number = comm._link.icollective(
            comm._id, self.name, self.spec, call=self.call, kind=self.kind, begins=True
        )
        self._remark(comm._link)
        return CollectiveOperation(
            comm._link, number, self.call, self.done, self.sent, self.received
        )


# -- moving data -------------------------------------------------------------------------------


def barrier(comm: Membership, name: str) -> Prepared:
    comm._check_comm()
    return Prepared("barrier", (), (name, ()), _nothing)


def bcast(comm: Membership, name: str, buf: Any, root: int) -> Prepared:
    root = comm._check_root(root, name)
    call: Call = (name, (("root", root),))
    if comm._rank == root:
        data = region(buf, False)
        return Prepared("bcast", (root, data.read()), call, _nothing, sent=[data])
    target = region(buf, True)

    def done(value: Any) -> None:
        _check_sizes(value, target.nbytes, f"{name}: rank {root} (the root)")
        target.write(value)

    return Prepared("bcast", (root, None), call, done, received=[target])


def gather(
    comm: Membership, name: str, sendbuf: Any, recvbuf: Any, root: int, by_counts: bool
) -> Prepared:
    root = comm._check_root(root, name)
    call: Call = (name, (("root", root),))
    if comm._rank != root:
        data = region(sendbuf, False)
        return Prepared("gather", (root, data.read()), call, _nothing, sent=[data])
    blocks = _room_for_all(comm, name, sendbuf, recvbuf, by_counts)
    data, sent = _own(comm, sendbuf, blocks)
    return Prepared("gather", (root, data.read()), call, _filler(name, blocks), sent, blocks)


def allgather(comm: Membership, name: str, sendbuf: Any, recvbuf: Any, by_counts: bool) -> Prepared:
    comm._check_comm()
    blocks = _room_for_all(comm, name, sendbuf, recvbuf, by_counts)
    data, sent = _own(comm, sendbuf, blocks)
    return Prepared("allgather", (data.read(),), (name, ()), _filler(name, blocks), sent, blocks)


def scatter(
    comm: Membership, name: str, sendbuf: Any, recvbuf: Any, root: int, by_counts: bool
) -> Prepared:
    root = comm._check_root(root, name)
    call: Call = (name, (("root", root),))
    blocks = _blocks(comm, sendbuf, False, by_counts) if comm._rank == root else []
    parts = [block.read() for block in blocks] if comm._rank == root else None
    if is_in_place(recvbuf) and comm._rank == root:
        return Prepared("scatter", (root, parts), call, _nothing, sent=blocks)
    target = region(recvbuf, True)

    def done(value: Any) -> None:
        _check_length(value, target.nbytes, f"{name}: the root", _LONG_ENOUGH)
        _remark_room(name, "the root", value, target)
        target.write(value)

    return Prepared("scatter", (root, parts), call, done, blocks, [target])


def alltoall(comm: Membership, name: str, sendbuf: Any, recvbuf: Any, by_counts: bool) -> Prepared:
    comm._check_comm()
    blocks = _blocks(comm, recvbuf, True, by_counts)
    in_place = is_in_place(sendbuf)
    send_blocks = blocks if in_place else _blocks(comm, sendbuf, False, by_counts)
    return exchange(name, send_blocks, blocks, in_place)


def exchange(
    name: str, send_blocks: list[Region], blocks: list[Region], in_place: bool
) -> Prepared:
    """Block r of ``send_blocks`` goes to rank r; ``blocks`` are filled in rank order."""
    parts = [bytes(block.read()) for block in send_blocks]
    sent = [] if in_place else send_blocks
    return Prepared("alltoall", (parts,), (name, ()), _filler(name, blocks), sent, blocks)


def _blocks(comm: Membership, spec: Any, writable: bool, by_counts: bool) -> list[Region]:
    """One region a rank."""
    if by_counts:
        return vector(spec, writable, comm._size)[0]
    whole = region(spec, writable, comm._size)
    return [whole.part(i * whole.count, whole.count) for i in range(comm._size)]


def _room_for_all(
    comm: Membership, name: str, sendbuf: Any, recvbuf: Any, by_counts: bool
) -> list[Region]:
    """``_blocks`` of a receive buffer, refused with the length that it needs."""
    try:
        return _blocks(comm, recvbuf, True, by_counts)
    except ValueError as error:
        if by_counts or is_in_place(sendbuf):
            raise
        own = region(sendbuf, False).count
        raise ValueError(
            f"{error}. {name} gets a part from each of {comm._size} ranks, and this rank's has "
            f"{own} entries: make room for {comm._size} times as many, {comm._size * own}."
        ) from None


def _own(comm: Membership, sendbuf: Any, blocks: list[Region]) -> tuple[Region, list[Region]]:
    """This rank's contribution, and what of it must stay unchanged."""
    if is_in_place(sendbuf):
        return blocks[comm._rank], []
    data = region(sendbuf, False)
    return data, [data]


# -- reducing ----------------------------------------------------------------------------------


def reduce(comm: Membership, name: str, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> Prepared:
    root = comm._check_root(root, name)
    _check_op(op)
    at_root = comm._rank == root
    target = region(recvbuf, True) if at_root else None
    data, sent = _reducible(sendbuf, target)
    op.check(data)
    array, wire = _on_the_wire(op, data)

    def done(value: Any) -> None:
        if target is not None:
            target.write(_result(op, value, target))

    call: Call = (name, (("op", op._name), ("root", root)))
    received = [target] if target is not None else []
    return Prepared("reduce", (root, wire, array), call, done, sent, received)


def reduce_to_all(comm: Membership, name: str, sendbuf: Any, recvbuf: Any, op: Op) -> Prepared:
    """Allreduce, Scan and Exscan: every member gets a vector of the same length."""
    comm._check_comm()
    _check_op(op)
    target = region(recvbuf, True)
    data, sent = _reducible(sendbuf, target)
    op.check(data)
    array, wire = _on_the_wire(op, data)

    def done(value: Any) -> None:
        if value is not None:  # Exscan leaves rank 0's buffer as it was
            target.write(_result(op, value, target))

    kind = name.removeprefix("I").removesuffix("_init").lower()
    received = [] if kind == "exscan" and comm._rank == 0 else [target]
    return Prepared(kind, (wire, array), (name, (("op", op._name),)), done, sent, received)


def reduce_scatter_block(
    comm: Membership, name: str, sendbuf: Any, recvbuf: Any, op: Op
) -> Prepared:
    comm._check_comm()
    _check_op(op)
    if is_in_place(sendbuf):
        target = region(recvbuf, True, comm._size)
        data, sent = Region(target.view, target.count * comm._size, target.datatype), []
    else:
        target = region(recvbuf, True)
        block = region(sendbuf, False, comm._size)
        _check_alike(block, target)
        data = Region(block.view, block.count * comm._size, block.datatype)
        sent = [data]
    counts = [target.count] * comm._size
    return _scattered(comm, name, op, data, target, counts, sent)


def reduce_scatter(
    comm: Membership,
    name: str,
    sendbuf: Any,
    recvbuf: Any,
    recvcounts: Sequence[int] | None,
    op: Op,
) -> Prepared:
    comm._check_comm()
    _check_op(op)
    target = region(recvbuf, True)
    in_place = is_in_place(sendbuf)
    data = target if in_place else region(sendbuf, False)
    if recvcounts is None and not in_place:
        counts = _all_counts(comm, name, target.count)
    else:
        counts = [int(count) for count in recvcounts or ()]
        if len(counts) != comm._size:
            raise ValueError(f"expecting {comm._size} items, got {len(counts)}")
    if not in_place and data.datatype != target.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if data.count != sum(counts):
        side = "receive" if in_place else "send"
        raise ValueError(f"mismatch in {side} count {data.count} and sum(counts) {sum(counts)}")
    if not in_place and target.count != counts[comm._rank]:
        raise ValueError(
            f"mismatch in receive count {target.count} "
            f"and counts[{comm._rank}] {counts[comm._rank]}"
        )
    target = Region(target.view, counts[comm._rank], target.datatype)
    return _scattered(comm, name, op, data, target, counts, [] if in_place else [data])


def _all_counts(comm: Membership, name: str, count: int) -> list[int]:
    call: Call = (name, (("recvcounts", None),))
    parts = comm._link.collective(comm._id, "allgather", (count.to_bytes(8, "little"),), call=call)
    return [int.from_bytes(part, "little") for part in parts]


def _scattered(
    comm: Membership,
    name: str,
    op: Op,
    data: Region,
    target: Region,
    counts: list[int],
    sent: list[Region],
) -> Prepared:
    op.check(data)
    array, wire = _on_the_wire(op, data)
    unit = array.size // data.count if data.count else 1  # array items to an entry
    low = sum(counts[: comm._rank]) * unit
    high = low + counts[comm._rank] * unit

    def done(value: Any) -> None:
        parts = [item[low:high] for item in value] if isinstance(value, list) else value
        target.write(_result(op, parts, target))

    spec = (wire, array, tuple(count * unit for count in counts))
    return Prepared("reduce_scatter", spec, (name, (("op", op._name),)), done, sent, [target])


def _nothing(value: Any) -> None:
    """Do nothing with what came back."""


def _filler(name: str, blocks: list[Region]) -> Callable[[Any], None]:
    def done(parts: Any) -> None:
        for rank, (block, part) in enumerate(zip(blocks, parts, strict=True)):
            by_counts = name.removesuffix("_init").endswith(("v", "w"))
            cure = _COUNTS if by_counts else _EQUAL_PARTS
            _check_length(part, block.nbytes, f"{name}: rank {rank}", cure)
            _remark_room(name, f"rank {rank}", part, block)
            block.write(part)

    return done


def _remark_room(name: str, who: str, part: Any, place: Region) -> None:
    """Say if a place is larger than what comes into it."""
    if len(part) < place.nbytes:
        link = current()
        link.remark(
            "room",
            f"{name} at {link.place}: {who} sends {len(part)} bytes, and their place in the "
            f"receive buffer has {place.nbytes}. The rest of it stays as it was.",
        )


def _check_length(part: Any, nbytes: int, who: str, cure: str) -> None:
    _check_upper(part)
    if len(part) > nbytes:
        raise MPIException(
            ERR_TRUNCATE, f"{who} sends {len(part)} bytes, the place for them has {nbytes}. {cure}"
        )


def _check_sizes(part: Any, nbytes: int, who: str) -> None:
    _check_length(part, nbytes, who, _SAME_LENGTH)
    if len(part) != nbytes:
        raise MPIException(
            ERR_OTHER,
            f"{who} sends {len(part)} bytes, this rank expects {nbytes}. {_SAME_LENGTH}",
        )


def _check_upper(part: Any) -> None:
    if isinstance(part, tuple):
        raise MPIException(
            ERR_OTHER,
            "this rank calls the upper-case form of a collective and another rank the lower-case "
            "one. Use the same on all ranks.",
        )


def _check_op(op: Any) -> None:
    if not isinstance(op, Op):
        raise TypeError(
            f"Argument 'op' has incorrect type (expected mpi4py.MPI.Op, got {type(op).__name__}). "
            "Give one of MPI's, such as MPI.MAX, or what MPI.Op.Create makes of a function."
        )


def _check_alike(data: Region, target: Region) -> None:
    if data.datatype != target.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if data.count != target.count:
        raise ValueError(f"mismatch in send count {data.count} and receive count {target.count}")


def _reducible(sendbuf: Any, target: Region | None) -> tuple[Region, list[Region]]:
    """The vector to reduce, and what of it must stay unchanged."""
    if is_in_place(sendbuf) and target is not None:
        return target, []
    data = region(sendbuf, False)
    if target is not None:
        _check_alike(data, target)
        if data.nbytes and data.address == target.address:
            raise MPIException(
                ERR_BUFFER,
                "the send buffer is the receive buffer; pass MPI.IN_PLACE to send from it",
            )
    return data, [data]


def _on_the_wire(op: Op, data: Region) -> tuple[Array, str]:
    """The contribution, and the network's name of the operation."""
    array = data.array()
    if (
        array.dtype.kind not in "iufcb" or array.dtype.char in "gG"
    ):  # the network knows no such type
        return array.view(np.uint8), "USER"
    return array, op.wire_name(array)


def _result(op: Op, value: Any, target: Region) -> bytes:
    """The bytes of a reduction: the network's own, or the fold of all contributions."""
    if isinstance(value, list):
        for part in value:
            _check_upper(part)
        return op.fold([part.tobytes() for part in value], target)
    _check_upper(value)
    result: bytes = value.tobytes()
    return result
