"""Test the suites themselves: ``autograder verify [ASSIGNMENT...]``.

    reference      full marks in every module
    stub           no marks, no crash, and every message is a sentence
    wrong/         each fails the test that it names; of the others, only tests of values are run,
                   as far as the first that fails (``autograder.author.verify.edits``)
    right/*.py     each gets full marks, however unusual it is
    red team       attacks score nothing, do no harm and leave no process behind

Where a wrong submission says what it ``earns``, it is graded whole, and its points must lie there.
With ``--points`` all wrong ones are, by the public tests too: a table shows both, and an honest
mistake that has all public points may lose at most 10 of 100 in the hidden suite.

``--lines`` types what each failed test offers to type, and compares what comes
(``autograder.author.verify.reproduce``).

With ``--share SEED`` only a part is graded; see ``share``.

Beside it stands the kill table: how many of the wrong submissions a suite would catch that
looks at values only, as most graders do; it is ours without the other kinds of tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder import scratch
from autograder.author.verify import edits
from autograder.author.verify import public_tests as public
from autograder.course.assignment import SUITE_POINTS, Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.grading import run_suite, staged
from autograder.grade.suite.plugin import VALUES_ONLY

SECRET = "verify"
NO_WARNING = 90.0  # an honest mistake with all public points earns that much


@dataclass(frozen=True)
class Subject:
    """One submission of one module, and what is expected of it."""

    kind: str  # "reference", "stub", "wrong" or "right"
    module: str
    name: str
    source: str
    fails: str = ""  # the test that a wrong one must fail
    earns: tuple[float, float] | None = None  # the points that it must earn, of 100
    honest: bool = True  # a mistake that students make


@dataclass
class Finding:
    """What the suite said about a subject."""

    kind: str
    module: str
    name: str
    ok: bool
    sentence: str = ""
    score: float = 0.0
    failed: list[str] = field(default_factory=list)
    killed_by_values: bool = False
    public: float | None = None  # percent of the public points, where they were asked for
    seconds: float = 0.0


@dataclass
class Report:
    """All findings of one assignment."""

    assignment: str
    whole: bool = True  # not a share: of wrong submissions, tests of values were run too
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    red_team: str = ""
    red_team_ok: bool = True

    @property
    def ok(self) -> bool:
        return self.red_team_ok and all(finding.ok for finding in self.findings)

    def of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]


def subjects(plan: Assignment) -> list[Subject]:
    """Reference, stubs, wrong and right submissions of an assignment.

    Raises:
        AssignmentError: one names no module of the plan, or an edit does not apply.
    """
    solution = Course.here().solution(plan.name)
    found = []
    for spec in plan.modules:
        source = (solution / spec.filename).read_text(encoding="utf-8")
        found.append(Subject("reference", spec.name, spec.name, source))
        found.append(Subject("stub", spec.name, spec.name, stub(source)))
    modules = [spec.name for spec in plan.modules]
    if strangers := edits.of_no_module(solution, modules):
        raise AssignmentError(f"{strangers[0]}: {plan.name} has no such module.")
    for wrong in edits.wrong_submissions(solution, modules):
        about = wrong.fails, wrong.earns, wrong.honest
        found.append(Subject("wrong", wrong.module, wrong.name, wrong.source, *about))
    for path in sorted((solution / "right").glob("*.py")):
        module = path.stem.partition("__")[0]
        plan.module(module)
        found.append(Subject("right", module, path.stem, path.read_text(encoding="utf-8")))
    return found


def share(every: Sequence[Subject], seed: int) -> list[Subject]:
    """A part of the subjects for every day; over the days of a project, all of them.

    It holds each reference and stub, one wrong submission for each hidden test, and one right form
    for each module. The seed decides which: it is a commit's number, and the next commit takes
    others. Of a wrong submission only the test is run that it must fail; what it earns is looked at
    where all are graded.
    """
    groups: dict[tuple[str, str, str], list[Subject]] = {}
    for subject in every:
        if subject.kind in ("wrong", "right"):
            groups.setdefault((subject.kind, subject.module, subject.fails), []).append(subject)
    chosen = [each for each in every if each.kind in ("reference", "stub")]
    return chosen + [replace(group[seed % len(group)], earns=None) for group in groups.values()]


def stub(source: str) -> str:
    """A module as students get it: solutions give way to ``raise NotImplementedError``."""
    lines: list[str] = []
    inside = False
    for line in source.splitlines():
        mark = line.strip()
        if mark == "### BEGIN SOLUTION":
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            lines += [f"{indent}# YOUR CODE HERE", f"{indent}raise NotImplementedError()"]
        elif mark == "### END SOLUTION":
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines) + "\n"


def judge(subject: Subject, record: dict[str, Any]) -> Finding:
    """Compare what the suite said with what is expected."""
    tests = record.get("tests", [])
    failed = [test["name"] for test in tests if test["earned"] < test["points"]]
    by_values = any(
        test["earned"] < test["points"] for test in tests if test["kind"] in VALUES_ONLY
    )
    score = sum(test["earned"] for test in tests)
    finding = Finding(subject.kind, subject.module, subject.name, True, score=score)
    finding.failed, finding.killed_by_values = failed, by_values
    if record.get("error"):
        finding.ok, finding.sentence = False, f"the grader failed: {record['error']}"
        return finding
    finding.ok, finding.sentence = _expected(subject, tests, failed, score)
    return finding


def _expected(
    subject: Subject, tests: list[dict[str, Any]], failed: list[str], score: float
) -> tuple[bool, str]:
    possible = sum(test["points"] for test in tests)
    if subject.kind != "wrong" and possible != SUITE_POINTS:
        return False, f"the suite's points add up to {possible:g}, not {SUITE_POINTS:g}"
    if subject.kind in ("reference", "right"):
        first = next((test["message"] for test in tests if test["name"] in failed), "")
        return not failed, f"fails {failed[0]}: {first}" if failed else ""
    if subject.kind == "stub":
        silent = [test["name"] for test in tests if not test["message"].strip()]
        return score == 0 and not silent, f"earned {score:g}" if score else " ".join(silent)
    if subject.fails in failed:
        low, high = subject.earns or (0.0, SUITE_POINTS)
        sentence = f"earns {score:g} points, not {low:g} to {high:g}"
        return (True, "") if low <= score <= high else (False, sentence)
    if subject.fails in {test["name"] for test in tests}:
        others = ", ".join(failed) or "no test of values"
        return False, f"passes {subject.fails}; fails {others}"
    return False, f"names the test {subject.fails!r}, which does not exist"


def verify(
    plan: Assignment,
    *,
    sandbox: bool = True,
    jobs: int = 2,
    only: str = "",
    seed: int | None = None,
    points: bool = False,
    deadline_s: float = 1800.0,
    progress: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Grade all subjects, or with a seed their share; what the deadline leaves out is not ok.

    Args:
        points: grade wrong submissions whole, and by the public tests.
    """
    started = time.monotonic()
    report = Report(plan.name, whole=seed is None)
    every = subjects(plan)
    caught = {(each.module, each.fails) for each in every if each.kind == "wrong"}
    every = every if seed is None else share(every, seed)
    wanted = [subject for subject in every if only in f"{subject.kind}/{subject.name}"]

    def one(subject: Subject) -> Finding:
        begun = time.monotonic()
        if begun - started > deadline_s:
            return Finding(
                subject.kind, subject.module, subject.name, False, f"not run in {deadline_s:g} s"
            )
        whole = points or subject.earns is not None
        with _folder_of(subject) as folder, staged(plan, folder) as stage:
            record = run_suite(
                plan,
                subject.module,
                stage,
                secret=SECRET,
                sandbox=sandbox,
                about="" if whole else subject.fails,
                alone=seed is not None,
            )
        finding = judge(subject, record)
        if points and subject.kind == "wrong":
            finding.public = public.percent(plan, subject.module, subject.source)
            compare_with_public(subject, finding)
        if subject.kind == "reference" and finding.ok:
            names = [test["name"] for test in record["tests"]]
            idle = [name for name in names if (subject.module, name) not in caught]
            finding.ok = not idle
            finding.sentence = f"no wrong submission is for {', '.join(idle)}" if idle else ""
        finding.seconds = round(time.monotonic() - begun, 2)
        return finding

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for finding in pool.map(one, wanted):
            report.findings.append(finding)
            progress(finding)
    report.seconds = round(time.monotonic() - started, 1)
    return report


def compare_with_public(subject: Subject, finding: Finding) -> None:
    """An honest mistake that no public test warns of may cost little."""
    if finding.ok and subject.honest and finding.public == 100 and finding.score < NO_WARNING:
        finding.ok = False
        finding.sentence = (
            f"has all public points and earns {finding.score:g} of 100 hidden ones; where "
            f"no public test fails, it must earn {NO_WARNING:g} or more"
        )


@contextmanager
def _folder_of(subject: Subject) -> Iterator[Path]:
    with scratch.fresh("verify-") as folder:
        (folder / f"{subject.module}.py").write_text(subject.source, encoding="utf-8")
        yield folder


def table(report: Report) -> str:
    """The report as text: per module, and the kill table."""
    modules = list(dict.fromkeys(finding.module for finding in report.findings))
    wide = max([16, *(len(module) + 1 for module in modules)])
    lines = [
        f"{report.assignment}: {'as it must be' if report.ok else 'NOT as it must be'}, "
        f"{len(report.findings)} modules graded in {report.seconds:g} s",
        f"{'module':<{wide}}{'reference':>10}{'stub':>6}{'right':>8}{'wrong caught':>14}"
        + (f"{'by any test':>13}{'by values only':>16}" if report.whole else ""),
    ]
    for module in [*modules, "all"]:
        mine = [each for each in report.findings if module in (each.module, "all")]
        by_kind = {
            kind: [each for each in mine if each.kind == kind]
            for kind in ("reference", "stub", "right", "wrong")
        }
        wrong = by_kind["wrong"]
        cells = [_share(by_kind[kind], "ok") for kind in ("reference", "stub", "right", "wrong")]
        if report.whole:
            cells += [_share(wrong, "failed"), _share(wrong, "killed_by_values")]
        widths = (10, 6, 8, 14, 13, 16)
        row = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))
        lines.append(f"{module:<{wide}}{row}")
    for finding in report.findings:
        if not finding.ok:
            lines.append(f"  {finding.kind}/{finding.name}: {finding.sentence}")
    lines += _points(report)
    if report.red_team:
        lines.append(report.red_team)
    return "\n".join(lines)


def _points(report: Report) -> list[str]:
    """What each wrong submission earned in public and in hidden, where both are known."""
    known = [each for each in report.of("wrong") if each.public is not None]
    if not known:
        return []
    wide = max(len(each.name) for each in known)
    lines = [f"{'wrong submission':<{wide}}{'public %':>10}{'hidden':>8}  hidden tests that fail"]
    for each in known:
        lines.append(
            f"{each.name:<{wide}}{each.public:>10.0f}{each.score:>8.1f}  {len(each.failed)}"
        )
    return lines


def _share(findings: Sequence[Finding], attribute: str) -> str:
    return f"{sum(bool(getattr(each, attribute)) for each in findings)}/{len(findings)}"


def attack(plan: Assignment, report: Report, deadline_s: float) -> None:
    """Hand in the red team's submissions one after another, and note what they gained."""
    from autograder.author.verify import redteam_run
    from autograder.author.verify.attacks import load_attacks

    attacks = load_attacks(plan.name)
    if not attacks:
        return
    grade = redteam_run.full_grader(plan.name)
    started = time.monotonic()
    bad, held = [], 0
    for each in attacks:
        if time.monotonic() - started > deadline_s:
            bad.append(f"  redteam/{each.name}: not run in {deadline_s:g} s")
            continue
        (outcome,) = redteam_run.run_attacks(grade, attacks=[each])
        held += outcome.ok
        bad += [f"  redteam/{each.name}: {fault}" for fault in outcome.faults]
    seconds = time.monotonic() - started
    first = f"red team: {held} attacks gain what they may, {len(bad)} faults, in {seconds:.0f} s"
    report.red_team, report.red_team_ok = "\n".join([first, *bad]), not bad
