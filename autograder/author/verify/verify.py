"""Test the suites themselves: ``autograder verify [ASSIGNMENT...]``.

    reference      full marks in every module
    stub           no marks, no crash, and every message is a sentence
    wrong/         each fails the test that it names, and earns what its author wrote down before it
                   was graded (``autograder.course.edits``)
    right/*.py     each gets full marks, however unusual it is

The reference earns all points of the public tests too, unless a sample alone is graded.

With ``--points`` wrong ones are graded by the public tests too: a table shows both, and an honest
mistake that has all public points may lose at most 10 of 100 in the hidden suite.

``--lines`` types what each failed test offers to type, and compares what comes
(``autograder.author.verify.reproduce``).

With ``--sample`` only a part is graded, always the same one (see ``sample``), and a wrong one by
the test that it names alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from autograder.author.verify import public_tests as public
from autograder.course import assignment as plans
from autograder.course import edits
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.grading import run_suite, staged
from autograder.grade.suite.result import ModuleResult, TestResult
from ringside.checking.requirements import ALL_POINTS

SECRET = "verify"
VALUES_ONLY = ("values", "reality")  # what graders look at that compare results alone
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
    caught_by: str = ""  # the test that a wrong one must fail, where it does
    whole: bool = False  # of a wrong one, all tests were run
    earns: tuple[float, float] | None = None  # of a wrong one, what its author claims
    says: str = ""  # of a wrong one, what its student reads first of the test that it must fail
    shares: dict[str, float] = field(default_factory=dict)  # of each test, what was earned of it
    killed_by_values: bool = False
    public: float | None = None  # percent of the public points, where they were asked for
    not_run: bool = False  # since the deadline had passed
    seconds: float = 0.0


@dataclass
class Report:
    """All findings of one assignment."""

    assignment: str
    whole: bool = True  # not a sample
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def unfinished(self) -> bool:
        """Whether the deadline left out submissions, and all others are as they must be."""
        late = [finding for finding in self.findings if finding.not_run]
        return bool(late) and all(finding.ok or finding.not_run for finding in self.findings)

    def of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]


def subjects(plan: Assignment) -> list[Subject]:
    """Reference, stubs, wrong and right submissions of an assignment.

    Raises:
        AssignmentError: one names no module of the plan, or an edit does not apply.
    """
    solution = Course.here().solution(plan.name)
    all_subjects = []
    for spec in plan.modules:
        source = (solution / spec.filename).read_text(encoding="utf-8")
        all_subjects.append(Subject("reference", spec.name, spec.name, source))
        all_subjects.append(Subject("stub", spec.name, spec.name, stub(source)))
    modules = [spec.name for spec in plan.modules]
    if strangers := edits.of_no_module(solution, modules):
        raise AssignmentError(f"{strangers[0]}: {plan.name} has no such module.")
    for each in edits.variants(solution, modules):
        about = each.fails, each.earns, each.honest
        kind = "wrong" if each.fails else "right"
        all_subjects.append(Subject(kind, each.module, each.name, each.source, *about))
    return all_subjects


def assignment_named(name: str) -> Assignment:
    """The assignment of this name, or of a number such as ``a03``.

    Raises:
        AssignmentError: there is none.
    """
    return plans.load(next((k for k in plans.known() if k.partition("_")[0] == name), name))


def sample(every: Sequence[Subject]) -> list[Subject]:
    """The same part for every commit: of each module its reference and the first wrong submission
    by name, of the first module its stub and the first right form too."""
    chosen: dict[tuple[str, str], Subject] = {}
    for subject in every:
        if subject.kind in ("reference", "wrong") or subject.module == every[0].module:
            chosen.setdefault((subject.kind, subject.module), subject)
    return list(chosen.values())


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


def judge(subject: Subject, result: ModuleResult, *, whole: bool = True) -> Finding:
    """Compare what the suite said with what is expected."""
    tests = result.tests
    failed = [test.name for test in tests if not test.is_full]
    by_values = any(test.kind in VALUES_ONLY and not test.is_full for test in tests)
    finding = Finding(subject.kind, subject.module, subject.name, True, score=result.score)
    finding.failed, finding.killed_by_values = failed, by_values
    finding.whole, finding.earns = whole, subject.earns
    finding.says = next((test.message for test in tests if test.name == subject.fails), "")
    finding.shares = {t.name: round(t.earned / t.points, 4) for t in tests if t.points}
    finding.caught_by = subject.fails if subject.fails in failed else ""
    if result.error:
        finding.ok, finding.sentence = False, f"the grader failed: {result.error}"
        return finding
    finding.ok, finding.sentence = _expected(subject, tests, failed, result.score, whole)
    return finding


def _expected(
    subject: Subject, tests: list[TestResult], failed: list[str], score: float, whole: bool
) -> tuple[bool, str]:
    possible = round(sum(test.points for test in tests), 6)
    if subject.kind != "wrong" and possible != ALL_POINTS:
        return False, f"the suite's points add up to {possible:g}, not {ALL_POINTS:g}"
    if subject.kind in ("reference", "right"):
        first = next((test.message for test in tests if test.name in failed), "")
        return not failed, f"fails {failed[0]}: {first}" if failed else ""
    if subject.kind == "stub":
        silent = [test.name for test in tests if not test.message.strip()]
        return score == 0 and not silent, f"earned {score:g}" if score else " ".join(silent)
    if subject.fails in failed:
        low, high = (subject.earns if whole else None) or (0.0, ALL_POINTS)
        sentence = f"earns {score:g} points, not {low:g} to {high:g}"
        return (True, "") if low <= score <= high else (False, sentence)
    if subject.fails in {test.name for test in tests}:
        others = ", ".join(failed) or "no test of values"
        return False, f"passes {subject.fails}; fails {others}"
    return False, f"names the test {subject.fails!r}, which does not exist"


def verify(
    plan: Assignment,
    *,
    sandbox: bool = True,
    jobs: int = 2,
    only: str = "",
    only_sample: bool = False,
    points: bool = False,
    deadline_s: float = 1800.0,
    progress: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Grade all subjects, or a sample; what the deadline leaves out is not ok.

    Args:
        only_sample: grade what `sample` takes.
        points: grade wrong submissions by the public tests, too.
    """
    started = time.monotonic()
    report = Report(plan.name, whole=not only_sample)
    every = subjects(plan)
    caught = {(entry.module, entry.fails) for entry in every if entry.kind == "wrong"}
    every = sample(every) if only_sample else every
    selection = [subject for subject in every if only in f"{subject.kind}/{subject.name}"]

    def one(subject: Subject) -> Finding:
        begun = time.monotonic()
        if begun - started > deadline_s:
            sentence = f"not run in {deadline_s:g} s"
            return Finding(
                subject.kind, subject.module, subject.name, False, sentence, not_run=True
            )
        whole = not only_sample
        with staged(plan, {subject.module: subject.source}) as stage:
            result = run_suite(
                plan,
                subject.module,
                stage,
                secret=SECRET,
                sandbox=sandbox,
                about="" if whole else subject.fails,
            )
        finding = judge(subject, result, whole=whole)
        if (points and subject.kind == "wrong") or (
            subject.kind == "reference" and not only_sample
        ):
            finding.public = public.percent(plan, subject.module, subject.source)
            compare_with_public(subject, finding)
        if subject.kind == "reference" and finding.ok:
            idle = [test.name for test in result.tests if (subject.module, test.name) not in caught]
            finding.ok = not idle
            finding.sentence = f"no wrong submission is for {', '.join(idle)}" if idle else ""
        finding.seconds = round(time.monotonic() - begun, 2)
        return finding

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for finding in pool.map(one, selection):
            report.findings.append(finding)
            progress(finding)
    report.seconds = round(time.monotonic() - started, 1)
    return report


def compare_with_public(subject: Subject, finding: Finding) -> None:
    """An honest mistake that no public test warns of may cost little; the reference passes all."""
    said = ""
    if subject.kind == "reference":
        if finding.public != 100:
            said = (
                f"earns {finding.public:g} of 100 public points: a public test that the reference "
                "doesn't pass would go to students"
            )
    elif subject.honest and finding.public == 100 and finding.score < NO_WARNING:
        said = (
            f"has all public points and earns {finding.score:g} of 100 hidden ones; where "
            f"no public test fails, it must earn {NO_WARNING:g} or more"
        )
    if finding.ok and said:
        finding.ok, finding.sentence = False, said
