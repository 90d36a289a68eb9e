"""``autograder verify``: the suites against what they must catch, and what must pass."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from ringside.progress import Waiting, waiting

if TYPE_CHECKING:
    from autograder.author.verify.verify import Finding

NAME = "verify"
ABOUT = "grade reference, stub, wrong and right submissions and attacks against the suites"


def add_options(sub: argparse.ArgumentParser) -> None:
    sub.epilog = "example: autograder verify a03_allreduce --only wrong/ring"
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="default: all")
    sub.add_argument("--jobs", type=int, default=2, help="submissions at once")
    sub.add_argument("--only", default="", help="part of KIND/NAME, such as wrong/ring")
    sub.add_argument(
        "--share",
        type=int,
        metavar="SEED",
        help="one wrong submission for each hidden test, of which only that test is run, and one "
        "right form for each module: which, SEED decides",
    )
    sub.add_argument("--deadline", type=float, default=1800.0, help="seconds per assignment")
    sub.add_argument("--json", type=Path, help="write all findings to this file")
    sub.add_argument("--no-red-team", action="store_true", help="leave out the attacks")
    sub.add_argument(
        "--lines",
        action="store_true",
        help="type the line of each test's failure, and see whether it shows the same",
    )
    sub.add_argument(
        "--points",
        action="store_true",
        help="grade each wrong submission whole, by public and hidden tests, and print its points",
    )
    sub.add_argument(
        "--show", metavar="NAME", help="print a wrong submission: what it does, and the difference"
    )
    sub.add_argument("--trust-submissions", action="store_true", help="run without a sandbox")


def run(options: argparse.Namespace) -> int:
    """Exit status 0 if all is as it must be, 1 if not."""
    chosen = [plans.load(name) for name in options.assignments or plans.known()]
    if options.show:
        return _show(chosen, options.show)
    from autograder.sandbox.sandbox import best_tier

    best_tier(trust_submissions=options.trust_submissions)  # refuse now, not in each finding
    if options.lines:
        return _type_lines(chosen, options)
    return _verify(chosen, options)


def _verify(chosen: Sequence[Assignment], options: argparse.Namespace) -> int:
    from autograder.author.verify import verify
    from autograder.publish import consistency

    reports = []
    for plan in chosen:
        consistency.check(plan, Course.here())
        with waiting(f"{plan.name}: the first of its submissions") as shown:
            report = verify.verify(
                plan,
                sandbox=not options.trust_submissions,
                jobs=options.jobs,
                only=options.only,
                seed=options.share,
                points=options.points,
                deadline_s=options.deadline,
                progress=_noted_by(shown, plan.name),
            )
            if not (options.no_red_team or options.only or options.trust_submissions):
                shown.note(f"{plan.name}: attacks")
                verify.attack(plan, report, options.deadline)
        print(verify.table(report), flush=True)
        reports.append(report)
    if options.json:
        _write(options.json, [{**asdict(each), "ok": each.ok} for each in reports])
    return 0 if all(report.ok for report in reports) else 1


def _noted_by(shown: Waiting, assignment: str) -> Callable[[Finding], None]:
    """What is to be called with each finding."""

    def note(finding: Finding) -> None:
        shown.note(f"{assignment}: {finding.kind}/{finding.name} is done")

    return note


def _show(chosen: Sequence[Assignment], name: str) -> int:
    """Print a wrong submission of one of the assignments, by its name or a part of it."""
    from autograder.author.verify import edits

    every = []
    for plan in chosen:
        solution = Course.here().solution(plan.name)
        for wrong in edits.wrong_submissions(solution, [spec.name for spec in plan.modules]):
            every.append((solution / f"{wrong.module}.py", wrong))
    found = [each for each in every if each[1].name == name] or [
        each for each in every if name in each[1].name
    ]
    if not found:
        near = difflib.get_close_matches(name, [wrong.name for _, wrong in every], n=3, cutoff=0.3)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise AssignmentError(f"there is no wrong submission {name!r}.{meant}")
    for reference, wrong in found:
        print(edits.shown(wrong, reference.read_text(encoding="utf-8")) + "\n")
    return 0


def _type_lines(chosen: Sequence[Assignment], options: argparse.Namespace) -> int:
    from autograder.author.verify import reproduce

    typed = [
        each
        for plan in chosen
        for each in reproduce.type_all(plan, options.only, jobs=options.jobs)
    ]
    print(reproduce.table(typed))
    exceptions: dict[str, str] = {}
    for plan in chosen:
        exceptions |= reproduce.exceptions_of(Course.here().solution(plan.name))
    said = reproduce.faults(typed, exceptions)
    print("\n".join(said))
    if options.json:
        _write(options.json, [asdict(each) for each in typed])
    return 1 if said else 0


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
