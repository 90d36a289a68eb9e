"""What one real rank did, and what it is doing: filled by a recorder of MPI or of torch.

``ringside.jobs.real.recording_mpi`` writes down the calls of a communicator,
``ringside.jobs.real.recording_torch`` those of torch's process groups;
``ringside.jobs.real.measured`` makes a trace of what all ranks wrote down. A call that is in
progress is in ``current``: the deadline's report says which rank is in which call.
"""

from __future__ import annotations

import math
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from ringside.kit import PACKAGE
from ringside.network import link

_HERE = str(PACKAGE)
_STDLIB = sysconfig.get_path("stdlib")


@dataclass
class CallRecord:
    """One communication call of one rank; one without a name is the end of the run.

    Attributes:
        start_s, end_s: when; marks of the recorder's clock, until ``Recorder.written`` reads them.
        ops: what it sent, received or waited for, as ``ringside.jobs.real.measured`` reads it.
        work: counted since the call before: FLOPs, their bytes, operators, bytes of those bound by
            memory.
    """

    name: str
    file: str
    line: int
    start_s: Any
    end_s: Any = -1.0
    ops: list[list[Any]] = field(default_factory=list)
    work: list[float] = field(default_factory=lambda: [0.0, 0.0, 0, 0.0])


class HostClock:
    """Time as the processor sees it. A GPU's own time: ``recording_torch.DeviceClock``."""

    def __init__(self) -> None:
        self._origin_s = time.perf_counter()

    def restart(self) -> None:
        """Time begins now."""
        self._origin_s = time.perf_counter()

    def mark(self) -> Any:
        """Now, in a form that ``seconds`` reads later."""
        return time.perf_counter() - self._origin_s

    def seconds(self, mark: Any) -> float:
        """When a mark was made."""
        return float(mark)


class Recorder:
    """The calls of one rank.

    Args:
        clock: gives the times.
        most_calls: stop after so many; None: never.
    """

    def __init__(self, clock: HostClock | None = None, most_calls: int | None = None) -> None:
        self.calls: list[CallRecord] = []
        self.current: CallRecord | None = None
        self.clock = clock or HostClock()
        self.most_calls = most_calls
        self.num_requests = 0
        self.enabled = True
        self.full = False
        self._work = [0.0, 0.0, 0, 0.0]
        self._main = threading.main_thread().ident

    def restart(self) -> None:
        """Forget everything; time begins now."""
        self.calls = []  # requests keep their numbers: those of before are not taken for new ones
        self.full = False
        self._work = [0.0, 0.0, 0, 0.0]
        self.clock.restart()

    @contextmanager
    def call(self, name: str, *, more: bool = False) -> Iterator[CallRecord]:
        """One call from the student's code; a call made by a call belongs to the outer one.

        Args:
            more: it is the rest of the call before.
        """
        if self.current is not None:
            yield self.current
            return
        if self.enabled and not more and len(self.calls) == self.most_calls:
            self.enabled, self.full = False, True
        file, line = self._student_line()
        record = self.current = CallRecord(name, file, line, self.clock.mark())
        try:
            yield record
        finally:
            self.current = None
            record.end_s = self.clock.mark()
            if self.enabled:
                self._keep(record)

    def _keep(self, record: CallRecord) -> None:
        record.work, self._work = self._work, [0.0, 0.0, 0, 0.0]
        self.calls.append(record)

    def end(self) -> None:
        """The run is over: what was computed after the last call counts, nothing after this."""
        if self.enabled:
            now = self.clock.mark()
            self._keep(CallRecord("", "", 0, now, now))
        self.enabled = False

    def request(self) -> int:
        """A number for one more request."""
        self.num_requests += 1
        return self.num_requests - 1

    def counted(self, flops: float, nbytes: float, moved: float = 0.0) -> None:
        """An operator's work, as ``Link.work`` counts it."""
        if self.enabled:
            for index, amount in enumerate((flops, nbytes, 1, moved)):
                self._work[index] += amount

    def take_work_of(self, other: Recorder) -> bool:
        """Give each call the work that another run of the same calls counted, if they match."""
        if [call.name for call in self.calls] != [call.name for call in other.calls]:
            return False
        for mine, theirs in zip(self.calls, other.calls, strict=True):
            mine.work = theirs.work
        return True

    def written(self) -> list[list[Any]]:
        """The calls as lists, times in seconds: what ``measured.RecordedCall`` wants."""
        rows, last_s = [], 0.0
        for call in self.calls:
            # Streams of a GPU have their own order; in the record a call ends before the next.
            start_s = max(last_s, self.clock.seconds(call.start_s))
            last_s = max(start_s, self.clock.seconds(call.end_s))
            rows.append([call.name, call.file, call.line, start_s, last_s, call.ops, call.work])
        return rows

    def _student_line(self) -> tuple[str, int]:
        """The innermost line that is neither this kit's nor a library's."""
        frame = student_frame(sys._getframe(1))
        if frame is None and threading.get_ident() != self._main and self._main is not None:
            frame = student_frame(sys._current_frames().get(self._main))  # a thread of autograd
        return (Path(frame.f_code.co_filename).name, frame.f_lineno) if frame else ("", 0)


def student_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost of a frame's callers, or itself, that is in a file of the student's."""
    while frame is not None and not is_student_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def is_student_file(name: str) -> bool:
    """Whether a line of this file is the student's: neither this kit's nor a library's."""
    return not (name.startswith((_HERE, _STDLIB, "<")) or "site-packages" in name)


_active: list[tuple[Recorder, Callable[[], None]]] = []  # what a process records, if anything


@contextmanager
def recording_here(recorder: Recorder, together: Callable[[], None]) -> Iterator[None]:
    """Inside, ``ringside.compute`` and ``recorded`` mean this recorder.

    Args:
        together: returns when all ranks have called it.
    """
    _active.append((recorder, together))
    try:
        yield
    finally:
        _active.pop()


def compute(
    *, num_flops: float = 0.0, nbytes: float = 0.0, seconds: float | None = None, phase: str = ""
) -> None:
    """Declare work of this rank, so that virtual time passes for it.

    On a real rank it is counted, for the trace; elsewhere nothing happens.

    Args:
        num_flops: floating-point operations.
        nbytes: bytes moved to and from memory.
        seconds: the time itself, in place of the machine's roofline.
        phase: what timelines call it.

    Raises:
        ValueError: an amount is negative, infinite or not a number.
    """
    for name, amount in (("num_flops", num_flops), ("nbytes", nbytes), ("seconds", seconds or 0.0)):
        if not 0 <= float(amount) < math.inf:
            raise ValueError(f"compute: {name} = {amount} must be a number from 0 up.")
    if link.inside_rank():
        link.current().compute(num_flops, nbytes, seconds, phase or "compute")
    elif _active:
        _active[-1][0].counted(num_flops, nbytes)


@contextmanager
def phase(name: str, item: str = "") -> Iterator[None]:
    """Name what the program does inside, for timelines; it sends, counts and costs nothing.

        with ringside.phase("reduce-scatter", f"shard {shard}"):
            comm.Sendrecv(...)

    A timeline draws a bracket over each phase, and shades what carries different items. On a real
    rank nothing happens.

    Args:
        name: of the phase, at most 40 characters without brackets or commas.
        item: what the messages posted inside carry, such as "shard 2"; the same holds for it.

    Raises:
        ValueError: it isn't such a text.
    """
    for text in (name, item):
        if not isinstance(text, str) or len(text) > 40 or set(text) & set("[],\n"):
            raise ValueError(
                f"phase: {text!r} must be a text of at most 40 characters, without brackets, "
                "commas or line breaks."
            )
    if not link.inside_rank() or not name:
        yield
        return
    rank = link.current()
    before = rank.enter(f"{name}, {item}" if item else name)
    try:
        yield
    finally:
        rank.enter(before)


@contextmanager
def recorded() -> Iterator[None]:
    """In a script under ``ringside launch``: record what happens inside, and nothing else.

    Without it the whole script is recorded, from ``init_process_group`` on. All ranks enter it, and
    wait for each other there; entered several times, the last time counts. Elsewhere it does
    nothing.

        for step in range(num_steps):
            with ringside.recorded() if step == 5 else contextlib.nullcontext():
                train(step)
    """
    if not _active:
        yield
        return
    recorder, together = _active[-1]
    # Only when all are here, so that the clocks of all ranks begin together.
    together()
    recorder.restart()
    recorder.enabled = True
    try:
        yield
    finally:
        recorder.end()
