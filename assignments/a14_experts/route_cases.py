"""Calls of ``route.py`` as the tests make them, and their checks: supplied, nothing to write."""

import numpy as np

from ringside.checking import Verdict, one_line
from ringside.checking.formulas import evaluated

NAMES = ("experts", "weights", "kept")


def route_words(function):
    """How a sentence names a call, and the line that makes it."""

    def words_of(call):
        given = [_typed(each) if isinstance(each, np.ndarray) else repr(each) for each in call]
        words = f"{function}({', '.join(given)})"
        shown = [f"an array of shape {each.shape}" if getattr(each, "size", 0) > 12 else word
                 for each, word in zip(call, given, strict=True)]  # fmt: skip
        head = "import numpy as np; from route import *"
        return f"{function}({', '.join(shown)})", f'python -c "{head}; print({words})"'

    return words_of


def _typed(array):
    """An array as one types it."""
    return f"np.array({array.astype(float).round(6).tolist()}, '{array.dtype}')"


def route_check(ranks, function, calls, rights):
    """Every answer is the right one: numbers to rounding, arrays with their dtype."""
    calls = [tuple(call) for call in calls]
    words = route_words(function)
    target = f"route:{function}"
    values = evaluated(ranks, "callers:route_answers", target, calls, words)
    for call, value, right in zip(calls, values, rights, strict=True):
        what, line = words(call)
        if isinstance(value, str) and value == "changed":
            raise Verdict(f"{what} changes what it is given.", reproduce=line)
        if isinstance(right, tuple):
            _check_routing(value, right, what, line)
            continue
        same = type(value) is type(right) and value == right
        if isinstance(right, float):
            same = isinstance(value, float) and abs(value - right) <= 1e-6 * max(1.0, abs(right))
        if not same:
            wants = f"raise {right}" if isinstance(right, str) else f"be {right!r}"
            raise Verdict(f"{what} is {one_line(repr(value))}; it must {wants}.", reproduce=line)


def _check_routing(value, right, what, line):
    if not isinstance(value, list) or len(value) != 3:
        raise Verdict(
            f"{what} gives {one_line(repr(value))}; it must be a Routing.", reproduce=line
        )
    for name, array, wanted in zip(NAMES, value, right, strict=True):
        if not isinstance(array, np.ndarray) or array.shape != wanted.shape:
            said = one_line(repr(array))
            raise Verdict(
                f"{what}: {name} is {said}; it must have shape {wanted.shape}.", reproduce=line
            )
        if array.dtype != wanted.dtype:
            raise Verdict(
                f"{what}: {name} has dtype {array.dtype}; it must be {wanted.dtype}.",
                reproduce=line,
            )
        far = 1e-5 if wanted.dtype == np.float32 else 1e-12
        wrong = ~(np.abs(array.astype(float) - wanted) <= far)
        if wrong.any():
            token, place = (int(i) for i in np.argwhere(wrong)[0])
            raise Verdict(
                f"{what}: {name}[{token}, {place}] is {array[token, place]}; it must be "
                f"{wanted[token, place]}.",
                reproduce=line,
            )
