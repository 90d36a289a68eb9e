"""Calls on real ranks: what the network knows of those that don't end."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ringside.checking.real_calls import NotRun, RealCalls, World, Worlds
from ringside.mpi_there import found_mpiexec
from ringside.session.session import Session

MODULE = """
import time

import numpy as np

def cycle(comm, x):
    other = np.empty_like(x)
    comm.Send(x, 1 - comm.rank)
    comm.Recv(other, 1 - comm.rank)
    return other

def right(comm, x):
    return x

def slow(comm, x):
    time.sleep(0.5)
    return x
"""


ARGUMENTS = [(np.ones(3),)] * 2


class Hanging(Worlds):
    """Real ranks that never end."""

    tries = 0

    def take(self, launcher: str, p: int) -> World:
        self.tries += 1
        raise subprocess.TimeoutExpired(launcher, 60.0)


def test_what_hangs_is_told_by_the_network_where_sends_wait(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    with Session(tmp_path) as session:
        worlds = Hanging(tmp_path, "mpiexec")
        real = RealCalls("mpiexec", session, worlds)
        with pytest.raises(NotRun, match="fails on the network: all 2 ranks are blocked"):
            real.call_all([("m:cycle", 2, ARGUMENTS)])
        assert worlds.tries == 1
        with pytest.raises(subprocess.TimeoutExpired):
            real.call_all([("m:right", 2, ARGUMENTS)])
        assert worlds.tries == 3  # for a short time, and for as long as they may


def test_what_takes_long_for_no_reason_of_the_networks_has_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ringside.checking.real_calls.SOON_S", 0.1)
    (tmp_path / "m.py").write_text(MODULE)
    worlds = Worlds(tmp_path, found_mpiexec() or pytest.skip("there is no mpiexec"))
    with Session(tmp_path) as session, contextlib.closing(worlds):
        (run,) = RealCalls("mpiexec", session, worlds).call_all([("m:slow", 2, ARGUMENTS)])
    np.testing.assert_array_equal(run.values, [np.ones(3)] * 2)


def test_ranks_that_were_started_ahead_take_the_calls(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    worlds = Worlds(tmp_path, found_mpiexec() or pytest.skip("there is no mpiexec"))
    with Session(tmp_path) as session, contextlib.closing(worlds):
        worlds.start("mpiexec", 2)
        waiting = worlds.take("mpiexec", 2)
        worlds.take = lambda launcher, p: waiting  # type: ignore[method-assign]
        (run,) = RealCalls("mpiexec", session, worlds).call_all([("m:right", 2, ARGUMENTS)])
        np.testing.assert_array_equal(run.values, [np.ones(3)] * 2)
        assert not waiting.runs


def test_ranks_that_nobody_asks_for_end(tmp_path: Path) -> None:
    worlds = Worlds(tmp_path, found_mpiexec() or pytest.skip("there is no mpiexec"))
    worlds.start("mpiexec", 2)
    waiting = worlds.take("mpiexec", 2)
    assert waiting.runs
    waiting.close()
    assert not waiting.runs
