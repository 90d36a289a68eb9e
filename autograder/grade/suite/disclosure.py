"""What a student's page says of an exception: type, place, and a text that can't hold an input.

The process that raises an exception has the hidden inputs, and writes its name, text and frames as
it likes: ``raise ValueError(x)``. So a page repeats only what we know already:

    type       Python's, the kit's, or one that the module's source names
    place      a line that is there, with its text from our copy
    text       a literal of the source, what Python says of its syntax, or one of Python's own
               sentences about names in it

The line that reproduces a failure shows the rest, on inputs that the student has chosen. What a
module can still say is which of these it takes: some bits a test, as by passing or failing it.
"""

from __future__ import annotations

import builtins
import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from autograder.imports import syntax_error
from ringside import errors
from ringside.checking.real_calls import RealRun
from ringside.errors import Frame, RankError
from ringside.session.session import Result

__all__ = ["Disclosure"]

UNTOLD = (
    "The exception's text is not shown here, since it could hold hidden inputs: the line that "
    "repeats the failure shows it."
)
_KIND = "an exception"
_KIT_TYPES = {
    "Abort", "AxisError", "BufferRaceError", "CheckpointError", "EarlyUseError",
    "FakeTensorError", "LinAlgError", "MismatchError", "NotOfferedError", "ProcessEnded",
    "ProtocolError", *vars(errors),
}  # fmt: skip
# Words that Python's sentences name and a module needn't: types, and packages.
_WORDS = {
    "Comm", "Intracomm", "MPI", "NoneType", "Request", "Status", "Tensor", "bool_", "builtin",
    "float32", "float64", "function", "generator", "int32", "int64", "method", "module", "mpi4py",
    "ndarray", "numpy", "torch", *dir(builtins),
}  # fmt: skip
_FIXED = {
    "Use a.any() or a.all()", "assignment destination is read-only", "division by zero",
    "float division by zero", "float modulo", "integer division or modulo by zero",
    "integer modulo by zero", "list assignment index out of range", "list index out of range",
    "maximum recursion depth exceeded", "maximum recursion depth exceeded in comparison",
    "only integer scalar arrays can be converted to a scalar index", "pop from empty list",
    "output array is read-only", "setting an array element with a sequence.",
    "string index out of range", "tuple index out of range",
    "The truth value of an array with more than one element is ambiguous. "
    "Use a.any() or a.all()",
    "the process ended before its function returned (os._exit, a signal or a crash)",
}  # fmt: skip
_NAME, _PATH = r"'(\w+)'", r"'([\w.]+)'"
# Numbers have one digit: longer ones could spell a hidden input.
_SENTENCES = [
    re.compile(pattern)
    for pattern in (
        rf"(?:free variable|name) {_NAME} is not defined",
        rf"cannot access (?:local|free) variable {_NAME} where it is not associated with a value"
        r"(?: in enclosing scope)?",
        rf"{_NAME} object (?:is not (?:callable|iterable|subscriptable|reversible|an iterator)"
        r"|does not support item (?:assignment|deletion)"
        r"|cannot be interpreted as an integer)",
        rf"(?:{_NAME} object|type object {_NAME}) has no attribute {_NAME}",
        rf"module {_PATH} has no attribute {_NAME}",
        rf"No module named {_PATH}(?:; {_PATH} is not a package)?",
        rf"(\w+)\(\) missing \d required (?:positional|keyword-only) arguments?: {_NAME}"
        rf"(?:,? and {_NAME})?",
        r"(\w+)\(\) takes (?:from \d to )?\d positional arguments? but \d (?:was|were) given",
        rf"(\w+)\(\) got (?:an unexpected keyword argument|multiple values for argument) {_NAME}",
        rf"unsupported operand type\(s\) for \S{{1,3}}: {_NAME} and {_NAME}",
        rf"can't multiply sequence by non-int of type {_NAME}",
        rf"object of type {_NAME} has no len\(\)",
        r"cannot unpack non-iterable (\w+) object",
        rf"unhashable type: {_NAME}",
    )
]
_OF_SYNTAX = re.compile(r"(.+) \((\w+\.py), line \d+\)")
_HINTS = {
    "PermissionError": "Ranks may not write files or start programs: return the value instead.",
    "EOFError": "Ranks have no keyboard: give the value as an argument instead.",
}
# What can be said of the kit's own exceptions where their text is kept back.
_IN_SHORT = {
    "BufferRaceError": "A buffer was written to while its message was under way: wait for the "
    "request first, or use another buffer.",
    "EarlyUseError": "A buffer was read before its data had come: wait for the request first.",
}
Run = TypeVar("Run", Result, RealRun)


class Disclosure:
    """Takes out of a run's error what its page may not say.

    Args:
        folder: the modules and the supplied files, as they were handed in and laid out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of_run(self, run: Run) -> Run:
        """The run, with what may be said of its error."""
        if not isinstance(run.error, RankError):  # others are the network's words
            return run
        return replace(run, error=self.of(run.error))

    def of(self, error: RankError) -> RankError:
        """An error of one rank, without what only the rank says."""
        is_type = self._is_type(error.type_name)
        message = self._message(error.message)
        hint = _HINTS.get(error.type_name, "") if error.hint else ""
        if error.message and not message:
            short = _IN_SHORT.get(error.type_name, "")
            hint = " ".join(filter(None, [hint, short, UNTOLD]))
        frames = tuple(filter(None, (self._frame(frame) for frame in error.frames)))
        return RankError(error.rank, error.type_name if is_type else _KIND, message, frames, hint)

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        """The lines of each file, by its name as seen from the folder: ``given/layers.py`` too."""
        paths = [path for path in sorted(self._folder.rglob("*.py")) if path.is_file()]
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
        names = [path.relative_to(self._folder).as_posix() for path in paths]
        return {name: text.splitlines() for name, text in zip(names, texts, strict=True)}

    @cached_property
    def _text(self) -> str:
        return "\n".join(line for lines in self._sources.values() for line in lines)

    @cached_property
    def _names(self) -> set[str]:
        return set(re.findall(r"[^\W\d]\w*", self._text)) | _WORDS

    def _is_type(self, name: str) -> bool:
        return name in _KIT_TYPES or name in self._names

    def _message(self, text: str) -> str:
        """An exception's text, if it tells nothing that isn't in the source; else nothing."""
        if of_syntax := _OF_SYNTAX.fullmatch(text):
            reason, file = of_syntax.groups()
            message = syntax_error("\n".join(self._sources.get(file, [])))
            return reason if message and reason == message else ""
        if text in _FIXED or any(f"{quote}{text}{quote}" in self._text for quote in "\"'"):
            return text
        for sentence in _SENTENCES:
            if match := sentence.fullmatch(text):
                names = ".".join(filter(None, match.groups())).split(".")
                return text if set(names) <= self._names else ""
        return ""

    def _frame(self, frame: Frame) -> Frame | None:
        """A line of the student's or of a supplied file, as it stands there."""
        lines = self._sources.get(frame.file, [])
        if not 1 <= frame.line <= len(lines):
            return None
        inside = frame.function.strip("<>")
        function = frame.function if inside in self._names | {"module", "lambda"} else "a call"
        return Frame(frame.file, frame.line, function, lines[frame.line - 1].strip())
