"""Accesses to other ranks' windows: Put, Get, Accumulate and their kin.

An access is posted at once and is complete when its epoch ends, or a Flush or its request says so.
Until then the buffers that it reads may not change, and what it fetches isn't there.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ringside.arrays import Array
from ringside.mpi.buffers import Region, as_datatype, empty, is_integral, region
from ringside.mpi.constants import ERR_OP, ERR_RANK, ERR_TRUNCATE, ERR_TYPE, OTHER_ERRORS, PROC_NULL
from ringside.mpi.datatypes import BYTE, OF_DTYPE, Datatype
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.exception import changed_while_sent
from ringside.mpi.membership import as_int
from ringside.mpi.op import PREDEFINED, SUM, Op
from ringside.mpi.operation import NoOperation, Operation
from ringside.mpi.payload import check_untouched
from ringside.mpi.rare.attributes import Attributed
from ringside.mpi.rare.epochs import Epochs
from ringside.mpi.rare.exposed import Exposed, runs_of
from ringside.mpi.request import Request
from ringside.network.link import Call, Completion, Link, format_call
from ringside.units import format_count

_NOTHING = np.zeros(0, np.uint8)
_NOWHERE = memoryview(b"")
_OF_ONE = ("Fetch_and_op", "Compare_and_swap")


class AccessOperation(Operation):
    """An access that was posted."""

    __slots__ = ("awaited", "guarded", "result", "told")

    def __init__(
        self, link: Link, number: int, call: Call, sources: Sequence[Region], result: Region | None
    ) -> None:
        super().__init__(link, number, call)
        self.told = link.told(call)
        self.guarded = [(source, source.checksum()) for source in sources]
        self.result = result
        if result is not None:
            self.awaited = link.awaited(call, result.address)
            result.poison(self.awaited.number)

    def take(self, completion: Completion) -> None:
        super().take(completion)
        if self.result is not None:
            check_untouched(self.link, self.awaited, [self.result])
            self.result.write(completion.payload)

    def deliver(self) -> None:
        guarded, self.guarded = self.guarded, []  # a Flush and a Wait may both come
        if any(source.checksum() != checksum for source, checksum in guarded):
            raise changed_while_sent(
                self.told(), "the access was complete. Call Fence, Flush or Unlock"
            )


class Window(NamedTuple):
    """What belongs to a window, alike for all copies of its handle."""

    link: Link
    number: int  # of its communicator
    members: tuple[int, ...]  # world ranks
    rank: int
    sizes: tuple[int, ...]
    units: tuple[int, ...]
    exposed: Exposed
    flavor: int
    epochs: Epochs
    pending: dict[int, list[Operation]]  # by target
    posted: list[int]  # requests of the messages that end what Post has begun

    def complete(self, targets: Sequence[int] | None, call: Call) -> None:
        """Wait until the accesses to these targets, None: to all, are complete."""
        chosen = list(self.pending) if targets is None else targets
        operations = [one for target in chosen for one in self.pending.pop(target, ())]
        of_number = {number: one for one in operations for number in one.open()}
        for completion in self.link.wait(list(of_number), "all", call=call):
            of_number[completion.request].take(completion)
        for one in operations:
            one.deliver()


class Accesses(Attributed):
    """The calls that access the memory of a window.

    A ``target`` is a displacement, or a list of a displacement, a count and a datatype.
    """

    __slots__ = ("_attributes", "_name", "_window")

    _attributes: dict[int, Any]
    _name: str
    _window: Window | None

    def Put(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Write a buffer into the target's window."""
        self._write("Put", origin, target_rank, target, None)

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Read from the target's window into a buffer."""
        self._read("Get", origin, target_rank, target)

    def Accumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM) -> None:
        """Combine a buffer with what the target's window holds."""
        self._write("Accumulate", origin, target_rank, target, op)

    def Get_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> None:
        """As Accumulate; what the window held before comes into ``result``."""
        self._fetch("Get_accumulate", (origin, result), target_rank, target, op)

    def Fetch_and_op(
        self, origin: Any, result: Any, target_rank: int, target_disp: int = 0, op: Op = SUM
    ) -> None:
        """As Get_accumulate, of one number."""
        self._fetch("Fetch_and_op", (origin, result), target_rank, (target_disp, 1), op)

    def Compare_and_swap(
        self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0
    ) -> None:
        """Write ``origin`` where ``compare`` stands; what stood there comes into ``result``."""
        new, old = _region(origin, False, target_rank), _region(compare, False, target_rank)
        into = _region(result, True, target_rank)
        data = bytes(new.read()) + bytes(old.read())
        act = _Act("compare_and_swap", "", data, (new, old), into)
        self._post("Compare_and_swap", target_rank, _target((target_disp, 1), new), act)

    def Rput(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """As Put; returns a request, which may be waited for before the epoch ends."""
        return Request._of(self._write("Rput", origin, target_rank, target, None))

    def Rget(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """As Get; returns a request."""
        return Request._of(self._read("Rget", origin, target_rank, target))

    def Raccumulate(
        self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> Request:
        """As Accumulate; returns a request."""
        return Request._of(self._write("Raccumulate", origin, target_rank, target, op))

    def Rget_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> Request:
        """As Get_accumulate; returns a request."""
        buffers = origin, result
        return Request._of(self._fetch("Rget_accumulate", buffers, target_rank, target, op))

    def _write(
        self, name: str, origin: Any, target_rank: int, target: Any, op: Op | None
    ) -> Operation:
        source = _region(origin, False, target_rank)
        what = "put" if op is None else "accumulate"
        act = _Act(what, op._name if op is not None else "", source.read(), (source,), None)
        return self._post(name, target_rank, _target(target, source), act)

    def _read(self, name: str, origin: Any, target_rank: int, target: Any) -> Operation:
        into = _region(origin, True, target_rank)
        return self._post(name, target_rank, _target(target, into), _Act("get", "", b"", (), into))

    def _fetch(
        self, name: str, buffers: tuple[Any, Any], target_rank: int, target: Any, op: Op
    ) -> Operation:
        origin, result = buffers
        source = _region(origin, False, target_rank)
        into = _region(result, True, target_rank)
        act = _Act("get_accumulate", op._name, source.read(), (source,), into)
        return self._post(name, target_rank, _target(target, source), act)

    def _post(self, name: str, target_rank: int, target: _Target, act: _Act) -> Operation:
        window = self._opened()
        rank, call = rank_in(window, name, "target_rank", target_rank)
        if rank == PROC_NULL:
            return NoOperation(window.link, call, receives=False)
        place = Region(_NOWHERE, target.num_entries, target.datatype)
        runs = runs_of(target.displacement * window.units[rank], place)
        _check_range(window, rank, call, runs)
        _check_sizes(call, act, place)
        step, number = window.units[rank], target.datatype.basic_size
        if number > 1 and step == 1 and target.displacement % number:
            window.link.remark(
                "step",
                f"{format_call(call)} at {window.link.here} begins in the midst of a number, at "
                f"byte {target.displacement} of the window: give Create disp_unit={number}.",
            )
        kind = _number_type(call, act, target.datatype)
        fence = window.epochs.epoch_of(rank, call)
        data = np.frombuffer(act.data, np.uint8) if len(act.data) else _NOTHING
        number = window.link.access(
            window.number, rank, (act.what, act.op, kind, runs, data), fence=fence, call=call
        )
        operation = AccessOperation(window.link, number, call, act.sources, act.result)
        window.pending.setdefault(rank, []).append(operation)
        return operation

    def _opened(self) -> Window:
        if self._window is None:
            raise MPIException(OTHER_ERRORS["ERR_WIN"], "the window is WIN_NULL: it was freed")
        return self._window


class _Act(NamedTuple):
    """What an access does: see ``ringside.network.wire.ATOMIC``."""

    what: str
    op: str
    data: memoryview | bytes
    sources: tuple[Region, ...]  # which may not change until it is complete
    result: Region | None


class _Target(NamedTuple):
    displacement: int
    num_entries: int
    datatype: Datatype


def _region(spec: Any, writable: bool, target_rank: Any) -> Region:
    """What a buffer means; a call to nobody may have none."""
    return region(spec, writable) if as_int(target_rank) != PROC_NULL else empty(BYTE)


def _target(spec: Any, origin: Region) -> _Target:
    """What stands in the target's place of a call; what isn't said is as at the origin."""
    if spec is None or is_integral(spec):
        spec = (spec or 0,)
    if not isinstance(spec, (list, tuple)):
        raise ValueError("target: expecting integral or list/tuple")
    if len(spec) > 3:
        raise ValueError("target: expecting 3 items at most")
    default: tuple[Any, ...] = (0, origin.count, origin.datatype)
    displacement, count, datatype = (*tuple(spec), *default[len(spec) :])
    return _Target(index(displacement), index(count), as_datatype(datatype))


def rank_in(window: Window, name: str, argument: str, given: Any) -> tuple[int, Call]:
    """A rank of a window, or PROC_NULL, and the call that names it."""
    rank = as_int(given)
    call: Call = (name, ((argument, rank),))
    if rank != PROC_NULL and not 0 <= rank < len(window.members):
        raise MPIException(
            ERR_RANK,
            f"{format_call(call)}, but the window has the ranks 0 to {len(window.members) - 1}."
            f"{_alone(window)}",
        )
    return rank, call


def _check_range(window: Window, rank: int, call: Call, runs: Array) -> None:
    first, end = (int(runs[:, 0].min()), int(runs[:, 1].max())) if len(runs) else (0, 0)
    if first < 0 or end > window.sizes[rank]:
        raise MPIException(
            OTHER_ERRORS["ERR_RMA_RANGE"],
            f"{format_call(call)} uses the bytes {first} to {end - 1} of rank {rank}'s window, "
            f"which has {window.sizes[rank]} bytes. A displacement counts in steps of "
            f"{format_count(window.units[rank], 'byte')}, the window's disp_unit.{_alone(window)}",
        )


def _alone(window: Window) -> str:
    """What is said beside a rank or memory that isn't in a window of one rank."""
    alone = len(window.members) == 1 < window.link.world_size
    return " The window is this rank's alone: without comm, Create takes COMM_SELF." * alone


def _check_sizes(call: Call, act: _Act, place: Region) -> None:
    for buffer in (*act.sources, *([act.result] if act.result is not None else [])):
        if call[0] in _OF_ONE and (buffer.count != 1 or buffer.datatype != place.datatype):
            raise ValueError(
                f"{call[0]}: expecting 1 entry of one type in each buffer, got {buffer.count} of "
                f"{buffer.datatype.Get_name()}"
            )
        if buffer.nbytes != place.nbytes and (act.op != "NO_OP" or buffer is act.result):
            raise MPIException(
                ERR_TRUNCATE,
                f"{format_call(call)} has {buffer.nbytes} bytes here and {place.nbytes} bytes in "
                "the window",
            )


def _number_type(call: Call, act: _Act, datatype: Datatype) -> str:
    """The type of the numbers that an operation combines, as NumPy writes it."""
    if act.op in ("", "REPLACE", "NO_OP"):
        return ""
    basic = OF_DTYPE.get(datatype.dtype) if datatype.dtype is not None else None
    if act.op == "USER" or basic is None:
        raise MPIException(
            ERR_OP,
            f"{format_call(call)} takes one of MPI's own operations, on numbers: not "
            f"{'a function' if act.op == 'USER' else datatype.Get_name() or 'a type of your own'}",
        )
    PREDEFINED[act.op].check(empty(basic))
    given = act.sources[0].datatype
    if given.dtype != basic.dtype:
        raise MPIException(
            ERR_TYPE,
            f"{format_call(call)} combines numbers of {given.Get_name()} here with "
            f"{basic.Get_name()} in the window",
        )
    return basic.typestr
