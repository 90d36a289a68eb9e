"""The red team's table: each attack, its aim, what was expected and what came of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from autograder.author.verify.attacks import AttackOutcome

EXPECTED = {
    "no_points": "scored zero",
    "limited": "no effect",
    "flagged": "flagged",
    "rejected": "blocked",
}


@contextlib.contextmanager
def progress(count: int, *, hidden: bool) -> Iterator[Callable[[str], None]]:
    """A bar where somebody looks on; what it gives is told of each attack as it begins."""
    screen = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    )
    quiet = hidden or not screen.is_terminal
    with Progress(*columns, console=screen, transient=True, disable=quiet) as bar:
        task = bar.add_task("attacks", total=count, now="")
        begun = -1

        def step(name: str) -> None:
            nonlocal begun
            begun += 1
            bar.update(task, completed=begun, now=name)

        yield step


def show(outcomes: Sequence[AttackOutcome], screen: Console | None = None) -> None:
    """Print the table, and under it what is wrong, whole."""
    screen = screen or Console(width=None if sys.stdout.isatty() else 160)
    screen.print(table(outcomes))
    bad = [outcome for outcome in outcomes if not outcome.ok]
    for outcome in bad:
        for fault in outcome.faults:
            screen.print(Text(f"{outcome.attack.name}: {fault}", style="red"))
    total = sum(outcome.seconds for outcome in outcomes)
    good = len(outcomes) - len(bad)
    screen.print(f"{good} of {len(outcomes)} attacks came to nothing, in {total:.0f} s.")


def table(outcomes: Sequence[AttackOutcome]) -> Table:
    """One row an attack."""
    grid = Table(title="Red team", title_justify="left", header_style="bold")
    for name, justify, ratio in (
        ("", "right", None), ("attack", "left", 5), ("what it would gain", "left", 5),
        ("expected", "left", None), ("outcome", "left", None), ("%", "right", None),
        ("s", "right", None),
    ):  # fmt: skip
        grid.add_column(name, justify="right" if justify == "right" else "left", ratio=ratio)
    for outcome in outcomes:
        attack = outcome.attack
        grid.add_row(
            str(attack.number),
            Text(attack.title),
            Text(attack.gain, style="dim"),
            EXPECTED[attack.expected],
            _came_of(outcome),
            f"{outcome.percent:g}",
            f"{outcome.seconds:.1f}",
        )
    return grid


def _came_of(outcome: AttackOutcome) -> Text:
    if outcome.faults:
        return Text("FAULT", style="bold red")
    return Text(EXPECTED[outcome.attack.expected], style="green")
