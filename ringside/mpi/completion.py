"""Completing many requests at once: all of them, any one, or some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, ERR_IN_STATUS, UNDEFINED
from ringside.mpi.exception import BufferRaceError
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.operation import Operation
from ringside.mpi.status import Status
from ringside.mpi.unsupported import Handle
from ringside.network.link import Call

Placed = tuple[int, Operation]  # an operation and the place of its request in the list


class Active(Handle):
    """What holds an operation that may still be in flight."""

    __slots__ = ("_operation",)
    _operation: Operation | None

    def _release(self) -> None:
        """Forget the completed operation."""
        self._operation = None

    def _finish(self, operation: Operation, status: Status | None) -> Any:
        """Deliver what a completed operation gives; it stays ours if it is still open."""
        self._release()
        try:
            return operation.finish(status)
        except MPIException:
            self._operation = operation if operation.stays_open else None
            raise

    def _wait_idle(self, name: str) -> None:
        """Come where a call waits, and no operation is in flight."""


def _active(requests: Sequence[Active]) -> list[Placed]:
    active = []
    if isinstance(requests, Active):
        raise TypeError(
            "a list of requests is expected, got one: put it into [ ], or call its Wait"
        )
    for index, request in enumerate(requests):
        if not isinstance(request, Active):
            raise TypeError(
                f"Cannot convert {type(request).__name__} to mpi4py.MPI.Request: item {index} of "
                "the list is no request. Leave it out, or put MPI.REQUEST_NULL there."
            )
        if request._operation is not None:
            active.append((index, request._operation))
    return active


def is_complete(operation: Operation, call: Call) -> bool:
    """Ask whether an operation is complete."""
    return _ask_all([(0, operation)], call, blocking=False)


def _ask_all(active: list[Placed], call: Call, *, blocking: bool) -> bool:
    of_number = {number: operation for _, operation in active for number in operation.open()}
    if not of_number:
        return True
    numbers = list(of_number)
    link = of_number[numbers[0]].link
    ask = link.wait if blocking else link.test
    completions = ask(numbers, "all", call=call)
    if completions is None:
        return False
    for completion in completions:
        of_number[completion.request].take(completion)
    return True


def _ask_some(active: list[Placed], how: str, call: Call, *, blocking: bool) -> list[Placed]:
    """What is complete; an operation of several parts may need more than one answer."""
    ready = [placed for placed in active if not placed[1].open()]
    while active and not ready:
        of_number = {n: operation for _, operation in active for n in operation.open()}
        link = next(iter(of_number.values())).link
        ask = link.wait if blocking else link.test
        completions = ask(list(of_number), how, call=call)
        if not completions:
            break
        for completion in completions:
            of_number[completion.request].take(completion)
        ready = [placed for placed in active if not placed[1].open()]
        for placed in active:
            if placed not in ready:
                placed[1].keep()
    return ready[:1] if how == "any" else ready


def _call(name: str, requests: Sequence[Active]) -> Call:
    return name, (("requests", len(requests)),)


def wait_all(requests: Sequence[Active], name: str) -> list[Placed]:
    active = _active(requests)
    if len(active) < len(requests):
        for request in requests:
            request._wait_idle(name)
    _ask_all(active, _call(name, requests), blocking=True)
    return active


def test_all(requests: Sequence[Active], name: str) -> list[Placed] | None:
    active = _active(requests)
    return active if _ask_all(active, _call(name, requests), blocking=False) else None


def some(requests: Sequence[Active], how: str, name: str, *, blocking: bool) -> list[Placed] | None:
    """What is complete, at most one entry for "any"; None if nothing is and we don't block."""
    active = _active(requests)
    ready = _ask_some(active, how, _call(name, requests), blocking=blocking)
    return ready if ready or not active else None


def get_status(
    requests: Sequence[Active], how: str, name: str, statuses: Sequence[Status | None] | None
) -> tuple[list[int], int]:
    """The places of what is complete and stays to be completed, and how many are active."""
    active = _active(requests)
    call = _call(name, requests)
    if how == "all":
        ready = active if _ask_all(active, call, blocking=False) else []
        described = dict(active)
    else:
        ready = _ask_some(active, how, call, blocking=False)
        described = dict(enumerate(operation for _, operation in ready))
    for _, operation in ready:
        operation.keep()
    if ready or not active:
        for index, status in enumerate(statuses or ()):
            if status is not None and index in described:
                described[index].describe(status)
            elif status is not None and how != "some":
                status.fill(ANY_SOURCE, ANY_TAG, 0)
    return [index for index, _ in ready], len(active)


def finish_all(
    requests: Sequence[Active], done: list[Placed], statuses: list[Status] | None
) -> list[Any]:
    objects: list[Any] = [None] * len(requests)
    filled = [Status() for _ in requests]
    failures: list[MPIException] = []
    for index, operation in done:
        try:
            objects[index] = requests[index]._finish(operation, filled[index])
        except MPIException as error:
            filled[index].error = int(error)
            failures.append(error)
    _give(statuses, filled)
    if failures:
        raise _in_status(failures)
    return objects


def finish_any(
    requests: Sequence[Active], done: list[Placed] | None, status: Status | None
) -> tuple[int, Any]:
    if not done:
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        return UNDEFINED, None
    index, operation = done[0]
    return index, requests[index]._finish(operation, status)


def finish_some(
    requests: Sequence[Active], done: list[Placed] | None, statuses: list[Status] | None
) -> tuple[list[int] | None, list[Any] | None]:
    if not done:
        return None, None
    chosen = [requests[index] for index, _ in done]
    renumbered = [(i, operation) for i, (_, operation) in enumerate(done)]
    objects = finish_all(chosen, renumbered, statuses)
    return [index for index, _ in done], objects


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
