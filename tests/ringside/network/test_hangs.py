"""Ranks that hang, and ranks that are slow: who is named, who waits, and what the clock shows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import ringside
from ringside import DeadlockError, Failures, Hang, Kill, Session, Slow, TargetError, Trace
from ringside.draw import live_svg
from ringside.errors import TraceError
from ringside.timing import simgrid
from ringside.timing.extrapolation import widen
from ringside.timing.perfetto import trace_events

PROGRAMS = """
import numpy as np
import ringside
from mpi4py import MPI

def grid(comm, steps):
    tp = comm.Split(comm.rank // 2, comm.rank)
    dp = comm.Split(comm.rank % 2, comm.rank)
    x, out = np.ones(100), np.empty(100)
    for _ in range(steps):
        ringside.compute(seconds=1e-3, phase="forward")
        tp.Allreduce(x, out)
        ringside.compute(seconds=2e-3, phase="backward")
        dp.Allreduce(out, x)
    return float(x[0])

def ring(comm):
    x = np.ones(1000)
    for _ in range(3):
        comm.Sendrecv_replace(x, (comm.rank + 1) % comm.size, 0, (comm.rank - 1) % comm.size, 0)

def handed(comm):
    x = np.full(4, comm.rank)
    if comm.rank == 0:
        comm.Send(x, 1)
        comm.Recv(x, 1)
    else:
        comm.Recv(x, 0)
        comm.Send(x, 0)
    return x.tolist()

def asks(comm):
    if comm.rank:
        ringside.compute(seconds=0.5)
        comm.Send(np.ones(1), 0)
        return
    got, order = np.empty(1), []
    status = MPI.Status()
    for _ in range(comm.size - 1):
        comm.Recv(got, status=status)
        order.append(status.Get_source())
    return order
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.py").write_text(textwrap.dedent(PROGRAMS))
    with Session(folder) as session:
        yield session


def test_the_verdict_names_who_hangs_who_waits_and_who_waits_because_of_that(
    session: Session,
) -> None:
    failures = Failures(Hang(5, at_s=3.5e-3))
    result = session.call("programs:grid", 8, (3,), failures=failures)
    assert isinstance(result.error, DeadlockError)
    text = " ".join(str(result.error).split())
    assert text.startswith("rank 5 hangs, ranks 0, 1, 2, 3, 4, 6, 7 are blocked,")
    # Rank 4 shares a row with it, and ranks 1, 3 and 7 a column; the others wait for these.
    assert "Ranks 1, 3, 4, 7 wait for it, and because of that ranks 0, 2, 6." in text
    assert "Rank 5 hangs from 3.5 ms on, before its 11th operation (compute(phase=forw" in text
    assert "never came to allreduce, the 2nd collective on communicator world/1.1 " in text
    assert [hang.rank for hang in result.hangs] == [5]
    assert not result.deaths
    assert result.values == [None] * 8
    assert result.timeline.hangs_s == {5: pytest.approx(3.5e-3)}
    events = trace_events(result.timeline)["traceEvents"]
    assert [event["tid"] for event in events if event["name"] == "hangs"] == [5]
    again = session.call("programs:grid", 8, (3,), failures=failures)
    assert again.trace == result.trace


def test_a_rank_that_hangs_has_sent_what_it_had_sent(session: Session) -> None:
    result = session.call("programs:handed", 2, failures=Failures(Hang(0, op=3)))
    assert result.error is not None
    assert "(Recv(source=1" in " ".join(str(result.error).split())
    assert result.sent_messages() == [1, 1]  # rank 1 got its message, and answers for ever


@pytest.mark.parametrize("op", range(1, 11))
def test_a_ring_stops_at_every_operation_of_a_rank_that_hangs(session: Session, op: int) -> None:
    result = session.call("programs:ring", 4, failures=Failures(Hang(2, op=op)))
    assert isinstance(result.error, DeadlockError)
    assert "rank 2 hangs" in str(result.error)
    if op == 10:
        assert "all others have returned" in str(result.error)
        assert "So the run never ends." in str(result.error)
    assert "hangs after" in live_svg(result.timeline) or op == 1


def test_a_kill_and_a_hang_in_one_run(session: Session) -> None:
    failures = Failures(Kill(1, op=2), Hang(2, op=3))
    result = session.call("programs:ring", 4, failures=failures)
    assert [death.rank for death in result.deaths] == [1]
    assert [hang.rank for hang in result.hangs] == [2]
    assert result.error is not None


def test_a_slow_rank_computes_longer_live_and_in_replays(session: Session, tmp_path: Path) -> None:
    usual = session.call("programs:grid", 4, (3,)).raise_for_error()
    slow = session.call("programs:grid", 4, (3,), failures=Failures(Slow(1, 1.5))).raise_for_error()
    assert slow.values == usual.values
    assert slow.num_flops() == usual.num_flops()
    assert slow.timeline.busy_s == pytest.approx([9e-3, 13.5e-3, 9e-3, 9e-3])
    assert slow.makespan_s - usual.makespan_s == pytest.approx(4.5e-3)
    loaded = Trace.load(slow.trace.save(tmp_path / "slow.trace"))
    assert loaded == slow.trace
    assert ringside.replay(loaded, "textbook").makespan_s == slow.makespan_s
    loaded.slow.clear()
    assert ringside.replay(loaded, "textbook").makespan_s == usual.makespan_s
    assert "rank 1 (1.5 ×)" in live_svg(slow.timeline)
    assert "×)" not in live_svg(usual.timeline)
    with pytest.raises(TraceError, match="some ranks of this trace are slow"):
        widen(slow.trace, 8)


def test_the_live_clock_knows_who_is_slow(session: Session) -> None:
    assert session.call("programs:asks", 3).values[0] == [1, 2]
    assert session.call("programs:asks", 3, failures=Failures(Slow(1, 1.1))).values[0] == [2, 1]


def test_simgrid_gets_the_slow_ranks_times_and_no_hangs(session: Session, tmp_path: Path) -> None:
    slow = session.call("programs:grid", 2, (1,), failures=Failures(Slow(1, 1.5)))
    simgrid.export(slow.trace, slow.machine, tmp_path / "slow")
    lines = (tmp_path / "slow" / "rank-1.txt").read_text().splitlines()
    work = [float(line.split()[2]) for line in lines if " compute " in line]
    assert [flops / slow.machine.flop_per_s for flops in work] == pytest.approx([1.5e-3, 3e-3])
    hung = session.call("programs:grid", 2, (1,), failures=Failures(Hang(0, op=4)))
    with pytest.raises(TraceError, match="a collective never ended"):
        simgrid.export(hung.trace, hung.machine, tmp_path / "hung")
    alone = session.call("programs:handed", 2, failures=Failures(Hang(0, op=5)))
    with pytest.raises(TraceError, match="was killed or hangs"):
        simgrid.export(alone.trace, alone.machine, tmp_path / "alone")


def test_a_damaged_factor_is_no_trace(session: Session, tmp_path: Path) -> None:
    trace = session.call("programs:handed", 2, failures=Failures(Slow(1, 2))).trace
    for factor in (-1.0, float("inf")):
        trace.slow[1] = factor
        with pytest.raises(TraceError, match="can't be slow"):
            Trace.load(trace.save(tmp_path / "damaged"))
    trace.slow = {5: 2.0}
    with pytest.raises(TraceError, match="rank 5"):
        Trace.load(trace.save(tmp_path / "damaged"))


def test_what_is_asked_for_is_read_or_refused(session: Session) -> None:
    assert Hang.parse("2@op9") == Hang(2, op=9)
    assert Hang.parse("2@1.2ms") == Hang(2, at_s=1.2e-3)
    assert Slow.parse("1x1.34") == Slow(1, 1.34)
    failures = Failures.asked(["0@op1"], False, ["2@op9"], ["1x1.34"])
    assert failures is not None
    assert failures.stops == [Kill(0, op=1), Hang(2, op=9)]
    assert failures.slow == {1: 1.34}
    assert Failures.asked(None, False, None, None) is None
    for text in ("2", "2@9", "@op1", "x@op1", "2@op"):
        with pytest.raises(TargetError, match=rf"--hang {text}: write .* in which it hangs"):
            Hang.parse(text)
    for text in ("1", "x2", "1x", "1x-2", "1xnan"):
        with pytest.raises(TargetError, match=f"--slow {text}: write 1x1.34"):
            Slow.parse(text)
    for factor in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(TargetError, match="a factor above 0"):
            Slow(1, factor)
    with pytest.raises(TargetError, match="give each rank one factor"):
        Failures(Slow(1, 2), Slow(1, 3))
    for detect_s in (-1e-3, float("nan"), 1e7):
        with pytest.raises(TargetError, match="detect_s"):
            Failures(detect_s=detect_s)
    with pytest.raises(TargetError, match="no rank 4 to be slow: 4 run"):
        session.call("programs:ring", 4, failures=Failures(Slow(4, 2)))
    with pytest.raises(TargetError, match="hang 4@op1: there is no such rank among 4"):
        session.call("programs:ring", 4, failures=Failures(Hang(4, op=1)))
