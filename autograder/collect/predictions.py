"""What a student predicted, as it was handed in: data for the report, and no part of the grade.

The assignment's released notebook says which prompts there are, with units and choices. Of what
was handed in only answers to these prompts count.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from autograder.collect.quarantine import Rejected, read_regular
from ringside.course.predictions import kept
from ringside.course.predictions.in_notebook import guessed_in, prompt_of
from ringside.course.predictions.prompt import GuessError, Prompt

Answer = float | str


def prompts_in(notebook: Path) -> tuple[Prompt, ...]:
    """The prompts of a released notebook, in its order; none where there is no notebook."""
    try:
        return _prompts(notebook, notebook.stat().st_mtime_ns)
    except OSError:
        return ()


@functools.lru_cache(maxsize=32)
def _prompts(notebook: Path, changed: int) -> tuple[Prompt, ...]:
    import nbformat  # takes seconds, and most folders that are graded hold no predictions

    prompts = []
    released: Any = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    for cell in released.cells:
        if guessed_in(cell):
            try:
                prompts.append(prompt_of(cell))
            except GuessError:
                continue  # `autograder build` refuses it
    return tuple(prompts)


def lie_in(folder: Path | None) -> bool:
    """Whether a submission's own folder, if it has one, holds predictions."""
    return folder is not None and (folder / kept.NAME).exists()


def handed_in(
    folder: Path | None, prompts: tuple[Prompt, ...]
) -> tuple[dict[str, list[Answer | None]], str]:
    """Prediction and result, if it was seen, by key; and a sentence where the file is no good.

    Args:
        folder: the submission's own; None: it has none.
        prompts: of the released notebook.
    """
    if folder is None or not prompts or not lie_in(folder):
        return {}, ""
    try:
        entries = kept.parse(read_regular(folder / kept.NAME, kept.MOST_BYTES))
    except (Rejected, ValueError, RecursionError) as error:
        reason = str(error).rstrip(".")[:200]
        return {}, f"{kept.NAME} can't be read: {reason}. It is no part of the grade."
    answers: dict[str, list[Answer | None]] = {}
    for prompt in prompts:
        one = entries.get(prompt.key)
        # The file is the student's: a number in another unit is no answer to this prompt.
        if one and (one.prompt.unit, one.prompt.choices) == (prompt.unit, prompt.choices):
            answers[prompt.key] = [one.guess, one.result]
    return answers, ""
