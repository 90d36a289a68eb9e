"""What the docstrings ask for: each call's inputs, and the check of what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ringside.checking import Case, assert_array, assert_values, one_line
from ringside.session.session import Result
from ringside.timing.machine import Machine
from solutions.a01_first_ranks import cases
from solutions.a01_first_ranks.hidden.runs import Asked, examples

trip_s, assert_time, number = examples.trip_s, examples.assert_time, examples.number
assert_none_elsewhere = examples.assert_none_elsewhere


# -- ping --------------------------------------------------------------------------------------


def bounce(rng: np.random.Generator, case: Case, repetitions: int = 3, partner: int = 1) -> Asked:
    """``bounce`` of different arrays on every rank."""
    vectors = case.vectors(rng)

    def check(result: Result, case: Case) -> None:
        if case.world_size > 1:
            assert_array(result.values[0], vectors[0], None, case, "rank 0's result")
        assert_none_elsewhere(result.values, case, 0 if case.world_size > 1 else -1)

    return Asked(case, [(x, repetitions, partner) for x in vectors], check)


def ping(case: Case, repetitions: int = 3, partner: int = 1) -> Asked:
    """``ping``; what its run took says what it must have measured."""

    def check(result: Result, case: Case) -> None:
        assert_none_elsewhere(result.values, case, 0 if case.world_size > 1 else -1)
        if case.world_size > 1 and hasattr(result, "members"):  # else real ranks: they take time
            examples.assert_trip(result, case, case.n, repetitions, partner)
        elif case.world_size > 1:
            assert_positive(result.values[0], case)

    return Asked(case, [(case.n, repetitions, partner)] * case.world_size, check)


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
    case = cases.mean_call(lengths)
    case.drawn.append(int(rng.integers(2**31)))
    vectors = examples.elements(lengths, case.drawn[0])
    every = np.concatenate(vectors)
    rights = {"mean": float(every.mean()), "deviation": float(every.std())}
    return _mean(case, vectors, rights)


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
            examples.assert_mean(value, rank, rights, case, within)

    return Asked(case, [(x,) for x in vectors], check)


def collect(rng: np.random.Generator, world_size: int, rows: int, width: int) -> Asked:
    case = cases.collect_call(world_size, rows, width)
    case.drawn.append(int(rng.integers(2**31)))
    drawn = examples.table(world_size, rows, width, case.drawn[0])

    def check(result: Result, case: Case) -> None:
        assert_array(result.values[0], drawn**2, None, case, "rank 0's result")
        assert_none_elsewhere(result.values, case)

    return Asked(case, [(each,) for each in drawn], check)


# -- where -------------------------------------------------------------------------------------


def where(case: Case, visible: Sequence[str | None], machine: Machine) -> Asked:
    """``where``; hosts are the nodes of the machine on which the members of ``comm`` live."""

    def check(result: Result, case: Case) -> None:
        assert_none_elsewhere(result.values, case)
        nodes = [f"node{machine.node(rank)}" for rank in result.members]
        rows = places(nodes, visible)
        examples.assert_rows(result.values[0], rows, case.seen_in(result))

    return Asked(case, [(each,) for each in visible], check)


def where_on_one_host(case: Case, visible: Sequence[str | None]) -> Asked:
    """On real ranks, which are all on one machine of some name."""

    def check(result: Result, case: Case) -> None:
        assert_none_elsewhere(result.values, case)
        found = result.values[0]
        try:
            host = str(found[0][1])
        except (TypeError, IndexError, KeyError):
            host = ""
        examples.assert_rows(found, places([host] * case.world_size, visible), case)

    return Asked(case, [(each,) for each in visible], check)


def places(nodes: Sequence[str], visible: Sequence[str | None]) -> list[tuple[object, ...]]:
    """The table, from the nodes of all ranks; students don't have it: it is what they write."""
    rows: list[tuple[object, ...]] = []
    for rank, (node, seen) in enumerate(zip(nodes, visible, strict=True)):
        local = list(nodes[:rank]).count(node)
        gpus = seen.split(",") if seen else []
        rows.append((rank, node, local, gpus[local % len(gpus)] if gpus else None))
    return rows
