"""What ranks say to the network, as lists that can be damaged: programs of frames.

    program = draw(programs())            ranks that keep every rule, and what each must get
    damage(program, rank, draw)           one rank, or all, that keep none

A *turn* is what a rank writes before it waits for an answer. Payloads say who sent them, so that
one that comes to the wrong rank is seen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ringside.errors import CodecError
from ringside.network import codec
from ringside.network.wire import ANY_SOURCE, EXCHANGE, UP, How, Op, result_parts
from ringside.trace import Mode

Draw = Callable[[st.SearchStrategy[Any]], Any]
FIELDS = ("op", "flags", "site", "comm", "to", "tag", "request", "extra", "nbytes")
_BITS = {"op": 8, "flags": 8, "site": 16, "comm": -32, "to": -32, "tag": -32, "request": 32,
         "extra": -64, "nbytes": 64}  # fmt: skip
_BLOCKING = {
    *(Op.WAIT, Op.EXCHANGE, Op.TEST, Op.PROBE, Op.WTIME, Op.RESULT, Op.FAILURE, Op.ABORT),
    Op.PASS,
    Op.LOCK,
    Op.UNLOCK,
    Op.SYNC,
    Op.STORE,
}


@dataclass(frozen=True)
class Frame:
    """One frame; ``nbytes`` None for the body's own length."""

    op: int
    body: bytes = b""
    flags: int = 0
    site: int = 0
    comm: int = 0
    to: int = 0
    tag: int = 0
    request: int = 0
    extra: int = 0
    nbytes: int | None = None

    def __repr__(self) -> str:
        body = self.body if len(self.body) <= 60 else self.body[:40] + b"..."
        head = ", ".join(f"{n}={getattr(self, n)}" for n in FIELDS[1:] if getattr(self, n))
        return f"Frame({self.op}, {body!r} ({len(self.body)}), {head})"

    def pack(self) -> bytes:
        size = len(self.body) if self.nbytes is None else self.nbytes
        head = (self.op, self.flags, self.site, self.comm, self.to, self.tag, self.request)
        return UP.pack(*head, self.extra, size) + self.body


@dataclass
class Program:
    """Per rank its turns, and what it must get if all who take part keep the rules."""

    turns: list[list[list[Frame]]]
    expected: list[dict[int, tuple[Any, frozenset[int]]]]  # request -> value, who made it
    rude: set[int] = field(default_factory=set)  # ranks that don't wait for answers
    noise: dict[int, bytes] = field(default_factory=dict)  # raw bytes at a rank's end
    hostile: set[int] = field(default_factory=set)
    makes_comms: bool = False  # ranks use them by number: a member that lies changes it

    def __repr__(self) -> str:
        ranks = "".join(
            f"\n  rank {rank}: {str([f for turn in turns for f in turn])[:3000]}"
            for rank, turns in enumerate(self.turns)
        )
        return f"Program(hostile {self.hostile}, rude {self.rude}, {self.noise}{ranks[:8000]})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis shows; by itself it would write out all bytes."""
        printer.text(repr(self))

    @property
    def world_size(self) -> int:
        return len(self.turns)

    @property
    def num_frames(self) -> int:
        return sum(len(turn) for turns in self.turns for turn in turns)


class Writer:
    """Writes ranks that keep the rules; steps are in one order for all, so nobody deadlocks."""

    def __init__(self, world_size: int) -> None:
        self.size = world_size
        self.turns: list[list[list[Frame]]] = [[[]] for _ in range(world_size)]
        self.expected: list[dict[int, tuple[Any, frozenset[int]]]] = [{} for _ in range(world_size)]
        self.requests = [0] * world_size
        self.left: list[list[int]] = [[] for _ in range(world_size)]  # requests for the last wait
        self.comms: list[tuple[int, tuple[int, ...]]] = [(0, tuple(range(world_size)))]
        self.made = 0
        for rank in range(world_size):
            self.say(rank, Frame(Op.SITE, codec.encode(("call", "file.py", 3))))

    def say(self, rank: int, frame: Frame) -> None:
        self.turns[rank][-1].append(frame)
        if frame.op in _BLOCKING:
            self.turns[rank].append([])

    def post(self, rank: int, frame: Frame) -> int:
        self.requests[rank] += 1
        self.say(rank, replace(frame, request=self.requests[rank]))
        return self.requests[rank]

    def wait(self, rank: int, *requests: int, how: int = How.ALL) -> None:
        body = struct.pack(f"<{len(requests)}I", *requests)
        self.say(rank, Frame(Op.WAIT, body, flags=how))

    def message(self, draw: Draw) -> None:
        comm, members = draw(st.sampled_from(self.comms))
        a, b = (draw(st.integers(0, len(members) - 1)) for _ in range(2))
        source, dest = members[a], members[b]
        self.made += 1
        tag = self.made
        data = struct.pack("<3I", source, dest, tag) * draw(st.sampled_from([0, 1, 40, 900, 20000]))
        mode = draw(st.sampled_from(list(Mode)[:3]))
        named = draw(st.booleans())
        sending = self.post(source, Frame(Op.ISEND, data, mode, 0, comm, b, tag))
        receiving = self.post(dest, Frame(
            Op.IRECV, b"", 0, 0, comm, a if named else ANY_SOURCE, tag, extra=-1
        ))  # fmt: skip
        self.expected[dest][receiving] = data, frozenset({source})
        if draw(st.booleans()):
            self.left[source].append(sending)
            self.left[dest].append(receiving)
        elif source == dest:
            self.wait(source, sending, receiving)
        else:
            self.wait(source, sending)
            self.wait(dest, receiving)

    def exchange(self, draw: Draw) -> None:
        """Every member sends to its next one and receives from its previous one, in one frame."""
        comm, members = draw(st.sampled_from(self.comms))
        size = len(members)
        self.made += 1
        tag, named = self.made, draw(st.booleans())
        repeated = draw(st.sampled_from([0, 1, 40, 900, 20000]))
        for me, rank in enumerate(members):
            to, source = (me + 1) % size, (me - 1) % size
            data = struct.pack("<3I", rank, members[to], tag) * repeated
            told = EXCHANGE.pack(source if named else ANY_SOURCE, tag, -1)
            frame = Frame(Op.EXCHANGE, told + data, 0, 0, comm, to, tag, extra=-1)
            receiving = self.post(rank, frame) + 1
            self.requests[rank] = receiving
            previous = members[source]
            expected = struct.pack("<3I", previous, rank, tag) * repeated
            self.expected[rank][receiving] = expected, frozenset({previous})

    def collective(self, draw: Draw) -> None:
        comm, members = draw(st.sampled_from(self.comms))
        size = len(members)
        self.made += 1
        length = draw(st.sampled_from([0, 1, 30, 4000]))
        parts = [struct.pack("<2I", rank, self.made) * length for rank in members]
        arrays = [np.arange(length) * (place + 1) for place in range(size)]
        root = draw(st.integers(0, size - 1))
        name = draw(st.sampled_from(
            ["barrier", "bcast", "allgather", "gather", "alltoall", "allreduce", "scan", "reduce"]
        ))  # fmt: skip
        specs: dict[str, Callable[[int], tuple[Any, ...]]] = {
            "barrier": lambda me: (),
            "bcast": lambda me: (root, parts[me] if me == root else None),
            "allgather": lambda me: (parts[me],),
            "gather": lambda me: (root, parts[me]),
            "alltoall": lambda me: ([parts[me]] * size,),
            "allreduce": lambda me: ("SUM", arrays[me]),
            "scan": lambda me: ("MAX", arrays[me]),
            "reduce": lambda me: (root, "SUM", arrays[me]),
        }
        total = np.arange(length) * (size * (size + 1) // 2)
        values: dict[str, Callable[[int], Any]] = {
            "barrier": lambda me: None,
            "bcast": lambda me: parts[root],
            "allgather": lambda me: parts,
            "gather": lambda me: parts if me == root else None,
            "alltoall": lambda me: parts,
            "allreduce": lambda me: total,
            "scan": lambda me: arrays[me],
            "reduce": lambda me: total if me == root else None,
        }
        later = draw(st.booleans())
        for me, rank in enumerate(members):
            body = codec.encode((name, specs[name](me)))
            number = self.post(rank, Frame(Op.COLLECTIVE, body, comm=comm))
            self.expected[rank][number] = codec.encode(values[name](me)), frozenset(members)
            if later:
                self.left[rank].append(number)
            else:
                self.wait(rank, number)

    def communicator(self, draw: Draw) -> None:
        """One made by all: the numbers of several that are made at once depend on who is first."""
        everyone = tuple(range(self.size))
        name = draw(st.sampled_from(["dup", "split", "create_group"]))
        number = 1 + sum(1 for comm, _ in self.comms if comm)
        spec: tuple[Any, ...] = {"dup": (), "split": (7, 0), "create_group": (everyone, 3)}[name]
        for rank in everyone:
            body = codec.encode((name, spec))
            self.wait(rank, self.post(rank, Frame(Op.COLLECTIVE, body)))
        self.comms.append((number, everyone))

    def work(self, draw: Draw) -> None:
        rank = draw(st.integers(0, self.size - 1))
        told = draw(st.sampled_from([
            (1e6, 0.0, None, "work"), (0.0, 8.0, 1e-6, "work"), (2.0, 2.0, None, "mm", 3, 4.0),
        ]))  # fmt: skip
        self.say(rank, Frame(Op.COMPUTE, codec.encode(told)))

    def announced(self, draw: Draw) -> None:
        rank, number = draw(st.integers(0, self.size - 1)), draw(st.integers(0, 3))
        phase = draw(st.sampled_from([b"forward layer 1", "rückwärts".encode(), b"p" * 200]))
        self.say(rank, Frame(Op.PASS, phase, request=number, extra=draw(st.integers(0, 99))))

    def question(self, draw: Draw) -> None:
        rank = draw(st.integers(0, self.size - 1))
        kind = draw(st.sampled_from(["wtime", "probe", "test"]))
        if kind == "wtime":
            self.say(rank, Frame(Op.WTIME))
        elif kind == "probe":
            self.say(rank, Frame(Op.PROBE, to=ANY_SOURCE, tag=99_999))
        else:
            number = self.post(rank, Frame(Op.IRECV, to=rank, tag=88_888, extra=-1))
            self.say(rank, Frame(Op.TEST, struct.pack("<I", number)))
            self.post(rank, Frame(Op.ISEND, b"", Mode.BUFFERED, to=rank, tag=88_888))

    def stored(self, draw: Draw) -> None:
        rank, name = draw(st.integers(0, self.size - 1)), draw(st.sampled_from(["a", "step 8/2"]))
        length = draw(st.sampled_from([0, 3, 2000]))
        asked = draw(st.sampled_from([
            ("put", name, 0, None, np.arange(length)), ("get", name, 1, None, None),
            ("get", name, 0, length, None), ("names", "", 0, None, None),
            ("remove", name, 0, None, None),
        ]))  # fmt: skip
        self.say(rank, Frame(Op.STORE, codec.encode((asked[0], "/folder", *asked[1:]))))

    def end(self) -> Program:
        for rank in range(self.size):
            if self.left[rank]:
                self.wait(rank, *self.left[rank])
            body = b"".join(result_parts({"changed": False, "aliased": False}, ("done", rank)))
            self.say(rank, Frame(Op.RESULT, body))
            self.turns[rank].pop()
        return Program(self.turns, self.expected, makes_comms=len(self.comms) > 1)


@st.composite
def programs(draw: Draw) -> Program:
    """Ranks that keep the rules."""
    writer = Writer(draw(st.integers(1, 4)))
    kinds = [writer.message, writer.message, writer.exchange, writer.collective,
             writer.communicator, writer.work, writer.announced, writer.question,
             writer.stored]  # fmt: skip
    for _ in range(draw(st.integers(0, 8))):
        draw(st.sampled_from(kinds))(draw)
    return writer.end()


# -- damage ----------------------------------------------------------------------------------------

WHOLE = st.sampled_from(
    [0, 1, 2, 3, 5, 7, -1, -2, 16, 63, 64, 127, 128, 255, 1023, 1024, 1025, 2**15, 2**16 - 1,
     2**29, 2**31 - 1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1, -(2**63), 2**64 - 1]
)  # fmt: skip


class _Huge:
    """A whole number that Python won't write down; nor could hypothesis."""

    def __repr__(self) -> str:
        return "10**2400"


HUGE = _Huge()
ODD = st.one_of(
    WHOLE,
    st.sampled_from(
        [None, True, False, 2**70, -(2**70), HUGE, 0.0, -1.0, 1e300, float("inf"), 1e18, 9e17,
         float("nan"), 1j, "", "x" * 300, "\ud800", "\x1b[2J", "SUM", "USER", "AVG", "MAXLOC",
         "bfloat16:SUM", "create_group", "allreduce", "split", "LAND", b"", b"x" * 50, (), [], {},
         ("object", 0, b"abc"), ("object", -900, b"abc"), ("object", 5, b""), (0, 0), (0, 1), (9,),
         (-1,), [b"a"], [b"a", b"b"], ((),), {1: 2}, (1 << 40, 0)]
    ),
    st.sampled_from(
        [np.zeros(0), np.zeros((300, 1)), np.zeros((1, 300)), np.arange(6.0), np.ones(3, bool),
         np.full(3, np.nan), np.full(4, 6e4, np.float16), np.full(3, 2**63 - 1), np.zeros(()),
         np.arange(3, dtype=np.uint16), np.full(2, 1e308 + 1e308j), np.arange(4, dtype=np.int8)]
    ),
)  # fmt: skip
RAW = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [b"l\xff\xff\xff\xff", b"l\x80\x84\x1e\x00", b"t" + b"\x01\0\0\0t" * 40, b"s" + b"\xff" * 8,
         b"I\x00\x10" + bytes(6) + b"\xff" * 4096, b"a\x05\x08" + b"\x7f" * 64, b"oXXXX",
         b"a\x00\x02" + struct.pack("<2q", 0, 2**62), b"l\xff\xff\x00\x00" + b"l\0\0\0\0" * 65535,
         b"d\x02\0\0\0NNNN", b"d\x01\0\0\0l\0\0\0\0N", b""]
    ),
)  # fmt: skip
NASTY = st.sampled_from(
    [
        Frame(77), Frame(Op.ISEND, nbytes=2**62), Frame(Op.ISEND, b"x", comm=9),
        Frame(Op.ISEND, b"x", to=55), Frame(Op.ISEND, b"x", flags=9), Frame(Op.ABORT, extra=-7),
        Frame(Op.ISEND, b"x" * 10, flags=16, extra=-1000, request=901), Frame(Op.WAIT),
        Frame(Op.WAIT, struct.pack("<I", 4)), Frame(Op.WAIT, b"abc"), Frame(Op.TEST, flags=1),
        Frame(Op.TEST), Frame(Op.TEST, struct.pack("<2I", 1, 1)), Frame(Op.PROBE, to=77, flags=2),
        Frame(Op.TEST, struct.pack("<2I", 1, 1), flags=2), Frame(Op.WAIT, bytes(400_000)),
        Frame(Op.EXCHANGE), Frame(Op.EXCHANGE, EXCHANGE.pack(55, 0, -1), request=920),
        Frame(Op.EXCHANGE, EXCHANGE.pack(0, 0, 0) + b"xy", flags=9, request=930),
        Frame(Op.EXCHANGE, EXCHANGE.pack(-1, -1, 0) + b"xy", request=2**32 - 1),
        Frame(Op.PROBE, to=-5, tag=-5), Frame(Op.PROBE, to=-1, tag=-1, flags=2), Frame(Op.WTIME),
        Frame(Op.IRECV, to=-1, tag=-1, request=900), Frame(Op.IRECV, to=0, request=905, extra=0),
        Frame(Op.COMPUTE, codec.encode((-1.0, 0.0, None, "x"))),
        Frame(Op.COMPUTE, codec.encode((float("nan"), 0.0, None, "x"))),
        Frame(Op.COMPUTE, codec.encode((0.0, 0.0, 1e6, "x"))), Frame(Op.FREE, comm=5),
        Frame(Op.COMPUTE, codec.encode((9e17, 9e17, None, "\udcff", 2**39, 9e17))),
        Frame(Op.SITE, codec.encode(("a", "b", 10**2400))), Frame(Op.SITE, b"", site=9),
        Frame(Op.SITE, codec.encode(("\ud800", "\x1b[2J", -5))), Frame(Op.RESULT, b"\x80\x04N."),
        Frame(Op.FAILURE, codec.encode(("E", "m", [("f", 10**2400, "w", "t")], ""))),
        Frame(Op.FAILURE, codec.encode((None, 3, [], {}))), Frame(Op.RESULT), Frame(Op.FAILURE),
        Frame(Op.SERVED), Frame(Op.SYNC), Frame(Op.LOCK, to=-1), Frame(Op.UNLOCK, comm=77),
        Frame(Op.STORE), Frame(Op.STORE, codec.encode(("put", "f", "n", 0, None, 5))),
        Frame(Op.STORE, codec.encode(("get", "f", "n", 10**2400, None, None))),
        Frame(Op.STORE, codec.encode(("get", "f" * 9999, "n", 0, None, None))),
        Frame(Op.STORE, codec.encode(("take", "f", "\ud800", 0, None, None))),
        Frame(Op.STORE, codec.encode(("put", "f", "\ud800", 0, -1, np.zeros(())))),
        Frame(Op.STORE, codec.encode(("get", "f", "\ud800", -5, 2**62, None))),
        Frame(Op.ACCESS), Frame(Op.ACCESS, b"N", request=940), Frame(Op.ACCESS, to=9, comm=1),
        Frame(Op.PASS), Frame(Op.PASS, b"\xff", extra=3), Frame(Op.PASS, b"p" * 201, extra=3),
        Frame(Op.PASS, b"p", extra=-1), Frame(Op.PASS, b"p", extra=2**62),
        Frame(Op.PASS, b"p", extra=1000, request=2**32 - 1),
        Frame(Op.COLLECTIVE, codec.encode(("split", (10**2400, 0))), request=907),
        Frame(Op.COLLECTIVE, codec.encode(("create", ((0, 99),))), request=908),
        Frame(Op.COLLECTIVE, codec.encode(("create_group", ((0, 0),))), request=909),
        Frame(Op.COLLECTIVE, codec.encode(("barrier", (), "b", (("n", 10**2400),))), request=910),
        Frame(Op.COLLECTIVE, codec.encode(("allreduce", ("SUM", np.zeros((9, 1))))), request=911),
    ]
)  # fmt: skip


def damage(program: Program, rank: int, draw: Draw) -> None:
    """Let a rank break the rules, in up to four ways."""
    program.hostile.add(rank)
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from(_WAYS))(program, rank, draw)


def _pick(program: Program, rank: int, draw: Draw) -> tuple[list[Frame], int] | None:
    places = [(turn, at) for turn in program.turns[rank] for at in range(len(turn))]
    return draw(st.sampled_from(places)) if places else None


def _field(program: Program, rank: int, draw: Draw) -> None:
    if found := _pick(program, rank, draw):
        turn, at = found
        name, value = draw(st.sampled_from(FIELDS)), draw(WHOLE)
        bits = _BITS[name]
        value &= (1 << abs(bits)) - 1
        if bits < 0 and value >> -bits - 1:
            value -= 1 << -bits
        turn[at] = replace(turn[at], **{name: value})


def _value(program: Program, rank: int, draw: Draw) -> None:
    """Something odd in the place of a part of what a frame says."""
    if found := _pick(program, rank, draw):
        turn, at = found
        frame = turn[at]
        end = len(frame.body)
        if frame.op == Op.RESULT and end > 4:
            end -= 4
            end -= min(struct.unpack_from("<I", frame.body, end)[0], end)
        try:
            value = codec.decode(frame.body[:end])
        except CodecError:
            value = ()
        body = codec.encode(_replaced(value, draw, 0))
        turn[at] = replace(frame, body=body + frame.body[end:])


def _replaced(value: Any, draw: Draw, depth: int) -> Any:
    if (
        not isinstance(value, (tuple, list))
        or not value
        or depth > 3
        or draw(st.integers(0, 4)) == 0
    ):
        return _odd(draw)
    items = list(value)
    at = draw(st.integers(0, len(items)))
    if at == len(items):
        items.append(_odd(draw))
    else:
        items[at] = _replaced(items[at], draw, depth + 1)
    return type(value)(items)


def _odd(draw: Draw) -> Any:
    value = draw(ODD)
    return 10**2400 if value is HUGE else value


def _bytes(program: Program, rank: int, draw: Draw) -> None:
    if found := _pick(program, rank, draw):
        turn, at = found
        body = turn[at].body
        cut = draw(st.integers(0, min(len(body), 64)))
        turn[at] = replace(
            turn[at], body=body[:cut] + draw(RAW) + body[cut + draw(st.integers(0, 4)) :]
        )


def _again(program: Program, rank: int, draw: Draw) -> None:
    """A frame said before, of its own or of another rank."""
    other = draw(st.integers(0, program.world_size - 1))
    if (found := _pick(program, rank, draw)) and (said := _pick(program, other, draw)):
        found[0].insert(found[1], said[0][said[1]])


def _lost(program: Program, rank: int, draw: Draw) -> None:
    if found := _pick(program, rank, draw):
        del found[0][found[1]]


def _swapped(program: Program, rank: int, draw: Draw) -> None:
    if (a := _pick(program, rank, draw)) and (b := _pick(program, rank, draw)):
        a[0][a[1]], b[0][b[1]] = b[0][b[1]], a[0][a[1]]


def _inserted(program: Program, rank: int, draw: Draw) -> None:
    if found := _pick(program, rank, draw):
        for _ in range(draw(st.sampled_from([1, 1, 2, 70]))):
            found[0].insert(found[1], draw(NASTY))


def _flood(program: Program, rank: int, draw: Draw) -> None:
    """Very many of one kind."""
    size, requests = draw(st.sampled_from([0, 100, 60_000])), range(5000, 5000 + 150)
    kind = draw(st.integers(0, 5))
    frames = {
        0: [Frame(Op.ISEND, bytes(size), Mode.BUFFERED, request=n) for n in requests],
        1: [f for n in requests for f in (
            Frame(Op.ISEND, bytes(size), to=rank, request=2 * n),
            Frame(Op.IRECV, to=rank, request=2 * n + 1, extra=-1),
        )],
        2: [Frame(Op.COLLECTIVE, codec.encode(("barrier", ())), request=n) for n in requests],
        3: [f for n in requests for f in (
            Frame(Op.COLLECTIVE, codec.encode(("create_group", ((rank,), n))), request=n),
            Frame(Op.WAIT, struct.pack("<I", n)),
        )],
        4: [Frame(Op.SITE, codec.encode(("c", "f", n)), site=n - 5000) for n in requests],
        5: [f for n in requests for f in (
            Frame(Op.ISEND, bytes(size), to=rank, request=2 * n),
            Frame(Op.IRECV, to=rank, request=2 * n + 1, extra=-1),
            Frame(Op.WAIT, struct.pack("<2I", 2 * n, 2 * n + 1)),
        )],
    }[kind]  # fmt: skip
    program.turns[rank].insert(draw(st.integers(0, len(program.turns[rank]))), frames)
    program.rude.add(rank)


def _rude(program: Program, rank: int, draw: Draw) -> None:
    program.rude.add(rank)


def _ended(program: Program, rank: int, draw: Draw) -> None:
    """It dies, perhaps in the middle of a frame."""
    turns = program.turns[rank]
    del turns[draw(st.integers(0, len(turns))) :]
    program.noise[rank] = draw(RAW)


_WAYS = (_field, _field, _value, _value, _value, _bytes, _again, _lost, _swapped, _inserted,
         _inserted, _flood, _rude, _ended)  # fmt: skip
