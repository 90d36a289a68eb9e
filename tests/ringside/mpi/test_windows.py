"""Windows on the network: counts, the clock, who is first, races by name, and who waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringside import DeadlockError, Machine, Result, Session, Trace, replay
from ringside.errors import LimitError, RankError, TraceError
from ringside.timing.perfetto import trace_events
from ringside.timing.simgrid import export
from ringside.trace import Kind

MACHINE = Machine.load("textbook")
ALPHA_S, BETA_S = MACHINE.link(0, 1).alpha_s, MACHINE.link(0, 1).beta_s_per_byte


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(Path(__file__).parent) as session:
        yield session


def _call(session: Session, function: str, world_size: int, *args: Any, **options: Any) -> Result:
    return session.call(f"windows.py:{function}", world_size, args, timeout_s=30.0, **options)


def _values(session: Session, function: str, world_size: int, *args: Any) -> list[Any]:
    result = _call(session, function, world_size, *args)
    assert result.error is None, str(result.error)
    return result.values


# -- counts ----------------------------------------------------------------------------------------


def test_each_access_is_a_message_of_its_bytes(session: Session) -> None:
    result = _call(session, "everything", 2)
    assert result.error is None, str(result.error)
    there = [24, 16, 32, 8, 16]  # Put, Accumulate, Get_accumulate, Fetch_and_op, Compare_and_swap
    back = [32, 32, 8, 8]  # Get, Get_accumulate, Fetch_and_op, Compare_and_swap
    assert result.bytes_matrix().tolist() == [[0, sum(there)], [sum(back), 0]]
    assert result.sent_messages() == [len(there), len(back)]
    timed = result.timeline.messages
    assert sum(m.nbytes for m in timed if m.source == 1 and "Free" not in m.site) >= sum(back)


# -- the clock -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 1000])
def test_accesses_take_the_time_of_their_messages_and_none_of_the_target(
    session: Session, n: int
) -> None:
    taken = _values(session, "times", 2, n)[0]
    message_s = ALPHA_S + 8 * n * BETA_S
    expected = {
        "Put": message_s,
        "Accumulate": message_s,
        "Get": ALPHA_S + message_s,
        "Get_accumulate": 2 * message_s,
    }
    for name, (posting_s, complete_s) in taken.items():
        assert posting_s == pytest.approx(0, abs=2e-7), name  # the clock, looked at twice
        assert complete_s == pytest.approx(expected[name] + posting_s, rel=1e-6, abs=1e-12), name


def test_a_fence_takes_its_puts_and_a_barrier(session: Session) -> None:
    makespans = {n: _call(session, "one_put", 2, n).makespan_s for n in (0, 1000)}
    fences = _call(session, "two_fences", 2).makespan_s
    assert makespans[1000] == pytest.approx(fences + ALPHA_S + 8000 * BETA_S, rel=1e-9)
    assert makespans[0] == pytest.approx(fences + ALPHA_S, rel=1e-9)


def test_an_exclusive_lock_is_waited_for_and_a_shared_one_is_not(session: Session) -> None:
    n, p = 1000, 4
    exclusive = sorted(_values(session, "locked", p, n, 234))
    shared = sorted(_values(session, "locked", p, n, 235))
    put_s = ALPHA_S + 8 * n * BETA_S
    # Rank 0's Put to itself costs nothing.
    assert exclusive == pytest.approx([i * put_s for i in range(p)], abs=2e-7)
    # The three others wait for one another at rank 0's port alone.
    assert shared == pytest.approx(
        [0, *(ALPHA_S + i * 8 * n * BETA_S for i in range(1, p))], abs=2e-7
    )


def test_who_asks_first_by_virtual_time_has_the_lock_first(session: Session) -> None:
    assert _values(session, "first_come", 5) == [4, 3, 2, 1, 0]


def test_a_run_with_passive_targets_is_the_same_each_time(session: Session) -> None:
    runs = [_call(session, "counter", 4, seed) for seed in (1, 2, 3)]
    assert all(run.values == runs[0].values for run in runs)
    assert all(run.trace == runs[0].trace for run in runs)
    assert sorted(number for part in runs[0].values for number in part) == list(range(16))


def test_a_loop_that_waits_for_a_put_ends_when_it_lands(session: Session) -> None:
    _, looks = _values(session, "wait_for_a_flag", 2)
    assert 1 < looks < 5


def test_a_saved_trace_takes_the_same_time_again(session: Session, tmp_path: Path) -> None:
    result = _call(session, "counter", 3, 0)
    path = result.trace.save(tmp_path / "trace.jsonl.gz")
    assert Trace.load(path) == result.trace
    timeline = replay(path, MACHINE)
    assert timeline.makespan_s == result.makespan_s
    accesses = [op for ops in result.trace.ops for op in ops if op.kind == Kind.ACCESS]
    assert {(op.peer, op.nbytes, op.detail) for op in accesses} == {(0, 8, (8,))}


def test_a_timeline_leads_from_what_came_back_to_what_asked_for_it(session: Session) -> None:
    timeline = _call(session, "times", 2, 1000).timeline
    sites = {m.site for m in timeline.messages if m.source == 1 and m.nbytes == 8000}
    assert any(site.startswith("windows.py:") for site in sites)
    result = _call(session, "locked", 2, 1000, 234)
    path = result.timeline.critical_path
    assert sum(span.end_s - span.start_s for span in path) == pytest.approx(result.makespan_s)
    assert "8000 bytes from rank 1 to rank 0" in [span.label for span in path]
    assert trace_events(timeline)["traceEvents"]


def test_simgrid_refuses_accesses_by_name(session: Session, tmp_path: Path) -> None:
    trace = _call(session, "with_locks", 2, "apart", 235).trace
    with pytest.raises(TraceError, match=r"rank 1 calls Put\(target_rank=0\).* one-sided"):
        export(trace, MACHINE, tmp_path)


# -- races -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bytes_used"),
    [("two puts", "16 to 23"), ("put and get", "0 to 15"), ("put and accumulate", "24 to 39")],
)
def test_a_race_names_both_ranks_calls_and_lines(
    session: Session, name: str, bytes_used: str
) -> None:
    error = _call(session, "between_fences", 3, name).error
    assert isinstance(error, RankError) and error.type_name == "WindowRace"
    text = str(error)
    assert f"use the bytes {bytes_used} of rank 0's window between the same two fences" in text
    assert text.count("windows.py:") >= 2 and text.count("(target_rank=0)") >= 2
    assert {"rank 1", "rank 2"} <= {f"rank {r}" for r in range(3) if f"rank {r}" in text}


@pytest.mark.parametrize("name", ["apart", "equal puts", "gets", "accumulates"])
def test_what_order_does_not_change_is_no_race(session: Session, name: str) -> None:
    _values(session, "between_fences", 3, name)
    _values(session, "with_locks", 3, name, 235)


def test_locks_order_accesses_only_if_they_are_exclusive(session: Session) -> None:
    _values(session, "with_locks", 3, "two puts", 234)
    error = _call(session, "with_locks", 3, "two puts", 235).error
    assert isinstance(error, RankError) and "while it was on its way" in str(error)


def test_a_message_orders_accesses_too(session: Session) -> None:
    assert _values(session, "one_after_the_other", 3)[0] == [2.0, 2.0]


def test_columns_that_lie_between_one_another_are_apart(session: Session) -> None:
    assert _values(session, "columns", 3)[0] == [0.0, 1.0, 2.0, 0.0] * 3
    error = _call(session, "columns", 4).error
    assert isinstance(error, RankError) and "use the bytes 16 to 23" in str(error)


def test_a_changed_origin_buffer_is_named_with_the_cure(session: Session) -> None:
    for errors in _values(session, "changed_buffer", 1):
        for kind, text in errors:
            assert kind == "BufferRaceError" and "the buffer given to Put(target_rank=0)" in text
            assert "Call Fence, Flush or Unlock before you write to the buffer" in text


def test_what_a_get_brings_is_not_there_before_its_epoch_ends(session: Session) -> None:
    for early, late in _values(session, "poisoned", 2):
        assert early == "[nan nan]" and (late == 0).all()


# -- misuse ----------------------------------------------------------------------------------------

MISUSED = {
    "no epoch": r"Put\(target_rank=0\) is outside of an epoch: call Fence first, or Lock\(0\)",
    "flush": r"Flush\(rank=0\) is outside of a lock's epoch: call Lock\(0\) first",
    "unlock": r"Unlock\(rank=0\) is outside of a lock's epoch",
    "complete": r"Complete\(\) ends no epoch: call Start first",
    "wait": r"Wait\(\) waits for no epoch: call Post first",
    "other rank": r"Get\(target_rank=1\) is outside of an epoch",
    "beyond": r"uses the bytes 72 to 87 of rank 0's window, which has 80 bytes.* steps of 8 bytes",
    "before": r"uses the bytes -8 to 7 of rank 0's window",
    "sizes": r"has 16 bytes here and 24 bytes in the window",
    "own operation": r"takes one of MPI's own operations, on numbers: not a function",
    "lock again": r"Lock\(rank=0\) asks for a lock that this rank holds",
    "fence in a lock": r"Fence\(\) comes while this rank holds a lock: call Unlock\(0\) first",
    "free in a lock": r"Win.Free\(\) comes while this rank holds a lock",
    "lock before a fence": r"Lock\(rank=0\) comes before the last accesses are complete",
    "freed": r"the window is WIN_NULL: it was freed",
}


def test_misuse_is_named_with_the_cure(session: Session) -> None:
    for errors in _values(session, "misused", 2):
        assert errors.keys() == MISUSED.keys()
        for name, pattern in MISUSED.items():
            assert errors[name][0] == "Exception"
            with pytest.raises(AssertionError, match=pattern):
                raise AssertionError(errors[name][1])


def test_shared_windows_are_refused_with_the_cure(session: Session) -> None:
    kind, text = _values(session, "not_shared", 1)[0]
    assert kind == "NotOfferedError" and "ranks share no memory here: use Allocate" in text


def test_an_access_to_a_rank_that_has_returned_is_named(session: Session) -> None:
    error = _call(session, "returned_too_early", 2).error
    assert isinstance(error, RankError) and error.rank == 0
    assert "rank 1 has returned while its window was in use. Let all ranks call Free" in str(error)


# -- deadlocks -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "cure"),
    [
        ("not_all_fence", "Rank 1 calls Fence a 2nd time on communicator world/0"),
        ("not_all_free", "Rank 1 never calls Win.Free on communicator world/0"),
        ("fence_and_free", "rank 1 calls Fence where rank 0 calls Win.Free"),
        ("wait_for_no_one", "Rank 1 polls for something that can't happen any more"),
        ("start_alone", "Rank 0 waits in Start for rank 2 to call Post on the same window"),
        ("post_alone", "Rank 0 waits in Wait for rank 2 to call Complete on the same window"),
        ("lock_kept", "Rank 1 waits for a lock that rank 0 has held since its Lock(rank=1) at"),
    ],
)
def test_a_verdict_knows_the_calls_that_wait(session: Session, function: str, cure: str) -> None:
    error = _call(session, function, 3).error
    assert isinstance(error, DeadlockError)
    assert cure in error.cure, error.cure


@pytest.mark.parametrize(
    "rights", [{"confined": True}, {"strict": True}], ids=["checked", "graded"]
)
def test_where_modules_are_checked_there_are_no_windows(rights: dict[str, bool]) -> None:
    with Session(Path(__file__).parent, **rights) as session:
        error = session.call("windows.py:poisoned", 2).error
    assert isinstance(error, LimitError)
    assert "makes a window, and modules that are checked exchange messages" in str(error)
