"""What a torch program sees of a rank that was killed, or hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringside import DeadlockError, Failures, Hang, Kill, Result, Session

PROGRAM = """
import torch
import torch.distributed as dist

def train(group):
    total = torch.ones(4)
    try:
        for _ in range(3):
            dist.all_reduce(total, group=group)
        return "done"
    except RuntimeError as error:
        return str(error)

def point_to_point(group):
    rank = dist.get_rank(group)
    got = torch.zeros(2)
    try:
        if rank == 0:
            dist.recv(got, 1)
            dist.recv(got, 1)
        elif rank == 1:
            dist.send(torch.ones(2), 0)
            dist.barrier()
        return got.tolist()
    except RuntimeError as error:
        return [*got.tolist(), str(error)]
"""


def test_calls_with_a_dead_rank_raise_as_on_gloo(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with Session(tmp_path) as session:
        result = session.call("program:train", 3, failures=Failures(Kill(1, op=3)))
        for rank in (0, 2):
            assert (
                result.raise_for_error()
                .values[rank]
                .startswith("[ringside] Connection closed by peer: rank 1 was killed at ")
            )
        result = session.call("program:point_to_point", 2, failures=Failures(Kill(1, op=3)))
        first, second, text = result.raise_for_error().values[0]
        assert (first, second) == (1.0, 1.0)
        assert text.startswith("[ringside] Connection closed by peer: rank 1 was killed at ")


TIMED = """
from datetime import timedelta
import torch
import torch.distributed as dist

def train(group):
    half = timedelta(seconds=2)
    pairs = [dist.new_group([0, 1], timeout=half), dist.new_group([2, 3], timeout=half)]
    every = dist.new_group(range(4), timeout=timedelta(seconds=8))
    x = torch.ones(4)
    try:
        dist.all_reduce(x, group=pairs[dist.get_rank() // 2])
        dist.all_reduce(x, group=every)
    except RuntimeError as error:
        return str(error)

def point_to_point(group):
    own, x = dist.new_group([0, 1, 2], timeout=timedelta(seconds=8)), torch.ones(3)
    rank = dist.get_rank(group)
    if rank == 1:
        dist.send(x, 0, group=own)
        return
    told = x.tolist()
    try:
        dist.recv(x, 1, group=own) if rank == 0 else dist.recv(x, 0)
    except RuntimeError as error:
        told = str(error)
    if rank == 0:
        dist.send(x, 2)
    return told

def uncaught(group):
    every = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    dist.all_reduce(torch.ones(4), group=every)

def no_timeout(group):
    dist.all_reduce(torch.ones(4))
"""


def first_op(run: Result, rank: int, call: str) -> int:
    """The number of a rank's first operation of a call."""
    return next(
        number
        for number, op in enumerate(run.trace.ops[rank], start=1)
        if run.trace.site_of(op).call.startswith(call)
    )


def test_a_group_with_a_timeout_tells_who_waits_for_a_rank_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "timed.py").write_text(TIMED)
    timed_out = "[ringside] Timed out waiting {}ms for {} to complete"
    with Session(tmp_path) as session:
        usual = session.call("timed:train", 4).raise_for_error()
        hang = first_op(usual, 1, "all_reduce")
        result = session.call("timed:train", 4, failures=Failures(Hang(1, op=hang)))
        reduced = "all_reduce(op=SUM)"
        assert isinstance(result.error, DeadlockError)  # rank 1 never ends
        assert "rank 1 hangs, all others have returned" in str(result.error)
        assert result.values[0] == timed_out.format(2000, reduced)
        assert result.values[2] == result.values[3] == timed_out.format(8000, reduced)
        assert result.makespan_s == pytest.approx(8.0, rel=1e-3)

        usual = session.call("timed:point_to_point", 3).raise_for_error()
        hang = first_op(usual, 1, "send")
        result = session.call("timed:point_to_point", 3, failures=Failures(Hang(1, op=hang)))
        # Rank 2, whose group has no time-out, gets its message: late, and not an error.
        assert result.values == [
            timed_out.format(8000, "recv(src=1)"), None, [1.0, 1.0, 1.0]
        ]  # fmt: skip

        result = session.call("timed:uncaught", 2, failures=Failures(Hang(1, at_s=1e-9)))
        assert "Rank 1 hangs from 1 ns on" in str(result.error)
        assert timed_out.format(1000, reduced) in str(result.error)
        assert "It never came to all_reduce, the 1st collective on" in str(result.error)

        result = session.call("timed:no_timeout", 2, failures=Failures(Hang(1, op=1)))
        assert isinstance(result.error, DeadlockError)
