"""A module that keeps something from one call to the next loses points for that, and once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course import assignment as assignments
from autograder.grade.grading import run_suite
from autograder.grade.suite.result import TestResult
from ringside.checking import Verdict
from ringside.checking.fresh_ranks import FreshRanks
from tests.requirements import lay_requirements

SUITE = """
import pytest
from ringside.checking import verify
from ringside.checking.points import shows

def values(ranks, n):
    return ranks.call('cost:count', 2, (n,)).values

@shows('one', 'values', 'cost')
def test_one(ranks):
    verify(values(ranks, 1) == [1, 1], 'one is wrong')

@shows('two', 'values', 'cost')
def test_two(ranks, rng):
    n = int(rng.integers(1, 9))
    verify(values(ranks, n) == [n, n], f'{n} is wrong')

@shows('three', 'values', 'cost')
def test_three(ranks):
    verify(values(ranks, 3) == [3, 3], 'three is wrong')

@shows('zero', 'values', 'cost')
def test_zero(ranks):
    verify(values(ranks, 0) == [0, 0], 'zero is wrong')
"""
KEEPS = "def count(comm, n, seen=[]):\n    seen += [n]\n    return sum(seen)\n"
WRONG = "def count(comm, n):\n    return n + (n == 3)\n"


def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> list[TestResult]:
    suite, own = tmp_path / "checks" / "test_cost.py", tmp_path / "own"
    suite.parent.mkdir()
    own.mkdir()
    suite.write_text(SUITE)
    lay_requirements(suite.parent, "cost", one=40, two=30, three=20, zero=10)
    (own / "cost.py").write_text(source)
    monkeypatch.setattr("autograder.grade.grading.suite_of", lambda *_: suite)
    plan = replace(assignments.load("a03_allreduce"), supplied=())
    record = run_suite(plan, "cost", own, secret="s", sandbox=False)
    assert record.error is None
    return record.tests


def test_what_was_kept_is_told_by_the_first_test_and_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = graded(tmp_path, monkeypatch, KEEPS)
    assert [test.earned for test in tests] == [40, 0, 20, 10]
    assert tests[1].message.startswith("right on ranks that have made no other call")
    assert "There: " in tests[1].message and tests[1].message.endswith("is wrong")


def test_a_failure_that_is_the_tests_own_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = graded(tmp_path, monkeypatch, WRONG)
    assert [test.earned for test in tests] == [40, 30, 0, 10]
    assert tests[2].message == "three is wrong"


def test_after_three_failures_of_their_own_no_more_are_tried() -> None:
    fresh, tried = FreshRanks(), []

    def again() -> None:
        tried.append(1)
        raise Verdict("wrong")

    for _ in range(5):
        verdict = Verdict("wrong")
        assert fresh.decide(verdict, again) is verdict
    assert len(tried) == 3


def test_where_something_is_kept_a_part_of_the_points_counts_as_on_fresh_ranks() -> None:
    fresh = FreshRanks()
    first = fresh.decide(Verdict("first"), lambda: None)
    assert first is not None and first.fraction == 0
    half = Verdict("slow", fraction=0.5)

    def again() -> None:
        raise half

    assert fresh.decide(Verdict("wrong"), again) is half
    assert fresh.decide(Verdict("wrong"), lambda: None) is None


def test_what_real_ranks_gave_is_not_asked_for_again() -> None:
    verdict = Verdict("on gloo: wrong", on_real_ranks=True)

    def again() -> None:
        raise AssertionError("it was run again")

    assert FreshRanks().decide(verdict, again) is verdict
