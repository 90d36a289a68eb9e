"""Names in a course's lists that are nobody's: said, with the line and the nearest name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.commands import cli
from autograder.course import database, nbgrader_steps, people
from autograder.course.course import Course
from tests.autograder.conftest import NAME, solved

# nbgrader creates rows in ways that SQLAlchemy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture
def lists(course: Course) -> Callable[..., None]:
    """Write the list of extensions, and the receipts."""

    def write(extensions: str = "", receipts: str = "") -> None:
        course.receipts(NAME).parent.mkdir(parents=True, exist_ok=True)
        course.extensions.write_text(f"student,assignment,days\n{extensions}")
        course.receipts(NAME).write_text(f"student,received\n{receipts}")

    return write


def test_an_extension_of_nobody_is_said_with_its_line_and_the_nearest_name(
    course: Course, lists: Callable[..., None]
) -> None:
    lists("ada,a99_toy,1\naad,a99_toy,2\nzoe,a98_other,1\nxxxx,a99_toy,1\n")
    assert people.doubts(course, NAME, ["ada", "bob"]) == [
        f"{course.extensions}, line 3: no student is named 'aad'; did you mean 'ada'?",
        f"{course.extensions}, line 5: no student is named 'xxxx'; no name here is like it.",
    ]
    course.submitted("xxxx", "a98_other").mkdir(parents=True)
    course.submitted("aad", NAME).mkdir(parents=True)
    assert people.doubts(course, NAME, ["ada", "bob"]) == []


def test_a_receipt_of_nobody_is_said_and_who_has_none(
    course: Course, lists: Callable[..., None]
) -> None:
    lists(receipts="ada,2030-01-01\nbbo,2030-01-01\n")
    assert people.doubts(course, NAME, ["ada", "bob"]) == [
        f"{course.receipts(NAME)}, line 3: no student is named 'bbo'; did you mean 'bob'?",
        f"{course.receipts(NAME)} has no line for bob: nobody without a receipt counts as late.",
    ]
    # Of one submission alone the others' lines say nothing.
    assert people.doubts(course, NAME, ["ada"]) == []
    assert len(people.doubts(course, NAME, ["bob"])) == 2
    lists(receipts="".join(f"other{k},2030-01-01\n" for k in range(9)))
    said = people.doubts(course, NAME, ["ada", "bob"])
    assert len(said) == 7 and "4 more names are no student's here" in said[5]
    lists()
    assert people.doubts(course, NAME, ["ada", "bob"]) == []


def test_grading_says_it_once_and_goes_on(
    registered: Course,
    lists: Callable[..., None],
    hand_in: Callable[..., Path],
    notebook: Callable[..., object],
    capfd: pytest.CaptureFixture[str],
) -> None:
    for student in ("ada", "bob"):
        hand_in(student, notebook(one=solved("one")))
    lists("bobb,a99_toy,2\n")
    path = str(registered.build / "submitted")
    for _ in range(2):
        assert cli.main(["grade", NAME, path, "--trust-submissions"]) == 0
    said = capfd.readouterr()
    assert "ada" in said.out
    assert said.err.count("line 2: no student is named 'bobb'; did you mean 'bob'?") == 1
    log = nbgrader_steps.autograde(registered, NAME)
    assert log.count("line 2: no student is named 'bobb'; did you mean 'bob'?") == 1
    lists("bob,a99_toy,two\n")
    assert cli.main(["grade", NAME, path, "--trust-submissions"]) == 2
    with pytest.raises(database.GradebookError, match="line 2: 'two' is no number of days"):
        nbgrader_steps.autograde(registered, NAME)
