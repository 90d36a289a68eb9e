"""Laws that a trace must obey, logs that must be refused, and ranks that stand for others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ringside.errors import TraceError
from ringside.network.ranklog import Collective, RankLog, checked, moved_to
from ringside.scale import assembly
from ringside.scale.agreement import DisagreementError, check_conservation, compare
from ringside.scale.assembly import assemble
from ringside.scale.fake_ranks import asked, from_logs, num_transfers
from ringside.scale.symmetry import Grid
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

WORLD = 4
ALL = Collective("allreduce", "all_reduce", 0, (), (80,), (("number of elements", "10"),))


def log_of(rank: int) -> RankLog:
    """Compute, give 80 bytes to the next rank, take from the one before, reduce over all."""
    following, previous = (rank + 1) % WORLD, (rank - 1) % WORLD
    rows = [
        [Kind.COMPUTE, -1, 0, 0, 0, 0, 0, 0],
        [Kind.ISEND, following, 7, 80, 0, 0, 0, 1],
        [Kind.IRECV, previous, 7, 80, 0, 0, 0, 2],
        [Kind.WAIT, -1, 0, 0, 0, 0, 2, 2],
        [Kind.COLLECTIVE, -1, 0, 0, 0, 0, 0, 3],
        [Kind.WAIT, -1, 0, 0, 0, 2, 1, 3],
    ]
    return RankLog(
        rank=rank,
        rows=np.array(rows, np.int64),
        work=np.array([[2e6, 100.0, 3.0, 50.0, -1.0]]),
        waits=np.array([1, 2, 3], np.int64),
        shared=(ALL,),
        comms=(),
        sites=(
            ("compute(phase=forward)", "a.py", 1),
            (f"isend(dst={following}, tag=7)", "a.py", 2),
            (f"recv(src={previous}, tag=7)", "a.py", 3),
            ("all_reduce(op=SUM)", "a.py", 4),
        ),
        labels=("forward",),
        memory={},
    )


def trace() -> Trace:
    return assemble([checked(log_of(rank), WORLD) for rank in range(WORLD)], WORLD)


def test_logs_become_the_operations_that_the_network_records() -> None:
    ops = trace().ops[1]
    assert ops == [
        Op(Kind.COMPUTE, detail=(2e6, 100.0, -1, "forward", 3, 50.0), site=0),
        Op(Kind.ISEND, 2, 7, 80, "world", 1, 1, (0,), 4),
        Op(Kind.IRECV, 0, 7, 80, "world", 2, 0, (0, 7), 5),
        Op(Kind.WAIT, detail=(1, 2), site=5),
        Op(Kind.COLLECTIVE, -1, 0, 80, "world", 3, -1, ("allreduce", 0, 0, (0, 1, 2, 3), (80,)), 3),
        Op(Kind.WAIT, detail=(3,), site=3),
    ]
    check_conservation(trace(), serial_flops=8e6)
    assert replay(trace(), "textbook").makespan_s > 0


def test_one_log_moved_round_the_ring_is_everybodys() -> None:
    grid = Grid.of({"rank": WORLD}, WORLD)
    for rank in range(WORLD):
        moved = moved_to(log_of(0), grid.way(rank, ("rank",)))
        assert moved.sites == log_of(rank).sites
        np.testing.assert_array_equal(moved.rows, log_of(rank).rows)
    told = asked(WORLD, {"rank": WORLD}, ("rank",), True)
    assert from_logs([({0: log_of(0)}, ["rank"])], told).trace == trace()


def test_a_grid_runs_its_last_axis_fastest() -> None:
    grid = Grid.of({"pp": 2, "dp": 2, "tp": 3}, 12)
    assert grid.place(7) == {"pp": 1, "dp": 0, "tp": 1}
    assert grid.rank({"pp": 1, "dp": 0, "tp": 1}) == 7
    assert list(grid.moved({"tp": 1})) == [1, 2, 0, 4, 5, 3, 7, 8, 6, 10, 11, 9]
    assert [grid.stand_in(rank, ("dp", "tp")) for rank in (5, 11)] == [0, 6]
    assert grid.way(11, ("dp", "tp"))[6] == 11


def test_a_root_keeps_its_place_in_its_group() -> None:
    side = Collective("bcast", "broadcast", 1, (), (80,), ())
    log = dataclasses.replace(
        log_of(0),
        rows=np.array([[Kind.COLLECTIVE, -1, 0, 0, 1, 0, 0, 0]], np.int64),
        shared=(side,),
        comms=((0, np.array([0, 2], np.int64)),),
        sites=(("broadcast(src=2)", "a.py", 1), ("broadcast(src=2).wait()", "a.py", 2)),
    )
    # dp runs slowest: groups are {0, 2} and {1, 3}, and moving along it swaps their members.
    grid = Grid.of({"dp": 2, "tp": 2}, 4)
    assert moved_to(log, grid.moved({"dp": 1})).sites[0][0] == "broadcast(src=2)"
    moved = moved_to(log, grid.moved({"tp": 1}))
    assert [site[0] for site in moved.sites] == ["broadcast(src=3)", "broadcast(src=3).wait()"]
    assert list(moved.comms[0][1]) == [1, 3]


# -- forged logs -----------------------------------------------------------------------------------


def with_cell(row: int, column: int, value: int) -> Callable[[RankLog], RankLog]:
    def change(log: RankLog) -> RankLog:
        rows = log.rows.copy()
        rows[row, column] = value
        return dataclasses.replace(log, rows=rows)

    return change


def with_field(**changes: Any) -> Callable[[RankLog], RankLog]:
    return lambda log: dataclasses.replace(log, **changes)


@pytest.mark.parametrize(
    ("forge", "what"),
    [
        (with_cell(0, 0, 4), "kinds"),
        (with_cell(1, 1, WORLD), "strangers"),
        (with_cell(1, 3, -8), "bytes below 0"),
        (with_cell(1, 4, 1), "communicators that don't exist"),
        (with_cell(0, 5, 1), "impossible work"),
        (with_cell(3, 6, 3), "waits"),
        (with_cell(5, 5, 1), "waits"),
        (with_cell(4, 5, 1), "unknown collectives"),
        (with_cell(0, 7, 4), "sites"),
        (with_field(rank=WORLD), "its rank"),
        (with_field(rows=np.zeros((2, 3), np.int64)), "its rows"),
        (with_field(rows=[[0] * 8]), "its rows"),
        (with_field(work=np.array([[np.nan, 0, 1, 0, -1]])), "impossible work"),
        (with_field(work=np.array([[-1.0, 0, 1, 0, -1]])), "impossible work"),
        (with_field(shared=(dataclasses.replace(ALL, name="system"),)), "collectives"),
        (with_field(shared=(dataclasses.replace(ALL, sizes=(-1,)),)), "collectives"),
        (with_field(comms=((0, np.array([0, 0])),)), "communicators"),
        (with_field(labels=("x" * 1000,)), "phases"),
        (with_field(memory=None), "memory"),
    ],
)
def test_a_malformed_log_is_refused(forge: Callable[[RankLog], RankLog], what: str) -> None:
    with pytest.raises(TraceError, match=f"malformed: .*{what}"):
        checked(forge(log_of(0)), WORLD)


@pytest.mark.parametrize("answer", [None, ({},), ({0: "log"}, []), ({0: log_of(1)}, [])])
def test_an_answer_that_is_no_answer_is_refused(answer: Any) -> None:
    with pytest.raises(TraceError):
        from_logs([answer], asked(1, None, (), True))


def test_a_trace_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_OPS", 4 * 6)
    with pytest.raises(TraceError, match=r"more than 24 operations.*trace fewer steps"):
        trace()


def test_an_answer_may_not_choose_other_axes() -> None:
    told = asked(WORLD, {"rank": WORLD}, (), True)
    with pytest.raises(TraceError, match="were to be alike along"):
        from_logs([({0: log_of(0)}, ["rank"])], told)


# -- broken laws -----------------------------------------------------------------------------------


def changed(rank: int, index: int, **fields: Any) -> Trace:
    result = trace()
    result.ops[rank][index] = result.ops[rank][index]._replace(**fields)
    return result


@pytest.mark.parametrize(
    ("forged", "law"),
    [
        (changed(1, 1, nbytes=8), "rank 1 sends 8 bytes to rank 2, which counts 80 at a.py:3"),
        (changed(1, 1, message=0), "sent twice"),
        (changed(2, 2, message=99), "rank 2 waits for a message from rank 1 .* never sent"),
        (changed(2, 2, peer=3), "rank 2 receives at a.py:3 a message that rank 1 sends"),
        (changed(3, 3, detail=(1, 1)), "rank 3 waits for request 1, which is not open"),
        (changed(3, 4, nbytes=8), "collective 0 on world is allreduce"),
        (
            changed(3, 4, detail=("allreduce", 0, 0, (0, 1, 2, 3), (8,))),
            "allreduce of 8 bytes with root 0 on rank 3 and allreduce of 80 bytes",
        ),
        (changed(3, 4, kind=Kind.COMPUTE, detail=(0.0, 0.0, 0, "x")), "rank 3 never calls"),
        (changed(3, 4, detail=()), "that not all members call at a.py:4"),
    ],
)
def test_a_broken_law_is_named(forged: Trace, law: str) -> None:
    with pytest.raises(DisagreementError, match=law):
        check_conservation(forged)


@pytest.mark.parametrize(
    ("forged", "difference"),
    [
        (changed(0, 0, detail=(1e6, 100.0, -1, "forward", 3, 50.0)), "FLOPs 1000000.0"),
        (changed(0, 0, detail=(2e6, 100.0, -1, "forward", 2, 50.0)), "operators 2"),
        (changed(0, 1, peer=2), "with peer 2; the network counted 1"),
        (changed(0, 1, nbytes=8), "with bytes 8; the network counted 80"),
        (changed(0, 4, comm="world/0g0-1-2-3"), "communicator world/0g0-1-2-3"),
        (
            changed(0, 4, detail=("allreduce", 0, 0, (0, 1, 2), (80,))),
            r"members \(0, 1, 2\); the network counted \(0, 1, 2, 3\)",
        ),
        (changed(0, 3, kind=Kind.POLL), "on fake tensors, .* on the network"),
        (changed(0, 5, site=2), "on fake tensors is"),
    ],
)
def test_comparing_names_the_first_operation_that_differs(forged: Trace, difference: str) -> None:
    compare(trace(), trace())
    with pytest.raises(DisagreementError, match=rf"rank 0, operation \d.*{difference}"):
        compare(forged, trace())


def test_comparing_sees_what_is_missing() -> None:
    short = trace()
    short.ops[3].pop()
    with pytest.raises(DisagreementError, match=r"rank 3, operation 5 .*nothing on fake tensors"):
        compare(short, trace())


def test_the_number_of_messages_of_a_replay_is_told_beforehand() -> None:
    for algorithm in ("ring", "halving_doubling", "tree"):
        machine = Machine.load("textbook").with_(collectives={"allreduce": algorithm})
        told = num_transfers(trace(), machine)
        assert told == len(replay(trace(), machine).messages)


def test_making_groups_does_not_disturb_collectives_of_the_same_number() -> None:
    """Two groups that share ranks, and a collective on the world, all the first of their kind."""

    def made(members: tuple[int, ...], request: int) -> list[Op]:
        detail = ("allgather", -1, 0, members, (8,) * len(members))
        op = Op(Kind.COLLECTIVE, nbytes=8, request=request, detail=detail)
        return [op, Op(Kind.WAIT, detail=(request,))]

    def reduced(request: int) -> list[Op]:
        detail = ("allreduce", 0, 0, (0, 1, 2), (300,))
        op = Op(Kind.COLLECTIVE, nbytes=300, request=request, detail=detail)
        return [op, Op(Kind.WAIT, detail=(request,))]

    ops = [
        [*made((0, 1), 1), *made((0, 1, 2), 2), *reduced(3)],
        [*made((0, 1), 1), *made((0, 1, 2), 2), *reduced(3)],
        [*made((0, 1, 2), 1), *reduced(2)],
    ]
    timeline = replay(Trace(3, ops), "textbook")
    alpha, beta = 1e-6, 1e-9
    expected = (1 + 2) * (alpha + 8 * beta) + 4 * (alpha + 100 * beta)
    assert timeline.makespan_s == pytest.approx(expected, rel=1e-12)
    assert len(timeline.messages) == 2 + 6 + 12
