"""One hidden suite, or one test of it, on one submission, as plain pytest in your terminal.

    python -m autograder.author.verify.one_test a03_allreduce wrong/ring__barrier_in_each_step
    python -m autograder.author.verify.one_test a03_allreduce reference/ring test_values -- -x --pdb

A wrong submission is asked for the test that it must fail. What follows ``--`` goes to pytest.
Nothing is captured and nothing is limited in time, so ``breakpoint()`` works in a test;
``--debug 1`` lets it work in rank 1 of the submission too. There is no sandbox: it is for the
submissions of the kit, not for those of students.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from autograder import scratch
from autograder.author.verify import verify
from autograder.author.verify.verify import Subject
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.command_errors import FAULTS
from autograder.grade.grading import PYTEST_INI, staged, suite_of
from autograder.grade.suite.job import SuiteJob
from ringside import command_line, kit

_A_DAY_S = 86_400.0


def run(
    plan: Assignment,
    subject: Subject,
    test: str = "",
    *,
    debug_rank: int | None = None,
    options: Sequence[str] = (),
) -> int:
    """Run the suite of the subject's module at this terminal; returns pytest's exit status.

    Args:
        test: the one test, or all; default: what the subject must fail.
        options: of pytest.
    """
    suite = suite_of(Course.here(), plan.name, subject.module)
    limits = replace(plan.limits, cpu_s=_A_DAY_S, sleep_s=_A_DAY_S, clock_s=_A_DAY_S)
    with (
        scratch.fresh("one-test-") as folder,
        staged(plan, {subject.module: subject.source}) as stage,
    ):
        job = SuiteJob(
            module=subject.module,
            folder=str(stage),
            record=str(folder / "record.json"),
            secret=verify.SECRET,
            module_hash="",
            sandbox=False,
            limits=asdict(limits),
            debug_rank=debug_rank,
        )
        (folder / "job.json").write_text(json.dumps(asdict(job)), encoding="utf-8")
        test_name = test or subject.fails
        arguments = ["-p", "autograder.grade.suite.plugin", "--job", str(folder / "job.json")]
        arguments += ["-c", str(PYTEST_INI), "-s", *options]
        arguments.append(f"{suite}::{test_name}" if test_name else str(suite))
        # The kit's own pytest plugin has fixtures of the same names, for public tests.
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-m", "pytest", *arguments]
        return subprocess.run(command, cwd=kit.ROOT, env=environment, check=False).returncode


def subject_of(plan: Assignment, name: str) -> Subject:
    """The submission called KIND/NAME, as ``autograder verify --only`` names it.

    Raises:
        AssignmentError: there is none, or several begin so.
    """
    by_name = {f"{subject.kind}/{subject.name}": subject for subject in verify.subjects(plan)}
    fitting = [name] if name in by_name else [key for key in by_name if key.startswith(name)]
    if len(fitting) != 1:
        near = fitting or [key for key in by_name if name.partition("/")[2][:4] in key]
        raise AssignmentError(
            f"{plan.name} has {'several submissions' if fitting else 'no submission'} {name!r}: "
            f"write KIND/NAME in full, such as {', '.join((near or list(by_name))[:5])}."
        )
    return by_name[fitting[0]]


def main(words: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    own, options = command_line.split(words)
    parser = argparse.ArgumentParser(
        prog="python -m autograder.author.verify.one_test",
        description="Run one hidden test on one submission of the kit, without a sandbox.",
        epilog="What follows -- goes to pytest, such as -- -x --pdb.",
    )
    parser.add_argument("assignment", help="a03_allreduce, or a03")
    parser.add_argument("submission", help="like wrong/ring__NAME, right/ring__NAME, stub/ring")
    parser.add_argument(
        "test", nargs="?", default="", help="default: what a wrong one must fail, else all"
    )
    parser.add_argument(
        "--debug", type=int, metavar="RANK", help="breakpoint() in this rank opens pdb here"
    )
    args = parser.parse_args(own)

    def action() -> int:
        plan = verify.assignment_named(args.assignment)
        subject = subject_of(plan, args.submission)
        return run(plan, subject, args.test, debug_rank=args.debug, options=options)

    return command_line.ended("one_test", action, faults=FAULTS)


if __name__ == "__main__":
    raise SystemExit(main())
