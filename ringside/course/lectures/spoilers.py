"""Whether a lecture gives an answer away before its reader has seen the result.

    prompt    "How many bytes?"                 1,500 may not stand in the question
    ...       prose, code, comments, outputs    nor here, but in outputs of what computes it
    reveal    reveal("08/bytes", sent)          nor in the code of the cell that reveals it

The answers are those that were revealed when the notebook was executed. A number counts if it is
the answer to as many digits as it has; also in percent, thousands and millions. Small and round
numbers, such as 4 or 0.5, stand in every program, so of them only assertions count.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any

from ringside.course.predictions.in_notebook import guessed_in, only_reveals, prompt_of, revealed_in
from ringside.course.predictions.prompt import GuessError

_NUMBER = re.compile(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\d])")
_DIGITS = 3  # as many make a number one that stands nowhere by chance
_SCALES = (1e2, 1e-2, 1e3, 1e-3, 1e6, 1e-6)
_ASSERT = re.compile(r"^\s*assert\b.*", re.MULTILINE)


def given_away(cells: Sequence[Any]) -> Iterator[str]:
    """Yield the answers that an executed notebook gives away, a sentence each."""
    results = {
        key: value for cell in cells for key, value in cell.metadata.get("revealed", {}).items()
    }
    ends = {key: index for index, cell in enumerate(cells) for key in revealed_in(cell)}
    for start, cell in enumerate(cells):
        for key in guessed_in(cell):
            if key not in ends:
                continue  # `wrong_prompts` says so
            if key not in results:
                yield f"cell {ends[key]} has not revealed {key!r}: build the lecture again."
                continue
            try:
                prompt = prompt_of(cell)
                answer = prompt.answer(results[key])
            except GuessError as error:
                yield f"cell {ends[key]} reveals no answer: {error}"
                continue
            if isinstance(answer, str):
                continue
            for index, where in told_between(cells, start, ends[key], prompt.question, answer):
                yield (
                    f"cell {index} gives the answer to {key!r} away: {where} it holds "
                    f"{prompt.words(answer)}."
                )


def told_between(
    cells: Sequence[Any], start: int, end: int, question: str, answer: float
) -> Iterator[tuple[int, str]]:
    """Yield where an answer stands from its prompt to the cell that reveals it."""
    first = computing(cells, end)
    if is_telling(answer) and holds(question, answer):
        yield start, "in its question"
    for index in range(start + 1, end + 1):
        cell = cells[index]
        if cell.cell_type != "code":
            if is_telling(answer) and holds(cell.source, answer):
                yield index, "in its prose"
            continue
        code = re.sub(r"\b(guess|reveal)\(\s*([\"']).+?\2", r"\1(", cell.source)
        if is_telling(answer) and holds(code, answer):
            yield index, "in its code"
        elif holds(assertions(code), answer, few=True):
            yield index, "in an assertion"
        if index < first and is_telling(answer):
            for output in cell.get("outputs", []):
                if not guessed_in(cell) and holds(words(output), answer):
                    yield index, "in its output"


def computing(cells: Sequence[Any], end: int) -> int:
    """The first of the cells that compute and draw what a cell reveals.

    It is that cell itself, unless it does nothing but reveal: then those directly above it.
    """
    first = end
    if only_reveals(cells[end]):
        while cells[first - 1].cell_type == "code" and not guessed_in(cells[first - 1]):
            first -= 1
    return first


def is_telling(answer: float) -> bool:
    """Whether a number stands nowhere by chance: three digits, or a hundred and more."""
    if answer == int(answer):
        return abs(answer) >= 100
    return len(f"{abs(answer):.3e}".split("e")[0].replace(".", "").rstrip("0")) >= _DIGITS


def holds(text: str, answer: float, *, few: bool = False) -> bool:
    """Whether a text holds a number that is the answer, or rounds it.

    Args:
        few: a number of one digit counts, too.
    """
    for token in _NUMBER.findall(text):
        plain = token.replace(",", "").replace("_", "").rstrip(".")
        value = float(plain)
        if not math.isfinite(value):
            continue
        mantissa = re.split("[eE]", plain)[0].lstrip("0.").replace(".", "")
        digits = len(mantissa.rstrip("0") if "." not in plain else mantissa)
        if value == abs(answer) or (digits >= 2 and rounds(value, answer, digits)):
            if few or digits >= 2 or value == abs(answer):
                return True
        elif digits >= _DIGITS and any(rounds(value, answer * s, digits) for s in _SCALES):
            return True
    return False


def rounds(value: float, answer: float, digits: int) -> bool:
    """Whether a value is the answer, rounded to so many digits."""
    return answer != 0 and math.isclose(value, float(f"{abs(answer):.{digits - 1}e}"), rel_tol=1e-9)


def assertions(code: str) -> str:
    """What a cell's assertions say."""
    body = re.sub(r"^%.*$", "", code, flags=re.MULTILINE)
    try:
        tree = ast.parse(body)
    except SyntaxError:
        return "\n".join(_ASSERT.findall(body))
    return "\n".join(ast.unparse(one.test) for one in ast.walk(tree) if isinstance(one, ast.Assert))


def words(output: Any) -> str:
    """What a reader reads in an output: of pictures the description and the labels."""
    data = output.get("data", {})
    html = re.sub(r"<style.*?</style>", " ", str(data.get("text/html", "")), flags=re.DOTALL)
    texts = re.findall(r'(?:alt|aria-label)="([^"]*)"', html)
    texts += [re.sub("<[^>]*>", " ", html), str(data.get("text/plain", "")), output.get("text", "")]
    return unescape("\n".join(texts))
