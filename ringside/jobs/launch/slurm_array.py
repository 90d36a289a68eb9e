"""A Slurm job array followed to its end: what became of each task, whose fault it was.

::

    asked               for
    scontrol show job   all tasks, while slurmctld knows them (MinJobAge after their end)
    sacct -X -n -P -D   what slurmctld has forgotten, where there is accounting
    neither             the task is "lost": its own records are all that tells

A task that Slurm queues again by itself is followed on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ringside.jobs.launch import endings, slurm
from ringside.jobs.launch.endings import Look
from ringside.jobs.launch.slurm import SlurmError

PATIENCE_S = 1800.0  # for a slurmctld that is restarted, or a fail-over
MOST_STARTS = 6  # a task that takes its node down with it is not queued for ever
_LOOKS = 3  # a reason, or that a task is unknown, may be wrong for a moment

Say = Callable[[str], None]
Heard = Callable[[Mapping[int, Look]], None]


@dataclass(frozen=True)
class TaskEnd:
    """How a task ended: Slurm's last word, and `end` and `meaning` as in `launch.endings`."""

    look: Look
    end: str
    meaning: str = ""


def numbers(text: str) -> list[int]:
    """The task numbers of an expression of Slurm's.

    >>> numbers("7"), numbers("1,4-6%2"), numbers("[0-8:4]")
    ([7], [1, 4, 5, 6], [0, 4, 8])
    """
    tasks: list[int] = []
    for first, last, step in re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", text.split("%")[0]):
        tasks += range(int(first), int(last or first) + 1, int(step or 1))
    return tasks


def looks(job_id: str, job_name: str = "") -> dict[int, Look] | str | None:
    """What Slurm says of each task now; None: it knows no such job; a text: it doesn't answer.

    Args:
        job_name: a job of another name is another job, since numbers begin anew some day.

    Raises:
        SlurmError: there is no Slurm here.
    """
    try:
        answer = slurm.ask(["scontrol", "show", "job", "--oneliner", job_id])
    except FileNotFoundError:
        raise SlurmError("scontrol isn't on this machine: run this on a login node.") from None
    if answer.returncode:
        message = answer.stderr.strip()
        return None if "Invalid job id" in message else message or "no word"
    by_task: dict[int, Look] = {}
    for line in answer.stdout.splitlines():
        tasks = re.search(r"\bArrayTaskId=(\S+)", line)
        name = re.search(r"\bJobName=(.*?) UserId=", line)
        if tasks and (not job_name or (name and name[1] == job_name)):
            by_task |= dict.fromkeys(numbers(tasks[1]), slurm.parsed(line))
    return by_task or None


def goes_on(answer: Mapping[int, Look] | str | None) -> bool:
    """Whether tasks wait or run, as far as Slurm says; a silent Slurm may still run them."""
    if isinstance(answer, Mapping):
        return any(look.state in slurm.GOES_ON for look in answer.values())
    return answer is not None


def recorded(job_id: str) -> dict[int, Look]:
    """What the accounting remembers of an array's tasks; nothing where there is none."""
    columns = "JobID,State,ExitCode,NodeList,Timelimit"
    try:
        answer = slurm.ask(["sacct", "-X", "-n", "-P", "-D", "-j", job_id, "-o", columns])
    except FileNotFoundError:
        return {}
    by_task: dict[int, Look] = {}
    for line in answer.stdout.splitlines() if answer.returncode == 0 else []:
        name, state, exit_code, nodes, limit = line.split("|")
        _, _, tasks = name.partition("_")
        state = state.split()[0]  # "CANCELLED by 1000"
        look = Look(state, exit_code=exit_code, nodes=nodes, time_limit=limit)
        by_task |= dict.fromkeys(numbers(tasks), look)  # the last start comes last
    return by_task


def follow(
    job_id: str,
    num_tasks: int,
    log_of: Callable[[int], Path],
    say: Say,
    heard: Heard,
    *,
    job_name: str = "",
    interval_s: float = 0.5,
    patience_s: float = PATIENCE_S,
) -> dict[int, TaskEnd]:
    """Wait until every task has ended; return how.

    Args:
        log_of: the file that a task prints to.
        say: gets lines for people.
        heard: gets what Slurm said of the tasks, after every look.
        interval_s: seconds between the first looks; later ones come less often.
        patience_s: for how long Slurm may be silent.

    Raises:
        SlurmError: there is no Slurm here, or it has been silent for too long.
    """
    array = _Array(job_id, num_tasks, log_of, say)
    silent_since: float | None = None
    has_warned = False
    while True:
        answer = looks(job_id, job_name)
        now_s = time.monotonic()
        if isinstance(answer, str):
            silent_since = now_s if silent_since is None else silent_since
            if now_s - silent_since > patience_s:
                raise SlurmError(
                    f"Slurm has not answered for {patience_s / 60:.0f} minutes ({answer}). Job "
                    f"{job_id} may go on: the same command, given again, follows it."
                )
            if not has_warned:
                say(f"job {job_id}: Slurm doesn't answer ({answer}); still asking.")
                has_warned = True
        else:
            if has_warned:
                say(f"job {job_id}: Slurm answers again.")
            silent_since, has_warned = None, False
            array.update(answer or {}, now_s)
            if len(array.ended) == num_tasks:
                heard(array.seen)
                return array.ended
        heard(array.seen)
        time.sleep(interval_s)
        interval_s = min(interval_s * 1.1, slurm.SLOWEST_S)


class _Array:
    """What is known of an array's tasks."""

    def __init__(
        self, job_id: str, num_tasks: int, log_of: Callable[[int], Path], say: Say
    ) -> None:
        self.job_id = job_id
        self.num_tasks = num_tasks
        self.log_of = log_of
        self.say = say
        self.seen: dict[int, Look] = {}
        self.ended: dict[int, TaskEnd] = {}
        self._since_s: dict[int, float] = {}  # when a state was first seen that may not last
        self._verdicts: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._times: dict[int, int] = {}  # how often a task had no hope, or was unknown

    def update(self, answer: Mapping[int, Look], now_s: float) -> None:
        again = [k for k, look in answer.items() if look.restarts > self._restarts(k)]
        if again:
            self.say(
                f"job {self.job_id}: Slurm has queued {_tasks(again)} again (a node failed, or a "
                "job with precedence took it); what was graded is kept."
            )
        for task, look in answer.items():
            if task not in self.ended:
                self._one(task, look, now_s)
        self._forgotten([k for k in range(self.num_tasks) if k not in {*answer, *self.ended}])

    def _restarts(self, task: int) -> int:
        return self.seen[task].restarts if task in self.seen else 0

    def _one(self, task: int, look: Look, now_s: float) -> None:
        before = self.seen.get(task)
        self.seen[task] = look
        if look.state in slurm.GOES_ON:
            self._hopeless(task, look)
            return
        if look.state in slurm.PERHAPS_AGAIN:
            if before is None or before.state != look.state:
                self._since_s[task] = now_s
            # Not a sleep, as for a single job: all other tasks would wait with it.
            if now_s - self._since_s[task] < slurm.WORD_S:
                return
        self._end(task, look)

    def _hopeless(self, task: int, look: Look) -> None:
        """A task that can never start, or that starts for ever, is taken out of the queue."""
        verdict = self._never_starts(look)
        if look.state == "PENDING" and look.reason.startswith("launch_failed"):
            verdict = "node failure", "a node could not start it, and Slurm holds it."
        if look.restarts >= MOST_STARTS:
            verdict = "restarted", f"it was started {look.restarts} times, and never ended."
        self._times[task] = self._times.get(task, 0) + 1 if verdict else 0
        if verdict and self._times[task] >= _LOOKS:
            slurm.cancel(f"{self.job_id}_{task}")
            end, meaning = verdict
            self.ended[task] = TaskEnd(look, end, f"{meaning} It is cancelled.")

    def _never_starts(self, look: Look) -> tuple[str, str] | None:
        """Asked once for tasks that wait for the same reason: Slurm is asked for it."""
        key = look.state, look.reason
        if key not in self._verdicts:
            self._verdicts[key] = slurm.never_starts(look)
        return self._verdicts[key]

    def _forgotten(self, tasks: list[int]) -> None:
        for task in tasks:
            self._times[task] = self._times.get(task, 0) + 1
        lost = [task for task in tasks if self._times[task] >= _LOOKS]
        records = recorded(self.job_id) if lost else {}
        for task in lost:
            look = records.get(task)
            if look is None or look.state in slurm.GOES_ON:
                meaning = "Slurm doesn't know it any more, and no accounting says how it ended."
                look = look or self.seen.get(task, Look("UNKNOWN"))
                self.ended[task] = TaskEnd(look, "lost", meaning)
            else:
                self.seen[task] = look
                self._end(task, look)

    def _end(self, task: int, look: Look) -> None:
        try:
            log = self.log_of(task).read_text(encoding="utf-8", errors="replace")
        except OSError:
            log = ""
        ended = endings.ended(f"{self.job_id}_{task}", look, log[-100_000:])
        self.ended[task] = TaskEnd(look, ended.end, ended.meaning)


def _tasks(tasks: list[int]) -> str:
    return f"task {tasks[0]}" if len(tasks) == 1 else f"{len(tasks)} tasks"
