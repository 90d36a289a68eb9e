"""Points for each kind of cases, and the point of an exercise."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ringside.checking import Case, Verdict
from ringside.checking.case_kinds import by_length, by_world, check_kinds
from ringside.checking.essential import hold_to_the_essential

CASES = [Case("ring:all_reduce", p, 12) for p in (2, 3, 4, 5)]


def test_each_kind_of_cases_earns_its_share_and_a_failed_kind_is_not_tried_again() -> None:
    tried = []

    def check(case: Case) -> None:
        tried.append(case.world_size)
        if case.world_size % 2:
            raise case.fail("rank 0 sent 8 bytes")  # an exception's text may end without a stop

    with pytest.raises(Verdict) as failed:
        check_kinds(CASES, by_world, check)
    assert failed.value.fraction == 0.5
    assert tried == [2, 3, 4]
    assert failed.value.sentence.endswith(
        "rank 0 sent 8 bytes. Right in this test: powers of two as numbers of ranks."
    )


def test_a_kind_that_earns_a_part_counts_as_that_part() -> None:
    def check(case: Case) -> None:
        if case.world_size == 5:
            raise Verdict("slow.", fraction=0.5)

    with pytest.raises(Verdict) as failed:
        check_kinds(CASES, by_length, check, weights={"lengths that p divides": 3})
    assert failed.value.fraction == pytest.approx(0.75 + 0.25 * 0.5)
    assert failed.value.sentence.startswith("slow. Right in this test: ")


def test_cases_that_are_right_raise_nothing() -> None:
    check_kinds(CASES, by_world, lambda case: None)


@dataclass
class Worth:
    name: str
    points: float
    earned: float
    message: str = ""
    essential: bool = False


def test_a_module_without_its_scheme_earns_a_tenth_and_each_test_says_why() -> None:
    tests = [Worth("test_sum", 60, 60), Worth("test_bytes", 30, 0, "too many."),
             Worth("test_own_messages", 10, 0, "no message.", True)]  # fmt: skip
    hold_to_the_essential(tests)
    assert [test.earned for test in tests] == [10, 0, 0]
    assert "while test_own_messages fails" in tests[0].message
    assert tests[1].message == "too many."
    assert tests[2].message.startswith("no message. This is the point of the exercise")


def test_an_essential_test_that_was_not_run_cuts_nothing() -> None:
    tests = [Worth("test_sum", 60, 60), Worth("test_own", 40, 0, "not run: an earlier call", True)]
    hold_to_the_essential(tests)
    assert [test.earned for test in tests] == [60, 0]


def test_a_module_with_its_scheme_keeps_its_points() -> None:
    tests = [Worth("test_sum", 60, 20), Worth("test_own_messages", 40, 1, essential=True)]
    hold_to_the_essential(tests)
    assert [test.earned for test in tests] == [20, 1]
