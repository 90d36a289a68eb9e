"""Points for each group of cases, and the point of an exercise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ringside.checking import Verdict, requirements
from ringside.checking.requirements import Requirement, Requirements, RequirementsError
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


def test_what_one_rank_alone_is_right_in_earns_nothing_alone() -> None:
    def check(p: int) -> None:
        if p > 1:
            raise Verdict("the sum is missing.")

    entries, weights = [("one rank", 1), ("others", 3)], {"one rank": 1.0, "others": 1.0}
    for nothing_alone, fraction in ([], 0.5), (["one rank"], 0.0):
        with pytest.raises(Verdict) as failed:
            check_shares(entries, check, weights, nothing_alone)
        assert failed.value.fraction == fraction


def test_cases_that_are_right_raise_nothing() -> None:
    check_shares(ENTRIES, lambda p: None, EQUAL)


@dataclass
class Shown:
    requirement: str
    points: float
    earned: float
    message: str = ""


ASKED = Requirements(
    "own", 30, (Requirement("sum", 60, "It sums."), Requirement("own", 40, "It sends."))
)


@pytest.mark.parametrize(
    ("of_sum", "of_own", "message", "earned"),
    [
        (60, 0, "none.", 30),
        (60, 20, "half.", 65),  # of 80: half of the way from 30 to 100
        (60, 30, "nearly.", 82.5),
        (60, 40, "", 100),
        (20, 40, "", 60),
        (60, 0, "not run: an earlier call of ring.py did not end.", 60),
    ],
)
def test_a_module_earns_by_how_much_of_its_point_is_shown(
    of_sum: float, of_own: float, message: str, earned: float
) -> None:
    tests = [Shown("sum", 60, of_sum), Shown("own", 40, of_own, message)]
    assert requirements.score(ASKED, tests) == earned
    held = requirements.held_back(ASKED, tests)
    assert bool(held) == (of_sum + of_own > earned)
    if held:
        assert held.endswith("missing or incomplete. It sends.")


def test_another_requirement_may_weigh_more_than_its_points() -> None:
    waits = Requirement("waits", 10, "It waits.", 60)
    asked = Requirements("own", 30, (Requirement("own", 90, "It sends."), waits))
    tests = [Shown("own", 90, 90), Shown("waits", 10, 5)]
    assert requirements.score(asked, tests) == 80  # half of the way from 60 to 100
    held = requirements.held_back(asked, tests)
    assert held == (
        "95 points, of which 80 count: what weighs more than its points is missing or incomplete. "
        "It waits."
    )
    tests = [Shown("own", 90, 60), Shown("waits", 10, 5)]
    assert requirements.score(asked, tests) == 65 and not requirements.held_back(asked, tests)


RING = """[ring]
the_point = "own"
without_it = 30
points = [["sum", 60, "It sums."], ["own", 40, "It sends."]]
"""


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("60", "50", "are worth 90 points, not 100"),
        ("without_it = 30", "without_it = 60", "without_it is 60; it lies between 10 and 50"),
        ('= "own"', '= "won"', "the_point is 'won', which is none of sum, own"),
        ('"sum"', '"own"', "own stands there twice"),
        ("without_it = 30", "", "it has the_point, without_it and points"),
        ("30\n", "30\nhints = ['a', 'b', 'c', 'd']\n", "it has 4 hints; at most 3 are given"),
        ("[ring]", "[ring", "can't be read"),
        (
            'sums."',
            'sums.", 50',
            "sum is worth 60 points, and its limit is 50; a limit lies below 40",
        ),
    ],
)
def test_a_table_that_is_wrong_is_named(tmp_path: Path, before: str, after: str, why: str) -> None:
    path = tmp_path / "requirements.toml"
    path.write_text(RING)
    assert requirements.read(path) == {"ring": ASKED}
    path.write_text(RING.replace(before, after))
    with pytest.raises(RequirementsError, match=why) as raised:
        requirements.read(path)
    assert str(path) in str(raised.value)
