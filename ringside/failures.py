"""Failures that a run is given: ranks that die, hang or are slow, and bits that are flipped."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from ringside.errors import TargetError

COLLECTIVES = ("split", "all", "none")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_TEXT = re.compile(r"(node)?(\d+)@(?:op(\d+)|(\d+(?:\.\d+)?(?:e-?\d+)?)(s|ms|us|µs|ns))")
_SLOW = re.compile(r"(\d+)x(\d+(?:\.\d+)?)")
_FLIP = re.compile(r"(\d+)#(\d+):bit(\d+)")

AnyStop = TypeVar("AnyStop", bound="Stop")


@dataclass(frozen=True)
class Stop:
    """The moment from which on a rank, or each rank of a node, does nothing more."""

    option: ClassVar[str]
    does: ClassVar[str]

    rank: int = -1
    at_s: float | None = None
    op: int | None = None
    node: int = -1

    def __post_init__(self) -> None:
        if (self.rank < 0) == (self.node < 0) or (self.at_s is None) == (self.op is None):
            raise TargetError(f"{self!r}: give a rank or a node, and at_s or op.")
        if self.op is not None and (self.op < 1 or self.node >= 0):
            raise TargetError(f"{self!r}: op is 1 or more, of one rank.")
        if self.at_s is not None and not 0 <= self.at_s < 1e6:
            raise TargetError(f"{self!r}: at_s must be in [0, 1e6) s.")

    def __str__(self) -> str:
        who = f"node{self.node}" if self.node >= 0 else str(self.rank)
        return f"{who}@{f'op{self.op}' if self.at_s is None else f'{self.at_s:g}s'}"

    @classmethod
    def parse(cls: type[AnyStop], text: str) -> AnyStop:
        """A moment as the command line has it: ``3@1.2ms``, ``3@op17`` or ``node1@2ms``.

        Raises:
            TargetError: it is none.

        >>> Kill.parse("3@op17")
        Kill(rank=3, at_s=None, op=17, node=-1)
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise TargetError(
                f"--{cls.option} {text}: write 3@1.2ms (rank and time), 3@op17 (the operation in "
                f"which it {cls.does}) or node1@2ms."
            )
        node, number, op, time, unit = match.groups()
        at_s = None if time is None else float(time) * _UNITS[unit]
        who = {"node": int(number)} if node else {"rank": int(number)}
        return cls(**who, at_s=at_s, op=None if op is None else int(op))


@dataclass(frozen=True)
class Kill(Stop):
    """The death of a rank, or of all ranks of a node: without a word, as by SIGKILL.

    Args:
        rank: of the world.
        at_s: on the virtual clock. What the rank is doing then stays undone.
        op: instead: it dies in its operation of this number, from 1 on, before that is posted. A
            Send is two operations, to post it and to wait; ``len(result.trace.ops[rank])`` tells
            how many a rank has.
        node: instead of ``rank``.
    """

    option = "kill"
    does = "dies"


@dataclass(frozen=True)
class Hang(Stop):
    """A rank that goes on no more, and is alive: nobody gets an error for it.

    What it has posted before still arrives, and the collectives that it has joined end.

    Args:
        rank: of the world.
        at_s: on the virtual clock. What the rank is doing then stays undone.
        op: instead: it hangs before its operation of this number, counted as for ``Kill``.
        node: instead of ``rank``: all its ranks.
    """

    option = "hang"
    does = "hangs"


@dataclass(frozen=True)
class Slow:
    """A rank whose work takes longer: what it computes, and not its messages.

    Args:
        rank: of the world.
        factor: how many times as long; below 1 it is faster than the others.
    """

    rank: int
    factor: float

    def __post_init__(self) -> None:
        if self.rank < 0 or not 0 < self.factor < math.inf:
            raise TargetError(f"{self!r}: give a rank and a factor above 0, such as 1.34.")

    @classmethod
    def parse(cls, text: str) -> Slow:
        """A slow rank as the command line has it.

        Raises:
            TargetError: it is none.

        >>> Slow.parse("1x1.34")
        Slow(rank=1, factor=1.34)
        """
        match = _SLOW.fullmatch(text)
        if match is None:
            raise TargetError(f"--slow {text}: write 1x1.34, which is rank and factor.")
        return cls(int(match[1]), float(match[2]))


@dataclass(frozen=True)
class Flip:
    """A bit of one message that is another one when the message arrives.

    Its sender keeps what it had. What the library's own collectives send isn't hit.

    Args:
        rank: of the world, which sends the message.
        message: which one of those that it sends, from 1 on.
        bit: of the payload. Bit 0 is the lowest one of the first byte, so in a message of 64-bit
            numbers bit 62 is the highest bit of the first one's exponent.
    """

    rank: int
    message: int
    bit: int

    def __post_init__(self) -> None:
        if self.rank < 0 or self.message < 1 or self.bit < 0:
            raise TargetError(f"{self!r}: give a rank, a message from 1 on, and a bit from 0 on.")

    def __str__(self) -> str:
        return f"{self.rank}#{self.message}:bit{self.bit}"

    @classmethod
    def parse(cls, text: str) -> Flip:
        """A flip as the command line has it.

        Raises:
            TargetError: it is none.

        >>> Flip.parse("2#5:bit62")
        Flip(rank=2, message=5, bit=62)
        """
        match = _FLIP.fullmatch(text)
        if match is None:
            raise TargetError(
                f"--flip {text}: write 2#5:bit62, which is bit 62 of the 5th message of rank 2."
            )
        return cls(*map(int, match.groups()))


AnyFailure = Kill | Hang | Slow | Flip


class Failures:
    """What goes wrong in a run.

    Args:
        given: kills and hangs, in the order of their times; slow ranks; and bits that are flipped.
            The moment of a kill is found in a run with only those before it, which is made first.
        in_flight: what becomes of messages that a dead rank had sent and that had not arrived when
            it died: "delivered" or "lost".
        collectives: who gets the result of a library collective in which a rank dies after it has
            given its part: "split", a drawn half of the others; "all" or "none" of them. The rest
            get an error.
        detect_s: how long survivors take to find a rank dead; None: the machine's
            ``failure_detect_s``.
        seed: what the half is drawn from.
    """

    def __init__(
        self,
        *given: AnyFailure,
        in_flight: str = "delivered",
        collectives: str = "split",
        detect_s: float | None = None,
        seed: int = 0,
    ) -> None:
        if in_flight not in ("delivered", "lost"):
            raise TargetError(f'in_flight ({in_flight!r}) must be "delivered" or "lost".')
        if collectives not in COLLECTIVES:
            raise TargetError(f"collectives ({collectives!r}) must be one of {COLLECTIVES}.")
        if detect_s is not None and not 0 <= detect_s < 1e6:
            raise TargetError(f"detect_s ({detect_s!r}) must be in [0, 1e6) s.")
        self.stops = [item for item in given if isinstance(item, Stop)]
        self.kills = [item for item in self.stops if isinstance(item, Kill)]
        slow = [item for item in given if isinstance(item, Slow)]
        self.slow = {item.rank: item.factor for item in slow}
        if len(self.slow) < len(slow):
            raise TargetError(f"{slow}: give each rank one factor.")
        flips = [item for item in given if isinstance(item, Flip)]
        self.flips = {(item.rank, item.message): item.bit for item in flips}
        if len(self.flips) < len(flips):
            raise TargetError(f"{flips}: flip one bit of a message.")
        self.in_flight = in_flight
        self.collectives = collectives
        self.detect_s = detect_s
        self.seed = seed

    @classmethod
    def asked(
        cls,
        kills: Sequence[str] | None,
        lost: bool,
        hangs: Sequence[str] | None = None,
        slow: Sequence[str] | None = None,
        flips: Sequence[str] | None = None,
    ) -> Failures | None:
        """What ``--kill``, ``--lost``, ``--hang``, ``--slow`` and ``--flip`` ask for.

        Returns:
            None: nothing.

        Raises:
            TargetError: one of them can't be read.
        """
        stops: list[Kill | Hang] = [*map(Kill.parse, kills or ()), *map(Hang.parse, hangs or ())]
        given: list[AnyFailure] = [
            *stops,
            *map(Slow.parse, slow or ()),
            *map(Flip.parse, flips or ()),
        ]
        return cls(*given, in_flight="lost" if lost else "delivered") if given else None
