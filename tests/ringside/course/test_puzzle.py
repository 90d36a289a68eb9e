"""Puzzles: a program is run, measured against targets, and told about in sentences."""

import textwrap

import numpy as np
import pytest

import ringside
from ringside.course.lectures import puzzle
from ringside.course.lectures.puzzle import same

PROGRAM = '''
import numpy as np
from mpi4py import MPI


def in_a_row(comm, vector):
    """The star of lecture 3: 2 (p - 1) (alpha + n beta)."""
    if comm.rank > 0:
        comm.Send(vector, dest=0)
        comm.Recv(vector, source=0)
        return vector
    for source in range(1, comm.size):
        other = np.empty_like(vector)
        comm.Recv(other, source=source)
        vector = vector + other
    for dest in range(1, comm.size):
        comm.Send(vector, dest=dest)
    return vector


def library(comm, vector):
    total = np.empty_like(vector)
    comm.Allreduce(vector, total)
    return total


def hangs(comm, vector):
    comm.Ssend(vector, dest=1 - comm.rank)
'''

TORCH = """
import torch
import torch.distributed as dist


def twice(group, n):
    x = torch.full((n,), float(group.rank() + 1))
    y = x.clone()
    dist.all_reduce(y, group=group)
    return y
"""


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "star.py").write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    (tmp_path / "summed.py").write_text(textwrap.dedent(TORCH), encoding="utf-8")


VECTORS = [(np.full(250, rank + 1.0),) for rank in range(4)]  # 2000 bytes on each rank
TOTAL = np.full(250, 10.0)


def test_a_program_that_meets_every_target_solves_the_puzzle(capsys):
    attempt = puzzle(
        "star.py:in_a_row", 4, VECTORS, expected=TOTAL, at_most_us=18, at_most_bytes=6000,
        at_most_bytes_in_all=12_000, at_most_messages=3, at_most_messages_in_all=6,
        hint="never read",
    )  # fmt: skip
    assert attempt.solved
    assert attempt.time_us == pytest.approx(6 * (1 + 2))
    assert attempt.sent_bytes == (6000, 2000, 2000, 2000)
    assert attempt.sent_messages == (3, 1, 1, 1)
    assert [finding.about for finding in attempt.findings] == [
        *("Values", "Time", "Bytes", "Bytes", "Messages", "Messages"),
    ]
    said = capsys.readouterr().out
    assert "Each of the 4 ranks returns what is expected." in said
    assert "The program takes 18 µs. The target is at most 18 µs." in said
    assert "All ranks together send 12,000 bytes." in said
    assert said.endswith("Solved.\n")
    assert "not met" not in said
    assert "never read" not in said


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ({"at_most_us": 14}, "The program takes 18 µs. The target is at most 14 µs.  <- not met"),
        (
            {"at_most_bytes": 5999},
            "The rank with the most sends 6,000 bytes. The target is at most 5,999 bytes.",
        ),
        ({"at_most_bytes_in_all": 8000}, "All ranks together send 12,000 bytes."),
        ({"at_most_messages": 2}, "The rank with the most sends 3 messages."),
        ({"at_most_messages_in_all": 5}, "All ranks together send 6 messages."),
        ({"expected": [TOTAL, TOTAL, TOTAL + 1, TOTAL]}, "Rank 2 returns an array of shape (250,)"),
        ({"expected": TOTAL[:-1]}, "4 ranks of 4 differ."),
    ],
)
def test_a_target_that_is_missed_is_told_with_both_numbers_and_the_hint(capsys, target, sentence):
    attempt = puzzle("star.py:in_a_row", 4, VECTORS, hint="Post all receives first.", **target)
    said = capsys.readouterr().out
    assert not attempt.solved
    assert sentence in said
    assert said.endswith("Not solved yet. Hint: Post all receives first.\n")


def test_what_a_library_collective_sends_counts_too():
    attempt = puzzle("star.py:library", 4, VECTORS, expected=TOTAL, at_most_bytes=3000)
    assert attempt.solved
    assert attempt.sent_bytes == (3000,) * 4  # a ring: 2 (p - 1) / p n
    assert attempt.sent_messages == (6,) * 4
    assert not puzzle("star.py:library", 4, VECTORS, at_most_messages=5).solved


def test_a_program_that_hangs_is_told_and_drawn_but_not_raised(capsys):
    attempt = puzzle("star.py:hangs", 2, VECTORS[:2], at_most_us=10)
    assert not attempt.solved
    assert isinstance(attempt.error, ringside.DeadlockError)
    assert "The program fails: DeadlockError: all 2 ranks are blocked" in capsys.readouterr().out
    assert attempt.timeline.unfinished


def test_torch_programs_are_judged_by_memory_and_can_be_traced():
    arguments = {"at_most_memory_bytes": 8000, "at_most_bytes": 6000}
    attempt = puzzle("summed.py:twice", 4, (1000,), expected=np.full(1000, 10.0), **arguments)
    assert attempt.solved
    assert attempt.peak_bytes == (8000,) * 4  # x and y, 1000 float32 each
    assert not puzzle("summed.py:twice", 4, (1000,), at_most_memory_bytes=7999).solved
    traced = puzzle("summed.py:twice", 4, (1000,), traced=True, **arguments)
    assert traced.solved
    assert traced.time_us == pytest.approx(attempt.time_us)
    assert traced.sent_bytes == attempt.sent_bytes


def test_impossible_questions_are_refused():
    with pytest.raises(ringside.TargetError, match="a puzzle needs a target"):
        puzzle("star.py:in_a_row", 4, VECTORS)
    with pytest.raises(ringside.TargetError, match="expected has 3 values for 4 ranks"):
        puzzle("star.py:in_a_row", 4, VECTORS, expected=[TOTAL] * 3)
    with pytest.raises(ringside.TargetError, match="memory is counted of torch programs only"):
        puzzle("star.py:in_a_row", 4, VECTORS, at_most_memory_bytes=1)
    with pytest.raises(ringside.TargetError, match="a traced program has no values"):
        puzzle("summed.py:twice", 4, (1000,), expected=1.0, traced=True)


def test_values_are_compared_through_lists_and_dictionaries():
    value = {"loss": [1.0, np.array([1.0, 1e6])], "name": "a"}
    assert same(value, {"loss": [1.0, np.array([1.0 + 1e-7, 1e6])], "name": "a"}, 1e-6)
    assert not same(value, {"loss": [1.1, np.array([1.0, 1e6])], "name": "a"}, 1e-6)
    assert not same(value, {"loss": value["loss"], "name": "b"}, 1e-6)
    assert not same(value, {"loss": value["loss"]}, 1e-6)
    assert same((1, None), (1, None), 1e-6)
    assert not same(None, 0.0, 1e-6)
    assert not same(np.nan, 0.0, 1e-6)


def test_in_a_notebook_the_timeline_is_shown_once(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", shown.append)
    attempt = puzzle("star.py:in_a_row", 4, VECTORS, at_most_us=18)
    assert shown == [attempt.timeline]
    attempt._ipython_display_()
    assert shown == [attempt.timeline]
    puzzle("star.py:in_a_row", 4, VECTORS, at_most_us=18, draw=False)
    assert shown == [attempt.timeline]
