"""What is said while a class is graded on a cluster: done, left, and how fast."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from autograder.grade.cluster.grading_array import GradingArray
from autograder.grade.progress import Pace, duration
from ringside.jobs.launch import refusals, slurm
from ringside.jobs.launch.endings import Look

_EVERY_S = 10.0  # between two lines about one array, but for the first and the last


class ArrayProgress:
    """Says how far an array is, when something has changed."""

    def __init__(self, array: GradingArray, job_id: str, say: Callable[[str], None]) -> None:
        self.array = array
        self.job_id = job_id
        self.say = say
        self._pace = Pace(time.monotonic)
        self._pace.note(len(array.records()), len(array.submissions))
        self._said, self._said_s = "", -_EVERY_S

    def heard(self, looks: Mapping[int, Look]) -> None:
        """Take what Slurm says of the tasks now."""
        now_s = time.monotonic()
        done = len(self.array.records())
        self._pace.note(done, len(self.array.submissions))
        what = self.line(looks, done)
        ended = not any(look.state in slurm.GOES_ON for look in looks.values())
        if looks and what != self._said and (ended or now_s - self._said_s >= _EVERY_S):
            estimate = "" if ended else self._left()
            self.say(f"job {self.job_id}: {what}{estimate}")
            self._said, self._said_s = what, now_s

    def line(self, looks: Mapping[int, Look], done: int) -> str:
        """``12 of 30 done; tasks: 1 failed, 4 run, 3 wait (other jobs go first)``"""
        running = sum(look.state in ("RUNNING", "COMPLETING") for look in looks.values())
        waiting = [look for look in looks.values() if look.state == "PENDING"]
        failed = sum(look.state not in slurm.GOES_ON | {"COMPLETED"} for look in looks.values())
        tasks = []
        if failed:
            tasks.append(f"{failed} failed")
        if running:
            tasks.append(f"{running} run")
        if waiting:
            ((reason, _),) = Counter(look.reason for look in waiting).most_common(1)
            why = refusals.waits(reason)
            tasks.append(f"{len(waiting)} wait{f' ({why})' if why else ''}")
        summary = f"; tasks: {', '.join(tasks)}" if tasks else ""
        return f"{done} of {len(self.array.submissions)} done{summary}"

    def _left(self) -> str:
        """``; 3.2 a minute, 6 min left``, where something was done to tell it from."""
        pace = self._pace
        if pace.per_minute is None or not pace.left_s:
            return ""
        return f"; {pace.per_minute:.3g} a minute, {duration(pace.left_s)} left"
