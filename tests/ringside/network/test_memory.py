"""What ranks may hold of a student's own machine, and that too much of it ends the run in words."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from ringside import Session
from ringside.errors import LimitError, TargetError
from ringside.network import rank_memory as memory

MODULE = """
import numpy as np


def typo(comm):
    if comm.rank == 1:
        held = [np.ones(1 << 20) for _ in range(1 << 20)]
    comm.Barrier()


def even(comm):
    held = np.ones(12 << 20)  # 96 MiB
    comm.Barrier()
    while True:
        pass
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "big.py").write_text(MODULE)
    return Session(tmp_path)


def test_a_list_that_grows_for_ever_ends_with_rank_line_and_cure(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(memory.VARIABLE, "200")
    with session:
        error = session.call("big:typo", 2, timeout_s=60).error
        assert isinstance(error, LimitError) and error.rank == 1
        said = r"rank 1: holds \S+ [MG]iB of memory at big.py:7 \(in .*\); a rank may hold 200 MiB"
        assert re.match(said, str(error))
        assert "RINGSIDE_MEMORY_MIB=" in str(error)
        assert session.call("big:typo", 1).error is None  # on new ranks


def test_ranks_may_hold_half_of_the_machine_together(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_allowed", lambda *_: (150 << 20, 160 << 20))
    with session:
        error = session.call("big:even", 2, timeout_s=60).error
    assert isinstance(error, LimitError)
    assert "the most of all ranks, and together they hold" in str(error)
    assert "half of this machine's memory, 160 MiB, is allowed" in str(error)


def test_the_default_is_a_share_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_memory_bytes", lambda: 8 << 30)
    assert memory._allowed(2, None) == (2 << 30, 4 << 30)
    assert memory._allowed(64, None) == (512 << 20, 4 << 30)


def test_a_limit_that_is_no_number_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(memory.VARIABLE, "2 GB")
    with session, pytest.raises(TargetError, match=r"RINGSIDE_MEMORY_MIB \(2 GB\) must be a whole"):
        session.call("big:even", 1)


def test_zero_is_no_limit() -> None:
    assert memory._allowed(4, 0) == (math.inf, math.inf)


def test_a_process_that_has_ended_holds_nothing() -> None:
    assert memory._held(memory._process(2**22 + 1)) == 0


def test_ranks_that_nobody_can_name_are_left_alone() -> None:
    asked: list[int] = []

    def none() -> list[int]:
        asked.append(1)
        return []

    watch = memory.MemoryWatch(2, 2**22 + 1, none)
    assert watch.look(lambda rank: "") is None and watch.look(lambda rank: "") is None
    assert len(asked) == 1
