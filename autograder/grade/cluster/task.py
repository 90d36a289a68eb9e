"""What a task of a grading array does on its node.

It grades its submissions one after another in one process, so what takes long to start is started
once. A submission's record appears when it is whole, and a task that is started again leaves those
out. The command is ``autograder.commands.array_task``.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import terminal
from autograder.collect import submissions
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.grade import scores_json
from autograder.grade.class_grading import grade_class, say_what_to_look_at
from autograder.grade.cluster.node_facts import this_node
from autograder.grade.command_errors import FAULTS
from autograder.grade.measured import local_class
from autograder.sandbox.sandbox import SandboxUnavailable
from ringside.files import write_atomically

NO_SANDBOX = 3


@dataclass(frozen=True)
class TaskOptions:
    """How a task grades.

    Attributes:
        jobs: modules at a time.
        trusted: student code runs without a sandbox.
        measured: what the assignment names is timed too, on `ranks` and perhaps on GPUs.
    """

    jobs: int
    trusted: bool = False
    measured: bool = False
    ranks: int | None = None
    gpus: bool = False


def run(folder: Path, tasks: Sequence[int], options: TaskOptions) -> int:
    """Grade the submissions of `tasks`.

    Returns:
        0: all of them have a record; 2: one could not be graded; NO_SANDBOX: this node can't
        grade at all.
    """
    array = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    try:
        here = this_node(array["assignment"], trusted=options.trusted)
    except SandboxUnavailable as error:
        host = socket.gethostname()
        print(f"autograder: {host} can't grade: {error}", file=sys.stderr, flush=True)
        for task in tasks:
            _note(folder, task, {"host": host, "error": str(error)})
        return NO_SANDBOX
    status = 0
    for task in tasks:
        for number in array["tasks"][task]:
            record = folder / "records" / f"{number}.json"
            if record.exists():
                continue
            # Before it is graded: should it end the task, this says which one did.
            _note(folder, task, {**here, "began": number})
            path = array["submissions"][number]
            begun_s = time.monotonic()
            ended = 0 if _graded(array["assignment"], Path(path), record, options) else 2
            took_s = time.monotonic() - begun_s
            print(f"{path!a}: status {ended} after {took_s:.1f} s", flush=True)
            status = max(status, ended)
    return status


def _graded(assignment: str, path: Path, record: Path, options: TaskOptions) -> bool:
    """Grade one submission and write its record; a fault is said, and ends no other one."""
    try:
        course = Course.here()
        plan = plans.load(assignment, course)
        outcomes = grade_class(
            plan,
            submissions.find(plan, [path], "submission"),
            course,
            jobs=options.jobs,
            trusted=options.trusted,
        )
        if options.measured:
            local_class.measure_class(
                plan,
                outcomes,
                course,
                say=terminal.follow,
                trusted=options.trusted,
                ranks=options.ranks,
                gpus=options.gpus,
            )
        write_atomically(record, scores_json.text(plan, outcomes).encode())
    except FAULTS as error:
        print(f"autograder: {error}", file=sys.stderr)
        return False
    return say_what_to_look_at(outcomes)


def _note(folder: Path, task: int, what: dict[str, Any]) -> None:
    write_atomically(folder / "nodes" / f"{task}.json", json.dumps(what, indent=1).encode())
