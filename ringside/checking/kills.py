"""For tests in which ranks die, or bits are flipped: a case for each moment of a run without.

    for killed in killed_cases(ranks, case, lambda run: every_kill(run, 2)):
        with line_of(killed):
            assert_equal(right_run(ranks, killed), killed)

    p=4 seed=3  ->  p=4 seed=3 kill=2@op1,  p=4 seed=3 kill=2@op2 lost=True,  ...

A program may make any number of operations, so no table can name them: they come from the run of
the program that is tested. A case that names its kills stands for itself, as in a failure's line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ringside.checking.assertions import Verdict, assert_ran
from ringside.checking.cases import Case
from ringside.checking.suite import called
from ringside.session.session import Result
from ringside.trace import Kind

AnyCase = TypeVar("AnyCase", bound=Case)


def every_kill(run: Result, rank: int) -> list[str]:
    """One kill for each operation of a rank in a run, and one when it is about to return."""
    return [f"{rank}@op{number}" for number in range(1, len(run.trace.ops[rank]) + 2)]


def some(kills: Sequence[str], count: int, seed: int) -> list[str]:
    """So many kills, drawn, in their order; all, if there are no more or the count is 0."""
    if not 0 < count < len(kills):
        return list(kills)
    drawn = np.random.default_rng([seed, len(kills)]).choice(len(kills), count, replace=False)
    return [kills[index] for index in sorted(drawn)]


def killed_cases(
    ranks: Any, case: AnyCase, choose: Callable[[Result], Iterable[str]]
) -> Iterator[AnyCase]:
    """The case with each kill that is chosen from its run; in turn, messages arrive or are lost.

    Args:
        choose: the kills, as ``Case.kill`` has them, from the case's run in which nobody dies.
    """
    if case.kill:
        yield case
        return
    run = called(ranks, case)
    assert_ran(run, case)
    for number, kill in enumerate(choose(run)):
        yield case.with_(kill=kill, lost=number % 2 == 1)


def flipped_cases(ranks: Any, case: AnyCase, count: int) -> Iterator[AnyCase]:
    """The case with a flip of a drawn bit of a drawn message of its run, so many times.

    Ranks send alike often in turn: each one's messages are hit.
    """
    if case.flip:
        yield case
        return
    run = called(ranks, case)
    assert_ran(run, case)
    sizes = [
        [op.nbytes for op in run.trace.ops[rank] if op.kind == Kind.ISEND and op.nbytes]
        for rank in case.members or range(case.p)
    ]
    rng = np.random.default_rng([case.seed, _FLIPS])
    senders = [rank for rank, sent in enumerate(sizes) if sent]
    if not senders:
        raise case.fail("no rank sends a message of its own.")
    for number in range(count):
        rank = senders[number % len(senders)]
        message = int(rng.integers(len(sizes[rank])))
        bit = int(rng.integers(8 * sizes[rank][message]))
        yield case.with_(flip=f"{rank}#{message + 1}:bit{bit}")


_FLIPS = 1 << 22  # what is drawn from a seed beside the ranks' inputs


@contextlib.contextmanager
def line_of(case: Case) -> Iterator[None]:
    """A verdict in here has the line of this case, and not that of the table's."""
    try:
        yield
    except Verdict as verdict:
        verdict.case = case
        raise
