"""Runs that the tests of all layers share: draw, run, compare with the whole layer on one rank.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more:
doing nothing, or each its own, earns no points for sending little.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import answered
from ringside.errors import TraceError
from ringside.timing.extrapolation import widen
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind
from solutions.a08_tensor_parallel.hidden import oracle

MOST_MESSAGES = 60_000  # in one replay


@dataclass
class Asked:
    """One layer on all ranks, with all that it is given."""

    case: Case
    whole: tuple[Any, ...]

    @property
    def layer(self) -> str:
        return self.case.function

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(int(each) for each in str(self.case.options["widths"]).split(","))

    def arguments(self, rank: int) -> tuple[Any, ...]:
        """What the driver gets on a rank."""
        found: tuple[Any, ...] = oracle.examples.parts(
            self.layer, self.whole, self.case.world_size, rank
        )
        return found


def draw(
    rng: np.random.Generator, layer: str, p: int, n: int, widths: Sequence[int], dtype="float64"
) -> Asked:
    """Draw a layer of these widths and n samples, for p ranks."""
    options = {"widths": ",".join(map(str, widths))}
    case = Case(f"callers:{layer}", p, n, dtype, options)
    case.drawn.append(int(rng.integers(2**31)))
    drawn = np.random.default_rng(case.drawn[0])
    return Asked(case, oracle.examples.drawn(layer, n, tuple(widths), drawn, dtype))


def run(
    ranks: Any,
    asked: Asked,
    *,
    machine: Machine | None = None,
    members: Sequence[int] | None = None,
    world_size: int | None = None,
    seed: int | None = None,
) -> Any:
    """Run forward and backward and check all values; returns the result."""
    size = asked.case.world_size
    result = ranks.call(
        asked.case.target,
        world_size or size,
        [asked.arguments(rank) for rank in range(size)],
        machine=machine or buffered(),
        members=members,
        seed=seed,
    )
    assert_right(result, asked)
    return result


def assert_right(result: Any, asked: Asked) -> None:
    """Every rank has what the whole layer on one rank gives."""
    assert_ran(result, asked.case)
    case = asked.case.seen_in(result)
    for rank, value in enumerate(result.values):
        oracle.examples.assert_arrays(value, asked.whole, case, rank, f"rank {rank}'s")


# -- checks that all layers share ------------------------------------------------------------------


def check_values(ranks: Any, asked: Iterable[Asked]) -> None:
    """Each of several layers gives what one rank would."""
    for each in asked:
        run(ranks, each)


def check_values_of_kinds(
    ranks: Any, kinds: Mapping[str, Sequence[Asked]], weights: Mapping[str, float] | None = None
) -> None:
    """Values of several kinds of layers, each of which earns its share."""
    every = [(kind, each) for kind, asked in kinds.items() for each in asked]
    check_kinds(every, lambda pair: pair[0], lambda pair: run(ranks, pair[1]), weights=weights)


def check_cut(ranks: Any, asked: Asked, flops: float, weights_nbytes: float) -> None:
    """The point of the exercise: no rank has all the work, and the weights stay where they are.

    Args:
        flops: floating-point operations of the whole layer, forward and backward.
        weights_nbytes: bytes of all its weights.
    """
    result, case = run(ranks, asked), asked.case
    for rank in range(case.world_size):
        oracle.examples.assert_not_all_work(result, case, rank, flops)
    assert_moved(result, weights_nbytes / 2, case, "weights stay on their ranks")


def check_alike(ranks: Any, asked: Iterable[Asked]) -> None:
    """What all ranks have whole has the same bits on each."""
    for each in asked:
        oracle.examples.assert_alike(run(ranks, each), each.case)


def check_inputs_kept(ranks: Any, asked: Iterable[Asked]) -> None:
    """Arguments with gaps, read-only on even ranks, are enough, and results are the caller's."""
    for number, each in enumerate(asked):
        size, case = each.case.world_size, each.case
        order = "CF"[number % 2]  # memory by rows, or by columns
        arguments = [(each.layer, order, *each.arguments(rank)) for rank in range(size)]
        result = ranks.call("callers:looked_at", size, arguments, machine=buffered())
        case = case.called_by(f"callers:looked_at --order {order}").seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            oracle.examples.check_looked_at(case, rank, value, each.whole, order)


def check_second_calls(ranks: Any, rng: np.random.Generator, layer: str, other, same) -> None:
    """A second layer: of another shape, of the same one, and of the same one in float32.

    Args:
        other: ``(p, first, second)``, with ``(n, widths)`` for each of the two.
        same: ``(p, n, widths)``.
    """
    p, *two = other
    pairs = [tuple(draw(rng, layer, p, *each) for each in two)]
    first = draw(rng, layer, *same)
    pairs += [(first, draw(rng, layer, *same, dtype)) for dtype in ("float64", "float32")]
    check_second_call(ranks, pairs)


def check_second_call(ranks: Any, pairs: Iterable[tuple[Asked, Asked]]) -> None:
    """Another layer, in other arrays or the same, leaves the first one's results alone."""
    for first, second in pairs:
        size, case = first.case.world_size, first.case
        arguments = [
            (first.layer, first.arguments(rank), second.arguments(rank)) for rank in range(size)
        ]
        result = ranks.call("callers:twice", size, arguments, machine=buffered())
        case = by_both(first, second, "twice").seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            oracle.examples.check_twice(case, rank, value, first.whole, second.whole)
        check_interleaved(ranks, first, second)
        if any(
            getattr(first.case, name) != getattr(second.case, name)
            for name in ("n", "options", "dtype")
        ):
            continue  # the second one's values do not fit into the first one's arrays
        result = ranks.call("callers:updated", size, arguments, machine=buffered())
        case = by_both(first, second, "updated").seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            oracle.examples.check_updated(case, rank, value, second.whole)


def by_both(first: Asked, second: Asked, caller: str, more: str = "") -> Case:
    """The case of two layers that a function of ``callers.py`` calls."""
    second_one = f"--second-n {second.case.n} --second-widths {second.case.options['widths']}"
    if second.case.dtype != first.case.dtype:
        second_one += f" --second-dtype {second.case.dtype}"
    seeds = [first.case.drawn[0], second.case.drawn[0]]
    case = dataclasses.replace(first.case, drawn=seeds)
    return case.called_by(f"callers:{caller} {second_one}{more}", 2)


def check_interleaved(ranks: Any, first: Asked, second: Asked) -> None:
    """Two forward passes, then their backward passes, in either order."""
    size, both = first.case.world_size, (first, second)
    for last_first in (False, True):
        arguments = [
            (first.layer, *(each.arguments(rank) for each in both), last_first)
            for rank in range(size)
        ]
        result = ranks.call("callers:interleaved", size, arguments, machine=buffered())
        case = by_both(first, second, "interleaved", f" --last-first {int(last_first)}")
        case = case.seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            whole = first.whole, second.whole
            oracle.examples.check_interleaved(case, rank, value, *whole, last_first)


def check_bytes(ranks: Any, asked: Iterable[Asked], allowed) -> None:
    """Each rank moves at most ``allowed(asked)`` bytes, collectives counted as a ring's."""
    for each in asked:
        result, case = run(ranks, each), each.case
        bound = allowed(each)
        ranks.record(case, result, {"sent_bytes": [bound] * case.world_size})
        assert_moved(result, bound, case, "in forward and backward together")


def check_given_communicator(ranks: Any, asked: Iterable[Asked]) -> None:
    """Only the ranks of ``comm`` take part, in the order that ``comm`` gives them."""
    for number, each in enumerate(asked):
        size = each.case.world_size
        world_size = size + 1 + number % 2
        members = list(range(world_size))[: -size - 1 : -1]  # the last ranks first
        on_members(functools.partial(run, ranks, each), members, world_size, each.case)


def check_safety(ranks: Any, asked: Iterable[Asked]) -> None:
    """Nothing hangs where every send waits for its receive, and everything is waited for."""
    for each in asked:
        result = with_waiting_sends(functools.partial(run, ranks, each), each.case)
        kinds = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
        assert_requests_complete(result, each.case, kinds)


def check_any_order(ranks: Any, rng: np.random.Generator, layer: str, p: int, n, widths) -> None:
    """Two calls are right whichever messages are slow, and whichever a wildcard takes."""
    first, second = (draw(rng, layer, p, n, widths) for _ in range(2))
    arguments = [(layer, first.arguments(rank), second.arguments(rank)) for rank in range(p)]
    for seed in LATENCY_SEEDS:
        for machine in (buffered(), rendezvous()):
            result = ranks.call("callers:twice", p, arguments, machine=machine, seed=seed)
            case = by_both(first, second, "twice").seen_in(result)
            assert_ran(result, case)
            for rank, (then, _, late) in enumerate(result.values):
                # What became of the first results meanwhile is another test's question.
                value = then, then, late
                oracle.examples.check_twice(case, rank, value, first.whole, second.whole)


def check_work(ranks: Any, asked: Iterable[Asked], share, spare=0.0) -> None:
    """Each rank's products are those of its own part.

    Args:
        share: ``share(asked, rank)``: floating-point operations of a rank.
        spare: the fraction that may be computed again.
    """
    for each in asked:
        result = run(ranks, each)
        for rank in range(each.case.world_size):
            oracle.examples.assert_work(result, each.case, rank, share(each, rank), spare)


def check_makespan(
    ranks: Any,
    asked: Asked,
    machine: Machine,
    steps: Sequence[tuple[str, float]],
    work: float,
    wide: int | None = None,
    spare: float = 0.0,
) -> None:
    """The time of forward and backward, against a replay of products and ring all-reduces.

    Args:
        steps: what each rank must do, for ``oracle.makespan_s``.
        work: floating-point operations of all ranks together.
        wide: stretch the trace to so many ranks, each with as much; a program whose messages name
            their partners, or that gathers shards, is timed as it ran.
        spare: the fraction of the work that may be computed again; it counts to the bound.
    """
    result = run(ranks, asked, machine=machine)
    declared = sum(result.num_flops())
    oracle.examples.assert_all_work(result, asked.case, work)
    size, taken = asked.case.world_size, result  # a real run, or its stretched trace
    if wide is not None and _same_everywhere(result):
        size = max(size, _affordable(result, wide))
        time_s = replay(widen(result.trace, size), machine).makespan_s
        taken = SimpleNamespace(makespan_s=time_s, comm_calls=[], machine=machine)
    again = min(declared - work, spare * work) / asked.case.world_size
    bound_s = oracle.makespan_s([("compute", max(0.0, again)), *steps], size, machine)
    alone_s = work * size / asked.case.world_size / machine.flop_per_s
    how = f"Timed on {size} ranks" if taken is result else f"Stretched to {size} ranks"
    beside = (
        f" {how}; one rank alone takes {alone_s * 1e6:.1f} µs: the speedup is "
        f"{alone_s / taken.makespan_s:.1f} of {size}."
    )
    stretched = None if taken is result else size
    assert_makespan(taken, bound_s, asked.case, beside=beside, wide=stretched)


def _affordable(result: Any, world_size: int) -> int:
    """So many ranks that a replay moves few messages: many calls are as slow on fewer."""
    calls = sum(op.kind == Kind.COLLECTIVE for op in result.trace.ops[0])
    while 2 * calls * world_size**2 > MOST_MESSAGES:
        world_size //= 2
    return world_size


def _same_everywhere(result: Any) -> bool:
    """Whether a trace can be stretched: collectives of all ranks, and none that cuts shards."""
    names = {op.detail[0] for op in result.trace.ops[0] if op.kind == Kind.COLLECTIVE}
    if not names <= {"allreduce", "barrier", "bcast", "reduce"}:
        return False
    try:
        widen(result.trace, 2 * result.world_size)
    except TraceError:
        return False
    return True


def check_shards(ranks: Any, target: str, calls, wanted) -> None:
    """Every rank's part of the parameters, in memory of its own.

    Args:
        calls: a list of ``(*whole, world_size)``.
        wanted: ``wanted(call, rank)``: a tuple of arrays.
    """
    function = target.partition(":")[2]

    def shown(call):
        return f"{function} of {call[-1]}", ""

    found = iter(answered(ranks, "callers:shards", target, calls, shown))
    for call in calls:
        for rank in range(call[-1]):
            parts, shared, gaps = next(found)
            what = f"{function} for rank {rank} of {call[-1]}"
            rights = wanted(call, rank)
            if not isinstance(parts, list | tuple) or len(parts) != len(rights):
                raise Verdict(f"{what} must be a tuple of {len(rights)} arrays.")
            for index, (part, right) in enumerate(zip(parts, rights, strict=True)):
                same = isinstance(part, np.ndarray) and part.dtype == right.dtype
                if not same or not np.array_equal(part, right):
                    shape = part.shape if isinstance(part, np.ndarray) else type(part).__name__
                    raise Verdict(
                        f"{what}: array {index}, of shape {shape}, is not its part of the whole, "
                        f"of shape {right.shape} and dtype {right.dtype}."
                    )
            if shared:
                raise Verdict(
                    f"{what} shares memory with the whole layer, which then can't be given back."
                )
            if gaps:
                raise Verdict(f"{what}: an array is not contiguous.")


def check_real_mpi(mpi: Any, asked: Sequence[Asked]) -> None:
    """The same module under a real mpiexec: values only."""
    calls = []
    for each in asked:
        size = each.case.world_size
        calls.append((each.case.target, size, [each.arguments(rank) for rank in range(size)]))
    for each, result in zip(asked, mpi.call_all(calls), strict=True):
        try:
            assert_right(result, each)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=f"ringside launch callers.py:{each.layer} --site local "
                f"--set ranks_per_node={each.case.world_size} -- "
                + each.case.reproduce.partition(" -- ")[2],
                detail=verdict.detail,
            ) from None
