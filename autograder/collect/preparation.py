"""From a submission that was found to its modules: quarantine and rebuild."""

from __future__ import annotations

from pathlib import Path

from autograder import scratch
from autograder.collect import cluster_run, predictions, requests
from autograder.collect.own_folder import home, packages_in, what_counts
from autograder.collect.quarantine import Rejected, extract_zip, inspect, read_regular
from autograder.collect.rebuild import (
    Rebuilt,
    modules_in_folder,
    read_notebook,
    release_notebook,
)
from autograder.collect.submissions import Submission
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from ringside.course.handin import hints_taken


def prepare(assignment: Assignment, submission: Submission, course: Course) -> Rebuilt:
    """Quarantine and rebuild one submission.

    Raises:
        Rejected: it can't be read; the message is for the student.
    """
    is_folder = submission.path.is_dir() and not submission.path.is_symlink()
    folder = home(assignment, submission.path) if is_folder else submission.path
    path = what_counts(assignment, folder) if is_folder else folder
    if path.suffix == ".zip" and not path.is_dir():
        with scratch.fresh("zip-") as unpacked:
            extract_zip(path, unpacked, assignment.limits)
            return prepare(assignment, _unpacked(assignment, path, unpacked), course)
    rebuilt = _rebuilt(assignment, path, is_folder, course)
    where = folder if is_folder else _own_folder(assignment, path)
    rebuilt.runs = cluster_run.check_all(assignment, where, rebuilt.modules, course)
    rebuilt.request, fault = requests.handed_in(where)
    rebuilt.intake += [fault] if fault else []
    if predictions.lie_in(where):
        prompts = predictions.prompts_in(course.release(assignment.name) / assignment.notebook)
        rebuilt.guesses, fault = predictions.handed_in(where, prompts)
        rebuilt.notes += [fault] if fault else []
    rebuilt.hints = _hints(assignment, where)
    return rebuilt


def _hints(assignment: Assignment, folder: Path | None) -> dict[str, int]:
    """How many hints of each module were taken, as the student's own file says."""
    if folder is None:
        return {}
    try:
        taken = hints_taken.parse(read_regular(folder / hints_taken.NAME, hints_taken.MOST_BYTES))
    except Rejected:
        return {}
    return {each.name: taken[each.name] for each in assignment.modules if each.name in taken}


def _own_folder(assignment: Assignment, notebook: Path) -> Path | None:
    """Where the run.json of a notebook lies; None beside the notebooks of several students."""
    alone = notebook.name == assignment.notebook or len(packages_in(notebook.parent)) == 1
    return notebook.parent if alone else None


def _rebuilt(assignment: Assignment, path: Path, own: bool, course: Course) -> Rebuilt:
    """A notebook, or a folder of modules; `own`: what lies beside is the same student's."""
    if path.suffix == ".ipynb":
        release = release_notebook(assignment, course.release(assignment.name))
        beside = modules_in_folder(assignment, path.parent) if own else Rebuilt()
        rebuilt: Rebuilt = read_notebook(assignment, release, path, beside)
        if path.name != assignment.notebook:
            rebuilt.notes.append(f"The notebook is named {path.name[:80]!r}: it was taken.")
        return rebuilt
    inspection = inspect(path, assignment.limits)
    rebuilt = modules_in_folder(assignment, path)
    planned = {module.filename for module in assignment.modules}
    rebuilt.notes += [f"{n} {why}." for n, why in inspection.refused.items() if n not in planned]
    return rebuilt


def _unpacked(assignment: Assignment, archive: Path, folder: Path) -> Submission:
    """The submission in an `archive` that was unpacked to `folder`."""
    try:
        inner = home(assignment, folder)
        nested = what_counts(assignment, inner).suffix == ".zip"
    except Rejected:
        nested = True
    if nested:
        raise Rejected(
            f"{archive.name} must hold one submission: {assignment.notebook} or its "
            f"modules; no archive in an archive."
        )
    return Submission(archive.stem, inner)
