"""What can end a run, as exceptions.

RingsideError
├── CodecError        a value that may not cross the network
├── MachineError      a machine file that is missing or wrong
├── TraceError        a trace file that is missing, damaged or of another version
├── StoreError        a store that doesn't hold what a program asks for, or can't
├── TargetError       what was asked to run doesn't exist or can't be run
├── GuessError        a prompt or a prediction that can't be used (ringside/course/predictions)
└── RunError          student code ended the run
    ├── NotPythonError    a file that Python can't read
    ├── RankError         an exception in one rank
    ├── DeadlockError     every rank is blocked and no message is in flight
    ├── DeadlineError     the run took longer than it may
    └── LimitError        a rank broke a limit of the network

KeyboardInterrupt
└── Interrupted       the reader stopped ranks at work
"""

from __future__ import annotations

import os
import textwrap
import traceback
from dataclasses import dataclass, field


class RingsideError(Exception):
    """Root of the package's errors."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message and the reader's own line, without the kit's frames."""
        kit = os.path.dirname(__file__) + os.sep
        frames = [
            entry
            for entry in traceback.extract_tb(self.__traceback__)
            if entry.line
            and not entry.filename.startswith(kit)
            and not _is_shell(entry.filename)
            and not entry.line.startswith("get_ipython()")  # what a magic is turned into
        ]
        called = [f"called by line {frames[-1].lineno}: {frames[-1].line}"] if frames else []
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ()), *called]


def _is_shell(file: str) -> bool:
    """Whether a file is IPython's own, between the cell and a magic."""
    return f"{os.sep}IPython{os.sep}" in file


class CodecError(RingsideError):
    """A value that may not cross the network, or bytes that are no value."""


class MachineError(RingsideError):
    """A machine file that is missing or wrong."""


class TraceError(RingsideError):
    """A trace file that is missing, damaged or of another version."""


class StoreError(RingsideError):
    """A store that doesn't hold what a program asks for, or can't hold what it is given."""


class TargetError(RingsideError):
    """What was asked to run doesn't exist or can't be run on ranks."""


class RunError(RingsideError):
    """Student code ended the run."""


class NotPythonError(RunError):
    """A file of the student's that Python can't read."""

    def __init__(self, file: str, error: SyntaxError | ValueError) -> None:
        line = getattr(error, "lineno", None)
        text = (getattr(error, "text", None) or "").strip()
        reason = getattr(error, "msg", None) or str(error)
        super().__init__(f"{file}:{line or '?'}: {reason}" + (f"\n  {text}" if text else ""))


@dataclass(frozen=True)
class Frame:
    """One line of a traceback in a rank."""

    file: str
    line: int
    function: str
    text: str


class RankError(RunError):
    """An exception that left the student's function on one rank."""

    def __init__(
        self,
        rank: int,
        type_name: str,
        message: str,
        frames: tuple[Frame, ...] = (),
        hint: str = "",
    ) -> None:
        self.rank = rank
        self.type_name = type_name
        self.message = message
        self.frames = frames
        self.hint = hint
        super().__init__(self.render())

    @property
    def where(self) -> str:
        """The innermost line of the student's code, as ``ring.py:14``."""
        return f"{self.frames[-1].file}:{self.frames[-1].line}" if self.frames else "(unknown line)"

    @property
    def headline(self) -> str:
        """Rank, type and line, if it has one, and the exception's message if it has one."""
        at = f" at {self.where}" if self.frames else ""
        suffix = f": {self.message}" if self.message else ""
        return f"rank {self.rank} raised {self.type_name}{at}{suffix}"

    def render(self) -> str:
        """The error as a person reads it."""
        lines = [self.headline]
        for frame in self.frames[-4:]:
            lines.append(f"  {frame.file}:{frame.line} in {frame.function}")
            if frame.text:
                lines.append(f"    {frame.text}")
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


@dataclass(frozen=True)
class BlockedCall:
    """What one rank was doing when nothing could move any more."""

    rank: int
    call: str
    site: str
    waits_for: tuple[int, ...] = field(default=())


class DeadlockError(RunError):
    """Every rank is blocked (or ended) and no message is in flight."""

    def __init__(self, headline: str, blocked: tuple[BlockedCall, ...], cure: str) -> None:
        self.headline = headline
        self.blocked = blocked
        self.cure = cure
        super().__init__(self.render())

    def render(self) -> str:
        """The verdict as a person reads it: a table of calls, then the reason and the cure."""
        width = max((len(entry.call) for entry in self.blocked), default=0)
        digits = max((len(str(entry.rank)) for entry in self.blocked), default=1)
        lines = [self.headline]
        lines += [
            f"  rank {entry.rank:>{digits}}  {entry.call:<{width}}  {entry.site}".rstrip()
            for entry in self.blocked
        ]
        lines.append(textwrap.fill(self.cure, 92, initial_indent="  ", subsequent_indent="  "))
        return "\n".join(lines)


class DeadlineError(RunError):
    """The run took longer than it may; says which ranks were where.

    Attributes:
        allowed: what it could take, such as ``within 60 s``.
    """

    def __init__(self, allowed: str, still: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.still = still
        detail = "".join(f"\n  {line}" for line in still)
        super().__init__(f"the run did not end {allowed}.{detail}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or Interrupt in a notebook, while ranks were at work; says where they were."""

    def __init__(self, still: tuple[str, ...], doing: str = "") -> None:
        self.still = still
        self.doing = doing
        detail = "".join(f"\n  {line}" for line in still)
        super().__init__(f"stopped{doing}{':' if still else '.'}{detail}")

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: no frames, of the kit's or others."""
        return [str(self)]


class LimitError(RunError):
    """A rank broke a limit of the network: too many messages, too large a frame, a bad field."""

    def __init__(self, rank: int, message: str) -> None:
        self.rank = rank
        self.message = message
        super().__init__(f"rank {rank}: {message}")
