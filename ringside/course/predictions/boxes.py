"""A prompt, and a prediction beside its result, as HTML and as plain text.

They bring their own style and no ids, so they look alike in Jupyter, on pages and on slides, in
light and in dark.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from ringside.course.predictions.prompt import Prompt

if TYPE_CHECKING:  # which also writes files, and a package is built without that
    from ringside.course.predictions.kept import Kept

_BOX = (
    "border:1px solid rgba(128,128,128,.4);border-left:6px solid {edge};border-radius:6px;"
    "padding:.6em 1em;margin:.5em 0;max-width:46em;white-space:normal"
)
_EDGE = "#e69f00"
_RESULT_EDGE = "#009e73"
_LABEL = "font-weight:700;margin-right:.6em"
_CELL = "text-align:left;padding:.1em 1.6em .1em 0;border:0;background:none"


def words_html(text: str) -> str:
    """Text as HTML, escaped; what stands in backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _asked_in(prompt: Prompt) -> str:
    """The unit to answer in, where the question doesn't name it."""
    match = re.search(rf"(?<!\w){re.escape(prompt.unit)}(?!\w)", prompt.question)
    return "" if not prompt.unit or match else f" (in {prompt.unit})"


def question_html(prompt: Prompt, *, lists_choices: bool = True) -> str:
    """The prompt in a box; its choices are left out where buttons below list them."""
    parts = [f'<span style="{_LABEL}">Predict</span>{words_html(prompt.question)}']
    if prompt.choices and lists_choices:
        items = "".join(f"<li>{words_html(choice)}</li>" for choice in prompt.choices)
        parts.append(f'<ul style="margin:.4em 0 0;padding-left:1.6em">{items}</ul>')
    elif unit := _asked_in(prompt):
        parts.append(f'<span style="opacity:.75;white-space:nowrap">{words_html(unit)}</span>')
    return f'<div class="ringside-guess" style="{_BOX.format(edge=_EDGE)}">{"".join(parts)}</div>'


def question_text(prompt: Prompt) -> str:
    """The prompt in a line or, with choices, some."""
    return "\n".join(
        [
            f"Predict: {prompt.question}{_asked_in(prompt)}",
            *(f"  - {choice}" for choice in prompt.choices),
        ]
    )


def kept_text(kept: Kept, *, asked: float | str | None = None) -> str:
    """That a prediction is kept, and whether it can still be changed."""
    text = kept.prompt.words(kept.guess)
    if not kept.locked:
        return f"Your prediction: {text}. You can change it until the result is shown."
    if asked is None or asked == kept.guess:
        return f"Your prediction: {text}. It is locked: the result has been shown."
    return f"Your prediction stays {text}: it is locked, because the result has been shown."


def _rows(kept: Kept) -> list[tuple[str, str]]:
    verdict, prompt = kept.verdict, kept.prompt
    assert verdict is not None
    rows = [
        ("your prediction", prompt.words(verdict.guess)),
        ("result", prompt.words(verdict.result)),
    ]
    if verdict.ratio is None:
        return [*rows, ("", verdict.words)]
    ratio = f"{verdict.ratio:.2g}" if verdict.ratio < 1 else f"{verdict.ratio:.3g}"
    return [*rows, ("ratio", f"{ratio}: {verdict.words}")]


def result_html(kept: Kept) -> str:
    """Prediction, result and ratio side by side."""
    rows = _rows(kept)
    heads = "".join(f'<th style="{_CELL};opacity:.75">{escape(head)}</th>' for head, _ in rows)
    cells = "".join(
        f'<td style="{_CELL};font-weight:600">{words_html(cell)}</td>' for _, cell in rows
    )
    return (
        f'<div class="ringside-guess" style="{_BOX.format(edge=_RESULT_EDGE)}">'
        f'<table style="border:0;margin:0"><tr style="background:none">{heads}</tr>'
        f'<tr style="background:none">{cells}</tr></table></div>'
    )


def result_text(kept: Kept) -> str:
    """The same in a line."""
    return " | ".join(f"{head}: {cell}" if head else cell for head, cell in _rows(kept))
