"""``autograder verify``: the suites against what they must catch, and what must pass."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.files import write_atomically
from ringside.progress import Waiting, waiting

if TYPE_CHECKING:
    from autograder.author.verify.record import Part
    from autograder.author.verify.verify import Finding
    from autograder.author.verify.whole import Seen


def add_parser(commands: Any) -> None:
    sub = subparser(
        commands,
        "verify",
        "grade reference, stub, wrong and right submissions and attacks against the suites",
        "example: autograder verify a03_allreduce --only wrong/ring",
    )
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="a03 too; default: all")
    sub.add_argument("--jobs", type=int, default=2, help="submissions at once")
    sub.add_argument("--only", default="", help="part of KIND/NAME, such as wrong/ring")
    sub.add_argument("--deadline", type=float, default=3600.0, help="seconds per assignment")
    sub.add_argument("--json", type=Path, help="write all findings to this file")
    sub.add_argument("--no-red-team", action="store_true", help="leave out the attacks")
    sub.add_argument("--trust-submissions", action="store_true", help="run without a sandbox")
    way = sub.add_mutually_exclusive_group()
    way.add_argument(
        "--sample",
        action="store_true",
        help="only reference, stub, one wrong submission and one right form of each module",
    )
    way.add_argument(
        "--lines",
        action="store_true",
        help="type the line of each test's failure, and see whether it shows the same",
    )
    way.add_argument(
        "--points",
        action="store_true",
        help="grade each wrong submission by the public tests too, and print both",
    )
    way.add_argument(
        "--show", metavar="NAME", help="print a wrong submission: what it does, and the difference"
    )
    way.add_argument(
        "--record",
        action="store_true",
        help="verify all, lines and attacks too, and write what is seen to tests/verified",
    )
    way.add_argument(
        "--stale",
        action="store_true",
        help="verify what its record in tests/verified doesn't fit; writes nothing",
    )
    sub.add_argument(
        "--again", type=int, default=0, metavar="N",
        help="with --stale: verify N fitting ones again, at random, and compare with the record",
    )  # fmt: skip
    sub.add_argument(
        "--minutes", type=float, default=40.0, help="with --stale: the budget; what is left waits"
    )


def run(options: argparse.Namespace) -> int:
    """Exit status 0 if all is as it must be, 1 if not."""
    chosen = _chosen(options.assignments)
    if options.show:
        return _show(chosen, options.show)
    if options.record or options.stale:
        return _keep_records(chosen, options)
    from autograder.sandbox.sandbox import best_tier

    best_tier(trust_submissions=options.trust_submissions)  # refuse now, not in each finding
    if options.lines:
        return _type_lines(chosen, options)
    return _verify(chosen, options)


def _chosen(names: Sequence[str]) -> list[Assignment]:
    """The assignments of these names, or of their numbers such as ``a03``; of none: all."""
    from autograder.author.verify.verify import assignment_named

    return [assignment_named(name) for name in names or plans.known()]


def _keep_records(chosen: Sequence[Assignment], options: argparse.Namespace) -> int:
    from autograder.author.verify import record, upkeep
    from autograder.author.verify.whole import verify_whole
    from autograder.sandbox.sandbox import Tier, best_tier

    if options.only or options.no_red_team or options.trust_submissions:
        raise AssignmentError(
            "A record is of all submissions in a sandbox: --record and --stale go without --only, "
            "--no-red-team and --trust-submissions."
        )
    parts = [part for plan in chosen for part in record.parts(plan)]
    if best_tier(trust_submissions=True) != Tier.BUBBLEWRAP:
        sentence = "Records hold for bubblewrap, which does not work here (`ringside doctor`)."
        if options.record:
            raise AssignmentError(sentence)
        print(f"{sentence} Nothing is verified.\n{upkeep.Tally().closing}")
        return 0

    def look(part: Part, deadline_s: float) -> Seen:
        with waiting(part.name) as display:
            return verify_whole(
                part,
                deadline_s,
                jobs=options.jobs,
                note=lambda what: display.note(f"{part.name}: {what} is done"),
            )

    if options.record:
        tally = upkeep.write(parts, look, options.deadline)
    else:
        tally = upkeep.check(parts, look, again=options.again, minutes=options.minutes)
    print(tally.closing)
    return 1 if tally.failed else 0


def _verify(chosen: Sequence[Assignment], options: argparse.Namespace) -> int:
    from autograder.author.verify import redteam_apart, report_table, verify
    from autograder.author.verify.attacks import load_attacks
    from autograder.publish import consistency

    alone = options.sample or options.no_red_team or options.only or options.trust_submissions
    reports, faults = [], list[str]()
    for plan in chosen:
        consistency.check(plan, Course.here())
        with waiting(f"{plan.name}: the first of its submissions") as display:
            report = verify.verify(
                plan,
                sandbox=not options.trust_submissions,
                jobs=options.jobs,
                only=options.only,
                only_sample=options.sample,
                points=options.points,
                deadline_s=options.deadline,
                progress=_noted_by(display, plan.name),
            )
            attacks = [] if alone else load_attacks(plan.name)
            display.note(f"{plan.name}: attacks")
            outcomes = redteam_apart.run_all(
                attacks, jobs=options.jobs, deadline_s=options.deadline
            )
        reports.append(report)
        faults += redteam_apart.faults(outcomes)
        print(report_table.table(report), flush=True)
        if attacks:
            print(redteam_apart.summary(plan.name, outcomes), flush=True)
    if options.only and not any(report.findings for report in reports):
        raise AssignmentError(
            f"Nothing of {', '.join(p.name for p in chosen)} fits {options.only}."
        )
    if options.json:
        _write(options.json, [{**asdict(entry), "ok": entry.ok} for entry in reports])
    return 0 if all(report.ok for report in reports) and not faults else 1


def _noted_by(shown: Waiting, assignment: str) -> Callable[[Finding], None]:
    """What is to be called with each finding."""

    def note(finding: Finding) -> None:
        shown.note(f"{assignment}: {finding.kind}/{finding.name} is done")

    return note


def _show(chosen: Sequence[Assignment], name: str) -> int:
    """Print a wrong submission of one of the assignments, by its name or a part of it."""
    from autograder.course import edits

    every = []
    for plan in chosen:
        solution = Course.here().solution(plan.name)
        for wrong in edits.variants(solution, [spec.name for spec in plan.modules]):
            every.append((solution / f"{wrong.module}.py", wrong))
    matches = [pair for pair in every if pair[1].name == name] or [
        pair for pair in every if name in pair[1].name
    ]
    if not matches:
        near = difflib.get_close_matches(name, [wrong.name for _, wrong in every], n=3, cutoff=0.3)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise AssignmentError(f"there is no wrong submission {name!r}.{meant}")
    for reference, wrong in matches:
        print(edits.shown(wrong, reference.read_text(encoding="utf-8")) + "\n")
    return 0


def _type_lines(chosen: Sequence[Assignment], options: argparse.Namespace) -> int:
    from autograder.author.verify import reproduce

    typed = [
        line
        for plan in chosen
        for line in reproduce.type_all(plan, options.only, jobs=options.jobs)
    ]
    print(reproduce.table(typed))
    if options.json:
        _write(options.json, [asdict(line) for line in typed])
    return 0 if all(line.shows for line in typed) else 1


def _write(path: Path, content: object) -> None:
    write_atomically(path, json.dumps(content, indent=1).encode() + b"\n")
