"""submission -> quarantine -> rebuild -> grade (parallel, cached, resumable).

A fault of ours is no student's zero: what fails is tried again after a pause, then reported as
``grader_error`` and not stored, so that the next grading tries it once more.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from autograder import scratch
from autograder.collect import completeness
from autograder.collect.preparation import prepare
from autograder.collect.quarantine import Rejected
from autograder.collect.rebuild import Rebuilt
from autograder.collect.submissions import PathError, Submission
from autograder.collect.zip_archive import OURS
from autograder.course import limits
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import cache, fault_causes, waived
from autograder.grade.outcome import Outcome
from autograder.grade.suite import nursery as suite_nursery
from autograder.grade.suite.result import InvalidResult, ModuleResult
from autograder.imports import imported
from autograder.sandbox.sandbox import best_tier
from ringside.checking.requirements import ALL_POINTS

Sources = Mapping[str, str]  # module -> its text
Grader = Callable[[str, Sources, str], ModuleResult]  # (assignment, sources, module)
Note = Callable[[int, int], None]  # (modules with a result, modules in all)
PAUSES_S = (1.0, 4.0)  # before each further try where the grader has failed


@dataclass(frozen=True)
class ModuleJob:
    """One module to grade: its source, and those of its author's modules that it imports."""

    module: str
    sources: Sources
    key: str


@dataclass
class GradingSession:
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
        self._waived = waived.of_assignment(self.assignment, self.course)
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
        self, submissions: Sequence[Submission], progress: Note | None = None
    ) -> list[Outcome]:
        """Grade all submissions, `jobs` modules at a time; equal modules once.

        `progress` hears first of what is stored already, and then of each module.

        Raises:
            RollError: not each of the submissions has an outcome.
        """
        outcomes = [self._read(submission) for submission in submissions]
        seconds = self._seconds_late()
        for outcome in outcomes:
            outcome.late_seconds = seconds.get(outcome.student, 0.0)
        plans = [self._jobs_of(outcome) for outcome in outcomes]
        # A plan's later modules take longer: begun first, none of them comes last alone.
        by_key = {job.key: job for jobs in plans for job in reversed(jobs)}
        results = self._results(list(by_key.values()), progress)
        for outcome, jobs in zip(outcomes, plans, strict=True):
            self._collect(outcome, jobs, results)
        students = [submission.student for submission in submissions]
        completeness.call(students, [outcome.student for outcome in outcomes], "The graded class")
        _compare_jobs(outcomes)
        return outcomes

    def _seconds_late(self) -> Mapping[str, float]:
        course, name = self.course, self.assignment.name
        records = (
            course.receipts(name),
            course.platform_receipts(name),
            course.database,
            course.extensions,
        )
        if not any(path.exists() for path in records):
            return {}
        from autograder.course import late  # and nbgrader with it, which takes seconds

        return late.seconds_late(course, name)

    def _results(self, jobs: Sequence[ModuleJob], progress: Note | None) -> dict[str, ModuleResult]:
        stored = {job.key: self.store.get(job.key) for job in jobs}
        results = {key: result for key, result in stored.items() if result is not None}
        if progress:
            progress(len(results), len(jobs))
        missing = [job for job in jobs if job.key not in results]
        with ThreadPoolExecutor(max_workers=max(1, self.jobs)) as pool:
            futures = {pool.submit(self._result, job): job for job in missing}
            try:
                for future in as_completed(futures):
                    results[futures[future].key] = future.result()
                    if progress:
                        progress(len(results), len(jobs))
                for job in missing:
                    if results[job.key].ended_by_clock:  # nothing runs beside it now
                        results[job.key] = self._result(job, alone=True)
            except BaseException:
                # First: a try in its pause must not begin anew once the nursery is closed.
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                suite_nursery.close()  # what still runs would keep us for minutes
                raise
        return results

    def _result(self, job: ModuleJob, *, alone: bool = False) -> ModuleResult:
        """A module's result, stored or new. A fault of ours is an error in it, never a zero.

        What the clock has ended is stored only where nothing else was graded beside it.
        """
        stored = self.store.get(job.key)
        if stored is not None:
            return stored
        pauses_s = () if job.module in self._broken else PAUSES_S
        for pause_s in (*pauses_s, None):
            result = self._try(job)
            if not result.error:
                if alone or not result.ended_by_clock:
                    self.store.put(job.key, result)
                return result
            if pause_s is None or self._stopped.wait(pause_s):
                break
        self._broken.add(job.module)
        if pauses_s:
            result.error = f"{result.error} (the last of {1 + len(pauses_s)} tries)"
        return result

    def _try(self, job: ModuleJob) -> ModuleResult:
        try:
            result = self.grader(self.assignment.name, job.sources, job.module)
            result.check()
        except InvalidResult as error:
            return ModuleResult(job.module, error=f"the suite gave no result: {error}")
        except Exception as error:
            return ModuleResult(job.module, error=f"{type(error).__name__}: {error}")
        return result

    def _read(self, submission: Submission) -> Outcome:
        try:
            if submission.rejected:
                raise Rejected(submission.rejected)
            rebuilt = prepare(self.assignment, submission, self.course)
        except (Rejected, PathError) as rejected:
            outcome = Outcome(submission.student, "rejected", message=str(rejected))
        except Exception as error:
            if isinstance(error, OSError) and error.errno in OURS:
                raise  # the machine's, which would be said of each submission
            fault = f"{type(error).__name__}: {error}"[: fault_causes.MAX_FAULT]
            message = f"The grader failed while it read the submission. {fault}"
            outcome = Outcome(submission.student, "grader_error", message=message)
        else:
            outcome = self._pending(submission.student, rebuilt)
            outcome.intake[:0] = submission.intake
            outcome.notes[:0] = submission.notes
        outcome.name, outcome.email = submission.name, submission.email
        outcome.team = submission.team
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
            guesses=dict(rebuilt.guesses),
            hints=dict(rebuilt.hints),
            request=rebuilt.request,
        )

    def _jobs_of(self, outcome: Outcome) -> list[ModuleJob]:
        if outcome.status != "graded":
            return []
        return [
            self._job(module.name, imported(module.name, outcome.modules))
            for module in self.assignment.modules
        ]

    def _job(self, module: str, sources: Sources) -> ModuleJob:
        name = self.assignment.name
        key = cache.key(name, module, sources, self.course, trusted=self.trusted)
        return ModuleJob(module, sources, key)

    def _collect(
        self, outcome: Outcome, jobs: list[ModuleJob], results: Mapping[str, ModuleResult]
    ) -> None:
        by_module = {job.module: results[job.key] for job in jobs}
        errors = {name: result.error or _wrong_sum(result) for name, result in by_module.items()}
        faults = {name: error for name, error in errors.items() if error}
        # Waivers come last: they are decisions on a result, and no result is stored with them.
        by_module |= {
            name: waived.apply(result, self._waived[name])
            for name, result in by_module.items()
            if name in self._waived and name not in faults
        }
        if faults:
            outcome.status = "grader_error"
            outcome.message = f"The grader failed. {fault_causes.by_cause(faults)}"
        outcome.graded_at = max((self.store.when(job.key) for job in jobs), default=0.0)
        outcome.key = hashlib.sha256("".join(job.key for job in jobs).encode()).hexdigest()
        outcome.results = by_module


def _wrong_sum(result: ModuleResult) -> str:
    """What to say of a suite whose tests aren't worth 100 points; every mark would be wrong."""
    total = round(sum(test.points for test in result.tests), 6)
    if total == ALL_POINTS:
        return ""
    return f"its tests are worth {total:g} points, not {ALL_POINTS:g}: `autograder build` tells."


def _compare_jobs(outcomes: Sequence[Outcome]) -> None:
    """Tell the instructor of students whose runs name one job of the cluster's."""
    owners: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for job in {run.job for run in outcome.runs if run.job}:
            owners.setdefault(job, []).append(outcome)
    for job, several in owners.items():
        names = ", ".join(outcome.student for outcome in several)
        for outcome in several if len({outcome.author for outcome in several}) > 1 else ():
            outcome.doubts.append(f"run.json: job {job} is in what each of these hands in: {names}")


def cores() -> int:
    """The cores that this process may use: how many modules are graded at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suite_grader(course: Course, *, trusted: bool = False) -> Grader:
    """The real grader: the hidden suite over sandboxed ranks.

    Raises:
        SandboxUnavailable: nothing here confines submissions: said once, not for each of them.
    """
    from autograder.grade import grading

    suite_nursery.start()  # first: who is killed while a sandbox is tried leaves nothing
    best_tier(trust_submissions=trusted)

    def grade(assignment: str, sources: Sources, module: str) -> ModuleResult:
        return grading.grade_module(
            assignment,
            sources,
            module,
            secret=course.secret(),
            sandbox=not trusted,
            limits=limits.load(assignment, course),
        )

    return grade
