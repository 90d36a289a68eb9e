"""Completing many requests at once: all of them, any one, or some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringside.link import Call, Completion, Link
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, ERR_IN_STATUS, UNDEFINED
from ringside.mpi.exception import BufferRaceError
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.offered import Handle
from ringside.mpi.operation import Operation
from ringside.mpi.status import Status

Done = tuple[int, Operation, Completion | None]  # place in the list of requests


class Active(Handle):
    """What holds an operation that may still be in flight."""

    __slots__ = ("_operation",)
    _operation: Operation | None

    def _release(self) -> None:
        """Forget the completed operation."""
        self._operation = None


def _active(requests: Sequence[Active]) -> list[tuple[int, Operation]]:
    active = []
    for place, request in enumerate(requests):
        if not isinstance(request, Active):
            raise TypeError(f"Cannot convert {type(request).__name__} to mpi4py.MPI.Request")
        if request._operation is not None:
            active.append((place, request._operation))
    return active


def _split(
    requests: Sequence[Active],
) -> tuple[list[Done], list[tuple[int, Operation]], list[int], Link | None]:
    """What is known to be complete here, what must be asked for, its numbers, and the link."""
    known: list[Done] = []
    open_: list[tuple[int, Operation]] = []
    for place, operation in _active(requests):
        if operation.completion is not None or not operation.number:
            known.append((place, operation, operation.completion))
        else:
            open_.append((place, operation))
    numbers = [operation.number for _, operation in open_]
    return known, open_, numbers, open_[0][1].link if open_ else None


def _call(name: str, requests: Sequence[Active]) -> Call:
    return name, (("requests", len(requests)),)


def wait_all(requests: Sequence[Active], name: str) -> list[Done]:
    known, open_, numbers, link = _split(requests)
    if link is None:
        return known
    completions = link.wait(numbers, "all", call=_call(name, requests))
    asked = [(place, op, c) for (place, op), c in zip(open_, completions, strict=True)]
    return sorted([*known, *asked], key=_place)


def test_all(requests: Sequence[Active], name: str) -> list[Done] | None:
    known, open_, numbers, link = _split(requests)
    if link is None:
        return known
    completions = link.test(numbers, "all", call=_call(name, requests))
    if completions is None:
        return None
    asked = [(place, op, c) for (place, op), c in zip(open_, completions, strict=True)]
    return sorted([*known, *asked], key=_place)


def some(requests: Sequence[Active], how: str, name: str, *, blocking: bool) -> list[Done] | None:
    """What is complete, at most one entry for "any"; None if nothing is and we don't block."""
    known, open_, numbers, link = _split(requests)
    if known or link is None:
        return known[:1] if how == "any" else known
    ask = link.wait if blocking else link.test
    completions = ask(numbers, how, call=_call(name, requests))
    if not completions:
        return None
    of_number = {op.number: (place, op) for place, op in open_}
    return sorted(((*of_number[c.request], c) for c in completions), key=_place)


def _place(done: Done) -> int:
    return done[0]


def finish_all(
    requests: Sequence[Active], done: list[Done], statuses: list[Status] | None
) -> list[Any]:
    objects: list[Any] = [None] * len(requests)
    filled = [Status() for _ in requests]
    failures: list[MPIException] = []
    for place, operation, completion in done:
        requests[place]._release()
        try:
            objects[place] = operation.finish(completion, filled[place])
        except MPIException as error:
            filled[place].error = int(error)
            failures.append(error)
    _give(statuses, filled)
    if failures:
        raise _in_status(failures)
    return objects


def finish_any(
    requests: Sequence[Active], done: list[Done] | None, status: Status | None
) -> tuple[int, Any]:
    if not done:
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        return UNDEFINED, None
    place, operation, completion = done[0]
    requests[place]._release()
    return place, operation.finish(completion, status)


def finish_some(
    requests: Sequence[Active], done: list[Done] | None, statuses: list[Status] | None
) -> tuple[list[int] | None, list[Any] | None]:
    if not done:
        return None, None
    chosen = [requests[place] for place, _, _ in done]
    renumbered = [(i, operation, completion) for i, (_, operation, completion) in enumerate(done)]
    objects = finish_all(chosen, renumbered, statuses)
    return [place for place, _, _ in done], objects


def _give(statuses: list[Status] | None, filled: list[Status]) -> None:
    """Copy into the caller's list, which grows as needed."""
    if statuses is None:
        return
    if isinstance(statuses, list):
        statuses += [Status() for _ in range(len(filled) - len(statuses))]
    for target, source in zip(statuses, filled, strict=False):
        target._copy(source)


def _in_status(failures: list[MPIException]) -> MPIException:
    """One error for several requests; a race is reported as itself."""
    for error in failures:
        if isinstance(error, BufferRaceError):
            return error
    return MPIException(ERR_IN_STATUS, "; ".join(error._detail or str(error) for error in failures))
