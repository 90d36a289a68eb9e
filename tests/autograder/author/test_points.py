"""Points of wrong submissions: bands, and what public tests must warn of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.author.verify.report_table import table
from autograder.author.verify.verify import Finding, Report, Subject, compare_with_public, judge
from autograder.grade.suite.result import ModuleResult, TestResult

WRONG = Subject("wrong", "ring", "ring__twice", "", "test_bytes", (40, 70))


def result(*earned: float) -> ModuleResult:
    names = ("test_values", "test_bytes")
    tests = [
        TestResult(name, "values", 50, points, "no.")
        for name, points in zip(names, earned, strict=True)
    ]
    return ModuleResult("ring", tests)


@pytest.mark.parametrize(
    ("earned", "said"),
    [
        ((50, 0), ""),
        ((50, 20), ""),
        ((20, 0), "earns 20 points, not 40 to 70"),
        ((50, 50), "passes test_bytes; fails no test of values"),
    ],
)
def test_a_wrong_submission_earns_what_its_edit_says(
    earned: tuple[float, float], said: str
) -> None:
    finding = judge(WRONG, result(*earned))
    assert (finding.ok, finding.sentence) == (not said, said)


def test_a_public_test_that_the_reference_does_not_pass_is_found() -> None:
    reference = replace(WRONG, kind="reference", name="ring")
    finding = Finding("reference", "ring", "ring", True, score=100, public=91)
    compare_with_public(reference, finding)
    assert not finding.ok and finding.sentence.startswith("earns 91 of 100 public points")


@pytest.mark.parametrize(
    ("public", "score", "honest", "ok"),
    [(100, 80, True, False), (100, 90, True, True), (99, 20, True, True), (100, 20, False, True)],
)
def test_an_honest_mistake_that_no_public_test_warns_of_may_cost_little(
    public: float, score: float, honest: bool, ok: bool
) -> None:
    finding = Finding(
        "wrong", "ring", "ring__twice", True, score=score, public=public,
        whole=True, earns=(40, 70), says="no.",
    )  # fmt: skip
    compare_with_public(replace(WRONG, honest=honest), finding)
    assert finding.ok is ok
    shown = table(Report("a03_allreduce", findings=[finding]))
    assert f"ring__twice     {score:>7.1f}   40 to 70{public:>8.0f}  no." in shown
    assert ("has all public points" in shown) is not ok
