"""step.py: one broadcast, then the same step on every rank."""

import functools
from dataclasses import dataclass

import numpy as np

from ringside.checking import Case, assert_ran, buffered
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from solutions.a04_data_parallel import digits
from solutions.a04_data_parallel.hidden import oracle, runs

BROADCAST = "step:broadcast_parameters"
STEP = runs.STEP

points = points_of("step")


def step(rng, *shares, widths=runs.SMALL, dtype="float64"):
    return runs.training(rng, STEP, shares, widths, dtype)


@dataclass
class Start:
    """A broadcast: every rank has parameters of its own."""

    case: Case
    params: list


def start(rng, world_size, widths=runs.SMALL, dtype="float64"):
    options = {"widths": ",".join(map(str, widths))}
    case = Case(BROADCAST, world_size, 0, dtype, options)
    case.drawn.append(int(rng.integers(2**31)))
    return Start(case, oracle.examples.starts(world_size, widths, dtype, case.drawn[0]))


def broadcast(ranks, asked, machine=None, members=None, world_size=None, seed=None):
    """Run a broadcast and check what every rank gets, bit for bit; returns the result."""
    case = asked.case
    result = ranks.call(
        BROADCAST,
        world_size or case.world_size,
        [(params,) for params in asked.params],
        machine=machine or buffered(),
        members=members,
        seed=seed,
    )
    assert_ran(result, case)
    case = case.seen_in(result)
    for rank, value in enumerate(result.values):
        oracle.examples.assert_start(case, rank, value, asked.params[0])
    return result


# -- values ----------------------------------------------------------------------------------------


@points(4, "values")
def test_parameters_of_rank_0_on_every_rank(ranks, rng):
    for world_size, widths, dtype in (
        (2, runs.SMALL, "float64"),
        (5, runs.DEEP, "float32"),
        (1, runs.SMALL, "float64"),
        (8, runs.FLAT, "float64"),
    ):
        asked = start(rng, world_size, widths, dtype)
        broadcast(ranks, asked)
        result = ranks.call(
            "callers:looked_at",
            world_size,
            [(BROADCAST, params) for params in asked.params],
            machine=buffered(),
        )
        case = asked.case.called_by("callers:looked_at").seen_in(result)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            oracle.examples.check_broadcast(case, rank, value)


@points(6, "values")
def test_one_step_on_2_4_and_8_ranks(ranks, rng):
    runs.check_values(ranks, [step(rng, [b] * p) for p, b in ((2, 6), (4, 3), (8, 1), (3, 5))])


@points(16, "values")
def test_unequal_numbers_of_samples(ranks, rng):
    shares = ([5, 2], [1, 9, 4], [7, 1, 1, 2, 3], [1, 2, 3, 4, 5, 6], [3, 3, 3, 3, 3, 3, 2])
    shares += ([0, 4], [3, 0, 1], [0, 0, 0, 2], [0, 5, 0, 0, 1])
    runs.check_values(ranks, [step(rng, each) for each in shares])


@points(7, "values")
def test_copies_stay_equal_over_several_steps(ranks, rng):
    asked = [
        step(rng, [4, 4], [3, 3], [2, 2]),
        step(rng, *[[2] * 5] * 4, widths=runs.DEEP),
        step(rng, [6], [3]),
    ]
    runs.check_equal_replicas(ranks, asked)


@points(4, "values")
def test_any_network_and_dtype(ranks, rng):
    asked = [
        step(rng, [3] * 3, widths=runs.DEEP),
        step(rng, [2, 2], widths=runs.FLAT),
        step(rng, [4] * 3, [2] * 3, dtype="float32"),
    ]
    check_kinds(
        asked, lambda each: f"networks of {each.case.dtype}", functools.partial(runs.trained, ranks)
    )


@points(4, "values")
def test_loss_is_the_mean_over_all_samples(ranks, rng):
    asked = [step(rng, [3, 3, 3], [2, 2, 2]), step(rng, [5, 2]), step(rng, [1, 6, 2])]
    runs.check_values(ranks, asked, loss=True)


@points(6, "values")
def test_inputs_stay_and_nothing_is_kept(ranks, rng):
    pairs = [
        (step(rng, [2, 2]), step(rng, [4, 4])),
        (step(rng, [2] * 3), step(rng, [3] * 3, widths=runs.AS_SMALL)),
    ]
    runs.check_kept(ranks, [step(rng, [3, 3]), step(rng, [2] * 4)], pairs)


@points(4, "reality")
def test_digits_under_real_mpi(ranks, mpi, rng):
    asked = step(rng, [10] * 3, [16] * 3, widths=(64, 16, 10))
    runs.trained(ranks, asked)
    x, y = digits.load()[0]
    chosen = iter(rng.permutation(len(x)))
    for shares, batches in zip(asked.shares, asked.drawn.batches, strict=True):
        for rank, b in enumerate(shares):
            mine = [next(chosen) for _ in range(b)]
            batches[rank] = [(x[mine], y[mine])]
    asked.drawn.velocity = [np.zeros_like(v) for v in asked.drawn.velocity]
    runs.check_real_mpi(mpi, [asked], "callers:steps")


# -- communication and work ------------------------------------------------------------------------


@points(12, "schedule", essential=True)
def test_each_rank_works_on_its_own_samples(ranks, rng):
    runs.check_split(ranks, step(rng, [8] * 4))


@points(11, "communication")
def test_bytes_per_rank(ranks, rng):
    asked = [
        step(rng, [3] * 4, [2] * 4, widths=(20, 30, 10)),
        step(rng, [1] * 12, widths=(16, 25, 6)),
        step(rng, [1] * 18, widths=(16, 25, 6)),
        step(rng, [2] * 3, widths=runs.WIDE),
        step(rng, [40] * 3, widths=runs.DEEP, dtype="float32"),
        *(step(rng, [2] * p, widths=(16, 25, 6)) for p in (2, 5)),
    ]
    runs.check_bytes(ranks, asked)


@points(3, "communication")
def test_bytes_of_the_broadcast(ranks, rng):
    for world_size in (2, 3, 4, 7, 8, 12, 18):
        asked = start(rng, world_size, widths=runs.WIDE if world_size == 4 else (20, 30, 10))
        result, case = broadcast(ranks, asked), asked.case
        nbytes = sum(p.nbytes for p in asked.params[0])
        allowed = [0] + [nbytes] * (world_size - 1)
        for rank, received in enumerate(received_as_ring(result)):
            # Counted as a ring, the library's broadcast comes by the root once more.
            if received > allowed[rank] + (nbytes if rank == 0 and result.collectives else 0):
                raise case.fail(
                    f"rank {rank} received {received:.0f} bytes; "
                    f"at most {allowed[rank]} are allowed."
                )
        sent = sum(sent_as_ring(result)) - (nbytes if result.collectives else 0)
        if sent > (world_size - 1) * nbytes:
            raise case.fail(
                f"all ranks together sent {sent:.0f} bytes; "
                f"at most {(world_size - 1) * nbytes} are allowed."
            )


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    steps, starts = [step(rng, [2] * 3), step(rng, [3, 3])], [start(rng, 3), start(rng, 2)]
    runs.check_both(runs.check_given_communicator, ranks, steps, starts, broadcast)


# -- safety and speed ------------------------------------------------------------------------------


@points(10, "safety")
def test_sends_may_wait_and_come_in_any_order(ranks, rng):
    steps = [step(rng, [2] * p, [1] * p) for p in (2, 3, 4, 7)]
    starts = [start(rng, p) for p in (2, 3, 4)]
    runs.check_both(runs.check_safety, ranks, steps, starts, broadcast)


@points(9, "speed")
def test_time_on_512_ranks(ranks, rng):
    # First on few ranks: what is wrong there need not be tried on many.
    runs.trained(ranks, step(rng, [4] * 3))
    asked = step(rng, [48] * 8, widths=(64, 128, 10))
    runs.check_stretched_makespan(ranks, asked, 512)
