"""Runs that the tests of several modules share: call, check what came back, give the result.

Whatever a test is about, it asks for the values of its run first, on two ranks or more. Tests of
what was sent look at one run of each case (``seen``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_ran,
    buffered,
    members_of_world,
    on_members,
    rendezvous,
)
from ringside.checking.examples import beside
from ringside.session.session import Result
from ringside.timing.machine import Machine
from ringside.trace import Kind

SOLUTION = Path(__file__).resolve().parents[1]
examples: Any = beside(SOLUTION / "ping.py")  # the checks that students have, too
assert_only_messages, number = examples.assert_only_messages, examples.number
Check = Callable[[Result, Case], None]
# The clock may be looked at, and requests tested, as often as one likes: it takes next to no time.
RENDEZVOUS = rendezvous().with_(poll_s=1e-10)
EAGER = buffered().with_(poll_s=1e-10)
STARTED = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)  # what must be waited for


@dataclass(frozen=True)
class Asked:
    """A call: its case, each rank's arguments after ``comm``, and what must come back."""

    case: Case
    arguments: list[tuple[Any, ...]]
    check: Check  # raises a verdict on wrong results


def of_each(*checks: Callable[[], object]) -> None:
    """Check the module's functions one by one; each that is right earns its part of the points.

    The first verdict is the one that is told.
    """
    told, right = None, 0.0
    for check in checks:
        try:
            check()
            right += 1
        except Verdict as verdict:
            told, right = told or verdict, right + verdict.fraction
    if told is not None:
        told.fraction = right / len(checks)
        raise told


def run(
    ranks: Any, asked: Asked, *, machine: Machine | None = None, seed: int | None = None, **options
) -> Result:
    """Make the call, and check what came back."""
    machine = machine or RENDEZVOUS
    options.setdefault("world_size", asked.case.world_size)
    world_size = options.pop("world_size")
    result = ranks.call(
        asked.case.target, world_size, asked.arguments, machine=machine, seed=seed, **options
    )
    case = asked.case.seen_in(result)
    assert_ran(result, case)
    asked.check(result, case)
    return result


def seen(ranks: Any, case: Case, ask: Callable[[np.random.Generator, Case], Asked]) -> Result:
    """The run of a case that all tests share which look at what was sent, its values checked."""

    def made(rng: np.random.Generator) -> tuple[Asked, Result]:
        asked = ask(rng, case)
        call = (asked.case.target, asked.case.world_size, asked.arguments)
        return asked, ranks.call(*call, machine=RENDEZVOUS)

    asked, result = ranks.once(f"{case.target}, {case}", made)
    case.drawn[:] = asked.case.drawn
    case = case.seen_in(result)
    assert_ran(result, case)
    asked.check(result, case)
    return result


def check_any_order(ranks: Any, asked: Sequence[Asked]) -> None:
    """Right whichever messages are slow, whether sends wait or not."""

    def check(each: Asked) -> None:
        for seed in LATENCY_SEEDS:
            for machine in (EAGER, RENDEZVOUS):
                run(ranks, each, machine=machine, seed=seed)

    of_each(*(partial(check, each) for each in asked))


def check_again(ranks: Any, asked: Sequence[Asked]) -> None:
    """What a call gave stays as it is when another one is made."""

    def check(each: Asked) -> None:
        size, target = each.case.world_size, each.case.target
        arguments = [(target, *given) for given in each.arguments]
        result = ranks.call("callers:again", size, arguments, machine=RENDEZVOUS)
        case = each.case.called_by("callers:again").seen_in(result)
        assert_ran(result, case)
        try:
            each.check(result, case)
        except Verdict as verdict:
            run(ranks, each)  # wrong at once: that is another test's matter
            said = verdict.sentence.removeprefix(f"{case}: ")
            raise case.fail(f"{examples.LATER}{said}", verdict.detail) from None

    of_each(*(partial(check, each) for each in asked))


def check_in_a_row(ranks: Any, asked: Sequence[Asked], machine: Machine = RENDEZVOUS) -> None:
    """Right where a rank is in its next call already, while another one comes late to the first."""

    def check(each: Asked) -> None:
        arguments = [(each.case.target, *given) for given in each.arguments]
        size = each.case.world_size
        result = ranks.call("callers:in_a_row", size, arguments, machine=machine)
        case = each.case.called_by("callers:in_a_row").seen_in(result)
        try:
            assert_ran(result, case)
            each.check(result, case)
        except Verdict as verdict:
            run(ranks, each, machine=machine)  # wrong at once: that is another test's matter
            said = verdict.sentence.removeprefix(f"{case}: ")
            raise case.fail(f"{examples.IN_A_ROW}{said}", verdict.detail) from None

    of_each(*(partial(check, each) for each in asked))


def check_members(ranks: Any, rng: np.random.Generator, asked: Sequence[Asked]) -> None:
    """Only the ranks of ``comm`` take part, in the order that ``comm`` gives them."""

    def check(each: Asked) -> None:
        members, world_size = members_of_world(rng, each.case.world_size)
        on_members(partial(run, ranks, each), members, world_size, each.case)

    of_each(*(partial(check, each) for each in asked))


def check_real_mpi(mpi: Any, asked: Sequence[Asked]) -> None:
    """The same module under a real mpiexec: values only."""
    calls = [(each.case.target, each.case.world_size, each.arguments) for each in asked]
    for each, result in zip(asked, mpi.call_all(calls), strict=True):
        try:
            assert_ran(result, each.case)
            each.check(result, each.case)
        except Verdict as verdict:
            module, _, function = each.case.target.partition(":")
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=f"ringside launch {module}.py:{function} --site local "
                f"--set ranks_per_node={each.case.world_size}",
                detail=verdict.detail,
            ) from None
