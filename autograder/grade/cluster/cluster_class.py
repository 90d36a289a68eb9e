"""`autograder grade --executor slurm`: a class graded by job arrays, whatever happens to them.

The tasks put results into the course's store, which all nodes see; then the class is graded as
usual, here, from the store. So results are the same as without a cluster. What comes of a
submission that has no result after an array::

    its task ended by                          it is
    node failure, preempted, lost              submitted again: the cluster's fault
    timeout, out of memory, failed             submitted once more, alone in a task, with twice
                                               the time and memory where the site allows it
    the grader's error on a node               submitted once more, away from that node if it
                                               has no sandbox
    the same again; cancelled; impossible      graded here, or reported as a grader error

None of them is the student's zero: inside a task the sandbox bounds what student code may do.

The folder ``build/array/<assignment>/`` holds one folder for each array (`grading_array`), and what
`array_state` keeps.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.collect.submissions import Submission
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.class_grading import check_sandbox, refuse
from autograder.grade.cluster import task_ends as cluster_ends
from autograder.grade.cluster.array_state import ArrayState
from autograder.grade.cluster.grading_array import (
    GradingArray,
    in_tasks,
    most_tasks,
    submissions_per_task,
)
from autograder.grade.cluster.progress import ArrayProgress
from autograder.grade.pipeline import GradingSession
from autograder.sandbox.sandbox import SandboxUnavailable
from autograder.storage import private_folder
from ringside.jobs.launch import slurm_array
from ringside.jobs.launch.sites import Site, Value
from ringside.jobs.launch.slurm import SlurmError
from ringside.units import format_count

MOST_ROUNDS = 5  # arrays that one grading submits at most
MOST_TRIES = 2  # of a submission whose task ended by a fault that may be its own
SEEN_AFTER_S = 10.0  # until a file that a node wrote is seen here (NFS caches names)

# sbatch's words where an account or an array may not have so many tasks.
_TOO_MANY = re.compile(r"job array|policy|[Ss]ubmit")

Say = Callable[[str], None]


@dataclass
class ClusterClass:
    """One class on its way through a cluster.

    Attributes:
        session: grades here; knows the store, and the keys of results in it.
        folder: of all arrays of this assignment.
        reasons: student -> why the cluster gave no result.
    """

    course: Course
    site: Site
    settings: Mapping[str, Value]
    session: GradingSession
    submissions: Sequence[Submission]
    say: Say
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.assignment = self.session.assignment.name
        self.folder = self.course.build.resolve() / "array" / self.assignment
        self._state = ArrayState(self.folder, self.assignment)
        self._tries: dict[str, int] = {}
        self._given_up: set[str] = set()
        self._avoid: set[str] = set()  # nodes that can't grade
        self._had_memory = ""  # each core of a task that ran out of it, where Slurm chose it
        self._more = True  # whether the site lets a second try have more time and memory
        self._asks_more = False  # whether the array at hand asks for it
        self._keys = {
            submission.student: self.session.keys(submission) for submission in self.submissions
        }

    def run(self) -> dict[str, str]:
        """Grade on the cluster what has no result; return who still has none, and why.

        Raises:
            SlurmError: the first array was refused, or Slurm has been silent for too long.
            ArrayError: another process waits already, or the course isn't where nodes see it.
        """
        private_folder(self.folder)
        self.folder.chmod(0o700)
        with self._state.lock():
            if self.site.scheduler != "none":
                # First: what an earlier process's array still brings is not submitted again.
                self._go_on()
            self._rounds()
            self._state.forget()
        return {
            submission.student: self._reason(submission.student)
            for submission in self.submissions
            if self.missing(submission.student)
        }

    def missing(self, student: str) -> list[str]:
        """The keys of results that the store doesn't have."""
        return [key for key in self._keys[student] if self.session.store.get(key) is None]

    # -- rounds ------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        unfinished = self._to_submit()
        if not unfinished:
            self.say("Nothing is submitted: every result is there.")
        for number in range(MOST_ROUNDS):
            if not unfinished:
                return
            try:
                array, job_id = self._submit(self._array(unfinished, number))
            except SlurmError as refused:
                self._state.forget()
                if self._asks_more:
                    self._more = False  # the same without more time, memory, and choice of nodes
                    continue
                if not self.reasons:
                    raise
                for submission in unfinished:
                    self._give_up(submission.student, str(refused))
                return
            self._wait(array, job_id, unfinished)
            unfinished = self._to_submit()
            if self.site.scheduler == "none":
                return
        for submission in unfinished:
            if submission.student not in self.reasons:
                self.reasons[submission.student] = "the cluster lost it again and again."

    def _to_submit(self) -> list[Submission]:
        """Who has no result yet; equal modules are graded once, so one of equal ones is enough."""
        handins, covered = [], {key for student in self._given_up for key in self.missing(student)}
        for submission in self.submissions:
            missing = self.missing(submission.student)
            if submission.student not in self._given_up and not covered.issuperset(missing):
                covered |= set(missing)
                handins.append(submission)
        return handins

    def _array(self, left: Sequence[Submission], number: int) -> GradingArray:
        settings, most = dict(self.settings), 1
        directives: list[str] = []
        if self.site.scheduler != "none":
            most = most_tasks()
        per_task = submissions_per_task(len(left), settings, most)
        careful = any(submission.student in self._tries for submission in left)
        self._asks_more = careful and self._more and self.site.scheduler != "none"
        if careful:  # some had a task that ended by a fault: each is alone in its task
            per_task = -(-len(left) // most)
        if self._asks_more:
            settings["memory_per_cpu"] = settings["memory_per_cpu"] or self._had_memory
            settings |= cluster_ends.doubled(settings)
        if self._asks_more and self._avoid:
            directives.append(f"--exclude={','.join(sorted(self._avoid))}")
        return GradingArray(
            self.site,
            settings,
            self.assignment,
            [submission.path for submission in left],
            Path.cwd(),
            self._new_folder(number),
            self.session.trusted,
            tasks=in_tasks(len(left), per_task),
            job_name=f"grade-{self.assignment}-{secrets.token_hex(3)}",
            directives=directives,
        )

    def _new_folder(self, number: int) -> Path:
        """A folder for an array; with the first one those of earlier gradings are removed."""
        # No task writes there any more: `_go_on` has followed an earlier array to its end.
        if number == 0:
            for old in self.folder.glob("[0-9]*"):
                shutil.rmtree(old, ignore_errors=True)
        return self.folder / str(number + 1)

    def _submit(self, array: GradingArray) -> tuple[GradingArray, str]:
        """Submit an array, in fewer tasks where the site allows no more of them.

        Its name is noted before and its number afterwards, so that no array is submitted twice,
        whenever this process is killed.

        Returns:
            The array as it was submitted, and its number; empty where bash has run it.

        Raises:
            SlurmError: it was refused.
        """
        array.check()
        if self.site.scheduler == "none":
            array.run_here()
            return array, ""
        while True:
            self._note(array, "")
            try:
                job_id = array.submit()
                break
            except SlurmError as refused:
                tasks = len(array.task_numbers)
                if tasks == 1 or not _TOO_MANY.search(str(refused)):
                    raise
                fewer = in_tasks(len(array.submissions), 2 * len(array.task_numbers[0]))
                array = replace(array, tasks=fewer)
        self._note(array, job_id)
        count, tasks = len(array.submissions), len(array.task_numbers)
        self.say(
            f"job {job_id}: {format_count(count, 'submission')} in {format_count(tasks, 'task')}, "
            f"submitted to {self.site.name}"
        )
        return array, job_id

    def _wait(self, array: GradingArray, job_id: str, left: Sequence[Submission]) -> None:
        """Wait for an array's end, and judge what it left."""
        ends: Mapping[int, slurm_array.TaskEnd] = {}
        if job_id:
            progress = ArrayProgress(array, job_id, self.say)
            try:
                ends = array.follow(job_id, self.say, progress.heard)
            except KeyboardInterrupt:
                self.say(
                    f"job {job_id} goes on. The same command, given again, follows it; "
                    f"`scancel {job_id}` ends it."
                )
                raise
        # Before the judgement: a result that is not seen yet would count as one that the task lost.
        self._see(array, left)
        judge = cluster_ends.Judge(array, job_id, self.course, ends)
        for number, each in enumerate(left):
            if self.missing(each.student):
                self._take(each.student, judge.next_step(number))
        self._avoid |= judge.unfit
        short = [each.look for each in ends.values() if each.end == "out of memory"]
        self._had_memory = next((look.memory_per_cpu for look in short), "")
        for line in judge.differences():
            self.say(line)

    def _take(self, student: str, step: cluster_ends.NextStep) -> None:
        self.reasons[student] = step.reason
        self.say(f"{student}: {step.reason}")
        if step.what == "raised" and self._asks_more:
            self._more = False
        elif step.what == "once more":
            self._tries[student] = self._tries.get(student, 0) + 1
            if self._tries[student] >= MOST_TRIES:
                self._give_up(student, step.reason)
        elif step.what in ("not again", "raised"):
            self._give_up(student, step.reason)

    def _give_up(self, student: str, reason: str) -> None:
        self._given_up.add(student)
        self.reasons[student] = reason

    def _see(self, array: GradingArray, left: Sequence[Submission]) -> None:
        """Wait a moment for results that have a record: another machine wrote both."""
        deadline = time.monotonic() + SEEN_AFTER_S
        while time.monotonic() < deadline:
            graded = [number for number in array.records() if cluster_ends.graded(array, number)]
            late = [key for number in graded for key in self.missing(left[number].student)]
            if not late:
                return
            for folder in {key[:2] for key in late}:
                with contextlib.suppress(OSError):
                    os.listdir(self.course.results / folder)  # asks the file server anew
            time.sleep(0.5)

    def _reason(self, student: str) -> str:
        """Its own, or that of the one whose equal modules were submitted."""
        if student in self.reasons:
            return self.reasons[student]
        missing = set(self.missing(student))
        for other, reason in self.reasons.items():
            if missing.intersection(self._keys.get(other, [])):
                return reason
        return "the cluster gave no result."

    def _go_on(self) -> None:
        """Follow the array that an earlier process has left, if it still goes on."""
        earlier = self._state.earlier()
        if earlier is None:
            return
        self.say(f"job {earlier.job_id} of an earlier grading goes on: it is followed to its end.")
        self._tries = earlier.tries
        array = GradingArray(
            self.site,
            self.settings,
            self.assignment,
            [handin.path for handin in earlier.submissions],
            Path.cwd(),
            earlier.folder,
            self.session.trusted,
            tasks=earlier.tasks,
            job_name=earlier.job_name,
        )
        for handin in earlier.submissions:  # who isn't asked about has no keys: nothing is missing
            self._keys.setdefault(handin.student, [])
        self._wait(array, earlier.job_id, earlier.submissions)

    def _note(self, array: GradingArray, job_id: str) -> None:
        students = {
            submission.student: str(submission.path.resolve())
            for submission in self.submissions
            if submission.path in array.submissions
        }
        self._state.note(array, job_id, students, self._tries)


def grade_on_cluster(
    plan: Assignment,
    submissions: Sequence[Submission],
    course: Course,
    site: Site,
    settings: Mapping[str, Value],
    say: Say,
    *,
    trusted: bool = False,
    fallback: bool = True,
) -> dict[str, str] | None:
    """Fill the store of results on a cluster.

    Args:
        fallback: what the cluster could not grade may be graded here.

    Returns:
        None: what is missing then is graded here. Else student -> why there is no result.
    """
    session = GradingSession(plan, course, refuse, trusted=trusted)
    lost = ClusterClass(course, site, settings, session, submissions, say).run()
    say(f"{len(submissions) - len(lost)} of {len(submissions)} have their results.")
    if not fallback:
        return lost
    try:
        check_sandbox(trusted=trusted)
    except SandboxUnavailable as error:
        if lost:
            say(f"The others can't be graded here: {error}")
        return lost
    if lost:
        say(f"{len(lost)} are graded here.")
    return None
