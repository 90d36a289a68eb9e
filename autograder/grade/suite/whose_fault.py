"""Whose fault it is that a test could not read what came back from the ranks.

Suites call ``checks/inside.py`` inside the ranks, and take its answers apart as it makes them:
``for value, error in answers``. A module can put functions of its own in their place, and what a
test then meets is an exception that looks like a fault of the grader's. So the same calls are made
of the reference: where its answers have another form, the submission is at fault.

Where they have the same form, the exception is the grader's own. It costs that test alone, and the
instructor is told: otherwise a module that knows one of our faults would choose between no grade
and a grade, for the modules beside it too. What the machine does (``of_the_machine``) is no answer
to anything that came back, and stays a fault that voids the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autograder.grade.suite.reality import RealityError
from ringside.errors import MachineError, RingsideError, TargetError
from ringside.session.session import Result, Session

TIMEOUT_S = 600.0
MAX_CALLS = 20
LARGEST = 1e300


@dataclass(frozen=True)
class Made:
    """One call of a submission, and what came of it."""

    target: str
    world_size: int
    args: Any
    options: dict[str, Any]  # members, machine, seed, factors, failures, stores
    result: Result


def of_the_machine(error: BaseException) -> bool:
    """Whether an exception tells of the machine or of the kit's own files, and not of an answer.

    A full disk, no memory, real ranks or a zygote that are gone (a plain ``RingsideError``), a
    file that isn't there; and what isn't an ``Exception``, such as Ctrl-C.
    """
    if type(error) is RingsideError or not isinstance(error, Exception):
        return True
    return isinstance(error, OSError | MemoryError | RealityError | MachineError | TargetError)


def misshapen(calls: Sequence[Made], reference: Path) -> str:
    """The target of a call that the reference answers in another form; empty if there is none.

    Args:
        calls: those of one test; the last ones are looked at.
        reference: the folder of the solution, with the supplied files.
    """
    with Session(reference, confined=True, at_home=False) as session:
        for call in reversed(calls[-MAX_CALLS:]):
            try:
                right = session.call(
                    call.target, call.world_size, call.args, timeout_s=TIMEOUT_S, **call.options
                )
            except TargetError:  # the reference has fewer operations to die in
                continue
            if right.error is None and (call.result.error or not alike(call.result, right)):
                return call.target
    return ""


def alike(one: Result, other: Result) -> bool:
    """Whether the values of two runs, and what ranks say of their memory, have one form."""
    return bool(form([one.values, one.memory]) == form([other.values, other.memory]))


def form(value: Any) -> Any:
    """A value without its numbers and texts: what a test relies on when it takes it apart.

    Whether a number is one that can be reckoned with belongs to the form: whole numbers of a
    thousand digits, infinities and NaNs fail where they are compared or written down.

    >>> form([(1.5, None), ("F0", np.zeros(3))]) == form([(2, None), ("B1 F2", np.ones(4))])
    True
    >>> form([(1.5, None)]) == form([1.5])
    False
    """
    if isinstance(value, list | tuple):
        return type(value).__name__, [form(item) for item in value]
    if isinstance(value, dict):
        return "dict", {str(key): form(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return "array", value.ndim, value.dtype.kind, bool(np.isfinite(value).all())
    if isinstance(value, bool | int | float):
        return "number" if abs(value) < LARGEST else "no number"
    return type(value).__name__
