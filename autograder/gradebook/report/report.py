"""The class at a glance, in the terminal; `page` shows the same as one HTML page."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autograder.collect.predictions import prompts_in
from autograder.collect.rebuild import release_notebook, solution_cells
from autograder.course import edits, excused
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.outcome import Outcome
from autograder.gradebook.report import by_hand, feedback, similarity
from autograder.gradebook.report.summary import (
    ModuleSpread,
    SameMistake,
    Spread,
    Summary,
    summarise,
)
from autograder.terminal import printable
from ringside import kit
from ringside.checking import cell_text, cut

SOLUTION = "(shipped solution)"
BLOCKS = " ▁▂▃▄▅▆▇█"
MAX_SENTENCE = 220  # characters of a sentence that the terminal shows


def scores_table(plan: Assignment, outcomes: Sequence[Outcome]) -> Table:
    """One row per submission: points of each part, total, lateness."""
    table = Table(title=plan.title, title_justify="left", header_style="bold")
    table.add_column("student", no_wrap=True)
    for module in plan.modules:
        weight = f"+{module.weight:g}" if module.extra else f"{module.weight:g}"
        table.add_column(f"{module.name}\n{weight}", justify="right")
    for run in plan.runs:
        table.add_column(f"run\n{run.points:g}", justify="right")
    for paragraph in plan.paragraphs:
        table.add_column(f"text\n{paragraph.points:g}", justify="right")
    table.add_column(f"score\nof {plan.max_score:g}", justify="right", style="bold")
    table.add_column("late", justify="right")
    for outcome in outcomes:
        table.add_row(*_score_cells(plan, outcome))
    tiers = sorted({outcome.sandbox for outcome in outcomes if outcome.sandbox})
    notes = [f"graded in: {', '.join(tiers)}"] if tiers else []
    if any(outcome.account(plan).by_hand for outcome in outcomes):
        notes.append(
            f"texts, {plan.text_points:g} of the {plan.max_score:g} points, are graded by hand: "
            "they are not in scores where no points stand"
        )
    table.caption, table.caption_justify = "; ".join(notes) or None, "left"
    return table


def _score_cells(plan: Assignment, outcome: Outcome) -> list[Text]:
    name = Text(printable(outcome.who) + (f" [{outcome.team}]" if outcome.team else ""))
    if outcome.excused:
        return [
            name,
            *(Text("-", style="dim") for _ in outcome.account(plan).parts),
            Text("excused"),
            Text(),
        ]
    if outcome.status != "graded":
        cells = [Text("-", style="dim") for _ in outcome.account(plan).parts]
        return [name, *cells, Text(outcome.status, style="red"), Text(_late(outcome))]
    cells = []
    for part in outcome.account(plan).parts:
        if part.points is None:
            cells.append(Text("by hand", style="dim"))
            continue
        style = "green" if part.points >= part.of else "red" if part.points == 0 else "yellow"
        cells.append(Text(f"{part.points:.4g}", style=style))
    return [name, *cells, Text(f"{outcome.score(plan):.4g}"), Text(_late(outcome))]


def measured_table(plan: Assignment, outcomes: Sequence[Outcome]) -> Table:
    """One row per measurement: student's time over the reference's, its interval, its credit."""
    table = Table(title="Measured on real ranks", title_justify="left", header_style="bold")
    table.add_column("student", no_wrap=True)
    table.add_column("function", no_wrap=True)
    for name in ("ranks", "ratio", "interval", "credit"):
        table.add_column(name, justify="right")
    table.add_column("what it says")
    for outcome in outcomes:
        for record in outcome.measured or []:
            done = record["status"] == "measured"
            table.add_row(
                Text(printable(outcome.student)),
                f"{record['module']}:{record['function']}",
                str(record["ranks"]),
                f"{record['ratio']:.3g}" if done else "",
                f"{record['low']:.3g} to {record['high']:.3g}" if done else "",
                f"{record['credit']:.0%}" if done else record["status"],
                Text("" if done else printable(record["message"])),
            )
    return table


def _late(outcome: Outcome) -> str:
    hours = outcome.late_seconds / 3600
    return "" if hours == 0 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} d"


def alike(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    course: Course,
    earlier: Mapping[str, Mapping[str, str]] | None = None,
) -> list[similarity.Match]:
    """Pairs of submissions that are alike, and submissions that are like what is known.

    Args:
        earlier: author -> module -> source, of earlier years; beside them stands what we ship.
    """
    authors: dict[str, dict[str, str]] = {
        outcome.student: {
            name: text for name, text in outcome.modules.items() if name not in outcome.untouched
        }
        for outcome in outcomes
    }
    sources = {**_shipped(plan, course), **(earlier or {})}
    matches = similarity.matches(
        {**authors, **sources}, given=_given(plan, course), threshold=similarity.SHIPPED
    )
    whose = {outcome.student: outcome.author for outcome in outcomes}
    of_two = (  # what partners hand in is one work
        match
        for match in matches
        if match.first not in whose or whose[match.first] != whose.get(match.second)
    )
    return similarity.telling(of_two, sources.keys())


def _given(plan: Assignment, course: Course) -> dict[str, str]:
    path = course.release(plan.name)
    if not (path / plan.notebook).is_file():
        return {}
    return {
        cell.metadata.nbgrader.grade_id: cell_text.body_of(cell.source)
        for cell in solution_cells(release_notebook(plan, path))
    }


def _shipped(plan: Assignment, course: Course) -> dict[str, dict[str, str]]:
    """What anybody can read in the kit: the solutions, and the right forms beside them."""
    folder = course.solution(plan.name)
    shipped = {
        SOLUTION: {
            module.name: (folder / module.filename).read_text(encoding="utf-8")
            for module in plan.modules
            if (folder / module.filename).is_file()
        }
    }
    for form in edits.variants(folder, [module.name for module in plan.modules]):
        if not form.fails:
            shipped[f"(shipped {form.name})"] = {form.module: form.source}
    return shipped


def of_class(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    course: Course,
    earlier: Mapping[str, Mapping[str, str]] | None = None,
) -> Summary:
    """The summary of a class, with who is alike (`alike`) and what lateness costs."""
    from autograder.course import late  # and nbgrader with it, which takes seconds

    account = late.of_assignment(course, plan.name)
    groups = similarity.groups(alike(plan, outcomes, course, earlier))
    prompts = prompts_in(course.release(plan.name) / plan.notebook)
    return summarise(
        plan,
        outcomes,
        groups,
        account,
        prompts,
        by_hand.of_class(plan, outcomes, course),
        excused.of_assignment(course, plan.name),
    )


def print_report(console: Console, summary: Summary) -> None:
    """Everything about the class, to the terminal."""
    plan, graded = summary.plan, summary.graded
    console.print(scores_table(plan, summary.outcomes))
    if summary.spread:
        console.print(
            f"{len(graded)} graded of {len(summary.outcomes)}; median "
            f"{summary.median_score:.4g}, lowest {min(summary.scores):.4g}, "
            f"highest {max(summary.scores):.4g} of {summary.of_which}"
        )
        console.print(_spread_table(summary))
    console.print(Text(provenance(summary), style="dim"))
    console.print()
    parts = [_by_hand, _attention, _hard_tests, _clusters, _similar]
    for part in [*parts, _predicted] if summary.predicted else parts:
        console.print(part(summary))
        console.print()


def provenance(summary: Summary) -> str:
    """When it was graded, by which kit, in which sandbox."""
    times = [outcome.graded_at for outcome in summary.outcomes if outcome.graded_at]
    when = f"graded {moment(min(times))} to {moment(max(times))}" if times else "graded"
    where = ", ".join(summary.sandboxes) or "no sandbox"
    return f"Ringside {kit.VERSION}; {when}; in {where}."


def moment(seconds: float) -> str:
    """A time of the epoch, for a reader.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M} UTC"


def _spread_table(summary: Summary) -> Table:
    table = Table(
        title="How scores lie, in % of the module", title_justify="left", header_style="bold"
    )
    table.add_column("")
    table.add_column("0 to 100 %", no_wrap=True)
    for name in ("median", "middle half", "full", "none", "not begun", "hints taken"):
        table.add_column(name, justify="right")
    rows = [*summary.modules]
    if summary.spread:
        table.add_row("all", *_spread_cells(summary.spread), "", "", "", "", style="bold")
    for row in rows:
        table.add_row(row.module.name, *_module_cells(row))
    return table


def _spread_cells(spread: Spread) -> tuple[str, str, str]:
    most = max(spread.bins)
    bars = "".join(BLOCKS[-(-8 * number // most)] for number in spread.bins)
    return bars, f"{spread.median:.0f}", f"{spread.first:.0f} to {spread.third:.0f}"


def _module_cells(row: ModuleSpread) -> tuple[str, ...]:
    cells = _spread_cells(row.spread) if row.spread else ("", "", "")
    return (*cells, str(row.full), str(row.none), str(row.untouched), row.hints_taken)


def _sentence(text: str) -> Text:
    """A sentence of a suite on few lines; the line that reproduces it stands on the page."""
    line = printable(" ".join(text.split()))
    return Text(cut(line, MAX_SENTENCE))


def _attention(summary: Summary) -> Group:
    from autograder.course.late import penalty  # and nbgrader with it, which takes seconds

    lines: list[Text] = []
    for outcome in summary.outcomes:
        name = printable(outcome.who)
        if outcome.status != "graded":
            lines.append(Text(f"{name}: {outcome.status}: {printable(outcome.message)}", "red"))
        lines += [Text(f"{name}: {printable(note)}", "yellow") for note in outcome.intake]
        if outcome.empty:
            lines.append(Text(f"{name}: {outcome.empty}", "yellow"))
        lines += [Text(f"{name}: flagged: {printable(flag)}", "yellow") for flag in outcome.flags]
    by_student = {outcome.student: outcome for outcome in summary.outcomes}
    for name, delay in sorted(summary.late.items()):
        sentence = f"{printable(name)}: {feedback.duration(delay.late_s)} late. {delay.sentence}"
        if delay.percent:
            score = by_student[name].score(summary.plan)
            rest = score - penalty(score, delay)
            sentence += f" Of {score:.4g} points {rest:.4g} are left."
        lines.append(Text(sentence))
    if not lines:
        return Group(Text("Nothing was late, flagged, rejected or left ungraded."))
    return Group(Text("To look at", "bold"), *(Padding(line, (0, 0, 0, 2)) for line in lines))


def _by_hand(summary: Summary) -> Group:
    """What waits for a person; the texts themselves stand on the page."""
    waits, lines = summary.by_hand, []
    for text in waits.texts:
        if text.waiting:
            sentence = text.sentence + ("; rubric and sample on the page" if text.rubric else "")
            lines.append(Text(f"{sentence}. {_names([name for name, _ in text.waiting])}"))
    for run, students in waits.runs:
        lines.append(Text(f"{run}: a person gives the points. {_names(students)}"))
    for request in waits.requests:
        whose = printable(request.student) + (f", team {request.team}" if request.team else "")
        lines.append(Text(f"{whose} asks: {printable(cut(request.text, MAX_SENTENCE))}", "yellow"))
        lines.append(Text(request.command(summary.plan), "dim"))
    if summary.excused:
        lines.append(Text(f"Excused: {len(summary.excused)}. {_names(summary.excused)}"))
    if waits.is_empty:
        lines.insert(0, Text("Nothing waits for a person."))
    return Group(Text("By hand", "bold"), *(Padding(line, (0, 0, 0, 2)) for line in lines))


def _hard_tests(summary: Summary) -> Table | Text:
    if not summary.tests:
        return Text("In the modules that were written, no test cost anybody points.")
    table = Table(title="Where points are lost", title_justify="left", header_style="bold")
    for name in ("module", "test", "lose points", "what students saw"):
        table.add_column(name, justify="right" if name == "lose points" else "left")
    for test in summary.tests:
        reason = test.told[0] if test.told else None
        saw = (
            Text(f"{reason.students}x ", "bold") + _sentence(reason.sentence) if reason else Text()
        )
        table.add_row(test.module, test.name, f"{test.failed} of {test.of}", saw)
    return table


def _clusters(summary: Summary, most: int = 3) -> Table | Text:
    mistakes: list[SameMistake] = [
        mistake for group in summary.clusters.values() for mistake in group[:most]
    ]
    if not mistakes:
        return Text("No two students fail for the same reason.")
    table = Table(title="The same mistake", title_justify="left", header_style="bold")
    for name in ("module", "students", "what they saw", "who"):
        table.add_column(name, justify="right" if name == "students" else "left")
    for mistake in mistakes:
        table.add_row(
            mistake.module,
            str(len(mistake.students)),
            _sentence(mistake.sentence),
            Text(_names(mistake.students)),
        )
    return table


def _names(students: Sequence[str], most: int = 8) -> str:
    names = ", ".join(printable(name) for name in students[:most])
    return names + (f" and {len(students) - most} more" if len(students) > most else "")


def _similar(summary: Summary) -> Table | Text:
    if not summary.similar:
        return Text("No two submissions are alike in shape.")
    table = Table(title="Alike in shape: read them", title_justify="left", header_style="bold")
    for name in ("module", "at least", "how sure", "submissions"):
        table.add_column(name)
    for group in summary.similar:
        names = Text(_names(group.authors, 20))
        table.add_row(group.module, f"{group.ratio:.0%}", group.sure, names)
    table.caption, table.caption_justify = "No proof: " + similarity.NO_PROOF, "left"
    return table


def _predicted(summary: Summary) -> Table | Text:
    table = Table(
        title="What the class predicted, never graded", title_justify="left", header_style="bold"
    )
    table.add_column("prompt", no_wrap=True)
    table.add_column("students", justify="right")
    for name in ("predictions", "result shown", "how near"):
        table.add_column(name)
    for prediction in summary.predicted:
        text = "; ".join(
            f"{one.label}: {one.number}" + (" (right)" if one.is_right else "")
            for one in prediction.bins
            if one.number
        )
        cell = Text(feedback.shown(text, MAX_SENTENCE, 3))
        table.add_row(
            prediction.prompt.key,
            str(prediction.number),
            cell,
            Text(prediction.result),
            Text(prediction.near),
        )
    return table
