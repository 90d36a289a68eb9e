"""Calls on real ranks: what the network knows of those that don't end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ringside.checking.real_calls import MpiCalls, NotRun
from ringside.session.session import Session

MODULE = """
import numpy as np

def cycle(comm, x):
    other = np.empty_like(x)
    comm.Send(x, 1 - comm.rank)
    comm.Recv(other, 1 - comm.rank)
    return other

def right(comm, x):
    return x
"""


ARGUMENTS = [(np.ones(3),)] * 2


class Hanging(MpiCalls):
    """Real ranks that never end."""

    def _start(self, p: int, scratch: Path) -> None:
        raise subprocess.TimeoutExpired("mpiexec", 60.0)


def test_what_hangs_is_told_by_the_network_where_sends_wait(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    with Session(tmp_path) as session:
        real = Hanging(tmp_path, session)
        with pytest.raises(NotRun, match="fails on the network: all 2 ranks are blocked"):
            real.call_all([("m:cycle", 2, ARGUMENTS)])
        with pytest.raises(subprocess.TimeoutExpired):
            real.call_all([("m:right", 2, ARGUMENTS)])
