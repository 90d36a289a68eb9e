"""Points for each group of cases, and the point of an exercise."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ringside.checking import Verdict
from ringside.checking.essential import hold_to_the_essential
from ringside.checking.shares import check_shares

EQUAL = {"powers of two": 1.0, "others": 1.0}
ENTRIES = [("powers of two", 2), ("others", 3), ("powers of two", 4), ("others", 5)]


def test_each_group_of_cases_earns_its_share_and_a_failed_one_is_not_tried_again() -> None:
    tried = []

    def check(p: int) -> None:
        tried.append(p)
        if p % 2:
            raise Verdict("rank 0 sent 8 bytes")  # an exception's text may end without a stop

    with pytest.raises(Verdict) as failed:
        check_shares(ENTRIES, check, EQUAL)
    assert failed.value.fraction == 0.5
    assert tried == [2, 3, 4]
    assert failed.value.sentence == "rank 0 sent 8 bytes. Right in this test: powers of two."


def test_a_group_that_earns_a_part_counts_as_that_part() -> None:
    def check(p: int) -> None:
        if p == 5:
            raise Verdict("slow.", fraction=0.5)

    with pytest.raises(Verdict) as failed:
        check_shares(ENTRIES, check, EQUAL | {"powers of two": 3.0})
    assert failed.value.fraction == pytest.approx(0.75 + 0.25 * 0.5)
    assert failed.value.sentence.startswith("slow. Right in this test: ")


def test_cases_that_are_right_raise_nothing() -> None:
    check_shares(ENTRIES, lambda p: None, EQUAL)


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
