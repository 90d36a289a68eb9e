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


def route_check(ranks, function, calls, rights, only=NAMES):
    """Every answer is the right one: numbers to rounding, arrays with their dtype.

    Args:
        only: those of a routing's arrays that are compared. Weights, or what is kept, without the
            experts are compared for each expert, in whatever order a token's experts stand.
    """
    calls = [tuple(call) for call in calls]
    words = route_words(function)
    target = f"route:{function}"
    values = evaluated(ranks, "callers:route_answers", target, calls, words)
    for call, value, right in zip(calls, values, rights, strict=True):
        what, line = words(call)
        changed = value == "changed" if isinstance(value, str) else False
        if isinstance(value, list) and len(value) == 4 and isinstance(value[-1], str):
            changed, value = only == NAMES, value[:-1]  # where all is looked at
        if changed:
            raise Verdict(f"{what} changes what it is given.", reproduce=line)
        if isinstance(right, tuple):
            _check_routing(value, right, what, line, only)
            continue
        same = type(value) is type(right) and value == right
        if isinstance(right, float):
            same = isinstance(value, float) and abs(value - right) <= 1e-6 * max(1.0, abs(right))
        if not same:
            wants = f"raise {right}" if isinstance(right, str) else f"be {right!r}"
            raise Verdict(f"{what} is {one_line(repr(value))}; it must {wants}.", reproduce=line)


def _by_expert(routing, of, num_experts):
    """Numbers of a routing in a table, shape (T, E)."""
    table = np.zeros((len(routing[0]), num_experts))
    np.put_along_axis(table, routing[0], np.asarray(routing[of], float), axis=1)
    return table


def _check_routing(value, right, what, line, only):
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
        if name not in only:
            continue
        if array.dtype != wanted.dtype:
            raise Verdict(
                f"{what}: {name} has dtype {array.dtype}; it must be {wanted.dtype}.",
                reproduce=line,
            )
        far = 1e-5 if wanted.dtype == np.float32 else 1e-12
        if "experts" not in only and np.issubdtype(value[0].dtype, np.integer):
            size = 1 + max(int(each[0].max(initial=0)) for each in (value, right))
            if value[0].min(initial=0) >= 0:
                array, wanted = (
                    _by_expert(each, NAMES.index(name), size) for each in (value, right)
                )
                name = f"by expert, {name}"
        wrong = ~(np.abs(array.astype(float) - wanted) <= far)
        if wrong.any():
            token, place = (int(i) for i in np.argwhere(wrong)[0])
            raise Verdict(
                f"{what}: {name}[{token}, {place}] is {array[token, place]}; it must be "
                f"{wanted[token, place]}.",
                reproduce=line,
            )
