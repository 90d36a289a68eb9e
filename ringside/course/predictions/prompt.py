"""A prompt, what a reader may answer to it, and how far a number is from the result.

prediction 12 times, result 98 times  ->  ratio 0.122: 8.17 times too low
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ringside.errors import RingsideError
from ringside.units import format_bytes, three_digits

KEY = re.compile(r"[A-Za-z0-9][\w.-]{0,39}/[A-Za-z0-9][\w.-]{0,59}", re.ASCII)
LONGEST_QUESTION = 600
LONGEST_WORDS = 120  # of a choice or a unit
MOST_CHOICES = 12
CLOSE = 1.05  # a ratio within 5 % counts as right

_NUMBER = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:[, _]\d{3})+|\d+)?(?:\.\d*)?(?:[eE][-+]?\d{1,3})?")
_BYTES = ("B", "byte", "bytes")
_MANY = 10_000_000  # from here on a number is told in words


class GuessError(RingsideError):
    """A prompt, a prediction or the file of predictions that can't be used."""


@dataclass(frozen=True)
class Prompt:
    """A question that a reader answers with a number or one of some choices."""

    key: str
    question: str
    unit: str = ""
    choices: tuple[str, ...] = ()

    def checked(self) -> Prompt:
        """This prompt, if readers can be asked it.

        Raises:
            GuessError: the key, the question, the unit or the choices can't be used.
        """
        if not isinstance(self.key, str) or not KEY.fullmatch(self.key):
            raise GuessError(
                f"key ({self.key!r}) must be a unit, a slash and words, as in '08/first-layer'."
            )
        if not isinstance(self.question, str) or not 0 < len(self.question) <= LONGEST_QUESTION:
            raise GuessError(
                f"{self.key}: a question is a text of 1 to {LONGEST_QUESTION} characters."
            )
        texts = (self.unit, *self.choices)
        if any(not isinstance(text, str) or len(text) > LONGEST_WORDS for text in texts):
            raise GuessError(
                f"{self.key}: units and choices are texts of at most {LONGEST_WORDS} characters."
            )
        if self.choices:
            if not 2 <= len(set(self.choices)) == len(self.choices) <= MOST_CHOICES:
                raise GuessError(
                    f"{self.key}: choices are 2 to {MOST_CHOICES} different texts, "
                    f"not {list(self.choices)}."
                )
            if self.unit:
                raise GuessError(f"{self.key}: a prompt with choices has no unit.")
        return self

    def answer(self, value: Any) -> float | str:
        """A value as an answer to this prompt.

        Raises:
            GuessError: it is neither a finite number nor, where there are choices, one of them.
        """
        if not self.choices:
            return number(value, self.key, self.unit)
        if isinstance(value, str) and value in self.choices:
            return str(value)
        raise GuessError(f"{self.key}: {value!r} is none of {', '.join(map(repr, self.choices))}.")

    def words(self, answer: float | str) -> str:
        """An answer as people read it."""
        return answer if isinstance(answer, str) else with_unit(answer, self.unit)


def number(value: Any, key: str, unit: str = "") -> float:
    """A number that a program computed or that a person typed: ``1,500``, ``3/4``, ``12 µs``.

    Raises:
        GuessError: it is no number, or not a finite one.
    """
    figure = _typed(value, unit) if isinstance(value, str) else None
    if isinstance(value, Real) and not _is_bool(value):
        figure = _finite(value)
    elif getattr(value, "shape", None) == () and not _is_bool(value):  # an array of one number
        figure = _finite(value.item())
    if figure is None:
        hint = " Write it with a point, as in 0.5." if "," in str(value)[:40] else ""
        raise GuessError(f"{key}: {str(value)[:60]!r} is not a finite number.{hint}")
    return figure


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def _finite(value: Any) -> float | None:
    try:
        figure = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return figure if math.isfinite(figure) else None


def _typed(text: str, unit: str) -> float | None:
    """The number in what a person typed; its unit may follow."""
    text = text.strip()
    if unit and text.endswith(unit):
        text = text.removesuffix(unit).strip()
    top, slash, bottom = text.partition("/")
    parts = [_plain(top.strip()), _plain(bottom.strip()) if slash else 1.0]
    if None in parts or parts[1] == 0:
        return None
    return _finite((parts[0] or 0.0) / (parts[1] or 1.0))


def _plain(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    return _finite(re.sub("[, _]", "", text))


def with_unit(value: float, unit: str) -> str:
    """A number and its unit for people.

    >>> with_unit(12.0, "times"), with_unit(64000.0, "bytes"), with_unit(1.0, "messages")
    ('12 times', '64,000 bytes (62.5 KiB)', '1 message')
    >>> with_unit(138357544.0, "parameters"), with_unit(0.0000321, "s"), with_unit(6.25, "%")
    ('138 million parameters', '3.21e-05 s', '6.25 %')
    """
    if value == 1 and len(unit) > 2 and unit.isalpha() and unit.endswith("s"):
        unit = unit.removesuffix("s")
    text = f"{plain_number(value)} {unit}".rstrip()
    if unit in _BYTES and 1024 <= abs(value) < 2**50:
        text += f" ({format_bytes(value)})"
    return text


def plain_number(value: float) -> str:
    """A number for people: whole up to ten million, else three digits.

    >>> plain_number(1234567.0), plain_number(1.7e9), plain_number(0.98765), plain_number(-2.0)
    ('1,234,567', '1.7 billion', '0.988', '-2')
    """
    size = abs(value)
    if size == 0:
        return "0"
    for scale, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if size >= max(scale, _MANY) and size < 1e15:
            return f"{three_digits(value / scale)} {name}"
    if size >= 1e15 or size < 1e-3:
        return f"{value:.3g}"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if size >= 1000 else three_digits(value)


@dataclass(frozen=True)
class Verdict:
    """A prediction beside its result.

    Attributes:
        ratio: prediction over result; None for choices, or where there is no such ratio.
        words: the ratio for people.
    """

    guess: float | str
    result: float | str
    ratio: float | None
    words: str

    @property
    def off_by(self) -> float | None:
        """How many times too high or too low, 1 or more; 1 for the right choice, None if wrong."""
        if isinstance(self.guess, str):
            return 1.0 if self.guess == self.result else None
        if self.guess == self.result:
            return 1.0
        return max(self.ratio, 1 / self.ratio) if self.ratio else None


def compare(guess: float | str, result: float | str) -> Verdict:
    """A prediction and the result side by side.

    >>> compare(12.0, 98.0).words, compare(4.0, 4.1).words, compare("ring", "tree").words
    ('8.17 times too low', 'right within 5 %', 'not right')
    """
    if isinstance(guess, str) or isinstance(result, str):
        return Verdict(guess, result, None, "right" if guess == result else "not right")
    if guess == result:
        return Verdict(guess, result, 1.0, "exactly right")
    if result == 0 or guess == 0 or (guess < 0) != (result < 0):
        return Verdict(guess, result, None, f"off by {plain_number(abs(guess - result))}")
    ratio = guess / result
    off = max(ratio, 1 / ratio) if ratio else math.inf
    if off <= CLOSE:
        text = "right within 5 %"
    else:
        text = f"{plain_number(off)} times too {'high' if ratio > 1 else 'low'}"
    return Verdict(guess, result, ratio, text)


def as_choices(choices: Sequence[str]) -> tuple[str, ...]:
    """Choices as a tuple of texts; one text is no list of letters."""
    if isinstance(choices, str):
        raise GuessError(f"choices ({choices!r}) must be a list of texts.")
    return tuple(choices)


def as_prompt(key: str, question: str, *, unit: str = "", choices: Sequence[str] = ()) -> Prompt:
    """The prompt that ``guess`` asks with these arguments.

    Raises:
        GuessError: readers can't be asked it.
    """
    return Prompt(key, question, unit, as_choices(choices)).checked()
