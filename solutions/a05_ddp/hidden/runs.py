"""Runs and checks that the tests of buckets.py and overlap.py share.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more.
"""

import numpy as np

from ringside.checking import (
    Verdict,
    assert_requests_complete,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import evaluated
from ringside.trace import Kind
from solutions.a05_ddp.hidden.oracle import examples

check_arrays, collectives = examples.check_arrays, examples.collectives
ANSWERS = "callers:several"


def answers(ranks, target, calls, *, kept=False):
    """Call a function that needs no ranks, inside one, with a list of arguments.

    Args:
        kept: ask, too, that it leaves its arguments as they were.
    """

    def shown(call):
        return f"{target.partition(':')[2]}{call!r}", typed(target, call)

    found = evaluated(ranks, ANSWERS, target, calls, shown)
    for call, (_, _, changed) in zip(calls, found, strict=True):
        if kept and changed:
            what, line = shown(call)
            raise Verdict(
                f"{what} changed an argument; all must stay as they were.", reproduce=line
            )
    return [(plain(value), error) for value, error, _ in found]


def plain(value):
    """NumPy's numbers, which travel as arrays of no dimension, as Python's; lists within lists."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value.tolist()
    return value


def typed(target, arguments):
    """The line that tries out a function that needs no ranks."""
    module, _, function = target.partition(":")
    words = ", ".join(map(repr, arguments))
    return f'python -c "import {module}; print({module}.{function}({words}))"'


def check_all_reduces(result, wanted, case, free=()):
    """``examples.assert_all_reduces``."""
    examples.assert_all_reduces(result, wanted, case, free)


def check_each(checks, **weights):
    """Several checks, each of which earns its share of a test's points."""
    check_kinds(checks, str, lambda name: checks[name](), weights=weights)


def check_requests(result, case):
    """Every all-reduce that was started was waited for, or tested until it was done."""
    assert_requests_complete(result, case, [Kind.COLLECTIVE])
