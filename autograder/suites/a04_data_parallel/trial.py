"""Runs that the tests of the modules that make a step share: draw, run, compare with serial.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more: doing
nothing, or each its own, earns no points for sending little.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from autograder.suites.a04_data_parallel import oracle
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.errors import TraceError
from ringside.machine import Machine
from ringside.replay import replay
from ringside.ring_bytes import received_as_ring, sent_as_ring
from ringside.trace import Kind
from ringside.widen import widen
from solutions.a04_data_parallel.model import init_params, num_flops

STEP, ACCUMULATE = "step:train_step", "accumulate:accumulated_step"
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
MOST_MESSAGES = 60_000  # in one replay
SMALL, DEEP, FLAT, WIDE = (12, 9, 5), (7, 11, 6, 8, 4), (10, 3), (250, 240, 10)

# What a rank has in one step: a number of samples, or the sizes of its microbatches.
Share = int | Sequence[int]


def samples_of(share: Share) -> int:
    return share if isinstance(share, int) else sum(share)


def pieces_of(share: Share) -> Sequence[int]:
    return (share,) if isinstance(share, int) else share


@dataclass
class Training:
    """Some steps on all ranks, with all that they are given."""

    case: Case
    shares: Sequence[Sequence[Share]]  # [step][rank]
    params: list[np.ndarray]
    velocity: list[np.ndarray]
    batches: list[list[list[oracle.Batch]]]  # [step][rank][microbatch]
    lrs: list[float]
    momentum: float

    @property
    def driver(self) -> str:
        """What the ranks call."""
        return "trials:steps"

    @property
    def learning(self) -> list[np.ndarray]:
        """The parameters whose gradient is needed."""
        return self.params

    def batch(self, step: int, rank: int) -> tuple[Any, ...]:
        """What a rank's function gets as its samples in a step."""
        pieces = self.batches[step][rank]
        return (pieces,) if self.case.target == ACCUMULATE else pieces[0]

    def arguments(self, rank: int) -> tuple[Any, ...]:
        """What the driver gets on a rank."""
        batches = [self.batch(step, rank) for step in range(len(self.lrs))]
        return (self.case.target, self.params, self.velocity, batches, self.lrs, self.momentum)

    def whole(self) -> list[oracle.Batch]:
        """All ranks' samples, a batch a step."""
        whole = []
        for ranks in self.batches:
            pieces = [piece for rank in ranks for piece in rank]
            x, y = (np.concatenate(each) for each in zip(*pieces, strict=True))
            whole.append((x, y))
        return whole

    def serial(self) -> tuple[oracle.Arrays, oracle.Arrays, list[float]]:
        """What one rank with all samples gets."""
        return oracle.serial_steps(
            self.params, self.velocity, self.whole(), self.lrs, self.momentum
        )


def training(
    rng: np.random.Generator,
    target: str,
    shares: Sequence[Sequence[Share]],
    widths: Sequence[int] = SMALL,
    dtype: str = "float64",
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
    params = init_params(widths, int(rng.integers(2**31)), dtype)
    velocity = [(0.1 * rng.standard_normal(p.shape)).astype(dtype) for p in params]
    batches = [
        [[_draw(rng, b, widths, dtype) for b in pieces_of(share)] for share in ranks]
        for ranks in shares
    ]
    lrs = [float(lr) for lr in rng.uniform(0.05, 0.5, size=len(shares))]
    return Training(case, shares, params, velocity, batches, lrs, float(rng.uniform(0.5, 0.95)))


def _draw(rng: np.random.Generator, b: int, widths: Sequence[int], dtype: str) -> oracle.Batch:
    x = rng.standard_normal((b, widths[0])).astype(dtype)
    return x, rng.integers(widths[-1], size=b)


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
    params, velocity, losses = asked.serial()
    for rank, value in enumerate(result.values):
        got_params, got_velocity, got_losses = value
        assert_arrays(got_params, params, case, f"rank {rank}'s parameter")
        assert_arrays(got_velocity, velocity, case, f"rank {rank}'s velocity")
        if loss:
            assert_losses(got_losses, losses, case, rank)


def assert_arrays(got: Any, wanted: oracle.Arrays, case: Case, what: str) -> None:
    """A list of arrays: how many, dtype, shapes and values."""
    if not isinstance(got, list | tuple) or len(got) != len(wanted):
        count = len(got) if isinstance(got, list | tuple) else f"a {type(got).__name__}, not"
        raise case.fail(f"{what}s: {count} arrays; there must be a list of {len(wanted)}.")
    for index, (array, right) in enumerate(zip(got, wanted, strict=True)):
        name = f"{what} array {index}"
        if not isinstance(array, np.ndarray):
            raise case.fail(f"{name} is of type {type(array).__name__}; it must be an array.")
        if array.dtype != right.dtype or array.shape != right.shape:
            raise case.fail(
                f"{name} has dtype {array.dtype} and shape {array.shape}; "
                f"it must have {right.dtype} and {right.shape}."
            )
        off = np.abs(array.astype("float64") - right.astype("float64"))
        allowed = TOLERANCE[str(right.dtype)] * max(1.0, float(np.abs(right).max(initial=0)))
        if not (off <= allowed).all():  # a NaN is wrong too
            at = tuple(int(i) for i in np.argwhere(~(off <= allowed))[0])
            raise case.fail(
                f"{name} is wrong in {int((~(off <= allowed)).sum())} of {off.size} elements: "
                f"element {at} is {array[at]:.12g}; it must be {right[at]:.12g}, as on one rank "
                "that has all samples."
            )


def assert_losses(got: Any, wanted: Sequence[float], case: Case, rank: int) -> None:
    """One number a step."""
    for step, (loss, right) in enumerate(zip(got, wanted, strict=True)):
        number = loss.item() if isinstance(loss, np.ndarray) and loss.ndim == 0 else loss
        if type(number) not in (int, float):
            raise case.fail(f"rank {rank}'s loss is of type {type(loss).__name__}, not a number.")
        if not abs(number - right) <= TOLERANCE[case.dtype] * max(1.0, abs(right)):
            raise case.fail(
                f"rank {rank}'s loss in step {step} is {number:.12g}; "
                f"the mean over all ranks' samples is {right:.12g}."
            )


# -- checks that both modules share ----------------------------------------------------------------


def check_values(ranks: Any, asked: Iterable[Training], *, loss: bool = False) -> None:
    """Each of several trainings gives what one rank would."""
    for each in asked:
        trained(ranks, each, loss=loss)


def check_equal_replicas(ranks: Any, asked: Iterable[Training]) -> None:
    """Parameters and velocity have the same bits on every rank."""
    for each in asked:
        result = trained(ranks, each)
        for kind, which in (("parameter", 0), ("velocity", 1)):
            for rank, value in enumerate(result.values):
                pairs = zip(value[which], result.values[0][which], strict=True)
                for index, (array, first) in enumerate(pairs):
                    if not np.array_equal(array, first):
                        most = float(np.abs(array - first).max())
                        raise each.case.fail(
                            f"{kind} array {index} of rank {rank} differs from rank 0's by up to "
                            f"{most:.1e}; copies must be equal bit for bit, or they drift apart."
                        )


def check_inputs_kept(ranks: Any, asked: Iterable[Training]) -> None:
    """Arguments, read-only on even ranks, are enough, and results are the caller's own."""
    for each in asked:
        params, velocity, _ = each.serial()
        size, case = each.case.world_size, each.case
        arguments = [
            (case.target, each.params, each.velocity, *each.batch(0, rank), each.lrs[0],
             each.momentum)
            for rank in range(size)
        ]  # fmt: skip
        result = ranks.call("trials:looked_at", size, arguments, machine=buffered())
        assert_ran(result, case)
        for rank, ((got_params, got_velocity, _), changed, shared, fixed) in enumerate(
            result.values
        ):
            assert_arrays(got_params, params, case, f"rank {rank}'s parameter")
            assert_arrays(got_velocity, velocity, case, f"rank {rank}'s velocity")
            if changed:
                raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
            if shared:
                raise case.fail(f"rank {rank} returned an array that it was given, not a new one.")
            if fixed:
                raise case.fail(f"rank {rank} returned an array that its caller can't write to.")


def check_second_call(ranks: Any, pairs: Iterable[tuple[Training, Training]]) -> None:
    """A step of another network leaves the first one's results alone, and knows nothing of it."""
    for first, second in pairs:
        size, case = first.case.world_size, first.case
        arguments = [
            (
                case.target,
                *(
                    (each.params, each.velocity, *each.batch(0, rank), each.lrs[0], each.momentum)
                    for each in (first, second)
                ),
            )
            for rank in range(size)
        ]
        result = ranks.call("trials:twice", size, arguments, machine=buffered())
        assert_ran(result, case)
        for rank, (then, now, late) in enumerate(result.values):
            for what, value, each in (
                (f"rank {rank}'s first", then, first),
                (f"rank {rank}'s first, looked at after a second call,", now, first),
                (f"rank {rank}'s second", late, second),
            ):
                params, velocity, _ = each.serial()
                assert_arrays(value[0], params, case, f"{what} parameter")
                assert_arrays(value[1], velocity, case, f"{what} velocity")


def check_bytes(ranks: Any, asked: Iterable[Training]) -> None:
    """The gradient is reduced once a step, and nothing beside it but a few numbers."""
    for each in asked:
        result = trained(ranks, each)
        steps, case = len(each.lrs), each.case
        allowed = steps * oracle.step_bytes(each.learning, case.world_size)
        ranks.record(case, result, {"sent_bytes": [allowed] * case.world_size})
        for did, counted in (
            ("sent", sent_as_ring(result)),
            ("received", received_as_ring(result)),
        ):
            for rank, nbytes in enumerate(counted):
                if nbytes > allowed + 1e-6:
                    raise case.fail(
                        f"in {steps} step{'s' * (steps > 1)} rank {rank} {did} {nbytes:.0f} bytes, "
                        f"collectives counted as a ring's; at most {allowed} are allowed: one "
                        "all-reduce of the gradient a step, and 8 numbers."
                    )


def check_given_communicator(
    ranks: Any, asked: Iterable[Training], run: Callable = trained
) -> None:
    """Only the ranks of ``comm`` take part, in the order that ``comm`` gives them."""
    for number, each in enumerate(asked):
        size = each.case.world_size
        world_size = size + 1 + number % 2
        members = list(range(world_size))[: -size - 1 : -1]  # the last ranks first
        on_members(
            functools.partial(run, ranks, each),
            members,
            world_size,
            each.case,
            "right on all ranks, wrong on a communicator or group of ranks {members}. There:",
        )


def check_rendezvous(ranks: Any, asked: Iterable[Training], run: Callable = trained) -> None:
    """Nothing hangs where every send waits for its receive."""
    for each in asked:
        result = with_waiting_sends(functools.partial(run, ranks, each), each.case)
        assert_requests_complete(result, each.case)


def check_any_order(ranks: Any, asked: Iterable[Training], run: Callable = trained) -> None:
    """Right whichever messages are slow, and whichever a wildcard takes."""
    for each in asked:
        for seed in LATENCY_SEEDS:
            for machine in (buffered(), rendezvous()):
                run(ranks, each, machine=machine, seed=seed)


def check_work(ranks: Any, asked: Iterable[Training]) -> None:
    """Each sample goes through the network once, on the rank that has it."""
    for each in asked:
        result = trained(ranks, each)
        for rank, done in enumerate(oracle.work(result)):
            own = sum(samples_of(shares[rank]) for shares in each.shares)
            right = num_flops(each.params, own)
            if not abs(done - right) <= 1e-9 * max(right, 1):
                raise each.case.fail(
                    f"rank {rank} put {done:.6g} floating-point operations into the network; its "
                    f"own {own} samples take {right:.6g}, each once."
                )


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


def check_makespan(ranks: Any, asked: Training) -> None:
    """The longest work of a rank and one all-reduce, on a cluster."""
    result = _worked(ranks, asked)
    if _num_messages(result, asked.case.world_size) > MOST_MESSAGES:
        calls = sum(op.kind != Kind.COMPUTE for op in result.trace.ops[0])
        raise _shown(asked, asked.case.world_size).fail(
            f"a rank made {calls} calls in one step: a call for each row or number takes too long."
        )
    _award(result, asked, asked.case.world_size, result)


def check_stretched_makespan(ranks: Any, asked: Training, world_size: int) -> None:
    """The same on many more ranks, each with as many samples: the few ranks' trace is stretched.

    A program whose messages name their partners can't be, nor one that gathers shards, which
    become smaller with more ranks: it is timed on fewer ranks.
    """
    result = _worked(ranks, asked)
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
    declared, right = sum(oracle.work(result)), num_flops(asked.params, case.n)
    if declared < right * (1 - 1e-9):
        raise case.fail(
            f"all ranks together put {declared:.6g} floating-point operations into the network; "
            f"the samples take {right:.6g}."
        )
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
    assert_makespan(timed, bound_s, case, beside=beside)


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
