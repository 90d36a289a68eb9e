"""The map of units: true to the tree, and to what lectures say they need."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

import ringside
from ringside.course import lectures
from ringside.course.lectures import course_map, front_page
from ringside.course.lectures.course_map import Unit
from ringside.course.unit_facts import UnitFacts
from ringside.toml_tables import TableError

ROOT = Path(__file__).resolve().parents[3]
THERE = course_map.units(ROOT)


FACTS = {one.number: one.facts for one in THERE}


def unit(number: str, hours: float | None, tree: Path) -> Unit:
    """A unit with an assignment of so many hours, or with a lecture alone; laid into a tree."""
    facts = FACTS[number]
    if hours is None:
        lecture = tree / "lectures" / f"{number}_it.py"
        lecture.parent.mkdir(exist_ok=True)
        lecture.write_text("\n# %% [markdown]\n# # It\n")
        return Unit(number, lecture, None, facts)
    whole = facts.in_notebook({"it": hours}, ["it"])
    return Unit(number, None, task(number, whole, tree), replace(facts, hours={"it": hours}))


def task(number: str, facts: Mapping[str, object], tree: Path) -> Path:
    """An assignment's notebook with these facts."""
    path = tree / "assignments" / f"a{number}_it" / f"a{number}_it.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"cells": [], "metadata": {"unit": facts}}))
    return path


def before(number: str) -> set[str]:
    """All units that must come before a unit."""
    direct = FACTS[number].after
    return set(direct).union(*(before(one) for one in direct))


def test_the_map_has_the_units_that_stand_in_the_tree_and_no_others() -> None:
    lectures_there = {path.name[:2] for path in (ROOT / "lectures").glob("[0-9][0-9]_*.py")}
    tasks_there = {path.name[1:3] for path in (ROOT / "assignments").glob("a[0-9][0-9]_*")}
    assert {one.number for one in THERE} == lectures_there | tasks_there
    drawn = course_map.drawn(THERE, {one.number: f"{one.number}.html" for one in THERE})
    assert set(re.findall(r'href="(\d\d)\.html"', drawn)) == lectures_there | tasks_there
    assert drawn.count('class="arrow"') == sum(len(one.facts.after) for one in THERE)


def test_every_unit_of_the_tree_has_its_name_its_prerequisites_and_what_you_can() -> None:
    for one in THERE:
        assert one.facts.name and one.facts.can, one.number
        assert one.facts.after or one.number == "00", one.number


@pytest.mark.parametrize("lecture", lectures.find(ROOT / "lectures"), ids=lambda one: one.name)
def test_no_lecture_needs_what_comes_after_it_on_the_map(lecture: lectures.Lecture) -> None:
    cells = lectures.read(lecture).cells
    said = [one.source for one in cells if "prerequisites" in one.metadata.get("tags", [])]
    for number in re.findall(r"\((\d\d)_\w+\.ipynb", "\n".join(said)):
        assert lecture.name[:2] not in before(number), number


def test_the_map_has_no_circle_and_leads_from_earlier_units_to_later_ones() -> None:
    for number, facts in FACTS.items():
        assert all(one < number for one in facts.after), number
    assert before("05") == {"00", "01", "02", "03", "04"}


def test_the_hours_are_those_of_the_notebooks_and_of_reading() -> None:
    hours = {one.number: one for one in THERE}
    assert hours["03"].assignment_hours == 8.75  # as its table says
    assert hours["00"].assignment_hours == 0
    assert 1 <= hours["03"].lecture_hours <= 4
    assert hours["03"].hours == 8.75 + hours["03"].lecture_hours
    assert hours["03"].facts.hours is not None
    assert hours["03"].facts.hours["tree"] == 3 and "tree" not in hours["03"].facts.core


def test_boxes_do_not_overlap_and_stay_on_the_drawing(tmp_path: Path) -> None:
    whole = [unit(number, 1, tmp_path) for number in FACTS]
    for there in (THERE, whole):
        places = course_map.places(there)
        assert set(places) == {one.number for one in there}
        for (x1, y1), (x2, y2) in combinations(places.values(), 2):
            assert abs(x1 - x2) >= course_map.BOX or abs(y1 - y2) >= course_map.HIGH
        assert all(0 <= x <= course_map.WIDTH - course_map.BOX for x, _ in places.values())
        for one in there:
            for other in one.facts.after:
                assert places[other][1] < places[one.number][1], "arrows lead down"


def test_a_unit_that_is_missing_is_stood_in_for_by_what_it_needs(tmp_path: Path) -> None:
    for number in ("01", "02", "03", "04", "05"):
        unit(number, 1, tmp_path)
    first, fourth, fifth = course_map.units(tmp_path, ["a01_it", "a04_it", "a05_it"])
    assert (first.number, first.facts.after) == ("01", ())
    assert (fourth.number, fourth.facts.after) == ("04", ("01",))  # by way of 03
    assert (fifth.number, fifth.facts.after) == ("05", ("04",))
    second, fifth = course_map.among(course_map.units(tmp_path), ["02", "05"])
    assert (second.facts.after, fifth.facts.after) == ((), ("02",))


def test_facts_that_cannot_be_are_named_with_their_file(tmp_path: Path) -> None:
    path = task("05", {"after": ["05"]}, tmp_path)
    with pytest.raises(
        TableError, match=r"a05_it\.ipynb: .*unit 05 can build upon units with lower"
    ):
        course_map.units(tmp_path)
    path.write_text(json.dumps({"metadata": {"unit": {"before": ["04"]}}}))
    with pytest.raises(TableError, match=r"a05_it\.ipynb: .*before = .*no such key"):
        course_map.units(tmp_path)
    path.write_text(json.dumps({"metadata": {}}))  # of a build that knew no facts
    (old,) = course_map.units(tmp_path)
    assert (old.name, old.facts) == ("it", UnitFacts())
    with pytest.raises(ValueError, match=r"`autograder build a05_it` writes them"):
        _ = old.hours
    lecture = unit("05", None, tmp_path).lecture
    assert lecture is not None
    lecture.with_suffix(".toml").write_text("[unit]\nafter = [4]\n")
    with pytest.raises(TableError, match=r"05_it\.toml: .*numbers of units are wanted"):
        course_map.units(tmp_path)
    lecture.with_suffix(".toml").write_text("[unit]\n")
    with pytest.raises(TableError, match=r"05_it\.toml: the unit has an assignment, a05_it"):
        course_map.units(tmp_path)


def test_what_the_first_page_says_of_its_program_is_so(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(front_page.PROGRAM)
    target = f"{tmp_path / 'step.py'}:step"
    assert "step.py:step --ranks 8 --svg step.svg -- --num_samples 8000 --num_parameters 4000" in (
        front_page.FIVE_MINUTES
    )
    runs = {p: ringside.run(target, p, (8000, 4000)) for p in (1, 2, 4, 8, 16, 32)}
    times_us = [round(one.makespan_s * 1e6) for one in runs.values()]
    assert times_us == [192, 114, 78, 66, 72, 99]  # more ranks help at first, and then they hurt
    said = [int(one) for one in re.findall(r"(\d+) µs", front_page.FIVE_MINUTES)]
    computing_us = round(6 * 8000 / 8 * 4000 / 1e12 * 1e6)
    assert said == [times_us[3], computing_us, times_us[3] - computing_us]
