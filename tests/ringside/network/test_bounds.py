"""What ranks can make the network hold is counted and bounded, whatever they send.

The ranks are played (`tests/fuzz/stage.py`): their frames go to a real network in this process.
"""

from __future__ import annotations

import dataclasses
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ringside import Machine
from ringside.errors import DeadlineError, LimitError
from ringside.network import codec, network
from ringside.network.bounds import Limits
from ringside.network.wire import ANY_SOURCE, Op, result_parts
from ringside.timing.engine import Engine
from ringside.timing.queries import Query
from ringside.timing.rounds import collective_ops, num_messages
from ringside.trace import Kind, Mode
from ringside.trace import Op as TraceOp
from tests.fuzz.frames import Frame, Program, Writer
from tests.fuzz.stage import LIMITS, play

MIB = 1 << 20
WIDE = dataclasses.replace(
    LIMITS, operations=100_000, open_requests=5000, unreceived=5000, held_bytes=64 * MIB
)


def against_each_other(n: int, *, tags: bool, named: bool) -> Program:
    """``n`` receives against ``n`` sends in the other order; then both wait for all."""
    writer = Writer(2)
    for i in range(n):
        tag = n - 1 - i if tags else 0
        writer.post(1, Frame(Op.ISEND, b"12345678", Mode.STANDARD, to=0, tag=tag))
        source = 1 if named else ANY_SOURCE
        writer.post(0, Frame(Op.IRECV, to=source, tag=i if tags else 0, extra=-1))
    for rank in range(2):
        writer.wait(rank, *range(1, n + 1))
    return writer.end()


@pytest.mark.parametrize(
    ("tags", "named"), [(False, False), (True, False), (True, True)],
    ids=["wildcards", "wildcards-of-tags", "named"],
)  # fmt: skip
def test_what_waits_is_kept_once_and_not_for_each_pair(
    tags: bool, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,500 receives against 2,500 sends: 6,250,000 pairs."""
    most = 0
    ask = Engine.advance

    def advance(self: Engine) -> Any:
        nonlocal most
        answer = ask(self)
        most = max(most, len(self._heap))
        return answer

    monkeypatch.setattr(Engine, "advance", advance)
    n = 2500
    result = play(against_each_other(n, tags=tags, named=named), [], limits=WIDE)
    assert result.error is None
    assert most <= 4 * n, "events of the engine, for so many messages"
    assert (most > 0) == (not named)


def test_memory_of_many_requests_is_bounded() -> None:
    """About 2 KiB for each of the messages, sent, received and timed."""
    program = against_each_other(2500, tags=False, named=False)
    result = play(program, [], limits=WIDE, measured=True, memory_bytes=16 * MIB)
    assert result.error is None


def test_a_deadline_passes_also_while_messages_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at between any two answers, although no rank goes on meanwhile."""
    answered, settle, clock = 0, network.Network._settle, network.time.monotonic

    def counted(self: network.Network) -> bool:
        nonlocal answered
        answered += 1
        return settle(self)

    monkeypatch.setattr(network.Network, "_settle", counted)
    late = 1e6
    monkeypatch.setattr(network.time, "monotonic", lambda: clock() + (late if answered > 10 else 0))
    error = play(against_each_other(300, tags=False, named=False), [], limits=WIDE).error
    assert isinstance(error, DeadlineError)
    assert answered <= 12


def test_a_deadline_is_looked_at_after_few_large_questions() -> None:
    """One look at a wait for any of 5,000 requests is as long as thousands of events."""
    engine = Engine(Machine.load("textbook"), 1, candidates=lambda query: [])
    posts = [TraceOp(Kind.IRECV, 0, 0, request=n, detail=(0, 0)) for n in range(5000)]
    query = Query(0, 5000, "wait", tuple(range(5000)), how=1, blocking=True)
    engine.threads[0].ops = [*posts, TraceOp(Kind.QUERY, detail=(query,))]
    engine.deadline = 0.0
    engine._questions.pend(query, 0)
    with pytest.raises(TimeoutError):
        engine.advance()


# -- each bound ends its run, and says which it is and its value -----------------------------------


def program(*frames: Frame, world_size: int = 1) -> Program:
    """Rank 0 says these frames, and waits for an answer; the others end well."""
    ranks = Writer(world_size).end()
    ranks.turns[0] = [[*ranks.turns[0][0][:1], *frames]]
    ranks.hostile, ranks.rude = {0}, {0}
    return ranks


def collective(*spec: Any, request: int = 9) -> Frame:
    return Frame(Op.COLLECTIVE, codec.encode(spec), request=request)


def result(value: Any) -> Frame:
    return Frame(Op.RESULT, b"".join(result_parts({}, value)))


SENT = [Frame(Op.ISEND, b"", Mode.BUFFERED, request=n) for n in range(1, 60)]
POSTED = [Frame(Op.IRECV, request=n, extra=-1) for n in range(1, 60)]
BARRIERS = [collective("barrier", (), request=n) for n in range(1, 60)]
SPLITS = [
    frame
    for n in range(1, 60)
    for frame in (collective("dup", (), request=n), Frame(Op.WAIT, struct.pack("<I", n)))
]
CALLS = [Frame(Op.SITE, codec.encode(("c" * 200, "f" * 200, n)), site=n + 1) for n in range(60)]
KEPT = [Frame(Op.ISEND, bytes(1000), Mode.BUFFERED, request=n) for n in range(1, 60)]
TABLES = [
    collective("barrier", (), "b", tuple((f"n{k}", (7,) * 4096) for k in range(8)), request=n)
    for n in range(1, 9)
]


@pytest.mark.parametrize(
    ("limits", "frames", "said"),
    [
        ({"operations": 50}, POSTED, "the run made more than 50 operations"),
        ({"operations": 50}, BARRIERS, "the run made more than 50 operations"),
        ({"open_requests": 50}, POSTED, "has more than 50 requests"),
        ({"unreceived": 50}, SENT, "more than 50 messages wait to be received"),
        ({"held_bytes": 50 * 1024}, KEPT, "more than 50 KiB of messages and contributions"),
        ({"communicators": 50}, SPLITS, "made more than 50 communicators"),
        ({"memberships": 50}, SPLITS, "more than 50 members together"),
        ({"site_bytes": 10 * 1024}, CALLS, "take more than 10 KiB to describe"),
        ({"description_bytes": 1024}, [Frame(Op.SITE, codec.encode(("c" * 2000, "", 1)))],
         "described something in 1.98 KiB; 1 KiB are allowed"),
        ({"description_bytes": 1024}, [Frame(Op.FAILURE, codec.encode("c" * 2000))],
         "described something in 1.96 KiB"),
        ({"result_bytes": 1024}, [result(np.zeros(200))], "what all ranks return may have 1 KiB"),
        ({"decoded_bytes": MIB}, [result([{}] * 30_000)], "of all ranks may take 1 MiB together"),
        ({"decoded_bytes": MIB}, [collective("allgather", ([{}] * 30_000,))],
         "gives a collective objects of more than 1.14 MiB"),
        ({"frame_bytes": 1024}, [Frame(Op.ISEND, bytes(2000), request=1)],
         "a message of 2000 bytes is too large; 1 KiB are allowed"),
    ],
)  # fmt: skip
def test_a_run_past_a_bound_is_told_bound_and_value(
    limits: dict[str, int], frames: list[Frame], said: str
) -> None:
    error = play(program(*frames), [], limits=dataclasses.replace(LIMITS, **limits)).error
    assert isinstance(error, LimitError) and error.rank == 0, error
    assert said in str(error)


def test_contributions_are_held_as_what_they_have_become() -> None:
    """Numbers of 9 bytes each may be objects of 88: two tables of 0.3 MB take more than 4 MiB."""
    limits = dataclasses.replace(LIMITS, held_bytes=4 * MIB, decoded_bytes=4 * MIB)
    error = play(program(*TABLES, world_size=2), [], limits=limits).error
    assert isinstance(error, LimitError) and error.rank == 0, error
    assert "more than 4 MiB of messages and contributions" in str(error)


def test_every_bound_has_a_reason() -> None:
    told = Limits.__doc__ or ""
    for each in dataclasses.fields(Limits):
        assert f"{each.name}:" in told or f"``{each.name}``" in told, each.name


# -- sizes that are reckoned with ------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        [{}] * 5000, [[] for _ in range(5000)], [()] * 5000, [1.5 * n for n in range(5000)],
        [1 << 40 | n for n in range(5000)], [f"text {n}" for n in range(3000)],
        ["\U0001f600" + "x" * 500] * 100, {n: [n] for n in range(3000)}, [b"x" * 100] * 3000,
        [np.zeros(3) for _ in range(2000)], [[[[[n]]]] for n in range(2000)], [1j] * 5000,
        {f"k{n}": {} for n in range(2000)}, np.zeros(200_000), [(None, True)] * 5000,
        [2**500 + n for n in range(2000)],
    ],
    ids=lambda value: str(value)[:24],
)  # fmt: skip
def test_a_decoded_value_takes_no_more_than_is_reckoned(value: Any) -> None:
    data = codec.encode(value)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found, nbytes = codec.decode_within(data, None)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert codec.encode(found) == data
    assert 0.9 * taken <= nbytes <= 12 * taken + 1000
    with pytest.raises(codec.TooLargeError):
        codec.decode_within(data, nbytes - 1)


def test_arrays_that_lie_in_what_came_take_no_memory() -> None:
    data = bytearray(codec.encode([np.zeros(100_000)]))
    assert codec.decode_within(data, 5000, copy=False)[1] < 5000


@pytest.mark.parametrize("p", [1, 2, 3, 7, 8])
def test_messages_of_a_collective_are_reckoned_as_those_that_it_is_lowered_to(p: int) -> None:
    machine, members = Machine.load("textbook"), tuple(range(p))
    sizes = {"alltoall": (8,) * (p * p), "allgather": (8,) * p, "reduce_scatter": (8,) * p,
             "gather": (8,) * p, "scatter": (8,) * p}  # fmt: skip
    for name in ("allreduce", "bcast", "reduce", "scan", "barrier", *sizes):
        op = TraceOp(Kind.COLLECTIVE, detail=(name, 0, 0, members, sizes.get(name, (8,))))
        sent = sum(
            part.kind == Kind.ISEND
            for rank in members
            for part in collective_ops(machine, rank, op)
        )
        assert sent <= num_messages(name, p) <= max(2 * sent, sent + p), name
