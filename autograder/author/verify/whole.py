"""A part of an assignment verified whole: its suites with all lines, or the attacks on it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autograder.author.verify import redteam_apart, report_table, reproduce, verify
from autograder.author.verify.attacks import load_attacks
from autograder.author.verify.record import Part, Rows
from autograder.author.verify.verify import Finding, Report
from autograder.course.course import Course
from autograder.publish import consistency

Note = Callable[[str], None]  # called with what has just been done


@dataclass
class Seen:
    """What a verification saw.

    Attributes:
        rows: the results that are recorded.
        faults: a line for each thing that is not as it must be.
        unfinished: time was over before all was seen; what was seen is as it must be.
        text: the tables that a person reads.
    """

    rows: Rows = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    unfinished: bool = False
    minutes: float = 0.0
    text: str = ""


def verify_whole(
    part: Part, deadline_s: float, *, jobs: int = 2, note: Note = lambda what: None
) -> Seen:
    """Verify a part; what the deadline leaves out makes it unfinished."""
    started = time.monotonic()
    look = _suites if part.kind == "suites" else _attacks
    seen = look(part, jobs, deadline_s, note)
    seen.minutes = (time.monotonic() - started) / 60
    return seen


def _suites(part: Part, jobs: int, deadline_s: float, note: Note) -> Seen:
    plan, started = part.plan, time.monotonic()
    consistency.check(plan, Course.here())
    report = verify.verify(
        plan, jobs=jobs, deadline_s=deadline_s, progress=lambda f: note(f"{f.kind}/{f.name}")
    )
    seen = Seen(suite_rows(report), text=report_table.table(report))
    seen.faults = [f"{f.kind}/{f.name}: {f.sentence}" for f in report.findings if not f.ok]
    if time.monotonic() - started > deadline_s:  # no time for the lines
        seen.unfinished = report.ok or report.unfinished
        return seen
    typed = reproduce.type_all(plan, jobs=jobs, progress=lambda t: note(f"the line of {t.name}"))
    for module, rows in line_rows(typed).items():
        seen.rows[module] |= rows
    seen.faults += [
        f"{t.name}: its line shows something else: {t.line}" for t in typed if not t.shows
    ]
    seen.text += "\n" + reproduce.table(typed)
    return seen


def suite_rows(report: Report) -> Rows:
    """A row for each submission: its points, or the test that catches it."""
    rows: Rows = {}
    for finding in report.findings:
        rows.setdefault(finding.module, {})[f"{finding.kind} {finding.name}"] = _result(finding)
    return rows


def _result(finding: Finding) -> str | float:
    if finding.kind != "wrong":
        return finding.score
    by = finding.caught_by + (", and by values" if finding.killed_by_values else "")
    return f"caught by {by}" + (f"; earns {finding.score:g}" if finding.whole else "")


def line_rows(typed: Sequence[reproduce.Typed]) -> Rows:
    """How many lines of a module's wrong submissions show their failure, and each that doesn't."""
    rows: Rows = {}
    tally = Counter(t.module for t in typed if t.shows)
    for line in typed:
        of = rows.setdefault(line.module, {})
        of["lines"] = f"{tally[line.module]} shown"
        if not line.shows:
            of[f"line of {line.wrong}"] = line.outcome
    return rows


def _attacks(part: Part, jobs: int, deadline_s: float, note: Note) -> Seen:
    attacks = load_attacks(part.plan.name)
    outcomes = redteam_apart.run_all(
        attacks,
        jobs=jobs,
        deadline_s=deadline_s,
        progress=lambda some: note(", ".join(some)),
    )
    seen = Seen({"redteam": {attack.name: "" for attack in attacks}})
    for name, outcome in outcomes.items():
        seen.rows["redteam"][name] = f"{outcome['status']}, {outcome['percent']:g} %"
    late = {name for name, outcome in outcomes.items() if outcome.get("not_run")}
    seen.faults = redteam_apart.faults(outcomes)
    seen.unfinished = bool(late) and all(o["ok"] for n, o in outcomes.items() if n not in late)
    seen.text = redteam_apart.summary(part.plan.name, outcomes)
    return seen
