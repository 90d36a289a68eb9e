"""What `reveal` prints once its reader has predicted: explanations that stand in no notebook.

    explanations.json    {"format": "ringside explanations 1",
                          "explanations": {"08/first-layer": {"unit": "times", "text": "...",
                                                              "answer": 98.0}}}

The file lies beside the notebook, as `guesses.json` does. ``text`` is Markdown, and ``answer`` is
there where no cell computes it. `students` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.course.predictions.kept import place
from ringside.course.predictions.prompt import GuessError

NAME = "explanations.json"
FORMAT = "ringside explanations 1"


@dataclass(frozen=True)
class Explained:
    """What is known of a prompt's answer; each may be missing."""

    text: str = ""
    answer: float | str | None = None
    unit: str = ""


def find(key: str) -> Explained | None:
    """What explains a key, from beside the notebook or the installed handout; None if nothing.

    Raises:
        GuessError: a file is damaged.
    """
    for path in _files():
        if key in (entries := read(path)):
            return entries[key]
    return None


def stands_in_notebook(key: str) -> bool:
    """Whether the notebook holds explanations itself: lectures do where their text is beside."""
    unit = key.partition("/")[0]
    return any(place().parent.glob(f"{unit}_*.py"))


def _files() -> Iterator[Path]:
    yield place().parent / NAME
    if (brought := kit.handout_folder()) is not None:  # a notebook that was downloaded alone
        yield brought / "lectures" / NAME
        yield from sorted(brought.glob(f"assignments/*/{NAME}"))


def read(path: Path) -> dict[str, Explained]:
    """The explanations in a file by key; none, no file.

    Raises:
        GuessError: the file is damaged.
    """
    try:
        whole: Any = json.loads(path.read_text(encoding="utf-8"))
        if whole["format"] != FORMAT:
            raise ValueError(f"its format is {whole['format']!r}")
        return {
            str(key): Explained(str(one.get("text", "")), one.get("answer"), str(one["unit"]))
            for key, one in whole["explanations"].items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GuessError(
            f"{path} is damaged ({error}): take it from the handout again, with `ringside update`."
        ) from None
