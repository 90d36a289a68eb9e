"""A trace: what every rank did, in order, with no times.

The file is gzipped JSON lines. Line 1 is the header::

    {"format": "ringside-trace", "version": 1, "world_size": 4, "machine": "textbook",
     "sites": [["Sendrecv(dest=1, source=3)", "ring.py", 14], ...], "slow": [[1, 1.34]]}

and every other line is one operation, ranks in order::

    [rank, kind, peer, tag, nbytes, comm, request, message, detail, site]

kind     0 compute, 1 isend, 2 irecv, 3 wait, 4 poll, 5 collective, 7 pass, 8 access, 9 fault,
         10 death, 11 store, 12 hang; a blocking call is two of them
peer     world rank of the other side; -1: none
nbytes   counted payload of a message or collective, of what an access brings to its target, or of
         an array that is put into a store or got from it
comm     the communicator's path: "world", "world/2.1" is colour 1 of the 2nd collective on "world"
request  number of the request on its rank, which a wait names
message  number of the message, the same at send and receive; -1: never received
detail   compute [flops, nbytes, picoseconds or -1, phase] and, where operators were counted,
         [.., number of operators, bytes of those bound by memory]; isend [mode];
         irecv [source, tag] as asked; wait [requests]; poll [picoseconds it took];
         collective [name, sequence, root, members, sizes]; the sequence is counted per
         communicator, and below 0, per members, where a group of them is made; pass [phase,
         number, how many factors], announced by a supplied layer, in no time; access [bytes that
         it brings back, -1: none], to a window of the peer, which takes no part in it; store
         ["put", "get", "names" or "remove", the array's name]

Of a run in which ranks were killed: a fault is a request that ended with an error, [picoseconds
before which it can't, MPI's class of the error]; so may a collective, whose detail has a sixth
entry then, those picoseconds. A death is a killed rank's last operation, [picoseconds], and so is
the hang of a rank that goes on no more. The header's "slow", if there is one, has the ranks whose
work takes longer, each with its factor.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ringside.errors import TraceError
from ringside.files import write_output

FORMAT = "ringside-trace"
MAX_RANKS = 1 << 17  # of a trace in a file
VERSION = 1


class Kind(IntEnum):
    """What an operation is."""

    COMPUTE = 0
    ISEND = 1
    IRECV = 2
    WAIT = 3
    POLL = 4
    COLLECTIVE = 5
    QUERY = 6  # a call that observes time, until the live network has answered it; never in a file
    PASS = 7  # a supplied layer says what it computes next, and is told the factors of it
    ACCESS = 8  # memory of another rank is written (Put), read (Get), or both
    FAULT = 9  # a request that ended with an error, since a rank had died
    DEATH = 10  # the rank was killed
    STORE = 11  # a store that outlives the ranks is written or read
    HANG = 12  # the rank is alive, and goes on no more


_IN_FILES = frozenset(Kind) - {Kind.QUERY}


class Mode(IntEnum):
    """MPI's send modes: the detail of an isend."""

    STANDARD = 0
    SYNC = 1
    BUFFERED = 2
    READY = 3


class Op(NamedTuple):
    """One operation of one rank; the module's docstring explains the fields."""

    kind: int
    peer: int = -1
    tag: int = 0
    nbytes: int = 0
    comm: str = "world"
    request: int = -1
    message: int = -1
    detail: tuple[Any, ...] = ()
    site: int = -1


# From a tuple of all fields, for the network: the class's own constructor takes three times as
# long, and every message records four operations.
make_op: Callable[[tuple[Any, ...]], Op] = partial(tuple.__new__, Op)


def transfers(rank: int, op: Op) -> list[tuple[int, int, int]]:
    """The messages that an operation of ``rank`` posts: source, dest and counted bytes.

    A Get is one message, of the bytes that it brings: that it was asked for isn't counted.
    """
    if op.kind == Kind.ISEND:
        return [(rank, op.peer, op.nbytes)]
    if op.kind != Kind.ACCESS:
        return []
    back = op.detail[0]
    there = [(rank, op.peer, op.nbytes)] if op.nbytes or back < 0 else []
    return there + ([(op.peer, rank, back)] if back >= 0 else [])


# What a call is followed by inside ``ringside.phase``: "Send(dest=1) [reduce-scatter, shard 2]".
_IN_PHASE = re.compile(r"(.*\)) \[([^][,]+)(?:, ([^][]+))?\]", re.DOTALL)


class CallSite(NamedTuple):
    """A call and the line of the student's file that made it."""

    call: str
    file: str
    line: int

    @property
    def where(self) -> str:
        """The place, as ``ring.py:14``."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def parts(self) -> tuple[str, str, str]:
        """The call alone, the phase that the program named, and the item; "" if there is none."""
        match = _IN_PHASE.fullmatch(self.call)
        return (match[1], match[2], match[3] or "") if match else (self.call, "", "")


UNDESCRIBED = CallSite("a call", "", 0)


@dataclass(eq=True)
class Trace:
    """Per rank, the ordered operations; see the module's docstring for the file."""

    world_size: int
    ops: list[list[Op]]
    sites: list[CallSite] = field(default_factory=list)
    machine: str = ""
    slow: dict[int, float] = field(default_factory=dict)

    @property
    def num_ops(self) -> int:
        """Operations of all ranks together."""
        return sum(len(ops) for ops in self.ops)

    def site_of(self, op: Op) -> CallSite:
        """The call that made an operation; ``UNDESCRIBED`` where its rank has said nothing of it.

        An operation's ``site`` is -1 then, so it must not index ``sites`` by itself.
        """
        return self.sites[op.site] if 0 <= op.site < len(self.sites) else UNDESCRIBED

    def save(self, path: str | Path) -> Path:
        """Write the trace; the file appears whole or not at all."""
        path = Path(path)
        buffer = io.BytesIO()
        # Without a time and a name inside, equal traces are equal bytes.
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as packed:
            header = {
                "format": FORMAT,
                "version": VERSION,
                "world_size": self.world_size,
                "machine": self.machine,
                "sites": [list(site) for site in self.sites],
                **({"slow": sorted(map(list, self.slow.items()))} if self.slow else {}),
            }
            packed.write(json.dumps(header, separators=(",", ":")).encode() + b"\n")
            for rank, ops in enumerate(self.ops):
                for op in ops:
                    packed.write(json.dumps([rank, *op], separators=(",", ":")).encode() + b"\n")
        write_output(path, buffer.getvalue())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace file.

        Raises:
            TraceError: no such file, not a trace, another version, or damaged; names the line.
        """
        path = Path(path)
        number = 0
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                header = json.loads(next(lines))
                if not isinstance(header, dict) or header.get("format") != FORMAT:
                    raise TraceError(f"{path}: not a {FORMAT} file")
                if header.get("version") != VERSION:
                    raise TraceError(
                        f"{path}: version {header.get('version')} of the format; "
                        f"this kit reads {VERSION}."
                    )
                world_size = header["world_size"]
                # Not isinstance: JSON's true is an int to Python.
                if type(world_size) is not int or not 0 <= world_size <= MAX_RANKS:
                    raise TraceError(f"{path}: world_size ({str(world_size)[:40]}) is impossible")
                trace = cls(
                    world_size,
                    [[] for _ in range(world_size)],
                    [_site(*site) for site in header["sites"]],
                    str(header["machine"]),
                    _slow(header.get("slow", []), world_size),
                )
                for number, line in enumerate(lines, start=2):  # noqa: B007 - named in the error below
                    rank, *fields = json.loads(line)
                    # A negative rank would count from the end of the list.
                    if type(rank) is not int or rank < 0:
                        raise ValueError(f"no rank is {str(rank)[:40]}")
                    trace.ops[rank].append(_op(fields, world_size))
        except FileNotFoundError:
            raise TraceError(f"{path}: no such trace file") from None
        except (
            OSError,
            EOFError,
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            StopIteration,
            RecursionError,
            zlib.error,
        ) as error:
            raise TraceError(f"{path}: damaged at line {number or 1}: {error}") from None
        return trace


def _slow(rows: Any, world_size: int) -> dict[int, float]:
    for rank, factor in rows:
        if type(rank) is not int or not 0 <= rank < world_size or not 0 < float(factor) < math.inf:
            raise ValueError(f"rank {str(rank)[:40]} can't be slow by {str(factor)[:40]}")
    return {rank: float(factor) for rank, factor in rows}


def _site(call: Any, file: Any, line: Any) -> CallSite:
    if not isinstance(call, str) or not isinstance(file, str) or type(line) is not int:
        raise ValueError("a site is a call, a file and a line")
    return CallSite(call, file, line)


def _op(fields: list[Any], world_size: int) -> Op:
    """An operation from a file, its fields of the types that the format gives them."""
    kind, peer, tag, nbytes, comm, request, message, detail, site = fields
    numbers = (kind, peer, tag, nbytes, request, message, site)
    if not all(type(number) is int and abs(number) < 1 << 63 for number in numbers):
        raise ValueError("an operation's numbers are whole, of 64 bits")
    if kind not in _IN_FILES or not -1 <= peer < world_size or nbytes < 0:
        raise ValueError(f"there is no operation of kind {kind} with rank {peer}")
    if not isinstance(comm, str) or not isinstance(detail, list):
        raise ValueError("a communicator is a text, and details are a list")
    return Op(kind, peer, tag, nbytes, comm, request, message, _as_tuple(detail), site)


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value
