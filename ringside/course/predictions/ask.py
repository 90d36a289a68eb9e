"""Asking for a prediction before a cell runs, and showing it beside the result after.

    guess("08/first-layer", "How many times larger?", unit="times")     a cell of its own
    ...                                                                 the cell that computes it
    reveal("08/first-layer", outputs / weights)                         its last line

Whoever predicts nothing is asked once more, and then sees the result alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ringside.course.predictions import boxes, explained
from ringside.course.predictions.kept import Kept, keep, lock, place, read
from ringside.course.predictions.prompt import KEY, GuessError, Prompt, as_prompt, with_unit

# Set where lectures are executed: a file that notes what was asked and revealed. Nobody's
# predictions are read then, so that a lecture's outputs are the same for everybody.
NOTES = "RINGSIDE_GUESSES_NOTED_IN"

FIRST = (
    "Predict first: run the cell with the question. "
    "Run this cell again to see the result without a prediction."
)
# Keys whose results somebody wanted to see who had predicted nothing; they are asked once.
_asked: set[str] = set()
# Keys whose results this process has shown to somebody who had predicted nothing. Who has seen
# the result no longer predicts.
_seen: set[str] = set()


def guess(
    key: str,
    question: str,
    *,
    unit: str = "",
    choices: Sequence[str] = (),
    value: Any = None,
) -> None:
    """Ask the reader for a prediction, before the cell below computes the answer.

    In Jupyter an input appears. A call with ``value=`` predicts anywhere, also in a script. What
    was predicted is kept in ``guesses.json`` beside the notebook, and can be changed until
    ``reveal`` has shown the result.

    Args:
        key: the unit, a slash and words, as in ``"08/first-layer"``; the same in ``reveal``.
        question: one or two sentences.
        unit: of the number that is asked for, as in ``"µs"``, ``"bytes"``, ``"times"``, ``"%"``.
        choices: two or more texts to choose from, where no number is asked for.
        value: the prediction: a number, a text such as ``"1,500"`` or ``"3/4"``, or a choice.

    Raises:
        GuessError: the prompt or the value can't be used, or the file is damaged.
    """
    prompt = as_prompt(key, question, unit=unit, choices=choices)
    if NOTES in os.environ:
        entry = {"guess": key, "unit": unit, "choices": list(prompt.choices)}
        _note(entry)
        _show(boxes.question_html(prompt), boxes.question_text(prompt))
        return
    path = place()
    prediction = None if value is not None else read(path).get(key)
    is_locked = prediction is not None and prediction.locked
    has_input = value is None and not is_locked and _in_jupyter()
    box = boxes.question_html(prompt, lists_choices=not has_input)
    _show(box, boxes.question_text(prompt))
    if value is not None:
        _say(_predicted(path, prompt, value))
    elif prediction is not None and is_locked:
        _say(boxes.kept_text(prediction))
    elif has_input:
        _show_input(path, prompt, prediction)
    else:
        again = f"{prediction.prompt.words(prediction.guess)} so far. " if prediction else ""
        _say(f"{again}Add value=... to this call of guess to predict.")


def reveal(key: str, value: Any = ...) -> None:
    """Show a result beside what the reader predicted, with their ratio, and what explains it.

    In Jupyter, a reader who has predicted nothing is asked to do so first, once; when the cell is
    run again, the result is shown. The explanation comes from ``explanations.json`` beside the
    notebook, where there is one.

    Args:
        key: as in ``guess``.
        value: the number in the prompt's unit, or the right choice. Where it is left out, that
            file holds it.

    Raises:
        GuessError: the value is no answer to the prompt, or a file is damaged.
    """
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise GuessError(f"key ({key!r}) must be that of a guess, as in '08/first-layer'.")
    entry = explained.find(key)
    if value is ... and (entry is None or entry.answer is None):
        _say(_no_explanation(key))
        return
    result = entry.answer if value is ... and entry else value
    answer = result if isinstance(result, str) else Prompt(key, "?").answer(result)
    if NOTES in os.environ:
        _note({"reveal": key, "value": answer})
        return
    prediction = lock(place(), key, answer)
    if prediction is not None:
        _show(boxes.result_html(prediction), boxes.result_text(prediction))
    elif _in_jupyter() and key not in _asked:
        _asked.add(key)
        _say(FIRST)
        return
    else:
        _seen.add(key)
        unit = entry.unit if entry else ""
        _say(f"Result: {answer if isinstance(answer, str) else with_unit(answer, unit)}.")
    if entry is not None and entry.text:
        _show_markdown(entry.text)
    elif entry is None and _in_jupyter() and not explained.stands_in_notebook(key):
        _say(_no_explanation(key))


def _no_explanation(key: str) -> str:
    return (
        f"What explains {key} is in {explained.NAME} of the handout, and there is none beside this "
        "notebook: put it back, or run `ringside update`."
    )


def _predicted(path: Path, prompt: Prompt, value: Any) -> str:
    """Keep a prediction; return what to say about it."""
    answer = prompt.answer(value)
    if prompt.key in _seen and prompt.key not in read(path):
        return "This notebook has shown the result already, so this isn't kept as a prediction."
    return boxes.kept_text(keep(path, prompt, answer), asked=answer)


def _note(entry: dict[str, Any]) -> None:
    with open(os.environ[NOTES], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


# Where it is shown


def _shell() -> Any:
    """IPython's shell, None elsewhere."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _in_jupyter() -> bool:
    """Whether a page is in front of the reader, and not a terminal."""
    return getattr(_shell(), "kernel", None) is not None


def _show(html: str, text: str) -> None:
    if not _in_jupyter():
        _say(text)
        return
    from IPython.display import publish_display_data

    publish_display_data({"text/html": html, "text/plain": text})  # type: ignore[no-untyped-call]


def _show_markdown(text: str) -> None:
    if not _in_jupyter():
        _say(text)
        return
    from IPython.display import publish_display_data

    publish_display_data({"text/markdown": text, "text/plain": text})  # type: ignore[no-untyped-call]


def _say(text: str) -> None:
    print(text, flush=True)


def _show_input(path: Path, prompt: Prompt, kept: Kept | None) -> None:
    """Show a live input; what is entered is kept at once."""
    from IPython.display import display

    display(live_input(path, prompt, kept))  # type: ignore[no-untyped-call]


def live_input(path: Path, prompt: Prompt, kept: Kept | None = None) -> Any:
    """An input of Jupyter's that keeps what is entered, and says so below."""
    import ipywidgets

    def written(made: Kept | None) -> str | None:
        """What stands in the input when this prediction is kept."""
        if prompt.choices:
            return str(made.guess) if made and made.guess in prompt.choices else None
        return f"{made.guess:.12g}" if made and not isinstance(made.guess, str) else ""

    message = ipywidgets.Label(boxes.kept_text(kept) if kept else "")
    # Whoever presses it leaves the field, which is what keeps the number.
    button = ipywidgets.Button(description="Predict", layout={"width": "auto"})
    entered: Any
    if prompt.choices:
        entered = ipywidgets.RadioButtons(
            options=list(prompt.choices),
            value=written(kept),
            layout={"width": "max-content"},
        )
    else:
        entered = ipywidgets.Text(
            value=written(kept),
            placeholder="your prediction",
            continuous_update=False,  # Enter, or leaving the field
            layout={"width": "12em"},
        )

    def take(change: Any) -> None:
        if change["new"] in ("", None):
            return
        try:
            message.value = _predicted(path, prompt, change["new"])
            stays = read(path).get(prompt.key)
        except GuessError as error:
            message.value = str(error)
            return
        if stays is None or stays.locked:  # too late, so what is kept stands there again
            # First: setting the value would call this function again.
            entered.unobserve(take, names="value")
            entered.value = written(stays)
            entered.disabled = button.disabled = True

    entered.observe(take, names="value")
    if prompt.choices:
        return ipywidgets.VBox([entered, message])
    unit = ipywidgets.Label(prompt.unit)
    return ipywidgets.VBox([ipywidgets.HBox([entered, unit, button]), message])
