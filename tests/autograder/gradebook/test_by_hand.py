"""The rubric and the sample of a text come from the assignment's answers."""

from __future__ import annotations

from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.gradebook.report import by_hand, page
from tests.autograder.conftest import KIT


def test_the_rubric_of_a_text_is_the_section_that_names_it() -> None:
    course = Course(kit=KIT, root=KIT)
    plan = plans.load("a03_allreduce", course)
    found = by_hand.rubric(course, plan, "cluster_report")
    assert found.startswith("## Rubric: Predicted and measured (`cluster_report`, 5 points)\n")
    assert "| 1 | three times for each size" in found and "**Sample** (the numbers" in found
    assert by_hand.rubric(course, plan, "other_report") == ""
    shown = page._rubric(found)
    assert "<td>three times for each size" in shown and "<strong>Sample</strong>" in shown
    assert "cluster_report" not in shown and "¶" not in shown


def test_every_text_of_the_course_has_a_rubric() -> None:
    course = Course(kit=KIT, root=KIT)
    for name in plans.known(course):
        plan = plans.load(name, course)
        for paragraph in plan.paragraphs:
            text = by_hand.rubric(course, plan, paragraph.name)
            assert "Sample" in text and f"{paragraph.points:g} points" in text, paragraph.name
