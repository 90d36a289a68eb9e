"""Cases whose ranks have a store: earlier calls fill it, on other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringside import Session
from ringside.checking import Verdict
from ringside.checking.cases import Case
from ringside.checking.real_calls import rehearsed
from ringside.checking.suite import called, filled, right_run
from ringside.commands.cli import main
from ringside.timing.machine import Machine

PROGRAM = """
import numpy as np
import ringside

def put(comm, value, fails=False):
    if fails:
        raise ValueError("no room")
    ringside.Store("parts").put(f"{comm.Get_rank()}", np.full(4, value))

def total(comm):
    store = ringside.Store("parts")
    return sum(float(store.get(name).sum()) for name in store.names())
"""

CASES = """
from dataclasses import dataclass
from ringside.checking.cases import Case

@dataclass(frozen=True)
class Put(Case):
    target = "program:put"
    stored = True
    value: float = 1.0
    fails: bool = False
    def inputs(self, rank):
        return self.value, self.fails
    def right(self):
        return [None] * self.p

@dataclass(frozen=True)
class Total(Case):
    target = "program:total"
    stored = True
    writers: int = 3
    dies: str = ""
    fails: bool = False
    def earlier(self):
        return [Put(self.writers, 1.0), Put(self.writers, 2.0, fails=self.fails, kill=self.dies)]
    def inputs(self, rank):
        return ()
    def right(self):
        ones = 1 if self.dies else 0
        return [4.0 * (2 * self.writers - ones)] * self.p
"""


@dataclass(frozen=True)
class Unstored(Case):
    """A call that has no store."""

    target = "program:total"

    def inputs(self, rank: int) -> tuple[Any, ...]:
        return ()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs")
    (path / "program.py").write_text(PROGRAM)
    (path / "checks").mkdir()
    (path / "checks" / "__init__.py").write_text("")
    (path / "checks" / "cases.py").write_text(CASES)
    return path


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with Session(folder, confined=True) as session:
        yield session


@pytest.fixture(scope="module")
def total() -> Any:
    made: dict[str, Any] = {"__name__": __name__}
    exec(CASES, made)
    return made["Total"]


def test_a_case_begins_with_what_earlier_calls_left(session: Session, total: Any) -> None:
    assert right_run(session, total(2)).values == [24.0, 24.0]
    assert right_run(session, total(2)).values == [24.0, 24.0]  # with a store of its own again


def test_a_rank_may_die_in_an_earlier_call(session: Session, total: Any) -> None:
    assert right_run(session, total(5, dies="1@op1")).values == [20.0] * 5


def test_an_earlier_call_that_fails_is_named(session: Session, total: Any) -> None:
    with pytest.raises(Verdict, match=r"put on 3 ranks, .*ValueError.*no room"):
        called(session, total(2, fails=True))


def test_a_test_may_look_at_what_is_held(session: Session, total: Any) -> None:
    stores = filled(session, total(2))
    assert stores.nbytes == 3 * 32
    assert called(session, total(4), stores=stores).values == [24.0] * 4


def test_a_case_that_is_not_stored_has_none(session: Session) -> None:
    assert "this run has none" in str(called(session, Unstored(1)).error)
    result = rehearsed(session, ("program:total", 1, [()]), Machine.load("textbook"), "mpiexec")
    assert result.values == [0]


def test_ringside_run_makes_the_earlier_calls_too(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = ["run", "program.py:total", "--ranks", "2", "--", "--writers", "5"]
    assert main(words) == 0
    assert "values: right" in capsys.readouterr().out
    assert not (folder / "parts").exists()
    assert main([*words, "--fails", "True"]) == 2
    assert "a call before this one failed" in capsys.readouterr().err
