"""Releasing through nbgrader's own exchange."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbgrader.coursedir import CourseDirectory

from autograder.course.course import Course
from autograder.gradebook import database, steps
from autograder.nbgrader import grades
from autograder.nbgrader.release import RegisteringRelease
from tests.autograder.conftest import NAME, Writer, solved


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_release_tells_the_gradebook_and_a_second_one_keeps_grades(
    course: Course, hand_in: Writer, notebook: Writer, tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    before = {path.name: path.read_bytes() for path in course.release(NAME).iterdir()}

    def release() -> None:
        config = steps.configuration(course)
        config.Exchange.root = str(exchange)
        coursedir = CourseDirectory(config=config)
        coursedir.assignment_id = NAME
        with database.tools_on_path():
            RegisteringRelease(coursedir=coursedir, config=config, force=True).start()

    release()
    outbound = exchange / "ringside" / "outbound" / NAME
    assert {path.name: path.read_bytes() for path in outbound.iterdir()} == before
    with database.open_gradebook(course) as book:
        assert book.find_assignment(NAME).max_score == 30 + 60 + 5 + 5

    hand_in("ada", notebook(one=solved("one")))
    steps.autograde(course, NAME)
    release()
    with database.open_gradebook(course) as book:
        assert grades.cell_scores(book, NAME, "ada")["check_one"] == 30
