"""Whether a page, a slide or a student's notebook tells an answer before its reader has seen it.

    "It takes 27 days."            visible beside the prompt: told
    *Figure 3. After 27 days ...*  the caption of a figure that is folded, or a figure's alt text
    reveal("01/tag", "it waits")   the answer itself in the code

What counts is what the reader sees of the prompt's section without opening anything. A number
tells the answer if it rounds it to three digits or more; a shorter one, such as 27 or 2, only with
its unit behind it or in bold. A choice tells it in bold, or where it stands alone as a sentence of
three words or more. Where an answer may stand, since it is given in the question, say, the cell
says why in its metadata: ``known={"00/days": "the question gives it"}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringside.course.lectures.spoilers import holds, rounds, words
from ringside.course.predictions.in_notebook import (
    folded,
    guessed_in,
    is_aside,
    is_heading,
    prompt_of,
    revealed_in,
)
from ringside.course.predictions.prompt import GuessError, Prompt
from ringside.course.predictions.students import cleared

KNOWN = "known"  # metadata of a cell: key -> why it may hold the answer

_NUMBER = re.compile(r"(?<![\w.,\[-])(\d[\d,]*(?:\.\d+)?)(?![\w]*\])")
_SMALL = {
    **{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9},
    **{"ten": 10, "eleven": 11, "twelve": 12},
}
_BOLD = re.compile(r"\*\*(.+?)\*\*|<(?:b|strong)>(.+?)</", re.DOTALL)
_CAPTION = re.compile(r"^\*Figure \w+", re.MULTILINE)
_FOLDED = re.compile(r"<details.*?</details>", re.DOTALL)
_PICTURE = re.compile(r"<svg|<img")
_LEAST_WORDS = 3  # of a choice that stands nowhere by chance


@dataclass(frozen=True)
class Answer:
    """What a prompt's reader is to find out.

    Attributes:
        known: the ids of the cells in which it may stand.
    """

    prompt: Prompt
    value: float | str
    known: frozenset[str] = frozenset()

    def told_in(self, prose: str) -> str:
        """The words of a text that tell the answer; empty if none do."""
        if isinstance(self.value, str):
            return self._chosen_in(prose)
        return self._number_in(prose)

    def _chosen_in(self, prose: str) -> str:
        right = _plain(str(self.value))
        others = [_plain(choice) for choice in self.prompt.choices if choice != self.value]
        plain = _plain(prose)
        if any(choice in plain for choice in others if choice not in right):
            return ""  # it lists them
        if any(right == _plain(bold) for bold in _bold(prose)):
            return f"**{right}**"
        is_long = len(right.split()) >= _LEAST_WORDS
        return right if is_long and re.search(rf"\b{re.escape(right)}\b", plain) else ""

    def _number_in(self, prose: str) -> str:
        assert not isinstance(self.value, str)
        bold = " ".join(_bold(prose))
        for match in _NUMBER.finditer(prose):
            token = match[1].rstrip(",")
            plain = token.replace(",", "")
            digits = len(plain.lstrip("0.").replace(".", ""))
            value = abs(self.value)
            exact = float(plain) == value or (digits >= 2 and rounds(float(plain), value, digits))
            long = len(plain.strip("0").replace(".", "")) >= 3
            if exact and (long or self._has_unit(prose, match.end()) or _stands(token, bold)):
                return _around(prose, match)
            if long and not exact and holds(token, value):  # in thousands, millions or percent
                return _around(prose, match)
        for match in re.finditer(rf"\b({'|'.join(_SMALL)})\b", prose, re.IGNORECASE):
            if _SMALL[match[1].lower()] == self.value and self._has_unit(prose, match.end()):
                return _around(prose, match)
        return ""

    def _has_unit(self, prose: str, end: int) -> bool:
        unit = self.prompt.unit
        if not unit:
            return False
        stems = {"times": "times|fold|×|x as", "%": r"%|percent"}
        stem = stems.get(unit) or re.escape(unit.removesuffix("s") if len(unit) > 2 else unit)
        closed = r"\b" if len(unit) <= 2 and unit[-1].isalnum() else ""
        return bool(re.match(rf"(?:\*\*)?[\s\\,-]*(?:{stem}){closed}", prose[end:]))


def _plain(prose: str) -> str:
    return re.sub(r"[^\w%.,]+", " ", prose).strip(" .,").lower()


def _bold(prose: str) -> list[str]:
    return ["".join(match) for match in _BOLD.findall(prose)]


def _stands(token: str, prose: str) -> bool:
    return bool(re.search(rf"(?<![\w.,]){re.escape(token)}(?![\w]|[.,]\d)", prose))


def _around(prose: str, match: re.Match[str]) -> str:
    start, end = max(0, match.start() - 25), match.end() + 20
    return re.sub(r"\s+", " ", prose[start:end]).strip()


def answers(executed: Sequence[Any]) -> dict[str, Answer]:
    """What the prompts of an executed notebook ask for, by their keys."""
    results: dict[str, Any] = {}
    for cell in executed:
        results |= cell["metadata"].get("revealed", {})
    by_key = {}
    for cell in executed:
        for key in guessed_in(cell):
            try:
                prompt = prompt_of(cell)
                ids = {one["id"] for one in executed if key in one["metadata"].get(KNOWN, {})}
                by_key[key] = Answer(prompt, prompt.answer(results[key]), frozenset(ids))
            except (GuessError, KeyError):
                continue  # `given_away` says so
    return by_key


Visible = Callable[[int], Iterable[int]]  # of a prompt: the cells that are seen beside it


def early(executed: Sequence[Any]) -> Iterator[str]:
    """Yield where an executed lecture's page or student's notebook tells an answer too early.

    A sentence each; numbers of cells are those of the lecture.
    """
    by_key = answers(executed)
    mine, entries = cleared({"cells": list(executed), "metadata": {}})
    sentences = [
        *told(executed, by_key, page_shows(executed)),
        *told(mine["cells"], by_key, notebook_shows(mine["cells"])),
    ]
    yield from dict.fromkeys(sentences)
    yield from misplaced(executed)
    yield from unexplained(mine["cells"], entries)


def unexplained(cells: Sequence[Any], entries: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield which cells of a student's notebook reveal what is explained nowhere, a sentence each.

    Of several keys that one cell reveals, the last has the explanation.
    """
    for index, cell in enumerate(cells):
        keys = revealed_in(cell)
        if keys and "text" not in entries.get(keys[-1], {}):
            yield (
                f"cell {_number_of(cell, index)} reveals {keys[-1]!r}, and no prose directly below "
                'explains it: reveal it there, or tag the explanation "explanation".'
            )


def page_shows(cells: Sequence[Any]) -> Visible:
    """What a page shows of a section before anything is opened."""
    hidden = folded(cells)

    def visible(start: int) -> Iterator[int]:
        for index in section(cells, start):
            if not hidden[index] and not is_aside(cells[index]):
                yield index

    return visible


def notebook_shows(cells: Sequence[Any]) -> Visible:
    """What a notebook shows of a section before anything is run."""
    return lambda start: section(cells, start)


def told(cells: Sequence[Any], asked: Mapping[str, Answer], visible: Visible) -> Iterator[str]:
    """Yield where a reader meets an answer too early, a sentence each.

    Args:
        cells: of an executed lecture, a page, slides or a student's notebook.
        asked: the answers, by key.
        visible: what is seen beside a prompt before anything is opened or run.
    """
    for start, cell in enumerate(cells):
        for key in guessed_in(cell):
            if key not in asked:
                continue
            for index in visible(start):
                one = cells[index]
                if index != start and one["id"] not in asked[key].known:
                    for where, excerpt in _tells(one, asked[key]):
                        name = _number_of(one, index)
                        yield f"cell {name} tells the answer to {key!r} {where}: {excerpt!r}."


def _number_of(cell: Any, place: int) -> int:
    """A cell's place in the lecture, by which the build has named it."""
    match = re.fullmatch(r"cell-(\d+)", cell.get("id", ""))
    return int(match[1]) if match else place


def section(cells: Sequence[Any], place: int) -> range:
    """The cells of a cell's section; one that ends in the next heading belongs to both."""
    above = [p for p in range(place, -1, -1) if is_heading(cells[p])]
    below = [p for p in range(place + 1, len(cells)) if is_heading(cells[p])]
    end = below[0] if below else len(cells)
    if below and not cells[end]["source"].lstrip().startswith("#"):
        end += 1
    return range(above[0] if above else 0, end)


def _tells(cell: Any, answer: Answer) -> Iterator[tuple[str, str]]:
    if cell["cell_type"] == "markdown":
        if excerpt := answer.told_in(_FOLDED.sub(" ", cell["source"])):
            yield "in its caption" if _CAPTION.search(cell["source"]) else "in its prose", excerpt
        return
    if guessed_in(cell):
        return  # another question
    if excerpt := _in_code(cell["source"], answer):
        yield "in its code", excerpt
    for output in cell.get("outputs", []):
        if excerpt := answer.told_in(words(output)):
            yield "in its output", excerpt


def _in_code(code: str, answer: Answer) -> str:
    """What a reader of the code learns before it is run."""
    if isinstance(answer.value, str):
        texts = re.findall(r"""(["'])(.+?)\1""", code)
        there = {text for _, text in texts}
        others = set(answer.prompt.choices) - {answer.value}
        return answer.value if answer.value in there and not there & others else ""
    comments = "\n".join(re.findall(r"#.*", code))
    return answer.told_in(comments)


def misplaced(executed: Sequence[Any]) -> Iterator[str]:
    """Yield which figures and captions stand on the wrong side of a fold, a sentence each."""
    hidden = folded(executed)
    picture = -1
    for index, cell in enumerate(executed):
        if shows_picture(cell):
            picture = index
            if revealed_in(cell):
                yield (
                    f"cell {index} draws a figure and reveals {revealed_in(cell)[-1]!r}: "
                    "reveal it in a cell of its own."
                )
        elif cell["cell_type"] == "markdown" and _CAPTION.search(cell["source"]):
            if picture >= 0 and hidden[picture] != hidden[index]:
                inside, outside = (
                    ("figure", "caption") if hidden[picture] else ("caption", "figure")
                )
                yield f"cell {index}: the {inside} is behind a prompt, and its {outside} isn't."
            picture = -1


def shows_picture(cell: Any) -> bool:
    """Whether an executed cell draws something."""
    data = [output.get("data", {}) for output in cell.get("outputs", [])]
    return any("image/png" in d or _PICTURE.search(str(d.get("text/html", ""))) for d in data)
