"""submission -> quarantine -> rebuild -> grade (parallel, cached, resumable).

A fault of ours is no student's zero: what fails is tried again after a pause, then reported as
``grader_error`` and not stored, so that the next grading tries it once more.

A path given to ``autograder grade`` is one of

    FOLDER/ring.py ...                   a folder of modules, a submission named after it
    NAME.ipynb, FOLDER/*.ipynb           a notebook; several in a folder are a submission each
    NAME.zip, FOLDER/*.zip               either of these, packed: what `ringside handin` makes
    FOLDER/<student>/                    any of these in a folder for each student
    SUBMITTED/<student>/<assignment>/    nbgrader's tree, a submission each

What Canvas, Moodle and Gradescope give for a class is unpacked into such folders first
(``autograder.intake.downloads``). In a submission's own folder the notebook counts, then the
modules, then the one archive; modules also count where their notebook is damaged.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograder import scratch, storage
from autograder.course import limits
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import cache
from autograder.grade.cache import Result
from autograder.grade.outcome import Outcome
from autograder.imports import imported
from autograder.sandbox.sandbox import best_tier
from autograder.submission import cluster_run
from autograder.submission.quarantine import Rejected, extract_zip, inspect, read_regular
from autograder.submission.rebuild import (
    Rebuilt,
    modules_in_folder,
    read_notebook,
    release_notebook,
)
from autograder.suite import process as suite_process

Grader = Callable[[str, Path, str], Result]  # (assignment, folder, module) -> its result
Progress = Callable[[int, int], None]  # (modules with a result, modules in all)
MAX_FAULT = 300  # characters of a fault of ours that are repeated in messages
PAUSES_S = (1.0, 4.0)  # before each further try where the grader has failed
PLACEHOLDER = b"""{"cells": [], "metadata": {"ringside": "handed in as files, which count"},
 "nbformat": 4, "nbformat_minor": 5}
"""


class PathError(ValueError):
    """A path in which there is nothing to grade."""


@dataclass(frozen=True)
class Submission:
    """One student's hand-in, found but not read."""

    student: str
    path: Path  # its own folder; or a notebook or an archive beside those of others
    name: str = ""  # for a reader, where a platform knows the student by a number
    email: str = ""
    intake: tuple[str, ...] = ()  # what was taken of a download, where it isn't plain
    rejected: str = ""  # why nothing of it was


def find(assignment: Assignment, paths: Iterable[Path]) -> list[Submission]:
    """The submissions under `paths`, in the order given.

    Raises:
        PathError: a path isn't there, or two submissions have one name.
    """
    found: list[Submission] = []
    for path in paths:
        found += _find(assignment, path)
    check_names(found)
    return found


def check_names(found: Iterable[Submission]) -> None:
    """Refuse two submissions of one student: nobody says which counts.

    Raises:
        PathError: there are some; their students are named.
    """
    counts = Counter(submission.student for submission in found)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise PathError(f"More than one submission is named {', '.join(twice)}.")


def _find(assignment: Assignment, path: Path) -> list[Submission]:
    if not os.path.lexists(path):
        raise PathError(f"{path} does not exist.")
    if not path.is_dir() or path.is_symlink():
        if path.suffix not in (".ipynb", ".zip"):
            raise PathError(f"{path} is neither a folder nor a notebook nor a zip archive.")
        in_tree = path.parent.name == assignment.name
        return [Submission(path.parent.parent.name if in_tree else path.stem, path)]
    path = path.resolve()
    if path.name == assignment.name:
        return [Submission(path.parent.name, path)]
    if not _is_open(path):
        return [Submission(path.name, path)]
    if _has_modules(assignment, path) or os.path.lexists(path / assignment.notebook):
        return [Submission(path.name, path)]
    students = [
        child
        for child in sorted(path.iterdir())
        if child.is_dir() and not child.is_symlink() and child.name[0] not in "._"
    ]
    shut = [Submission(child.name, child) for child in students if not _is_open(child)]
    students = [child for child in students if _is_open(child)]
    tree = [child / assignment.name for child in students if (child / assignment.name).is_dir()]
    if tree:
        return [Submission(each.parent.name, each) for each in tree] + shut
    folders = [
        Submission(child.name, child)
        for child in students
        if _has_modules(assignment, child) or what_counts(assignment, child) != child
    ]
    packages = _packages(path)
    if students and not folders and not packages and not shut:
        raise PathError(f"There is no submission of {assignment.name} under {path}.")
    if folders or shut or len(packages) > 1:
        return [Submission(each.stem, each) for each in packages] + folders + shut
    return [Submission(path.name, path)]


def _is_open(folder: Path) -> bool:
    """Whether we may look inside; what is shut is told with its student, and stops nobody else."""
    return os.access(folder, os.R_OK | os.X_OK)


def _has_modules(assignment: Assignment, folder: Path) -> bool:
    return any(os.path.lexists(folder / module.filename) for module in assignment.modules)


def what_counts(assignment: Assignment, folder: Path) -> Path:
    """What of a submission's folder is read: its notebook, else its modules, else one archive."""
    if not _is_open(folder):
        return folder
    if notebook := _notebook_in(assignment, folder):
        return notebook
    packages = [] if _has_modules(assignment, folder) else _packages(folder)
    return packages[0] if len(packages) == 1 else folder


def _packages(folder: Path) -> list[Path]:
    """The notebooks and archives in a folder."""
    found = sorted(each for each in folder.iterdir() if each.suffix in (".ipynb", ".zip"))
    return [each for each in found if each.suffix == ".zip" or not is_placeholder(each)]


def _notebook_in(assignment: Assignment, folder: Path) -> Path | None:
    """The assignment's notebook in `folder`; a single one under another name counts."""
    found = [each for each in _packages(folder) if each.suffix == ".ipynb"]
    planned = folder / assignment.notebook
    return planned if planned in found else found[0] if len(found) == 1 else None


def is_placeholder(notebook: Path) -> bool:
    """Whether a file is ours, and stands for a notebook that was not handed in."""
    try:
        return read_regular(notebook, len(PLACEHOLDER)) == PLACEHOLDER
    except Rejected:
        return False


def hold_place(assignment: Assignment, folder: Path) -> None:
    """Let nbgrader see a submission without a notebook: it passes over a folder that has none."""
    place = folder / assignment.notebook
    if os.path.lexists(place) or not _is_open(folder):
        return
    if _has_modules(assignment, folder) or what_counts(assignment, folder) != folder:
        storage.write(place, PLACEHOLDER)


def prepare(assignment: Assignment, submission: Submission, course: Course) -> Rebuilt:
    """Quarantine and rebuild one submission.

    Raises:
        Rejected: it can't be read; the message is for the student.
    """
    own = submission.path.is_dir() and not submission.path.is_symlink()
    path = what_counts(assignment, submission.path) if own else submission.path
    if path.suffix == ".zip":
        with scratch.fresh("zip-") as unpacked:
            extract_zip(path, unpacked, assignment.limits)
            return prepare(assignment, _unpacked(assignment, path, unpacked), course)
    rebuilt = _rebuilt(assignment, path, own, course)
    where = submission.path if own else _own_folder(assignment, path)
    rebuilt.runs = cluster_run.check_all(assignment, where, rebuilt.modules)
    return rebuilt


def _own_folder(assignment: Assignment, notebook: Path) -> Path | None:
    """Where the run.json of a notebook lies; None beside the notebooks of several students."""
    alone = notebook.name == assignment.notebook or len(_packages(notebook.parent)) == 1
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
        found = _find(assignment, folder)
    except PathError:
        found = []
    if len(found) != 1 or what_counts(assignment, found[0].path).suffix == ".zip":
        raise Rejected(
            f"{archive.name} must hold one submission: {assignment.notebook} or its "
            f"modules; no archive in an archive."
        )
    return found[0]


@dataclass(frozen=True)
class Job:
    """One module to grade: its source, and those of its author's modules that it imports."""

    module: str
    sources: Mapping[str, str]
    key: str


@dataclass
class Session:
    """Grades submissions of one assignment; results are looked up before they are computed.

    What is graded and stored is a module, so a class of untouched stubs is graded once, and a
    regrade after one changed module grades one module.
    """

    assignment: Assignment
    course: Course
    grader: Grader
    jobs: int = 1
    trusted: bool = False

    def __post_init__(self) -> None:
        self.store = cache.Store(self.course.results)
        scratch.sweep()
        self._stopped = threading.Event()
        self._broken: set[str] = set()  # modules whose suite has failed through all tries

    def keys(self, submission: Submission) -> list[str]:
        """The keys in the store of its modules' results; none where it is rejected."""
        return [job.key for job in self._jobs_of(self._read(submission))]

    def outcome(self, student: str, rebuilt: Rebuilt) -> Outcome:
        """The outcome of one rebuilt submission, from the store or by grading it now."""
        outcome = self._pending(student, rebuilt)
        jobs = self._jobs_of(outcome)
        self._collect(outcome, jobs, self._results(jobs[::-1], None))
        return outcome

    def grade(
        self, submissions: Sequence[Submission], progress: Progress | None = None
    ) -> list[Outcome]:
        """Grade all submissions, `jobs` modules at a time; equal modules once.

        `progress` hears first of what is stored already, and then of each module.
        """
        outcomes = [self._read(submission) for submission in submissions]
        seconds = self._seconds_late()
        for outcome in outcomes:
            outcome.late_seconds = seconds.get(outcome.student, 0.0)
        plans = [self._jobs_of(outcome) for outcome in outcomes]
        # A plan's later modules take longer: begun first, none of them comes last alone.
        wanted = {job.key: job for jobs in plans for job in reversed(jobs)}
        results = self._results(list(wanted.values()), progress)
        for outcome, jobs in zip(outcomes, plans, strict=True):
            self._collect(outcome, jobs, results)
        return outcomes

    def _seconds_late(self) -> Mapping[str, float]:
        course, name = self.course, self.assignment.name
        said = (
            course.receipts(name),
            course.platform_receipts(name),
            course.database,
            course.extensions,
        )
        if not any(path.exists() for path in said):
            return {}
        from autograder.submission import late  # and nbgrader with it, which takes seconds

        return late.seconds_late(course, name)

    def _results(self, jobs: Sequence[Job], progress: Progress | None) -> dict[str, Result]:
        stored = {job.key: self.store.get(job.key) for job in jobs}
        found = {key: result for key, result in stored.items() if result is not None}
        if progress:
            progress(len(found), len(jobs))
        missing = [job for job in jobs if job.key not in found]
        with ThreadPoolExecutor(max_workers=max(1, self.jobs)) as pool:
            futures = {pool.submit(self._result, job): job for job in missing}
            try:
                for future in as_completed(futures):
                    found[futures[future].key] = future.result()
                    if progress:
                        progress(len(found), len(jobs))
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                suite_process.close()  # what still runs would keep us for minutes
                raise
        return found

    def _result(self, job: Job) -> Result:
        """A module's result, stored or new. A fault of ours is an error in it, never a zero."""
        stored = self.store.get(job.key)
        if stored is not None:
            return stored
        pauses_s = () if job.module in self._broken else PAUSES_S
        for pause_s in (*pauses_s, None):
            result = self._try(job)
            if not result.get("error"):
                self.store.put(job.key, result)
                return result
            if pause_s is None or self._stopped.wait(pause_s):
                break
        self._broken.add(job.module)
        if pauses_s:
            result["error"] = f"{result['error']} (the last of {1 + len(pauses_s)} tries)"
        return result

    def _try(self, job: Job) -> Result:
        try:
            with module_folder(job.sources) as folder:
                result = self.grader(self.assignment.name, folder, job.module)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        if not result.get("error") and not cache.valid(result):
            return {"error": f"the suite gave no result: {str(result)[:200]}"}
        return result

    def _read(self, submission: Submission) -> Outcome:
        try:
            if submission.rejected:
                raise Rejected(submission.rejected)
            rebuilt = prepare(self.assignment, submission, self.course)
        except (Rejected, PathError) as rejected:
            outcome = Outcome(submission.student, "rejected", message=str(rejected))
        else:
            outcome = self._pending(submission.student, rebuilt)
            outcome.intake[:0] = submission.intake
        outcome.name, outcome.email = submission.name, submission.email
        return outcome

    def _pending(self, student: str, rebuilt: Rebuilt) -> Outcome:
        return Outcome(
            student,
            "graded",
            notes=list(rebuilt.notes),
            intake=list(rebuilt.intake),
            untouched=rebuilt.untouched,
            modules=rebuilt.modules,
            runs=list(rebuilt.runs),
            texts=dict(rebuilt.texts),
        )

    def _jobs_of(self, outcome: Outcome) -> list[Job]:
        if outcome.status != "graded":
            return []
        return [
            self._job(module.name, imported(module.name, outcome.modules))
            for module in self.assignment.modules
        ]

    def _job(self, module: str, sources: Mapping[str, str]) -> Job:
        name = self.assignment.name
        key = cache.key(name, module, sources, self.course, trusted=self.trusted)
        return Job(module, sources, key)

    def _collect(self, outcome: Outcome, jobs: list[Job], results: Mapping[str, Result]) -> None:
        parts = {job.module: results[job.key] for job in jobs}
        faults = [
            f"{name}: {str(part['error'])[:MAX_FAULT]}"
            for name, part in parts.items()
            if part.get("error")
        ]
        if faults:
            outcome.status = "grader_error"
            outcome.message = "The grader failed. " + "; ".join(faults)
        outcome.graded_at = max((self.store.when(job.key) for job in jobs), default=0.0)
        outcome.key = hashlib.sha256("".join(job.key for job in jobs).encode()).hexdigest()
        outcome.result = {
            "modules": parts,
            "sandbox": next((p["sandbox"] for p in parts.values() if p.get("sandbox")), ""),
        }


def cores() -> int:
    """The cores that this process may use: how many modules are graded at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def module_folder(sources: Mapping[str, str]) -> Iterator[Path]:
    """A folder that holds these modules and nothing else, for one grading."""
    with scratch.fresh("grade-") as outer:
        folder = outer / "modules"
        folder.mkdir()
        for name, text in sources.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        yield folder


def suite_grader(course: Course, *, trusted: bool = False) -> Grader:
    """The real grader: the hidden suite over sandboxed ranks.

    Raises:
        SandboxUnavailable: nothing here confines submissions: said once, not for each of them.
    """
    from autograder.grade import grading

    suite_process.start()  # first: who is killed while a sandbox is tried leaves nothing
    best_tier(trust_submissions=trusted)

    def grade(assignment: str, folder: Path, module: str) -> Result:
        report = grading.grade_modules(
            assignment,
            folder,
            secret=course.secret(),
            sandbox=not trusted,
            modules=[module],
            jobs=1,
            limits=limits.load(assignment, course),
        )
        return {
            **report["modules"][module],
            "counts": report["counts"].get(module, []),
            "sandbox": report["sandbox"],
            "error": report["error"],
        }

    return grade
