"""Releasing through nbgrader's own exchange."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbgrader.coursedir import CourseDirectory

from autograder.commands import cli
from autograder.course import database, nbgrader_steps
from autograder.course.course import Course
from autograder.gradebook.nbgrader import grades
from autograder.gradebook.nbgrader.release import RegisteringRelease, TimelessFeedback
from tests.autograder.conftest import NAME, Writer, solved


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_release_tells_the_gradebook_and_a_second_one_keeps_grades(
    course: Course, hand_in: Writer, notebook: Writer, tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    before = {path.name: path.read_bytes() for path in course.release(NAME).rglob("*.*")}

    def release() -> None:
        config = nbgrader_steps.configuration(course)
        config.Exchange.root = str(exchange)
        coursedir = CourseDirectory(config=config)
        coursedir.assignment_id = NAME
        RegisteringRelease(coursedir=coursedir, config=config, force=True).start()

    release()
    outbound = exchange / "ringside" / "outbound" / NAME
    assert {path.name: path.read_bytes() for path in outbound.rglob("*.*")} == before
    with database.open_gradebook(course) as book:
        assert book.find_assignment(NAME).max_score == 30 + 60 + 5 + 5

    hand_in("ada", notebook(one=solved("one")))
    nbgrader_steps.autograde(course, NAME)
    release()
    with database.open_gradebook(course) as book:
        assert grades.cell_scores(book, NAME, "ada")["check_one"] == 30


# nbgrader leaves the file open from which it reads a time.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_without_a_time_the_formgrader_lists_and_feedback_is_released(
    course: Course, tmp_path: Path
) -> None:
    """As Canvas's download has it: who handed in, and not when."""
    one = tmp_path / "class" / "ada" / "one.py"
    one.parent.mkdir(parents=True)
    one.write_text(solved("one"))
    assert cli.main(["collect", NAME, str(one.parents[1])]) == 0
    nbgrader_steps.autograde(course, NAME)
    [listed] = nbgrader_steps.api(course).get_submissions(NAME)
    assert (listed["student"], listed["timestamp"], listed["autograded"]) == ("ada", None, True)
    nbgrader_steps.generate_feedback(course, NAME)
    config = nbgrader_steps.configuration(course)
    (tmp_path / "exchange").mkdir()
    config.Exchange.root = str(tmp_path / "exchange")
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = NAME
    TimelessFeedback(coursedir=coursedir, config=config).start()
    [page] = (tmp_path / "exchange" / "ringside" / "feedback").glob("*.html")
    assert "one.py" in page.read_text()
