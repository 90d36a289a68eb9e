"""What fuzzing and reading have found, each by itself: it ends as its rank's failure.

Rank 0 keeps the rules in all of these, where there is more than one rank.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ringside.errors import DeadlockError, LimitError, RankError
from ringside.network import codec
from ringside.network.wire import Op
from ringside.trace import Mode
from tests.fuzz.frames import Frame, Program, Writer
from tests.fuzz.stage import LIMITS, play

AGAIN = struct.pack("<2I", 1, 1)
POSTED = Frame(Op.IRECV, to=0, tag=5, request=1, extra=-1)
HUGE = 10**2400


def collective(*spec: Any) -> Frame:
    return Frame(Op.COLLECTIVE, codec.encode(spec), request=9)


def program(*frames: Frame, world_size: int = 1) -> Program:
    """The last rank says these frames, then waits for an answer; the others end well."""
    ranks = Writer(world_size).end()
    last = world_size - 1
    ranks.turns[last] = [[*ranks.turns[last][0][:1], *frames]]
    ranks.hostile = {last}
    return ranks


@pytest.mark.parametrize(
    "frames",
    [
        (POSTED, Frame(Op.TEST, AGAIN)),
        (POSTED, Frame(Op.TEST, AGAIN, flags=2)),
        (POSTED, Frame(Op.WAIT, AGAIN)),
        (POSTED, Frame(Op.WAIT, struct.pack("<I", 1), flags=3)),
        (Frame(Op.WAIT, bytes(1 << 19)),),
        (Frame(Op.PROBE, to=7, flags=2),),
        (Frame(Op.IRECV, to=-2, request=1),),
        (collective("split", (HUGE, 0)),),
        (collective("create", ((0, 9),)),),
        (collective("create", ((0, 0),)),),
        (collective("create_group", ((0,), 0, [[]] * 99)),),
        (collective("barrier", (), "Barrier", (("n", HUGE),)),),
        (collective("barrier", (), "Barrier", (("n", (0,) * 9999),)),),
        (collective("allreduce", ("SUM", np.zeros((300, 1)))),),
        (collective("reduce_scatter", ("USER", b"", (HUGE,))),),
        tuple(replace(POSTED, request=n) for n in range(LIMITS.open_requests + 1)),
        tuple(
            frame
            for n in range(20)  # received and never waited for
            for frame in (
                Frame(Op.ISEND, bytes(500_000), to=0, request=2 * n),
                Frame(Op.IRECV, to=0, request=2 * n + 1, extra=-1),
            )
        ),
        tuple(
            frame
            for n in range(LIMITS.communicators + 2)
            for frame in (collective("dup", ()), Frame(Op.WAIT, struct.pack("<I", 9)))
        ),
    ],
    ids=[
        "tested-twice", "tested-twice-some", "waited-twice", "no-such-wait", "waits-for-nothing",
        "probes-nobody", "receives-from-nobody", "long-colour", "absent-member", "member-twice",
        "group-with-luggage", "long-number", "many-numbers", "shape-that-broadcasts",
        "long-count", "open-requests", "never-waited-for", "communicators",
    ],
)  # fmt: skip
def test_rank_is_blamed_and_the_network_lives(frames: tuple[Frame, ...]) -> None:
    ranks = program(*frames)
    ranks.rude = {0} if len(frames) > 30 else set()
    error = play(ranks, []).error
    assert isinstance(error, LimitError) and error.rank == 0, error


def test_object_can_not_count_less_than_nothing() -> None:
    ranks = program(
        *(Frame(Op.ISEND, b"x" * 10, 16 + Mode.BUFFERED, request=n, extra=-1000) for n in (1, 2, 3))
    )
    assert play(ranks, []).sent_bytes() == [30]
    data = ("object", -900, b"x" * 10)
    ranks = program(collective("bcast", (0, data)), Frame(Op.WAIT, struct.pack("<I", 9)))
    (record,) = play(ranks, []).collectives
    assert record.nbytes == 10


def test_test_for_any_of_no_requests_is_refused() -> None:
    error = play(program(Frame(Op.TEST, flags=1)), []).error
    assert isinstance(error, LimitError) and "waited for no request" in str(error)


def test_impossible_work_is_told_in_text_that_can_be_written() -> None:
    for amounts in (("\ud800", 0.0, None, "x"), (0.0, 0.0, None, "x", "\ud800", 0.0)):
        error = play(program(Frame(Op.COMPUTE, codec.encode(amounts))), []).error
        assert isinstance(error, LimitError) and "ud800" in str(error)


@pytest.mark.parametrize("line", [HUGE, -HUGE, 2**40], ids=["long", "negative", "high"])
def test_line_of_any_length_can_be_written_down(line: int) -> None:
    site = Frame(Op.SITE, codec.encode(("\ud800\x1b[2J", "ring.py", line)))
    error = play(program(site, POSTED, Frame(Op.WAIT, struct.pack("<I", 1))), []).error
    assert isinstance(error, (DeadlockError, RankError))
    str(error).encode()
    body = codec.encode(("E", "\udcff", [("f.py", line, "f", "t")], ""))
    error = play(program(Frame(Op.FAILURE, body)), []).error
    assert isinstance(error, RankError) and error.type_name == "E"


def test_rank_that_dies_while_it_waits_ends_the_run_when_its_answer_comes() -> None:
    ranks = Writer(2)
    number = ranks.post(1, Frame(Op.IRECV, to=0, tag=3, extra=-1))
    ranks.wait(1, number)
    played = ranks.end()
    played.turns[1] = played.turns[1][:1]  # it waits, and hangs up
    played.rude = played.hostile = {1}
    send = Frame(Op.ISEND, b"late", Mode.BUFFERED, to=1, tag=3, request=50)
    played.turns[0][0].insert(1, send)
    error = play(played, [1, 1, 1, 1, 1, 1, 0, 0]).error
    assert isinstance(error, RankError) and error.type_name == "ProcessEnded" and error.rank == 1


def test_average_of_half_precision_that_overflows_is_infinite_and_no_warning() -> None:
    full = np.full(3, 6.5e4, np.float16)
    ranks = program(collective("allreduce", ("AVG", full)), Frame(Op.WAIT, struct.pack("<I", 9)))
    assert not isinstance(play(ranks, []).error, LimitError)


def test_many_reductions_do_not_fill_the_network() -> None:
    """What members contribute is let go when the collective is done, not only the result's size."""
    writer = Writer(4)
    for _ in range(30):
        for rank in range(4):
            body = codec.encode(("allreduce", ("SUM", np.zeros(8000))))
            writer.wait(rank, writer.post(rank, Frame(Op.COLLECTIVE, body)))
    assert LIMITS.held_bytes < 30 * 3 * 64000
    assert play(writer.end(), []).error is None
