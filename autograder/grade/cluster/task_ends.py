"""What the end of a task means for the submissions that it had, and what a node was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from autograder.course.course import Course
from autograder.grade.cluster import node_facts as array_node
from autograder.grade.cluster.grading_array import GradingArray
from autograder.sandbox import sandbox
from ringside.jobs.launch import jobscript
from ringside.jobs.launch.sites import Value
from ringside.jobs.launch.slurm_array import TaskEnd

_LOG_LINES = 5
_LOG_CHARACTERS = 600
_CLUSTER = ("node failure", "preempted", "lost", "restarted")

# again: nobody's fault; once more: it may be the submission's; raised: not with what it asked for.
What = Literal["again", "once more", "raised", "not again"]


@dataclass(frozen=True)
class NextStep:
    """What is to be done with a submission that has no result, and why it has none."""

    what: What
    reason: str


def doubled(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Twice the wall time, and twice the memory where it is asked for.

    >>> doubled({"time": "00:45:00", "memory_per_cpu": "500M"})
    {'time': '01:30:00', 'memory_per_cpu': '1000M'}
    """
    seconds = 2 * jobscript.seconds(str(settings["time"]))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    changed: dict[str, Value] = {"time": f"{hours:02}:{minutes:02}:{seconds % 60:02}"}
    memory = re.fullmatch(r"(\d+)(\D*)", str(settings["memory_per_cpu"]))
    if memory:
        changed["memory_per_cpu"] = f"{2 * int(memory[1])}{memory[2]}"
    return changed


def record(array: GradingArray, number: int) -> dict[str, Any] | None:
    """What the task wrote of a submission; None: nothing."""
    try:
        (entry,) = json.loads(array.record(number).read_text(encoding="utf-8"))["submissions"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return entry if isinstance(entry, dict) else None


def graded(array: GradingArray, number: int) -> bool:
    entry = record(array, number)
    return entry is not None and entry.get("status") == "graded"


@dataclass
class Judge:
    """Says of each submission without a result what its task's end means.

    Attributes:
        ends: of the array's tasks; empty where no scheduler ran them.
    """

    array: GradingArray
    job_id: str
    course: Course
    ends: Mapping[int, TaskEnd]

    @cached_property
    def task_of(self) -> dict[int, int]:
        return {n: task for task, ns in enumerate(self.array.task_numbers) for n in ns}

    @cached_property
    def nodes(self) -> dict[int, dict[str, Any]]:
        """What each task noted of its node."""
        by_task = {}
        for path in (self.array.folder / "nodes").glob("[0-9]*.json"):
            try:
                by_task[int(path.stem)] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
        return by_task

    @property
    def unfit(self) -> set[str]:
        """The nodes that can't grade, since no sandbox works there."""
        return {str(node["host"]) for node in self.nodes.values() if "error" in node}

    def next_step(self, number: int) -> NextStep:
        """Of a submission that has no result in the store."""
        task = self.task_of[number]
        node = self.nodes.get(task, {})
        host = str(node.get("host", ""))
        # A record says more than the task's end, which came after it, whatever it was.
        entry = record(self.array, number)
        if entry is not None and entry.get("status") == "graded":
            return NextStep("not again", self._elsewhere(node))
        if entry is not None:
            return NextStep("once more", f"on {host or 'its node'}: {entry.get('message', '')}")
        end = self.ends.get(task)
        if end is None or end.end == "done":
            return NextStep("once more", f"task {task} left no record.{self._log(task)}")
        where = end.look.nodes or host or "no node"
        state = f"{end.look.state}{f' {end.look.exit_code}' if end.look.exit_code else ''}"
        reason = f"task {task} of job {self.job_id} on {where}: {end.end} ({state})."
        if end.end in _CLUSTER:
            return NextStep("again", reason)
        if end.end == "impossible":
            return NextStep("raised", f"{reason} {end.meaning}")
        if end.end in ("cancelled", "wrong account"):
            return NextStep("not again", reason)
        if "error" in node:
            return NextStep("once more", f"{host} has no sandbox: {node['error']}")
        if node.get("began", number) != number:
            return NextStep("again", f"{reason} It had not begun with this submission.")
        return NextStep("once more", reason + self._log(task))

    def _log(self, task: int) -> str:
        """The last lines that a task printed."""
        name = self.array.log(self.job_id, task) if self.job_id else _local_log(self.array)
        try:
            lines = name.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return ""
        last = [line.strip() for line in lines if line.strip()][-_LOG_LINES:]
        return f" Its log ends: {' | '.join(last)[-_LOG_CHARACTERS:]}" if last else ""

    def _elsewhere(self, node: Mapping[str, Any]) -> str:
        host = node.get("host", "a node")
        if node.get("key") != self._key:
            return (
                f"{host} has another kit or another course secret, so its results count for "
                "nothing here: let all nodes see one checkout."
            )
        return (
            f"{host} put its results into {node.get('results')}, and here they are looked for in "
            f"{self.course.results}: let all nodes see one checkout."
        )

    @cached_property
    def _key(self) -> str:
        return array_node.key(self.course, self.array.assignment)

    def differences(self) -> Iterator[str]:
        """What nodes have otherwise than this machine, a line for each kind."""
        lines = set()
        for node in self.nodes.values():
            host = node.get("host")
            theirs = node.get("versions", array_node.versions())
            for name, version in array_node.versions().items():
                if theirs.get(name) != version:
                    lines.add(
                        f"{host} has {name} {theirs.get(name) or 'not at all'}, this machine "
                        f"{version or 'none'}: the results count, for they name the kit alone."
                    )
            tier = self._tier
            if tier and node.get("sandbox", tier) != tier:
                lines.add(f"{host} graded in another sandbox than this machine has: "
                         f"{node['sandbox']}, not {tier}. The records name it.")  # fmt: skip
        yield from sorted(lines)

    @cached_property
    def _tier(self) -> str:
        try:
            return str(sandbox.best_tier(trust_submissions=self.array.trusted))
        except sandbox.SandboxUnavailable:
            return ""


def _local_log(array: GradingArray) -> Path:
    return array.folder / "logs" / "local.log"
