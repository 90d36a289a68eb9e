"""Work handles: operations in flight, and the futures that torch's reducer and hooks want.

Nothing completes behind a rank's back: a work is complete when somebody waits for it or asks. So a
future of a work that is asked for inside ``backward`` is completed by a callback at the end of it,
before the reducer looks at it; outside, ``wait`` and ``then`` of the future wait for the work.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.distributed.algorithms import join

from ringside.network.in_flight import Awaited
from ringside.network.link import Call, Completion, Link, format_call
from ringside.pytorch import tensors

# torch's stubs for these differ between releases.
_Work: Any = dist.Work
_TorchFuture: Any = torch.futures.Future
_engine: Any = Variable._execution_engine
Join: Any = join.Join
_Reducer: Any = torch._C._distributed_c10d.Reducer


class BufferRaceError(RuntimeError):
    """A tensor was changed while it was being sent, or written while its data were to come."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the tensor of {what} before its work was waited for. "
            "Wait first, or work on another tensor."
        )


class WorkPart:
    """One request on the link: what it reads, and what to do with what comes back."""

    __slots__ = ("_checksums", "awaited", "deliver", "number", "received", "sent")

    def __init__(
        self,
        number: int,
        deliver: Callable[[Completion], None] | None = None,
        sent: Sequence[torch.Tensor] = (),
        received: Sequence[torch.Tensor] = (),
        awaited: Awaited | None = None,
    ) -> None:
        self.number = number
        self.received = received
        self.awaited = awaited
        self.deliver = deliver
        self.sent = sent
        self._checksums = [_checksum(tensor) for tensor in sent]

        if awaited is not None:
            for tensor in received:
                tensors.poison(tensor, awaited.number)

    def check_sent(self, call: str) -> None:
        """Refuse a tensor that was changed since it was given to be sent."""
        if [_checksum(tensor) for tensor in self.sent] != self._checksums:
            raise BufferRaceError(f"{call} was changed")

    def finish(self, completion: Completion, call: Call, link: Link) -> None:
        """Take the result; refuse a tensor that was changed meanwhile."""
        link.in_flight.sends.pop(self.number, None)
        self.check_sent(format_call(call))
        awaited = self.awaited
        if awaited is not None:
            link.has_come(awaited)
            if not awaited.shared and not all(
                tensors.is_poison(tensor, awaited.number) for tensor in self.received
            ):
                raise BufferRaceError(f"{awaited.call()} was written into")
        if self.deliver is not None:
            self.deliver(completion)


def _checksum(tensor: torch.Tensor) -> int:
    # A check against accidents: payloads were fixed when they were posted, so fooling it gains
    # nothing.
    return zlib.crc32(tensors.memory(tensor).data)


class NetworkWork(_Work):  # type: ignore[misc]
    """A call of a process group, posted and not yet known to be complete.

    Args:
        link: the rank's link.
        parts: the requests that make up the call.
        call: the call as a verdict shows it.
        results: the tensors that hold the result.
        blocking: the call itself waits, and a verdict names it; else it names the call's ``wait``.
    """

    def __init__(
        self,
        link: Link,
        parts: Sequence[WorkPart],
        call: Call,
        results: Any = (),
        *,
        blocking: bool = False,
    ) -> None:
        super().__init__()
        self._link = link
        self._parts = list(parts)
        self._call = call
        self._results = results
        self._wait_call: Call = call if blocking else (f"{format_call(call)}.wait", ())
        self._future: _Future | None = None
        self._source = -1
        if _joining and not blocking:
            _joining[-1].append(self)

    def wait(self, timeout: Any = None) -> bool:
        """Block until the call is complete; a time-out has no meaning in virtual time."""
        if self._parts:
            numbers = [part.number for part in self._parts]
            self._finish(self._link.wait(numbers, "all", call=self._wait_call))
        return True

    def is_completed(self) -> bool:
        """Tell whether the call is complete; observes virtual time."""
        if self._parts:
            numbers = [part.number for part in self._parts]
            call = (f"{format_call(self._call)}.is_completed", ())
            completions = self._link.test(numbers, "all", call=call)
            if completions is None:
                return False
            self._finish(completions)
        return True

    def _finish(self, completions: Sequence[Completion]) -> None:
        # Emptied first: a callback of the future may wait for this work once more.
        parts, self._parts = self._parts, []
        for part, completion in zip(parts, completions, strict=True):
            if completion.error:
                self._link.checked(completion)
            self._source = completion.source
            part.finish(completion, self._call, self._link)
        # No cycle may stay behind: it would hold the tensors until the garbage is collected.
        future, self._future = self._future, None
        if future is not None:
            future.complete(self._results)

    def is_success(self) -> bool:
        """Tell whether the call is complete; one that fails raises."""
        return self.is_completed()

    def exception(self) -> None:
        """A call that fails raises in ``wait``."""

    def synchronize(self) -> None:
        """Block until the call is complete."""
        self.wait()

    def block_current_stream(self) -> None:
        """Block until the call is complete: a CPU has one stream."""
        self.wait()

    def source_rank(self) -> int:
        """The sender of a received message, in the group."""
        return self._source

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        """The tensors that hold the result."""
        self.wait()
        return list(self._results)

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the result."""
        if not self._parts:
            done = _Future(self)
            done.complete(self._results)
            return done
        if self._future is None:
            self._future = _Future(self)
            if in_backward() and not _waits_in_reducer[0]:
                # Runs after the last gradient and before the reducer's own callback.
                _engine.queue_callback(self.wait)
            elif _waits_in_reducer[0] or _for_ranks_that_go_on():
                self.wait()
                return self.get_future()
        return self._future

    def get_future_result(self) -> torch.futures.Future[Any]:
        """A future of the result."""
        return self.get_future()


_waits_in_reducer = [False]  # whether DDP's reducer reduces all and waits for it at once
_joining: list[list[NetworkWork]] = []  # of each `with model.join():`, what was started inside


def wait_where_torch_does_not() -> None:
    """Let `with model.join():` end with a wait for all that was started inside.

    A rank that has a batch tells so in all-reduces whose works torch drops. They are complete when
    all ranks have come to the end, so nobody waits for long.

    And note when DDP with ``static_graph=True`` reduces all gradients after its first backward
    pass: the reducer waits there in C++, for what only ``NetworkWork.wait`` can complete.
    """
    enter, leave = Join.__enter__, Join.__exit__

    def enter_noting(self: Any) -> Any:
        _joining.append([])
        return enter(self)

    def leave_waiting(self: Any, kind: Any, *error: Any) -> Any:
        works = _joining.pop()
        leave(self, kind, *error)
        for work in works if kind is None else ():
            work.wait()

    Join.__enter__, Join.__exit__ = enter_noting, leave_waiting
    reduce_all = _Reducer._delay_all_reduce

    def reduce_all_waiting(self: Any) -> Any:
        _waits_in_reducer[0] = True
        try:
            return reduce_all(self)
        finally:
            _waits_in_reducer[0] = False

    _Reducer._delay_all_reduce = reduce_all_waiting


def in_backward() -> bool:
    """Whether a backward pass is what led here."""
    return int(torch._C._current_graph_task_id()) != -1


def _for_ranks_that_go_on() -> bool:
    """Whether DDP's ``join`` reduces here, on a rank without a batch, the gradients of others.

    torch waits in C++ there for what only ``NetworkWork.wait`` can complete.
    """
    frame: FrameType | None = sys._getframe(2)  # who called get_future
    while frame is not None:
        if frame.f_code.co_name == "_match_all_reduce_for_bwd_pass":
            return True
        frame = frame.f_back
    return False


class _Future(_TorchFuture):  # type: ignore[misc]
    """A future that waits for its work instead of for another thread."""

    def __init__(self, work: NetworkWork) -> None:
        super().__init__()
        self._work = work
        self._callbacks: list[Callable[[Any], Any]] = []

    def complete(self, value: Any) -> None:
        """Set the result and run what waited for it."""
        if not super().done():
            self.set_result(value)
            self._call_back()

    def fail(self, error: Exception) -> None:
        """Set the error and run what waited for it."""
        self.set_exception(error)
        self._call_back()

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def done(self) -> bool:
        return super().done() or (self._work.is_completed() and super().done())

    def wait(self) -> Any:
        self._work.wait()
        return super().wait()

    def value(self) -> Any:
        self._work.wait()
        return super().value()

    def then(self, callback: Callable[[Any], Any]) -> Any:
        child = _Future(self._work)

        def run(parent: Any) -> None:
            try:
                value = callback(parent)
            except Exception as error:
                child.fail(error)
            else:
                child.complete(value)

        self.add_done_callback(run)
        return child

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        # In backward it must not wait: hooks of DDP chain futures there, and no overlap would be
        # left.
        if not super().done() and not in_backward():
            self._work.wait()
        if super().done():
            callback(self)
        else:
            self._callbacks.append(callback)
