"""Request and Prequest: handles of operations that were posted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ringside.mpi.completion import (
    Active,
    finish_all,
    finish_any,
    finish_some,
    get_status,
    is_complete,
    some,
    test_all,
    wait_all,
)
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, ERR_REQUEST, UNDEFINED
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.operation import Operation
from ringside.mpi.pickling import named
from ringside.mpi.status import Status
from ringside.mpi.unsupported import expect
from ringside.network.link import Call, current


class Request(Active):
    """An operation that was posted; null once it is complete."""

    __slots__ = ()

    def __init__(self, request: Request | None = None) -> None:
        expect(request, Request)
        self._operation = request._operation if request is not None else None

    @classmethod
    def _of(cls, operation: Operation) -> Request:
        self = object.__new__(cls)
        self._operation = operation
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._identity() is other._identity()

    def _identity(self) -> object:
        return self._operation

    def __bool__(self) -> bool:
        return self._identity() is not None

    def __reduce__(self) -> Any:
        if self._identity() is None:
            return named(self, "REQUEST_NULL")
        raise ValueError("cannot pickle an active Request")

    # -- one request -------------------------------------------------------------------------------

    def Wait(self, status: Status | None = None) -> Literal[True]:
        """Block until the operation is complete."""
        self._complete(("Wait", ()), status)
        return True

    def wait(self, status: Status | None = None) -> Any:
        """Block until the operation is complete; return the object received, if any."""
        return self._complete(("wait", ()), status)

    def Test(self, status: Status | None = None) -> bool:
        """Tell whether the operation is complete, and complete it if so."""
        return self._test(("Test", ()), status)[0]

    def test(self, status: Status | None = None) -> tuple[bool, Any | None]:
        """Tell whether the operation is complete; also return the object received, if any."""
        return self._test(("test", ()), status)

    def Get_status(self, status: Status | None = None) -> bool:
        """Tell whether the operation is complete, and leave it to be completed."""
        operation = self._operation
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        if operation is None:
            return True
        if not is_complete(operation, ("Get_status", ())):
            return False
        operation.keep()
        if status is not None:
            operation.describe(status)
        return True

    get_status = Get_status

    def Free(self) -> None:
        """Give the request back; its operation still takes place."""
        if self._identity() is None:
            raise MPIException(ERR_REQUEST, "the request is REQUEST_NULL")
        self._operation = None

    def free(self) -> None:
        """Give the request back if there is one."""
        if self:
            self.Free()

    def _complete(self, call: Call, status: Status | None) -> Any:
        operation = self._operation
        if operation is None:
            self._wait_idle(call[0])
            if status is not None:
                status.fill(ANY_SOURCE, ANY_TAG, 0)
            return None
        numbers = operation.open()
        if numbers:
            for completion in operation.link.wait(numbers, "all", call=call):
                operation.take(completion)
        return self._finish(operation, status)

    def _test(self, call: Call, status: Status | None) -> tuple[bool, Any | None]:
        if self._operation is not None and not is_complete(self._operation, call):
            return False, None
        return True, self._complete(call, status)

    # -- many requests -----------------------------------------------------------------------------

    @classmethod
    def Waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> Literal[True]:
        """Block until all operations are complete."""
        finish_all(requests, wait_all(requests, "Waitall"), statuses)
        return True

    @classmethod
    def waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[Any]:
        """Block until all operations are complete; return the objects received."""
        return finish_all(requests, wait_all(requests, "waitall"), statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Tell whether all operations are complete, and complete them if so."""
        return cls.testall(requests, statuses, "Testall")[0]

    @classmethod
    def testall(
        cls,
        requests: Sequence[Request],
        statuses: list[Status] | None = None,
        _name: str = "testall",
    ) -> tuple[bool, list[Any] | None]:
        """Tell whether all operations are complete; also return the objects received."""
        done = test_all(requests, _name)
        return (False, None) if done is None else (True, finish_all(requests, done, statuses))

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Block until one operation is complete and return its place in the list."""
        return cls.waitany(requests, status, "Waitany")[0]

    @classmethod
    def waitany(
        cls, requests: Sequence[Request], status: Status | None = None, _name: str = "waitany"
    ) -> tuple[int, Any]:
        """Block until one operation is complete; return its place and the object received."""
        done = some(requests, "any", _name, blocking=True)
        return finish_any(requests, done, status)

    @classmethod
    def Testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Return the place of an operation that is complete, and whether there is one."""
        return cls.testany(requests, status, "Testany")[:2]

    @classmethod
    def testany(
        cls, requests: Sequence[Request], status: Status | None = None, _name: str = "testany"
    ) -> tuple[int, bool, Any | None]:
        """As Testany; also return the object received."""
        done = some(requests, "any", _name, blocking=False)
        if done is None:
            return UNDEFINED, False, None
        index, obj = finish_any(requests, done, status)
        return index, True, obj

    @classmethod
    def Waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Block until at least one operation is complete; return the places of all that are."""
        return cls.waitsome(requests, statuses, "Waitsome")[0]

    @classmethod
    def waitsome(
        cls,
        requests: Sequence[Request],
        statuses: list[Status] | None = None,
        _name: str = "waitsome",
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As Waitsome; also return the objects received."""
        done = some(requests, "some", _name, blocking=True)
        return finish_some(requests, done, statuses)

    @classmethod
    def Testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Return the places of all operations that are complete."""
        return cls.testsome(requests, statuses, "Testsome")[0]

    @classmethod
    def testsome(
        cls,
        requests: Sequence[Request],
        statuses: list[Status] | None = None,
        _name: str = "testsome",
    ) -> tuple[list[int] | None, list[Any] | None]:
        """As Testsome; also return the objects received."""
        done = some(requests, "some", _name, blocking=False)
        return ([], []) if done is None else finish_some(requests, done, statuses)

    @classmethod
    def Get_status_any(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool]:
        """Return the place of a complete operation, which is left to be completed."""
        indices, active = get_status(requests, "any", "Get_status_any", [status])
        return (indices[0] if indices else UNDEFINED), bool(indices) or not active

    @classmethod
    def Get_status_all(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> bool:
        """Tell whether all operations are complete, and leave them to be completed."""
        indices, active = get_status(requests, "all", "Get_status_all", statuses)
        return len(indices) == active

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Return the places of the complete operations, which are left to be completed."""
        indices, active = get_status(requests, "some", "Get_status_some", statuses)
        return indices if active else None

    get_status_any = Get_status_any
    get_status_all = Get_status_all
    get_status_some = Get_status_some


class Prequest(Request):
    """A persistent request: the same operation, started again and again."""

    __slots__ = ("_post", "_started")

    def __init__(self, request: Request | None = None) -> None:
        super().__init__(request)
        self._post: Callable[[], Operation] | None = (
            request._post if isinstance(request, Prequest) else None
        )
        self._started = self._operation is not None

    @classmethod
    def _persistent(cls, post: Callable[[], Operation]) -> Prequest:
        self = object.__new__(cls)
        self._operation = None
        self._post = post
        self._started = False
        return self

    def _identity(self) -> object:
        return self._post

    def Start(self) -> None:
        """Post the operation."""
        if self._post is None:
            raise MPIException(ERR_REQUEST, "the request is REQUEST_NULL")
        if self._operation is not None:
            raise MPIException(ERR_REQUEST, "Start of a persistent request that is active already")
        self._operation = self._post()
        self._started = True

    def _wait_idle(self, name: str) -> None:
        if self._post is not None and not self._started:
            current().remark(
                "start",
                f"{name} at {current().here} waits for a persistent request that was never "
                "started, and returns at once. Call Start before.",
            )

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        """Post all operations."""
        for request in requests:
            request.Start()

    def Free(self) -> None:
        """Give the request back."""
        super().Free()
        self._post = None


REQUEST_NULL = Request()
