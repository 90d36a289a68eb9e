"""The page that a student reads: what each test says, how to see it again, and the picture.

One HTML file without scripts, links or anything to load. Whatever a student wrote (code, text,
exception messages, names) is escaped, capped and shown as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograder import notebooks, svg
from autograder.collect.rebuild import plain_text
from autograder.course.assignment import Assignment, ModuleSpec, ParagraphSpec
from autograder.grade.outcome import Outcome, clamp
from autograder.grade.points import Account, Part
from ringside import kit
from ringside.checking import cut
from ringside.checking.reasons import by_reason, reason
from ringside.checking.requirements import ALL_POINTS, earned_by, held_back
from ringside.units import format_count

if TYPE_CHECKING:
    from nbformat import NotebookNode

MAX_TEXT = 4_000
MAX_LINES = 40
MAX_COUNTS = 12
# what is not seen, turns the line round, or is no character of any encoding
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
LOCATION = re.compile(r"\b(\w+)\.py(?::|\", line )(\d+)")


@dataclass(frozen=True)
class Totals:
    """What the gradebook says of the submission as a whole."""

    score: float
    max_score: float
    late_penalty: float = 0.0
    late: str = ""  # what became of the days: grace, charged


@dataclass(frozen=True)
class TestRow:
    """One test, as the page shows it."""

    name: str
    kind: str
    points: float
    earned: float
    message: str  # the suite's author says what is wrong
    detail: str  # what the student's code said: an exception with its line, a deadlock
    reproduce: str
    waived: str = ""  # why its points went to all
    requirement: str = ""

    @property
    def state(self) -> str:
        return state(self.earned, self.points)


@dataclass(frozen=True)
class RequirementRow:
    """What a module must do, and the tests that show it."""

    says: str
    weighs: str  # that it counts for more than its points; empty: it doesn't
    earned: float
    points: float
    tests: tuple[TestRow, ...]

    @property
    def state(self) -> str:
        return state(self.earned, self.points)


@dataclass(frozen=True)
class Failure:
    """A test that failed, and others that failed for the same reason."""

    test: TestRow
    others: tuple[TestRow, ...]

    @property
    def lost(self) -> float:
        return sum(test.points for test in self.others)


@dataclass(frozen=True)
class CountRow:
    """A measured count against its bound."""

    what: str
    measured: str
    bound: str
    share: float  # measured / bound
    within: bool


@dataclass(frozen=True)
class MeasuredRow:
    """What a measurement on real ranks says; its points are no part of the module's."""

    what: str
    state: str  # "full", "part", "none"; empty where nothing was measured
    mark: str
    message: str
    points: float
    max_points: float


@dataclass(frozen=True)
class ModuleSection:
    """One module's part of the page."""

    name: str
    title: str
    weight: float
    extra: bool
    points: float
    by_hand: bool  # a person gave the points
    untouched: bool
    missing: bool
    tests: tuple[TestRow, ...]
    requirements: tuple[RequirementRow, ...]
    held_back: str  # a sentence where it earns less than its requirements
    failures: tuple[Failure, ...]
    counts: tuple[CountRow, ...]
    timeline: str
    timeline_of: str  # the failed test whose run it shows
    lines: tuple[tuple[int, str, bool], ...]  # number, text, whether a message names it
    measured: tuple[MeasuredRow, ...] = ()

    @property
    def filename(self) -> str:
        return f"{self.name}.py"

    @property
    def state(self) -> str:
        return state(self.points, self.weight)


@dataclass(frozen=True)
class RunSection:
    """The run on a cluster: what was found, and the points it has."""

    name: str
    module: str
    points: float
    max_points: float
    by_hand: bool
    findings: tuple[tuple[bool, str], ...]
    waits: bool = False  # for a person


@dataclass(frozen=True)
class GradedCell:
    """A cell that a person grades or comments."""

    grade_id: str
    score: float
    points: float
    comment: str
    text: str
    unread: bool = False  # it waits for a person


@dataclass(frozen=True)
class Page:
    """Everything on the page; the template only lays it out."""

    title: str
    student: str
    message: str
    notes: tuple[str, ...]
    late_seconds: float
    totals: Totals
    account: Account
    modules: tuple[ModuleSection, ...]
    runs: tuple[RunSection, ...]
    paragraphs: tuple[tuple[str, GradedCell], ...]
    comments: tuple[tuple[str, str], ...]
    sandbox: str
    kit_version: str
    key: str
    stamp: str = ""  # of the gradebook's grade that the page shows
    team: str = ""
    excused: bool = False
    decisions: tuple[str, ...] = ()  # a person's, a sentence each; nobody else's name is in them

    @property
    def percent(self) -> float:
        return 100 * self.totals.score / self.totals.max_score if self.totals.max_score else 0.0


def state(earned: float, points: float) -> str:
    """How much of some points was earned: "full", "part" or "none"."""
    if earned >= points - 1e-9:
        return "full"
    return "none" if earned <= 0 else "part"


def shown(text: object, max_text: int = MAX_TEXT, max_lines: int = MAX_LINES) -> str:
    """`text` without invisible characters, cut to what a reader can take in."""
    clean = INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", str(text).replace("\r\n", "\n"))
    lines = cut(clean, max_text).split("\n")
    if len(lines) > max_lines:
        half = max_lines // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    return "\n".join(lines)


def test_rows(outcome: Outcome, module: ModuleSpec) -> tuple[TestRow, ...]:
    """The tests of one module."""
    return tuple(
        TestRow(
            name=sentence(shown(test.name, 200, 1)),
            kind=shown(test.kind, 40),
            points=clamp(test.points, ALL_POINTS),
            earned=clamp(test.earned, clamp(test.points, ALL_POINTS)),
            message=shown(test.message),
            detail=shown(test.detail),
            reproduce=shown(test.reproduce, 500, 4),
            waived=shown(test.waived, 600, 6),
            requirement=shown(test.requirement, 100, 1),
        )
        for test in outcome.tests(module.name)
    )


def requirement_rows(outcome: Outcome, module: ModuleSpec) -> tuple[RequirementRow, ...]:
    """The requirements of a module with their tests; a test of none stands alone."""
    tests = test_rows(outcome, module)
    result = outcome.results.get(module.name)
    asked = result.requirements if result else None
    rows = [
        RequirementRow(
            shown(each.says, 400, 4),
            asked.weighs(each) if asked else "",
            *earned_by(each, tests),
            tuple(test for test in tests if test.requirement == each.name),
        )
        for each in (asked.each if asked else ())
    ]
    others = [test for test in tests if not any(test in row.tests for row in rows)]
    rows += [RequirementRow(test.name, "", test.earned, test.points, (test,)) for test in others]
    return tuple(row for row in rows if row.tests)


def sentence(name: str) -> str:
    """A test's name as it is read: `sentence("test_sum_on_3_ranks")` is "sum on 3 ranks"."""
    return name.removeprefix("test_").replace("_", " ")


def failures(tests: tuple[TestRow, ...]) -> tuple[Failure, ...]:
    """The tests that lose points; one reason is told once, however many tests it fails."""

    def reason_of(test: TestRow) -> str | None:
        return reason(test.message) if test.state == "none" and test.message else None

    failed = [test for test in tests if test.state != "full"]
    return tuple(Failure(*group) for group in by_reason(failed, reason_of))


def graded_cells(nb: NotebookNode, unread: Collection[str] = ()) -> list[GradedCell]:
    """What people gave, from the metadata that nbgrader's GetGrades fills in.

    `unread` are the cells that still wait for a person.
    """
    cells = []
    for cell in nb.cells:
        marks = notebooks.marks(cell)
        if not marks.get("solution"):
            continue
        cells.append(
            GradedCell(
                grade_id=str(marks.get("grade_id", "")),
                score=float(marks.get("score") or 0.0),
                points=float(marks.get("points") or 0.0),
                comment=shown(marks.get("comment") or ""),
                text=shown(plain_text(cell.source), 20_000, 400) if marks.get("grade") else "",
                unread=marks.get("grade_id") in unread,
            )
        )
    return cells


def page_of(
    plan: Assignment,
    outcome: Outcome,
    *,
    cells: list[GradedCell] | None = None,
    totals: Totals | None = None,
    stamp: str = "",
) -> Page:
    """Gather everything that the page shows; without a gradebook texts wait for a person."""
    account = outcome.account(plan)
    by_name = {cell.grade_id: cell for cell in cells or []}
    return Page(
        title=plan.title,
        student=shown(outcome.who, 100, 1),
        message=shown(outcome.message),
        notes=tuple(shown(note, 400, 4) for note in [*outcome.intake, *outcome.notes][:50]),
        late_seconds=outcome.late_seconds,
        totals=totals or Totals(account.score, account.max_score),
        account=account,
        modules=tuple(_section(module, outcome, account) for module in plan.modules),
        runs=tuple(_run(part, outcome) for part in account.of_kind("run")),
        paragraphs=tuple(
            (paragraph.title, by_name.get(paragraph.name) or _to_read(paragraph, outcome))
            for paragraph in plan.paragraphs
        ),
        comments=tuple(
            (cell.grade_id, cell.comment)
            for cell in cells or []
            if cell.comment and cell.grade_id not in {p.name for p in plan.paragraphs}
        ),
        sandbox=shown(outcome.sandbox, 200, 1),
        kit_version=kit.VERSION,
        key=outcome.key[:12],
        stamp=stamp,
        team=shown(outcome.team, 100, 1),
        excused=outcome.excused,
        decisions=tuple(shown(decision.sentence) for decision in outcome.decisions),
    )


def _to_read(paragraph: ParagraphSpec, outcome: Outcome) -> GradedCell:
    """A text outside nbgrader: what was written, for whoever grades it by hand."""
    text = shown(outcome.texts.get(paragraph.name, ""), 20_000, 400)
    return GradedCell(paragraph.name, 0.0, paragraph.points, "", text, unread=True)


def _run(part: Part, outcome: Outcome) -> RunSection:
    checked = next((run for run in outcome.runs if run.name == part.name), None)
    return RunSection(
        name=part.name,
        module=part.title.partition(".")[0],
        points=part.points or 0.0,
        max_points=part.of,
        by_hand=part.by_hand,
        findings=tuple(checked.findings) if checked else (),
        waits=part.waits,
    )


def _section(module: ModuleSpec, outcome: Outcome, account: Account) -> ModuleSection:
    part = account.part(module.name)
    result = outcome.results.get(module.name)
    tests = test_rows(outcome, module)
    source = outcome.modules.get(module.name, "")
    fault_lines = {
        int(line)
        for row in tests
        if row.state != "full"
        for name, line in LOCATION.findall(f"{row.message} {row.detail}")
        if name == module.name
    }
    return ModuleSection(
        name=module.name,
        title=module.title,
        weight=module.weight,
        extra=module.extra,
        points=part.points or 0.0,
        by_hand=part.by_hand,
        untouched=module.name in outcome.untouched,
        missing=module.name not in outcome.modules,
        tests=tests,
        requirements=requirement_rows(outcome, module),
        held_back=held_back(result.requirements, result.tests) if result else "",
        failures=failures(tests),
        counts=_counts(result.counts if result else []),
        timeline=svg.clean((result and result.timeline_svg) or ""),
        timeline_of=sentence(shown((result and result.timeline_of) or "", 200, 1)),
        lines=tuple(
            (number, shown(line, 400), number in fault_lines)
            for number, line in enumerate(source.split("\n")[:800], start=1)
        ),
        measured=tuple(
            _measured_row(record)
            for record in outcome.measured or []
            if record["module"] == module.name
        ),
    )


def _measured_row(record: dict[str, Any]) -> MeasuredRow:
    done = record["status"] == "measured"
    share = clamp(record["credit"], 1.0)
    return MeasuredRow(
        what=f"{record['function']} on {record['ranks']} ranks, n = {record['n']:,}",
        state=("full" if share == 1 else "part" if share else "none") if done else "",
        mark=f"{share:.0%}" if done else shown(record["status"], 40, 1),
        message=shown(record["message"], 600, 6),
        points=clamp(record["points"], clamp(record["max_points"], ALL_POINTS)),
        max_points=clamp(record["max_points"], ALL_POINTS),
    )


COUNTED = {
    "sent_bytes": ("rank {rank} sent", "B"),
    "sent_messages": ("rank {rank}, messages sent", ""),
}


def _counts(entries: object) -> tuple[CountRow, ...]:
    """Of each run that was counted, the rank nearest to its bound or farthest over it."""
    rows: list[CountRow] = []
    for entry in entries if isinstance(entries, list) else []:
        for name, bounds in entry.get("allowed", {}).items():
            measured = entry.get(name)
            if name not in COUNTED or not isinstance(measured, list):
                continue
            if not isinstance(bounds, list):
                bounds = [bounds] * len(measured)
            pairs = [(float(m), float(b)) for m, b in zip(measured, bounds, strict=False)]
            if pairs:
                rows.append(_worst(str(entry.get("case", "")), name, pairs))
    return tuple(rows[:MAX_COUNTS])


def _worst(case: str, name: str, pairs: list[tuple[float, float]]) -> CountRow:
    # Of a bound of 0 there is no share: whatever goes past it counts as the most that is shown.
    shares = [m / b if b else 2.0 * (m > 0) for m, b in pairs]
    rank = max(range(len(pairs)), key=lambda each: shares[each])
    measured, bound = pairs[rank]
    label, unit = COUNTED[name]
    return CountRow(
        what=f"{shown(case, 160, 1)}: {label.format(rank=rank)}",
        measured=quantity(measured, unit),
        bound=quantity(bound, unit),
        share=min(shares[rank], 2.0),
        within=measured <= bound * (1 + 1e-9),
    )


def quantity(value: float, unit: str) -> str:
    """A number for a reader: `quantity(1536, "B")` is "1.5 KiB"."""
    if unit == "B":
        for prefix, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size:
                return f"{value / size:.3g} {prefix}"
    if unit == "s":
        for prefix, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
            if value * factor >= 1:
                return f"{value * factor:.4g} {prefix}"
    return f"{value:,.6g} {unit}".strip()


def duration(seconds: float) -> str:
    """`duration(93784)` is "1 day 2 h 3 min"."""
    minutes = int(seconds // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [format_count(days, "day")] if days else []
    parts += [f"{hours} h"] if hours else []
    return " ".join([*parts, f"{minutes} min"])
