"""What the docstrings ask for: each call's inputs, and the check of what comes back."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from autograder.suites.a01_first_ranks.trial import Asked, assert_none_elsewhere, number
from ringside.checking import Case, assert_array, assert_values, one_line
from ringside.machine import Machine
from ringside.world import Result
from solutions.a01_first_ranks import cases
from solutions.a01_first_ranks.places import line

NEAR = 0.01  # of a measured time: a poll takes a little


# -- ping --------------------------------------------------------------------------------------


def bounce(rng: np.random.Generator, case: Case, repetitions: int = 3, partner: int = 1) -> Asked:
    """``bounce`` of different arrays on every rank."""
    vectors = case.vectors(rng)

    def check(result: Result, case: Case) -> None:
        if case.world_size > 1:
            assert_array(result.values[0], vectors[0], None, case, "rank 0's result")
        assert_none_elsewhere(result, case, 0 if case.world_size > 1 else -1)

    return Asked(case, [(x, repetitions, partner) for x in vectors], check)


def trip_s(machine: Machine, nbytes: int, here: int = 0, there: int = 1) -> float:
    """A message's time between two world ranks."""
    link = machine.link(here, there)
    return link.alpha_s + nbytes * link.beta_s_per_byte


def ping(case: Case, repetitions: int = 3, partner: int = 1) -> Asked:
    """``ping``; what its run took says what it must have measured."""

    def check(result: Result, case: Case) -> None:
        assert_none_elsewhere(result, case, 0 if case.world_size > 1 else -1)
        if case.world_size > 1 and hasattr(result, "members"):  # else real ranks: they take time
            members = result.members
            right_s = trip_s(result.machine, case.n, members[0], members[partner])
            if result.seed is not None:
                right_s = result.makespan_s / (2 * (repetitions + 1))
            assert_time(result.values[0], right_s, case)
        elif case.world_size > 1:
            assert_positive(result.values[0], case)

    return Asked(case, [(case.n, repetitions, partner)] * case.world_size, check)


def assert_time(value: object, right_s: float, case: Case) -> None:
    """Rank 0 returned this time."""
    found = number(value)
    if found is None:
        shown = one_line(repr(value), 60)
        raise case.fail(f"rank 0 returned {shown}; it must be a number of seconds.")
    if not abs(found - right_s) <= NEAR * right_s + 1e-12:
        double = abs(found - 2 * right_s) <= 2 * NEAR * right_s
        more = " It is the time of a whole round trip." if double else ""
        raise case.fail(
            f"rank 0 returned {found:.6g} s; half of the mean round trip, the first one left out, "
            f"is {right_s:.6g} s.{more}"
        )


def assert_positive(value: object, case: Case) -> None:
    found = number(value)
    if found is None or not 0 < found < 10:
        shown = one_line(repr(value), 60)
        raise case.fail(f"rank 0 returned {shown}; it must be a number of seconds above 0.")


# -- mend --------------------------------------------------------------------------------------


def exchange(rng: np.random.Generator, case: Case) -> Asked:
    vectors = case.vectors(rng)

    def check(result: Result, case: Case) -> None:
        assert_values(result, [vectors[rank - 1] for rank in range(case.world_size)], case)

    return Asked(case, [(x,) for x in vectors], check)


def mean(rng: np.random.Generator, lengths: Sequence[int]) -> Asked:
    vectors = [rng.normal(5 + rank, 1 + rank, size=n) for rank, n in enumerate(lengths)]
    every = np.concatenate(vectors)
    rights = {"mean": float(every.mean()), "deviation": float(every.std())}
    return _mean(cases.mean_call(lengths), vectors, rights)


def mean_of_equal(rng: np.random.Generator, lengths: Sequence[int]) -> Asked:
    """All elements are one number, for which one pass finds a variance just below 0."""
    variance = 0.0
    while variance >= 0:
        equal = round(rng.uniform(0.1, 1), 3)
        vectors = [np.full(n, equal) for n in lengths]
        count, total, squares = np.sum([(len(x), x.sum(), x @ x) for x in vectors], axis=0)
        variance = squares / count - (total / count) ** 2
    rights = {"mean": equal, "deviation": 0.0}
    return _mean(cases.mean_call(lengths, equal), vectors, rights, within=1e-5)


def _mean(
    case: Case, vectors: list[np.ndarray], rights: dict[str, float], within: float = 1e-9
) -> Asked:
    def check(result: Result, case: Case) -> None:
        for rank, value in enumerate(result.values):
            pair = isinstance(value, tuple | list) and len(value) == 2
            if not pair:
                shown = one_line(repr(value), 60)
                raise case.fail(f"rank {rank} returned {shown}; it must be (mean, deviation).")
            for (name, right), given in zip(rights.items(), value, strict=True):
                found = number(given)
                if found is None:
                    shown = one_line(repr(given), 60)
                    raise case.fail(f"rank {rank}'s {name} is {shown}; it must be a number.")
                if not abs(found - right) <= within * max(1.0, abs(right)):
                    raise case.fail(f"rank {rank}'s {name} is {found}; it must be {right}.")

    return Asked(case, [(x,) for x in vectors], check)


def collect(rng: np.random.Generator, world_size: int, rows: int, width: int) -> Asked:
    drawn = rng.standard_normal((world_size, rows, width)) * 3

    def check(result: Result, case: Case) -> None:
        assert_array(result.values[0], drawn**2, None, case, "rank 0's result")
        assert_none_elsewhere(result, case)

    case = cases.collect_call(world_size, rows, width)
    return Asked(case, [(each,) for each in drawn], check)


# -- where -------------------------------------------------------------------------------------


def where(case: Case, visible: Sequence[str | None], machine: Machine) -> Asked:
    """``where``; hosts are the nodes of the machine on which the members of ``comm`` live."""

    def check(result: Result, case: Case) -> None:
        assert_none_elsewhere(result, case)
        nodes = [f"node{machine.node(rank)}" for rank in result.members]
        rows = places(nodes, visible)
        assert_rows(result.values[0], rows, case)
        told = [text for text in result.output[result.members[0]].splitlines() if text.strip()]
        told = [text for text in told if re.match(r"rank \d+:", text)]
        for row, text in zip(rows, told, strict=False):
            if text.rstrip() != line(*row):
                shown = one_line(text, 100)
                raise case.fail(f"rank 0 printed {shown!r} where {line(*row)!r} was due.")
        if len(told) != len(rows):
            raise case.fail(f"rank 0 printed {len(told)} lines for {len(rows)} ranks.")

    return Asked(case, [(each,) for each in visible], check)


def where_on_one_host(case: Case, visible: Sequence[str | None]) -> Asked:
    """On real ranks, which are all on one machine of some name."""

    def check(result: Result, case: Case) -> None:
        assert_none_elsewhere(result, case)
        found = result.values[0]
        try:
            host = str(found[0][1])
        except (TypeError, IndexError, KeyError):
            host = ""
        assert_rows(found, places([host] * case.world_size, visible), case)

    return Asked(case, [(each,) for each in visible], check)


def places(nodes: Sequence[str], visible: Sequence[str | None]) -> list[tuple[object, ...]]:
    """The table, from the nodes of all ranks."""
    rows: list[tuple[object, ...]] = []
    for rank, (node, seen) in enumerate(zip(nodes, visible, strict=True)):
        local = list(nodes[:rank]).count(node)
        gpus = seen.split(",") if seen else []
        rows.append((rank, node, local, gpus[local % len(gpus)] if gpus else None))
    return rows


def assert_rows(value: object, rows: Sequence[tuple[object, ...]], case: Case) -> None:
    """Rank 0 returned this table."""
    if not isinstance(value, list | tuple) or len(value) != len(rows):
        shown = one_line(repr(value), 80)
        raise case.fail(f"rank 0 returned {shown}; it must be a list of {len(rows)} tuples.")
    for rank, (found, row) in enumerate(zip(value, rows, strict=True)):
        alike = isinstance(found, tuple | list) and len(found) == 4
        plain = tuple(_plain(each) for each in found) if alike else ()
        if plain != row:
            shown = one_line(repr(found), 100)
            raise case.fail(f"rank {rank}'s place is {shown}; it must be {row}.")


def _plain(value: object) -> object:
    found = number(value)
    return value if found is None else found
