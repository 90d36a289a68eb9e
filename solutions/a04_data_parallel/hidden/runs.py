"""Runs that the tests of the modules that make a step share: draw, run, compare with serial.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more: doing
nothing, or each its own, earns no points for sending little.
"""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Iterable, Sequence
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
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.errors import TraceError
from ringside.timing.extrapolation import widen
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind
from solutions.a04_data_parallel.hidden import oracle
from solutions.a04_data_parallel.model import num_flops

STEP, ACCUMULATE = "step:train_step", "accumulate:accumulated_step"
MOST_MESSAGES = 60_000  # in one replay
MOST_CALLS = 100  # of a rank in one step, for the gradients of four arrays
SMALL, DEEP, FLAT, WIDE = (12, 9, 5), (7, 11, 6, 8, 4), (10, 3), (250, 240, 10)
AS_SMALL = (21, 6, 5)  # as many elements as ``SMALL``, in other shapes

# What a rank has in one step: a number of samples, or the sizes of its microbatches.
Share = int | Sequence[int]


pieces_of: Callable[[Share], Sequence[int]] = oracle.examples.pieces_of


def samples_of(share: Share) -> int:
    return share if isinstance(share, int) else sum(share)


@dataclass
class Training:
    """Some steps on all ranks, with all that they are given."""

    case: Case
    shares: Sequence[Sequence[Share]]  # [step][rank]
    drawn: Any  # a Training of examples.py
    stale: bool = False

    @property
    def driver(self) -> str:
        """What the ranks call."""
        return "callers_torch:steps" if "_torch:" in self.case.target else "callers:steps"

    @property
    def params(self) -> list[np.ndarray]:
        found: list[np.ndarray] = self.drawn.params
        return found

    @property
    def lrs(self) -> list[float]:
        found: list[float] = self.drawn.lrs
        return found

    @property
    def learning(self) -> list[np.ndarray]:
        """The parameters whose gradient is needed."""
        return [p for k, p in enumerate(self.params) if k not in self.drawn.frozen]

    def arguments(self, rank: int) -> tuple[Any, ...]:
        """What the driver gets on a rank."""
        drawn = self.drawn
        batches = [drawn.batch(step, rank) for step in range(len(drawn.lrs))]
        given = (drawn.params, drawn.velocity, batches, drawn.lrs, drawn.momentum)
        if "_torch:" in self.case.target:
            return (*given, drawn.frozen, self.stale)
        return (self.case.target, *given)

    def first(self, rank: int) -> tuple[Any, ...]:
        """What the function itself gets in the first step."""
        found: tuple[Any, ...] = self.drawn.first(rank)
        return found


def training(
    rng: np.random.Generator,
    target: str,
    shares: Sequence[Sequence[Share]],
    widths: Sequence[int] = SMALL,
    dtype: str = "float64",
    frozen: Sequence[int] = (),
    stale: bool = False,
) -> Training:
    """Draw parameters, velocity and samples; ``shares[step][rank]`` says who has how many."""
    first = shares[0]
    options = {
        "sizes": ",".join(str(samples_of(share)) for share in first),
        "widths": ",".join(map(str, widths)),
    }
    if target == ACCUMULATE:
        options["microbatches"] = str(max(1, *(len(pieces_of(share)) for share in first)))
    total = sum(samples_of(share) for share in first)
    case = Case(target, len(first), total, dtype, options)
    case.drawn.append(int(rng.integers(2**31)))
    drawn = oracle.examples.Training(target, shares, widths, dtype, case.drawn[0], frozen)
    asked = Training(case, shares, drawn, stale)
    more = f" --frozen {_told(frozen)}" if frozen else ""
    more += " --stale 1" if stale else ""
    asked.case = case.called_by(f"{asked.driver} --shares {_told(shares)}{more}")
    return asked


def _told(value: Any) -> str:
    """Numbers in lists or tuples, as a word of a command line."""
    return shlex.quote(repr(value).replace(" ", ""))


# -- one run ---------------------------------------------------------------------------------------


def trained(
    ranks: Any,
    asked: Training,
    *,
    machine: Machine | None = None,
    members: Sequence[int] | None = None,
    world_size: int | None = None,
    seed: int | None = None,
    loss: bool = False,
) -> Any:
    """Run the steps and check parameters and velocity, and the loss if that is asked; the result.

    The loss has a test of its own, so that a wrong one costs its points and no others.
    """
    size = asked.case.world_size
    result = ranks.call(
        asked.driver,
        world_size or size,
        [asked.arguments(rank) for rank in range(size)],
        machine=machine or buffered(),
        members=members,
        seed=seed,
    )
    assert_trained(result, asked, loss=loss)
    return result


def assert_trained(result: Any, asked: Training, *, loss: bool = False) -> None:
    """Every rank has what one rank with all samples gets."""
    assert_ran(result, asked.case)
    case = asked.case.seen_in(result)
    serial = asked.drawn.serial()
    for rank, value in enumerate(result.values):
        oracle.examples.assert_steps(case, rank, value, serial)
        if loss:
            oracle.examples.assert_losses(value[2], serial[2], case, rank)


# -- checks that both modules share ----------------------------------------------------------------


def check_values(ranks: Any, asked: Iterable[Training], *, loss: bool = False) -> None:
    """Each of several trainings gives what one rank would."""
    check_kinds(asked, by_samples, functools.partial(trained, ranks, loss=loss))


def check_each(checks: dict[str, Callable], **weights: float) -> None:
    """Several checks, each of which earns its share of a test's points."""
    check_kinds(checks, str, lambda name: checks[name](), weights=weights)


def check_equal_replicas(ranks: Any, asked: Iterable[Training]) -> None:
    """Parameters and velocity have the same bits on every rank."""
    for each in asked:
        oracle.examples.assert_equal_replicas(trained(ranks, each), each.case)


def check_kept(
    ranks: Any, asked: Iterable[Training], pairs: Iterable[tuple[Training, Training]]
) -> None:
    """Inputs stay as they were, and nothing is kept for a second call."""
    check_each(
        {
            "arguments that stay": functools.partial(check_inputs_kept, ranks, asked),
            "a second call": functools.partial(check_second_call, ranks, pairs),
        }
    )


def check_inputs_kept(ranks: Any, asked: Iterable[Training]) -> None:
    """Arguments, read-only on even ranks, are enough, and results are the caller's own."""
    for each in asked:
        size = each.case.world_size
        arguments = [(each.case.target, *each.first(rank)) for rank in range(size)]
        result = ranks.call("callers:looked_at", size, arguments, machine=buffered())
        shares = _told(each.shares)
        case = each.case.called_by(f"callers:looked_at --shares {shares}").seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            oracle.examples.check_looked_at(case, rank, value, each.drawn)


def check_second_call(ranks: Any, pairs: Iterable[tuple[Training, Training]]) -> None:
    """A step of another network leaves the first one's results alone, and knows nothing of it."""
    for first, second in pairs:
        size = first.case.world_size
        arguments = [
            (first.case.target, first.first(rank), second.first(rank)) for rank in range(size)
        ]
        result = ranks.call("callers:twice", size, arguments, machine=buffered())
        case = dataclasses.replace(first.case, drawn=first.case.drawn + second.case.drawn)
        case = case.called_by(
            f"callers:twice --shares {_told(first.shares)} --second-shares {_told(second.shares)} "
            f"--second-widths {second.case.options['widths']}",
            2,
        ).seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            oracle.examples.check_twice(case, rank, value, first.drawn, second.drawn)


def check_bytes(ranks: Any, asked: Iterable[Training]) -> None:
    """The gradient is reduced once a step, and nothing beside it but a few numbers."""
    for each in asked:
        result = trained(ranks, each)
        steps, case = len(each.lrs), each.case
        allowed = steps * oracle.step_bytes(each.learning, case.world_size)
        ranks.record(case, result, {"sent_bytes": [allowed] * case.world_size})
        rule = "one all-reduce of the gradient a step, and 8 numbers"
        assert_moved(result, allowed, case, rule)


def check_given_communicator(
    ranks: Any, asked: Iterable[Training], run: Callable = trained
) -> None:
    """Only the ranks of ``comm`` take part, in the order that ``comm`` gives them."""
    for number, each in enumerate(asked):
        size = each.case.world_size
        world_size = size + 1 + number % 2
        members = list(range(world_size))[: -size - 1 : -1]  # the last ranks first
        comm = "the group" if "_torch:" in each.case.target else "comm"
        run_it = functools.partial(run, ranks, each)
        on_members(run_it, members, world_size, each.case, comm=comm)


def check_split(ranks: Any, asked: Training) -> None:
    """One plain step: each rank has its share of the work, and gradients travel."""
    size = asked.case.world_size
    arguments = [asked.arguments(rank) for rank in range(size)]
    result = ranks.call(asked.driver, size, arguments, machine=buffered())
    assert_ran(result, asked.case)
    own, nbytes = samples_of(asked.shares[0][0]), sum(p.nbytes for p in asked.params)
    right = num_flops(asked.params, own)
    oracle.examples.assert_split(result, asked.case, own, right, nbytes)


def check_safety(ranks: Any, asked: Iterable[Training], run: Callable = trained) -> None:
    """Right where sends wait for their receives, and whichever messages are slow."""
    for each in asked:
        result = with_waiting_sends(functools.partial(run, ranks, each), each.case)
        assert_requests_complete(result, each.case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])
        for seed in LATENCY_SEEDS:
            run(ranks, each, machine=buffered(), seed=seed)


def check_both(
    check: Callable, ranks: Any, steps: Sequence[Training], starts: Sequence[Any], run: Callable
) -> None:
    """A check of both functions: a broadcast that fails it costs a quarter of the points."""
    check_each(
        {
            "train_step": functools.partial(check, ranks, steps),
            "broadcast_parameters": functools.partial(check, ranks, starts, run),
        },
        train_step=3,
    )


def by_samples(asked: Training) -> str:
    """The kind of a training by how many samples its ranks have."""
    counts = {samples_of(share) for shares in asked.shares for share in shares}
    if 0 in counts:
        return "steps in which a rank has no samples"
    return "equal numbers of samples" if len(counts) == 1 else "unequal numbers of samples"


def cluster() -> Machine:
    """A cluster whose cores are slow enough that a small network keeps them busy."""
    return Machine(
        "slow cores",
        alpha_s=5e-8,
        beta_s_per_byte=1e-9,
        flop_per_s=1e9,
        collectives={"allreduce": "halving_doubling"},
    )


def _num_messages(result: Any, world_size: int) -> int:
    """Messages that a replay on so many ranks moves, about: some collectives go round a ring."""
    few, many = 2 * world_size.bit_length(), 2 * world_size
    rounds = [
        1 if op.kind != Kind.COLLECTIVE
        else many if op.detail[0] in ("allgather", "reduce_scatter")
        else few
        for op in result.trace.ops[0]
    ]  # fmt: skip
    return world_size * sum(rounds)


def check_stretched_makespan(ranks: Any, asked: Training, world_size: int) -> None:
    """The longest work of a rank and one all-reduce, on a cluster of many more ranks.

    Each has as many samples as the few that are run: their trace is stretched.

    A program whose messages name their partners can't be, nor one that gathers shards, which
    become smaller with more ranks: it is timed on fewer ranks.
    """
    result = _worked(ranks, asked)
    calls = sum(op.kind in (Kind.COLLECTIVE, Kind.ISEND) for op in result.trace.ops[0])
    if calls > MOST_CALLS:
        raise _shown(asked, asked.case.world_size).fail(
            f"a rank made {calls} calls in one step: a call for each row or number takes too long."
        )
    names = {op.detail[0] for op in result.trace.ops[0] if op.kind == Kind.COLLECTIVE}
    if {"reduce_scatter", "allgather"} <= names:
        _award(result, asked, asked.case.world_size, result)
        return
    while _num_messages(result, world_size) > MOST_MESSAGES:  # many calls are as slow on fewer
        world_size //= 2
    try:
        wide = widen(result.trace, world_size)
    except TraceError:
        _award(result, asked, asked.case.world_size, result)
        return
    timeline = replay(wide, result.machine)
    _award(SimpleNamespace(
        makespan_s=timeline.makespan_s, comm_calls=[], machine=result.machine,
    ), asked, world_size, result)  # fmt: skip


def _worked(ranks: Any, asked: Training) -> Any:
    """A run on the cluster whose ranks did their work, and reported it."""
    result, case = trained(ranks, asked, machine=cluster()), asked.case
    oracle.examples.assert_all_work(result, case, num_flops(asked.params, case.n))
    return result


def _shown(asked: Training, world_size: int) -> Case:
    """The case on so many ranks; their sizes, all alike, would be too long for a sentence."""
    options = {name: value for name, value in asked.case.options.items() if name != "sizes"}
    n = asked.case.n * world_size // asked.case.world_size
    return dataclasses.replace(asked.case, world_size=world_size, n=n, options=options)


def _award(timed: Any, asked: Training, world_size: int, result: Any) -> None:
    machine, shares, case = result.machine, asked.shares[0], _shown(asked, world_size)
    longest = max(samples_of(share) for share in shares)
    bound_s = oracle.step_seconds(asked.params, longest, world_size, machine)
    serial_s = num_flops(asked.params, case.n) / machine.flop_per_s
    beside = (
        f" One rank alone takes {serial_s * 1e6:.1f} µs: the speedup is "
        f"{serial_s / timed.makespan_s:.1f} of {world_size}."
    )
    stretched = world_size if timed is not result else None
    said = dataclasses.replace(asked.case, said=str(case))
    assert_makespan(timed, bound_s, said, beside=beside, wide=stretched)


def check_real_mpi(mpi: Any, asked: Sequence[Training], driver: str) -> None:
    """The same module under a real mpiexec: values only."""
    calls = []
    for each in asked:
        size = each.case.world_size
        calls.append((driver, size, [each.arguments(rank) for rank in range(size)]))
    for each, result in zip(asked, mpi.call_all(calls), strict=True):
        try:
            assert_trained(result, each)
        except Verdict as verdict:
            module = each.case.target.partition(":")[0]
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=f"ringside launch {module}.py:{each.case.function} --site local "
                f"--set ranks_per_node={each.case.world_size} -- --n {each.case.n}",
                detail=verdict.detail,
            ) from None
