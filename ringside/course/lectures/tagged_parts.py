"""The parts that every lecture has, found by the tags of its cells.

    aims, prerequisites, plan                       what you will be able to do, and when
    problem, derivation                             from a question to the formula
    ranks, figure, limits, systems                  run, seen, where it breaks, how it was done
    question (five), reading                        worked answers, full citations

CONTRIBUTING.md says what each of them holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from ringside.course.lectures import meetings
from ringside.course.lectures.build import Notebook
from ringside.course.predictions.in_notebook import (
    CHECKED,
    has_tag,
    is_heading,
    is_notes,
    wrong_prompts,
)

RUNS = re.compile(r"\bringside\.(run|replay|trace_torch)\(|^%%ranks\b", re.MULTILINE)
CITATION = re.compile(r"\[(\d+(?:, ?\d+)*)\](?!\()")
NO_CITATIONS = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", re.DOTALL)
QUESTIONS = 5


def missing(source: Notebook, executed: Notebook) -> list[str]:
    """Return what a lecture lacks of the parts that every lecture has, one sentence each.

    Args:
        source: the lecture as its text has it.
        executed: the same with outputs.
    """
    cells = list(source.cells)
    sentences = [*headings(cells), *order(cells), *questions(cells), *reading(cells)]
    sentences += [*wrong_prompts(cells), *notes(cells), *meetings.wrong(cells)]
    for tag, (kind, most, is_wrong) in PARTS.items():
        indices = tagged(cells, tag)
        if not indices:
            sentences.append(f"no cell has the tag {tag!r}.")
        if most and len(indices) > most:
            sentences.append(f"{len(indices)} cells have the tag {tag!r}: it belongs on {most}.")
        for index in indices:
            if kind and cells[index].cell_type != kind:
                sentences.append(f"cell {index} ({tag}) is not a {kind} cell.")
            elif fault := is_wrong(cells, index):
                sentences.append(f"cell {index} ({tag}) {fault}.")
    for index in tagged(cells, "figure"):
        if index < len(executed.cells) and not shows_picture(executed.cells[index]):
            sentences.append(f"cell {index} (figure) shows no picture.")
    return sentences


def tagged(cells: Sequence[Notebook], tag: str) -> list[int]:
    """Return the places of the cells with a tag."""
    return [index for index, one in enumerate(cells) if tag in one.metadata.get("tags", [])]


def section(cells: Sequence[Notebook], place: int) -> str:
    """Return the prose from a cell to the end of its section."""
    text = cells[place].source
    for one in cells[place + 1 :]:
        if one.source.startswith("## "):
            break
        if one.cell_type == "markdown":
            text += "\n\n" + one.source
    return str(text)


def cited(text: str) -> set[int]:
    """Return the numbers of the references that a text cites."""
    groups = CITATION.findall(NO_CITATIONS.sub(" ", text))
    return {int(number) for group in groups for number in group.split(",")}


def shows_picture(cell: Notebook) -> bool:
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data or re.search("<svg|<img", data.get("text/html", "")):
            return True
    return False


def aims(cells: Sequence[Notebook], place: int) -> str:
    text = cells[place].source
    if place > 2:
        return "is not among the first three"
    if "you can" not in text or len(re.findall(r"^[-*] ", text, re.MULTILINE)) < 3:
        return 'has no "you can" with a list of at least 3'
    return ""


def problem(cells: Sequence[Notebook], place: int) -> str:
    return "" if cells[place].source.startswith("## ") else "opens no section, ## ..."


def derivation(cells: Sequence[Notebook], place: int) -> str:
    return "" if "$$" in section(cells, place) else "has no formula in $$...$$, nor its section"


def ranks(cells: Sequence[Notebook], place: int) -> str:
    return "" if RUNS.search(cells[place].source) else "runs nothing on ranks"


def systems(cells: Sequence[Notebook], place: int) -> str:
    one = cells[place]
    if one.cell_type == "code":
        below = [cell.source for cell in cells[place:] if has_tag(cell, CHECKED)]
        is_checked = any("assert" in code for code in [one.source, *below])
        return "" if is_checked else "asserts no prediction, nor does a checked cell below"
    return "" if cited(one.source) else "cites no reference, [n]"


def anything(cells: Sequence[Notebook], place: int) -> str:
    return ""


# tag -> kind of cell, how many at most (0: any number), what is wrong with one
PARTS: dict[str, tuple[str, int, Callable[[Sequence[Notebook], int], str]]] = {
    "aims": ("markdown", 1, aims),
    "prerequisites": ("markdown", 0, anything),
    meetings.PLAN: ("markdown", 1, anything),
    "problem": ("markdown", 0, problem),
    "derivation": ("markdown", 0, derivation),
    "ranks": ("code", 0, ranks),
    "figure": ("code", 1, anything),
    "limits": ("markdown", 0, anything),
    "systems": ("", 0, systems),
    "question": ("markdown", QUESTIONS, anything),
    "reading": ("markdown", 1, anything),
}


def headings(cells: Sequence[Notebook]) -> Iterator[str]:
    """Yield what is wrong with the title and the sections."""
    prose = "\n".join(one.source for one in cells if one.cell_type == "markdown")
    levels = [len(marks) for marks in re.findall(r"^(#+) ", NO_CITATIONS.sub("", prose), re.M)]
    if not cells[0].source.startswith("# ") or levels.count(1) != 1:
        yield "the first cell, and it alone, begins with the title, # Lecture N: ..."
    if any(level > 3 for level in levels):
        yield "a heading is smaller than ###."
    captions = [int(number) for number in re.findall(r"(?m)^\*Figure (\d+)\.", prose)]
    if captions != list(range(1, len(captions) + 1)):
        yield f"its captions are of figures {captions}: number them in their order."


def order(cells: Sequence[Notebook]) -> Iterator[str]:
    """Yield which parts stand before what they follow from."""
    names = ("aims", "prerequisites", "problem", "derivation", "question", "reading")
    parts = [(tagged(cells, name)[:1], name) for name in names]
    starts = [(indices[0], name) for indices, name in parts if indices]
    for (earlier, before), (later, after) in pairwise(starts):
        if later < earlier:
            yield f"{after} (cell {later}) stands before {before} (cell {earlier})."


def questions(cells: Sequence[Notebook]) -> Iterator[str]:
    """Yield what is wrong with the five questions."""
    indices = tagged(cells, "question")
    if len(indices) != QUESTIONS:
        yield f"{len(indices)} cells have the tag 'question', not {QUESTIONS}."
    for number, (start, end) in enumerate(pairwise([*indices, len(cells)]), 1):
        if f"**Question {number}.**" not in cells[start].source:
            yield f"cell {start} does not begin with **Question {number}.**"
        if not re.search(
            r"<details><summary>Answer</summary>\n\n.+</details>", cells[start].source, re.S
        ):
            yield f"cell {start} has no answer in <details><summary>Answer</summary>, blank line."
        below = [one.source for one in cells[start:end] if one.cell_type == "code"]
        if not any("assert" in code for code in below):
            yield f"nothing below question {number} (cell {start}) asserts its answer."


def notes(cells: Sequence[Notebook]) -> Iterator[str]:
    """Yield what is wrong with the teachers' notes."""
    for index, one in enumerate(cells):
        if is_notes(one) and (one.cell_type != "markdown" or is_heading(one)):
            yield f"cell {index} (notes) is not prose without a heading."


def reading(cells: Sequence[Notebook]) -> Iterator[str]:
    """Yield what is wrong with the references."""
    indices = tagged(cells, "reading")
    if indices != [len(cells) - 1]:
        yield "the last cell, and it alone, has the tag 'reading'."
        return
    *rest, last = [one.source for one in cells if one.cell_type == "markdown"]
    listed = {int(number) for number in re.findall(r"^(\d+)\. ", last, re.MULTILINE)}
    used = cited("\n\n".join(rest))
    if not last.startswith("## References") or "Read next" not in last:
        yield 'the last cell has no "## References" or no "Read next".'
    if used - listed:
        yield f"cited but not listed: {sorted(used - listed)}."
    if listed - used:
        yield f"listed but not cited: {sorted(listed - used)}."
