"""Which meeting of a class teaches each section of a lecture, and how long that takes.

    # %% [markdown] ... meeting=1 minutes=20    on the cell of ## 5. Gather a layer, use it, free it
    # %% [markdown] ...                         a section without is read or worked on at home
    ## Appendix: not taught                     what comes below it is for who wants to know more
    ## At home                                  puzzles, questions, the assignment

The list of sections that a reader sees, the calendars and the paths are made from these numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ringside.course.predictions.in_notebook import has_tag

PLAN = "plan"  # the tag of the cell below which the list is written
APPENDIX, AT_HOME = "Appendix: not taught", "At home"  # headings
MINUTES, FREE = 75, 5  # of a meeting, and how many of them nothing is planned for
_TAUGHT = re.compile(r"(?m)^# %% .*\bmeeting=(\d+) minutes=(\d+)")  # in a source
_UNNUMBERED = ("References", APPENDIX, AT_HOME)


@dataclass(frozen=True)
class Section:
    """A section of a lecture; ``meeting`` 0: none teaches it."""

    heading: str
    meeting: int = 0
    minutes: int = 0
    in_appendix: bool = False


def sections(cells: Sequence[Any]) -> list[Section]:
    """The sections of a lecture in their order, its references aside.

    Args:
        cells: of a notebook.
    """
    found: list[Section] = []
    below = False
    for cell in cells:
        heading = heading_of(cell)
        below = heading == APPENDIX or (below and heading != AT_HOME)
        if heading and heading not in _UNNUMBERED:
            of_cell = cell["metadata"]
            found.append(
                Section(heading, of_cell.get("meeting", 0), of_cell.get("minutes", 0), below)
            )
    return found


def minutes(there: Sequence[Section]) -> dict[int, int]:
    """How many minutes of each meeting are planned."""
    sums: dict[int, int] = {}
    for one in there:
        if one.meeting:
            sums[one.meeting] = sums.get(one.meeting, 0) + one.minutes
    return sums


def minutes_in(source: str) -> dict[int, int]:
    """As `minutes`, of a lecture's text, without making a notebook of it."""
    taught = _TAUGHT.findall(source)
    return minutes([Section("", int(meeting), int(planned)) for meeting, planned in taught])


def wrong(cells: Sequence[Any]) -> Iterator[str]:
    """Yield what is wrong with a lecture's plan, a sentence each."""
    last = 0
    there = sections(cells)
    for one in there:
        if not all(isinstance(number, int) for number in (one.meeting, one.minutes)):
            yield f"section {one.heading!r}: meeting and minutes are whole numbers."
            return
        if bool(one.meeting) != (one.minutes > 0):
            yield f"section {one.heading!r} has one of meeting and minutes: write both, or none."
        if one.meeting and one.in_appendix:
            yield f"section {one.heading!r} is taught in meeting {one.meeting}, below the appendix."
        if one.meeting and not last <= one.meeting <= last + 1:
            yield (
                f"section {one.heading!r} of meeting {one.meeting} follows one of meeting {last}: "
                "move it, or number the meetings 1, 2, 3."
            )
        last = one.meeting or last
    for meeting, whole in minutes(there).items():
        if whole > MINUTES - FREE:
            yield (
                f"meeting {meeting} takes {whole} minutes: at most {MINUTES - FREE} of its "
                f"{MINUTES} are planned. Move a section to the next meeting, or to the reading."
            )


def taught(cells: Sequence[Any]) -> list[bool]:
    """For each cell whether it is shown in class: the opening, and the sections of meetings.

    Of a lecture without meetings all are.
    """
    shown, whole = True, not minutes(sections(cells))
    answers = []
    for cell in cells:
        if heading_of(cell):
            shown = cell["metadata"].get("meeting", 0) > 0
        answers.append(shown or whole)
    return answers


def heading_of(cell: Any) -> str:
    """The heading of the section that a cell opens; empty where it opens none."""
    line = cell["source"].partition("\n")[0]
    opens = cell["cell_type"] == "markdown" and line.startswith("## ")
    return line.removeprefix("## ").strip() if opens else ""


def plan(cells: Sequence[Any]) -> str:
    """The list of a lecture's sections, as readers see it."""
    there = sections(cells)
    rows = [
        (f"Meeting {number}", f"{whole}", [one for one in there if one.meeting == number])
        for number, whole in minutes(there).items()
    ]
    rows += [("At home", "", [one for one in there if not one.meeting and not one.in_appendix])]
    rows += [("Appendix", "", [one for one in there if one.in_appendix])]
    lines = ["| | minutes | sections |", "|---|---:|---|"]
    for name, whole, members in rows:
        words = "; ".join(
            f"{one.heading} ({one.minutes})" if one.meeting else one.heading for one in members
        )
        if words:
            lines.append(f"| {name} | {whole} | {words} |")
    return "\n".join(lines)


def write_plan(cells: Sequence[Any]) -> None:
    """Put the list into the cell that is for it."""
    for cell in cells:
        if has_tag(cell, PLAN):
            cell["source"] = f"{cell['source'].rstrip()}\n\n{plan(cells)}"
