"""The file beside a notebook that keeps what its reader predicted.

    guesses.json
    {"format": "ringside guesses 1",
     "guesses": {"08/first-layer": {
         "question": "...", "unit": "times", "choices": [],
         "guess": 12.0, "guessed": "2026-03-02T10:15:00+00:00",
         "result": 98.0, "revealed": "2026-03-02T10:15:09+00:00"}}}

A result is there once the reader has seen it; from then on the prediction stays as it is. The file
is written whole or not at all, and by one notebook at a time. What students hand in is read by the
same strict function, so it believes nothing: neither sizes nor types nor names.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ringside.course.predictions.prompt import KEY, GuessError, Prompt, Verdict, compare
from ringside.files import write_atomically

NAME = "guesses.json"
FORMAT = "ringside guesses 1"
MOST_BYTES = 1 << 20
MOST_GUESSES = 1000


@dataclass(frozen=True)
class Kept:
    """A prediction that was made; a result and its time once it was shown."""

    prompt: Prompt
    guess: float | str
    guessed: str
    result: float | str | None = None
    revealed: str = ""

    @property
    def locked(self) -> bool:
        return self.result is not None

    @property
    def verdict(self) -> Verdict | None:
        """How far off it was; None before the result was shown."""
        return None if self.result is None else compare(self.guess, self.result)

    def as_json(self) -> dict[str, Any]:
        entry = asdict(self.prompt) | {"guess": self.guess, "guessed": self.guessed}
        del entry["key"]
        if self.result is not None:
            entry |= {"result": self.result, "revealed": self.revealed}
        return entry


def place() -> Path:
    """Where this reader's predictions are: beside the notebook, else in the current folder.

    Lectures change into a folder of their own, so Jupyter's first folder counts.
    """
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return Path(getattr(running, "starting_dir", "") or ".") / NAME


def read(path: Path) -> dict[str, Kept]:
    """The predictions in a file by key, in the order in which they were made; none, no file.

    Raises:
        GuessError: the file is damaged, too large, or no file of ours.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise GuessError(f"{path.name} can't be read: {error.strerror}.") from None
    try:
        return parse(data)
    except ValueError as error:
        raise GuessError(
            f"{path.name} is damaged: {error}. It stays as it is; mend it, or move it away "
            "to begin a new one."
        ) from None


def parse(data: bytes) -> dict[str, Kept]:
    """The predictions in a file's bytes, which nobody needs to trust.

    Raises:
        ValueError: they are anything else than what this kit writes; the message says what.
    """
    if not data:
        return {}  # between creation and the first prediction
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    try:
        whole = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is no JSON") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ValueError(f'it has no "format": "{FORMAT}"')
    entries = whole.get("guesses")
    if not isinstance(entries, dict) or len(entries) > MOST_GUESSES:
        raise ValueError(f'"guesses" is no object of at most {MOST_GUESSES} entries')
    return {key: _entry(key, entry) for key, entry in entries.items()}


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _entry(key: str, entry: Any) -> Kept:
    if not KEY.fullmatch(key):
        raise ValueError(f"{key[:60]!r} is no key")
    if not isinstance(entry, dict):
        raise ValueError(f"{key} is no object")
    choices = entry.get("choices")
    if not isinstance(choices, list):
        raise ValueError(f"{key} has no list of choices")
    try:
        prompt = Prompt(
            key,
            entry.get("question", None),  # type: ignore[arg-type]  # checked in the next line
            entry.get("unit", None),  # type: ignore[arg-type]
            tuple(choices),
        ).checked()
    except (GuessError, TypeError) as error:
        raise ValueError(str(error).rstrip(".")) from None
    guess = _answer(prompt, entry.get("guess"), "guess")
    guessed = _time(key, entry.get("guessed"))
    if "result" not in entry:
        return Kept(prompt, guess, guessed)
    result = _answer(prompt, entry["result"], "result")
    return Kept(prompt, guess, guessed, result, _time(key, entry.get("revealed")))


def _answer(prompt: Prompt, value: Any, name: str) -> float | str:
    if prompt.choices:
        if isinstance(value, str) and value in prompt.choices:
            return value
        raise ValueError(f"{prompt.key}: its {name} is none of its choices")
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"{prompt.key}: its {name} is no finite number")


def _time(key: str, value: Any) -> str:
    try:
        if not isinstance(value, str) or len(value) > 40:
            raise ValueError
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        raise ValueError(f"{key} has no time with a zone") from None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def keep(path: Path, prompt: Prompt, guess: float | str) -> Kept:
    """Keep a prediction; one that is locked stays. Return what is kept.

    Raises:
        GuessError: the file is damaged or can't be written.
    """
    with _alone(path) as entries:
        old = entries.get(prompt.key)
        if old is not None and (old.locked or old.guess == guess):
            return old
        entries[prompt.key] = Kept(prompt, guess, now())
        _write(path, entries)
        return entries[prompt.key]


def lock(path: Path, key: str, result: Any) -> Kept | None:
    """Lock a prediction with its result; None, and nothing written, if none was made.

    Raises:
        GuessError: the file is damaged or can't be written, or the result doesn't fit the prompt.
    """
    if key not in read(path):  # without a prediction nothing is created, not even a lock
        return None
    with _alone(path) as entries:
        old = entries[key]
        answer = old.prompt.answer(result)
        entries[key] = replace(old, result=answer, revealed=old.revealed or now())
        if entries[key] != old:
            _write(path, entries)
        return entries[key]


@contextmanager
def _alone(path: Path) -> Iterator[dict[str, Kept]]:
    """The file's predictions, while no other notebook writes them."""
    try:
        descriptor = _locked(path)
    except OSError as error:
        raise GuessError(f"{path.name} can't be written in {path.parent.resolve()}: "
                         f"{error.strerror}.") from None  # fmt: skip
    try:
        # Read behind the lock: another notebook may have written while this one waited.
        yield read(path)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """A descriptor of the file as it is now, locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Whoever wrote while we waited has put another file under this name.
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)


def _write(path: Path, entries: Mapping[str, Kept]) -> None:
    if len(entries) > MOST_GUESSES:
        raise GuessError(f"{path.name} holds {MOST_GUESSES} predictions already.")
    whole = {"format": FORMAT, "guesses": {key: one.as_json() for key, one in entries.items()}}
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise GuessError(f"{path.name} can't be written: {error.strerror}.") from None
