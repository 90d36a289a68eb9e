"""``autograder decide``: other points for a student, and why; or why nothing changes."""

from __future__ import annotations

import argparse
import getpass
from typing import Any

from autograder import terminal
from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.units import format_count


def add_parser(commands: Any) -> None:
    summary = "give a student other points, or answer a request, and keep who, when and why"
    sub = subparser(commands, "decide", summary)
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("student", metavar="STUDENT", help="or any member of a team")
    sub.add_argument(
        "part", nargs="?", default="", metavar="MODULE", help="or a run, or a text; all: the whole "
        "assignment, such as one that can't be graded; of none: why nothing changes",
    )  # fmt: skip
    sub.add_argument(
        "--points",
        type=float,
        metavar="N",
        help="in points of the assignment; without them the module has those of its tests again",
    )
    sub.add_argument("--why", required=True, metavar="TEXT", help="the student reads it")
    sub.add_argument("--by", default="", metavar="NAME", help="who decides; default: this account")
    sub.add_argument("--request", default="", metavar="ID", help="what it answers: see the report")


def run(options: argparse.Namespace) -> int:
    from autograder.gradebook import decide

    course = Course.here()
    plan = plans.load(options.assignment, course)
    done = decide.decide(
        plan,
        course,
        options.student,
        options.part,
        options.points,
        why=options.why,
        by=options.by or getpass.getuser(),
        request=options.request,
    )
    print(f"{done.path}: {terminal.printable(', '.join(done.students))}.")
    for line in done.marks:
        print(terminal.printable(line))
    later = [student for student in done.students if student not in done.in_gradebook]
    if later:
        terminal.say(f"In no gradebook yet: {', '.join(later)}. It counts from the next grading.")
    if done.renewed:
        print(
            f"{format_count(len(done.renewed), 'feedback page')} made anew. Where feedback was "
            f"released: `nbgrader release_feedback {plan.name}` releases the new ones."
        )
    if done.named:
        terminal.say(
            f"The reason names {', '.join(done.named)}, and {options.student} reads it: change it "
            f"in {done.path}, and make the page anew."
        )
    return 0
