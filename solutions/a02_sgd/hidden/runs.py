"""Calls of a module's functions, their results compared; shared by the tests of all modules.

There is one process here, and no network between: a call is made on one rank. Whatever a test is
about, it asks for the values of its own call first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringside.checking import Case, Verdict, assert_ran, one_line
from ringside.checking.callers import arrays_in

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
SLACK_BYTES = 64 << 10  # of memory, beside what a rule allows
Call = tuple[Any, ...]


def shown(argument: Any) -> str:
    """An argument for a sentence: arrays by dtype and shape."""
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype} {argument.shape}"
    if isinstance(argument, list):
        return f"[{', '.join(shown(item) for item in argument[:8])}]"
    return repr(argument)


def told(argument: Any) -> str:
    """An argument for ``callers.show``."""
    if isinstance(argument, np.ndarray):
        if argument.dtype.kind == "f":
            return repr(list(argument.shape))
        if argument.ndim == 1:
            return repr(f"{len(argument)} of {int(argument.max()) + 1}")
        return repr(f"{argument.dtype} {' '.join(map(str, argument.shape))}")
    if isinstance(argument, list):
        return f"[{', '.join(told(item) for item in argument)}]"
    return repr(argument)


def fail(target: str, arguments: Sequence[Any], sentence: str, line: str = "") -> Verdict:
    """A verdict on one call, with a line that makes one like it; "" is no target in particular."""
    function = target.partition(":")[2]
    given = ", ".join(map(shown, arguments))
    if not line:
        floats = [a.dtype for a in arrays_in(arguments) if a.dtype.kind == "f"]
        words = [repr(target), *map(told, arguments)]
        weights_first = bool(arguments) and isinstance(arguments[0], list)
        dtype = floats[0 if weights_first else -1] if floats else None
        words += ["dtype='float32'"] if dtype == np.float32 else []
        line = f'python -c "import callers; callers.show({", ".join(words)})"'
    where = f"{function}({given}): " if target else ""
    return Verdict(f"{where}{sentence}", reproduce=line)


def driven(
    ranks: Any, driver: str, target: str, *arguments: Any, call: Call = (), line: str = ""
) -> Any:
    """What a function of ``callers.py`` returns, called on one rank; ``call`` is for sentences."""
    return ran(ranks.call(driver, 1, [arguments]), target, call, line).values[0]


def ran(result: Any, target: str, call: Call = (), line: str = "") -> Any:
    """The run, if it ended well; its verdict speaks of a call, not of ranks."""
    case = Case(target, 1, 0)
    try:
        assert_ran(result, case)
    except Verdict as verdict:
        sentence = verdict.sentence.removeprefix(f"{case}: ").replace("rank 0 raised", "it raised")
        raise fail(target, call, sentence, line) from None
    return result


def answers(ranks: Any, target: str, calls: Sequence[Call], line: str = "") -> list[Any]:
    """The results of some calls, none of which may raise."""
    found = driven(ranks, "callers:answers", target, target, list(calls), line=line)
    return [taken(target, call, answer, line) for call, answer in zip(calls, found, strict=True)]


def taken(target: str, call: Call, answer: tuple[Any, str], line: str = "") -> Any:
    """The result in an answer of ``callers.py``; a verdict if the call raised something."""
    result, raised = answer
    if raised:
        raise fail(target, call, f"{without_text(raised)}.", line)
    return result


def without_text(raised: str) -> str:
    """Type and place of an exception: its text may hold hidden inputs, and the line shows it."""
    return one_line(raised.partition(": ")[0])


def check(
    ranks: Any,
    target: str,
    calls: Sequence[Call],
    rights: Sequence[Any],
    what: str = "the result",
    line: str = "",
) -> None:
    """Each call gives what is right: numbers, arrays of a dtype, or lists of them."""
    for call, got, right in zip(calls, answers(ranks, target, calls, line), rights, strict=True):
        compare(target, call, got, right, what, line)


def compare(
    target: str, call: Call, got: Any, right: Any, what: str = "the result", line: str = ""
) -> None:
    """A result is what it must be; floats within the docstrings' tolerance."""
    if got is None:
        raise fail(target, call, f"{what} is nothing (None): is a return missing?", line)
    if isinstance(right, list | tuple):
        if isinstance(got, np.ndarray) and all(isinstance(one, float) for one in right):
            got = got.tolist()  # an array of numbers is as good as a list of them
        if not isinstance(got, list | tuple) or len(got) != len(right):
            is_list = isinstance(got, list | tuple)
            kind = f"{len(got)} parts" if is_list else f"of type {type(got).__name__}"
            raise fail(target, call, f"{what} is {kind}; it must be {len(right)} parts.", line)
        for number, (one, wanted) in enumerate(zip(got, right, strict=True)):
            compare(target, call, one, wanted, f"{what}[{number}]", line)
    elif isinstance(right, np.ndarray):
        _compare_arrays(target, call, got, right, what, line)
    else:
        value = got.item() if isinstance(got, np.ndarray) and got.ndim == 0 else got
        if type(value) not in (int, float):
            raise fail(target, call, f"{what} must be a number, not {type(got).__name__}.", line)
        dtypes = [a.dtype for a in arrays_in(call) if a.dtype.kind == "f"]
        allowed = TOLERANCE[str(min(dtypes, key=lambda d: d.itemsize, default="float64"))]
        if not abs(value - right) <= allowed * max(1.0, abs(right)):
            raise fail(target, call, f"{what} is {value:.12g}; it must be {right:.12g}.", line)


def _compare_arrays(
    target: str, call: Call, got: Any, right: np.ndarray, what: str, line: str
) -> None:
    if not isinstance(got, np.ndarray):
        kind = type(got).__name__
        raise fail(target, call, f"{what} is of type {kind}; it must be an array.", line)
    if got.shape != right.shape or got.dtype != right.dtype:
        raise fail(
            target, call,
            f"{what} has dtype {got.dtype} and shape {got.shape}; it must have {right.dtype} and "
            f"{right.shape}.",
            line,
        )  # fmt: skip
    off = np.abs(got.astype("float64") - right.astype("float64"))
    limit = TOLERANCE.get(str(right.dtype), 0.0) * max(1.0, float(np.abs(right).max(initial=0)))
    if not (off <= limit).all():  # a NaN is wrong too
        bad = ~(off <= limit)
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise fail(
            target, call,
            f"{what} is wrong in {int(bad.sum())} of {off.size} elements: element {at} is "
            f"{got[at]:.12g}; it must be {right[at]:.12g}.",
            line,
        )  # fmt: skip


def as_dtype(right: Any, dtype: Any) -> Any:
    """The oracle's float64 arrays as arrays of the dtype that is asked for."""
    if isinstance(right, np.ndarray):
        return right.astype(dtype)
    if isinstance(right, list | tuple):
        return [as_dtype(item, dtype) for item in right]
    return right


def check_kept(
    ranks: Any, target: str, calls: Sequence[Call], rights: Sequence[Any], strided: bool = False
) -> None:
    """Read-only arguments are enough, stay as they are, and results are the caller's own."""
    found = driven(ranks, "callers:looked_at", target, target, list(calls), strided)
    for call, (answer, complaint), right in zip(calls, found, rights, strict=True):
        try:
            got = taken(target, call, answer)
            compare(target, call, got, right)
        except Verdict as verdict:
            how = "as slices of larger arrays, not in the order of C" if strided else "read-only"
            verdict = Verdict(
                f"with arguments {how}: {verdict.sentence}", reproduce=verdict.reproduce
            )
            raise verdict from None
        if complaint:
            raise fail(target, call, f"{complaint}.")


def check_second_call(ranks: Any, target: str, first: Call, second: Call, rights: Any) -> None:
    """A second call leaves the first one's result alone, and knows nothing of it."""
    then, now, late = driven(ranks, "callers:twice", target, target, first, second, call=first)
    compare(target, first, then, rights[0])
    compare(target, first, now, rights[0], "the first result, looked at after a second call,")
    compare(target, second, late, rights[1], "the second call's result")


def check_numpy(ranks: Any, *calls: tuple[str, Call], but: tuple[str, ...] = ()) -> None:
    """NumPy does the work of the module's functions, and no other library ``but`` these."""
    for target, call in calls:
        found = driven(ranks, "callers:helpers", target, target, call, call=call)
        for library in set(found) - set(but):
            raise fail(target, call, f"{library} does work here; it is yours to do, with NumPy.")


def check_lines(ranks: Any, target: str, call: Call, right: Any, allowed: int, rule: str) -> None:
    """How many lines of the module's file a call executes."""
    got, lines, *_ = driven(ranks, "callers:measured", target, target, call, call=call)
    compare(target, call, got, right)
    if lines > allowed:
        raise fail(target, call, f"{lines} lines of your file ran; at most {allowed} may: {rule}.")


def check_peak(ranks: Any, target: str, call: Call, right: Any, times: int, nbytes: int) -> None:
    """The most memory in use during a call, the result included; nothing stays in use."""
    got, _, peak, kept = driven(ranks, "callers:measured", target, target, call, call=call)
    compare(target, call, got, right)
    allowed = times * nbytes + SLACK_BYTES
    if peak > allowed:
        raise fail(
            target, call,
            f"{peak} bytes of memory were in use at once; at most {allowed} may be, "
            f"{times} times {nbytes} and 64 KiB.",
        )  # fmt: skip
    if kept > SLACK_BYTES:
        raise fail(
            target, call,
            f"{kept} bytes beside the result are still in use afterwards; a call keeps nothing.",
        )  # fmt: skip
