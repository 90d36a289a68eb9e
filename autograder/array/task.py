"""What a task of a grading array does on its node.

``python -m autograder.array.task FOLDER [TASK] -- WORDS`` grades the task's submissions one after
another, each by ``autograder grade`` with these words, in one process, so what takes long to start
is started once. A submission's record appears when it is whole, and a task that is started again
leaves those out. Without TASK all tasks run, one after another: so a machine without a scheduler
does the same.

exit status: 0 all its submissions have a record; 2 one of them could not be graded; 3 this node
can't grade at all.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.grade import cache
from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from ringside.files import write_atomically

NO_SANDBOX = 3


def key(course: Course, assignment: str) -> str:
    """A hash that two machines share if they have the same kit and the same course secret."""
    module = plans.load(assignment, course).modules[0].name
    return cache.key(assignment, module, {}, course)


@functools.cache
def versions() -> dict[str, str]:
    """Of Python and of what a grade may depend on beside the kit."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "torch", "mpi4py", "mpich"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


def node(assignment: str, trusted: bool) -> dict[str, Any]:
    """What is to be known of this machine.

    Raises:
        SandboxUnavailable: nothing can be graded on it.
    """
    course = Course.here()
    return {
        "host": socket.gethostname(),
        "sandbox": str(best_tier(trust_submissions=trusted)),
        "versions": versions(),
        "key": key(course, assignment),
        "results": str(course.results.resolve()),
    }


def run(folder: Path, tasks: Sequence[int], words: Sequence[str]) -> int:
    """Grade the submissions of `tasks`; gives the exit status."""
    plan = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    try:
        here = node(plan["assignment"], "--trust-submissions" in words)
    except SandboxUnavailable as error:
        host = socket.gethostname()
        print(f"autograder: {host} can't grade: {error}", file=sys.stderr, flush=True)
        for task in tasks:
            _note(folder, task, {"host": host, "error": str(error)})
        return NO_SANDBOX
    status = 0
    for task in tasks:
        for number in plan["tasks"][task]:
            record = folder / "records" / f"{number}.json"
            if record.exists():
                continue
            _note(folder, task, {**here, "began": number})
            path = plan["submissions"][number]
            begun_s = time.monotonic()
            with contextlib.redirect_stdout(io.StringIO()):  # its table is no news in a log
                own = ["grade", plan["assignment"], path, "--one-submission"]
                ended = cli.main([*own, *words, "--json", str(record)])
            took_s = time.monotonic() - begun_s
            print(f"{path!a}: status {ended} after {took_s:.1f} s", flush=True)
            status = max(status, ended)
    return status


def _note(folder: Path, task: int, what: dict[str, Any]) -> None:
    write_atomically(folder / "nodes" / f"{task}.json", json.dumps(what, indent=1).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one task, or all of them."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    own, words = arguments, list[str]()
    if "--" in arguments:
        cut = arguments.index("--")
        own, words = arguments[:cut], arguments[cut + 1 :]
    parser = argparse.ArgumentParser(prog="array_task", description="Grade a task's submissions.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the array's")
    parser.add_argument("task", type=int, nargs="?", metavar="TASK", help="default: all")
    options = parser.parse_args(own)
    os.umask(0o077)
    if options.task is not None:
        return run(options.folder, [options.task], words)
    plan = json.loads((options.folder / "tasks.json").read_text(encoding="utf-8"))
    return run(options.folder, range(len(plan["tasks"])), words)


if __name__ == "__main__":
    raise SystemExit(main())
