"""Runs and checks that the tests of buckets.py and overlap.py share.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more.
"""

from collections.abc import Sequence

import numpy as np

from ringside.checking import (
    Verdict,
    assert_array,
    assert_requests_complete,
    one_line,
)
from ringside.formulas import evaluated
from ringside.trace import Kind, Op

ANSWERS = "trials:several"


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


def check_arrays(values, expected, scales, case, what):
    """A list of arrays is as it must be."""
    if not isinstance(values, list) or len(values) != len(expected):
        raise case.fail(f"{what}: not all of {len(expected)} arrays came back.")
    for number, (value, wanted, scale) in enumerate(zip(values, expected, scales, strict=True)):
        if isinstance(value, np.ndarray) and value.shape == np.shape(wanted):
            value, wanted, scale = value.reshape(-1), np.ravel(wanted), np.ravel(scale)
        assert_array(value, wanted, scale, case, f"{what} {number}")


def collectives(result, rank) -> list[Op]:
    """A rank's library collectives, as the network counted them."""
    return [op for op in result.trace.ops[rank] if op.kind == Kind.COLLECTIVE]


def check_all_reduces(result, wanted: Sequence[int], case, members=None, free=()):
    """Each rank took part in all-reduces of so many bytes, in this order, and sent nothing else.

    Args:
        free: bounds of all-reduces that come before those of ``wanted``.
    """
    if result.comm_calls:
        raise case.fail("communicators were made; none is allowed.")
    if sum(result.sent_messages()):
        raise case.fail("messages were sent point to point; only all-reduces are allowed.")
    for place in range(case.world_size):
        rank = place if members is None else members[place]
        ops = collectives(result, rank)
        for op in ops:
            if op.detail[0] != "allreduce":
                name = one_line(str(op.detail[0]), 40)
                raise case.fail(f"the library's {name} was called; only all-reduces are allowed.")
            call = result.trace.sites[op.site].call if op.site >= 0 else ""
            if call.startswith(("allreduce(", "iallreduce(")):
                raise case.fail(
                    f"rank {place} called {call.partition('(')[0]}, which pickles what it sends; "
                    "Allreduce and Iallreduce are allowed."
                )
        counted = [op.nbytes for op in ops]
        expected = [*free, *wanted]
        if len(counted) != len(expected):
            raise case.fail(
                f"rank {place} took part in {len(counted)} all-reduces; "
                f"{len(expected)} are asked for: one a bucket"
                f"{' and one to agree' if free else ''}."
            )
        for number, (nbytes, bound) in enumerate(zip(counted, expected, strict=True)):
            exact = number >= len(free)
            if nbytes > bound or (exact and nbytes != bound):
                raise case.fail(
                    f"rank {place}'s all-reduce number {number} has {nbytes} bytes; "
                    f"{'' if exact else 'at most '}{bound} are asked for."
                )


def check_requests(result, case):
    """Every all-reduce that was started was waited for, or tested until it was done."""
    assert_requests_complete(result, case, [Kind.COLLECTIVE])
