"""The command of a grading array's task, on its node (``autograder.grade.cluster.task``).

``python -m autograder.commands.array_task FOLDER [TASK] -- OPTIONS``: the options are those of
``autograder grade``. Without TASK all tasks run, one after another: so a machine without a
scheduler does the same.

exit status: 0 all its submissions have a record; 2 one of them could not be graded; 3 this node
can't grade at all.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from autograder.commands import options as shared
from autograder.grade.cluster import task as array_task
from autograder.grade.cluster.task import TaskOptions
from ringside.command_line import split


def main(argv: Sequence[str] | None = None) -> int:
    """Run one task, or all of them."""
    task_args, grading_args = split(argv)
    parser = argparse.ArgumentParser(prog="array_task", description="Grade a task's submissions.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the array's")
    parser.add_argument("task", type=int, nargs="?", metavar="TASK", help="default: all")
    args = parser.parse_args(task_args)
    grading = argparse.ArgumentParser(prog="array_task ... --", add_help=False)
    shared.add_grading(grading)
    shared.add_measuring(grading)
    how = grading.parse_args(grading_args)
    os.umask(0o077)
    options = TaskOptions(
        jobs=how.jobs,
        trusted=how.trust_submissions,
        measured=how.measured,
        ranks=how.ranks,
        gpus=bool(how.gpus),
    )
    if args.task is not None:
        return array_task.run(args.folder, [args.task], options)
    array = json.loads((args.folder / "tasks.json").read_text(encoding="utf-8"))
    return array_task.run(args.folder, range(len(array["tasks"])), options)


if __name__ == "__main__":
    raise SystemExit(main())
