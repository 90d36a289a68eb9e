"""An answer that a test can't read: the submission's fault if the reference's can be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.course import assignment as assignments
from autograder.course.limits import Limits
from autograder.grade.grading import run_suite
from autograder.grade.suite.calls import Ranks
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.result import ModuleResult
from autograder.grade.suite.whose_fault import alike, form, misshapen
from autograder.sandbox.allowance import Allowance
from ringside import Session
from tests.requirements import lay_requirements

DRIVER = "def ask(comm, n):\n    return [(float(k), None) for k in range(n)]\n"


def folder(tmp_path: Path, name: str, source: str) -> Path:
    """A folder with one supplied file."""
    path = tmp_path / name
    path.mkdir()
    (path / "callers.py").write_text(source)
    return path


@pytest.mark.parametrize(
    ("answer", "blamed"),
    [
        ("[(0.5, None)] * n", ""),  # other numbers, the same form: then the fault is ours
        ("[1] * n", "callers:ask"),
        ("[(1, 2, 3)] * n", "callers:ask"),
        ("None", "callers:ask"),
        ("1 / 0", "callers:ask"),
    ],
)
def test_answers_of_another_form_are_the_submissions_fault(
    tmp_path: Path, answer: str, blamed: str
) -> None:
    reference = folder(tmp_path, "reference", DRIVER)
    own = folder(tmp_path, "own", f"def ask(comm, n):\n    return {answer}\n")
    job = SuiteJob("m", str(own), "", secret="s", module_hash="h", sandbox=False)
    with Session(own) as session:
        ranks = Ranks(session, ModuleResult("m"), job, Allowance(Limits()))
        ranks.call("callers:ask", 1, (3,))
    assert misshapen(ranks.made, reference) == blamed


def test_memory_that_ranks_say_nothing_of_is_the_submissions_fault(tmp_path: Path) -> None:
    with Session(folder(tmp_path, "own", DRIVER)) as session:
        told = session.call("callers:ask", 1, (3,))
    kinds = {"activations": 8}
    told.memory = [{"peak": 8, "peak_by_kind": kinds}]
    assert alike(told, replace(told, memory=[{"peak": 9, "peak_by_kind": {"activations": 1}}]))
    assert not alike(told, replace(told, memory=[]))
    assert not alike(told, replace(told, memory=[{"peak": 8, "peak_by_kind": {}}]))


def test_the_form_of_a_value_has_no_numbers_in_it() -> None:
    value = {"a": (1, [np.zeros((2, 3)), "x", None, True])}
    assert form(value) == form({"a": (2.5, [np.ones((4, 1)), "", None, 0])})
    assert form(value) != form({"a": (2.5, [np.ones(4), "", None, 0])})
    assert form((1, 2)) != form([1, 2])
    for odd in (10**400, -(10**400), float("inf"), float("nan")):
        assert form([odd]) == form([float("nan")]) != form([1])
    assert form(np.zeros(3)) != form(np.full(3, np.nan)) != form(np.zeros(3, int))


SUITE = """
from ringside.checking.points import shows

@shows('first', 'values', 'cost')
def test_first(ranks):
    ranks.call('cost:ask', 1, (3,))
    raise {error}

@shows('second', 'values', 'cost')
def test_second(ranks):
    assert ranks.call('cost:ask', 1, (3,)).values == [[(0.0, None), (1.0, None), (2.0, None)]]
"""


def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> ModuleResult:
    """The report on a right module, by a suite that raises this after its first call."""
    plan = replace(assignments.load("a03_allreduce"), supplied=())
    suite = folder(tmp_path, "checks", "") / "test_cost.py"
    suite.write_text(SUITE.format(error=error))
    lay_requirements(suite.parent, "cost", second=60, first=40)
    monkeypatch.setattr("autograder.grade.grading.suite_of", lambda *_: suite)
    own = folder(tmp_path, "own", "")
    (own / "cost.py").write_text(DRIVER)
    return run_suite(plan, "cost", own, secret="s", sandbox=False)


def test_an_error_of_ours_after_an_answer_costs_that_test_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = graded(tmp_path, monkeypatch, "KeyError('secret 4711')")
    assert record.error is None
    first, second = record.tests
    assert (first.earned, second.earned) == (0, 60)
    assert first.message.startswith("the grader could not judge what came back here")
    assert "4711" not in first.message + first.detail
    (flag,) = record.flags
    assert flag.startswith("test_first ended in an error of the grader's own")
    assert "KeyError: 'secret 4711'" in flag and "test_cost.py:7" in flag


@pytest.mark.parametrize("error", ["OSError(28, 'no space')", "MemoryError()", "KeyboardInterrupt"])
def test_what_the_machine_does_after_an_answer_is_no_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    record = graded(tmp_path, monkeypatch, error)
    assert record.error and not record.flags
