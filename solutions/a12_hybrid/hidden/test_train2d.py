"""train2d.py: serial training on a grid of ranks, and what goes down columns and along rows."""

import functools

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a12_hybrid.hidden.grid2d_oracle import train2d_cases as cases
from solutions.a12_hybrid.hidden.parts import checked

train2d_case, trained = cases.train2d_case, cases.trained

WIDE = (6, 60, 60, 4)  # few samples and wide layers: whole weights are more than may be sent

points = points_of("train2d")


# -- values ----------------------------------------------------------------------------------------


@points(10, "values")
def test_equal_to_serial_over_several_steps(ranks, rng):
    for grid, widths in (((2, 3), WIDE), ((3, 3), (6, 60, 72, 6)), ((4, 3), (5, 64, 64, 4))):
        trained(ranks, train2d_case(grid, widths, 2, rng, steps=3))


@points(5, "values")
def test_one_row_is_data_parallelism(ranks, rng):
    for p in (2, 5):
        trained(ranks, train2d_case((1, p), WIDE, 2, rng))


@points(5, "values")
def test_one_column_is_tensor_parallelism(ranks, rng):
    for p in (2, 4):
        trained(ranks, train2d_case((p, 1), WIDE, 3, rng))


@points(6, "values")
def test_uneven_batches(ranks, rng):
    for samples in ((3, 2, 2), (5, 1, 4), (0, 3, 1)):
        trained(ranks, train2d_case((2, 3), WIDE, samples, rng))


@points(6, "values")
def test_widths_that_rows_do_not_divide_and_float32(ranks, rng):
    def uneven():
        for rows, widths in ((2, (5, 61, 59, 3)), (3, (4, 50, 70, 5)), (3, (4, 2, 71, 70, 2))):
            trained(ranks, train2d_case((rows, 2), widths, 2, rng))

    def float32():
        trained(ranks, train2d_case((2, 3), WIDE, 2, rng, dtype="float32"))

    checked({"such widths": uneven, "float32": float32}, {"such widths": 2})


@points(5, "values")
def test_losses_are_means_over_the_global_batch(ranks, rng):
    for grid, samples in (((2, 3), 2), ((3, 2), 3), ((1, 3), 2)):
        trained(ranks, train2d_case(grid, (6, 60, 60, 6), samples, rng), losses=True)


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    tried = [train2d_case((2, 2), WIDE, 2, rng) for _ in range(2)]
    for case in tried:
        trained(ranks, case)
    jobs = [(case.target, 4, case.arguments_of_ranks()) for case in tried]
    for case, result in zip(tried, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            cases.check_trained(result.values, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


# -- communication and schedule --------------------------------------------------------------------


def forward_bytes(ranks, rng):
    for grid, widths, n in (
        ((2, 3), (4, 60, 40), 10), ((4, 2), (8, 80, 120, 40), 6), ((5, 2), (4, 50, 100), 7),
        ((12, 1), (4, 48, 96), 5), ((6, 3), (4, 60, 36), 6), ((2, 2), (8, 400, 300), 40),
    ):  # fmt: skip
        case = train2d_case(grid, widths, n, rng, steps=1)
        trained(ranks, case)
        through, given = case.via("train2d_forward"), case.arguments_of_ranks()
        result = ranks.call("callers:train2d_forward", case.world_size, given, machine=buffered())
        assert_ran(result, through)
        for rank, value in enumerate(result.values):
            cases.check_logits(value, rank, through.seen_in(result))
        allowed = [case.gathered(rank) + cases.FREE for rank in range(case.world_size)]
        cases.assert_axis(result, through, 0, allowed)


def backward_bytes(ranks, rng):
    # The input and the output are narrow: a sum of the samples' gradients is the work's test.
    for grid, widths, n in (
        ((2, 3), (2, 60, 90, 2), 10), ((4, 2), (4, 80, 120, 40, 4), 6),
        ((5, 2), (5, 150, 100, 5), 7), ((12, 1), (12, 144, 96, 12), 5),
        ((6, 3), (6, 120, 60, 6), 6), ((2, 2), (2, 400, 300, 2), 40),
    ):  # fmt: skip
        case = train2d_case(grid, widths, n, rng, steps=1)
        step = trained(ranks, case)
        through, given = case.via("train2d_forward"), case.arguments_of_ranks()
        result = ranks.call("callers:train2d_forward", case.world_size, given, machine=buffered())
        assert_ran(result, through)
        forward = cases.sent_on_axes(result, through)[0]  # whatever it is: forward_bytes looks
        spare = 2 * (grid[0] - 1) * n * -(-widths[0] // grid[0]) * case.itemsize
        allowed = [
            max(forward[rank], case.gathered(rank)) + case.scattered(rank) + spare + cases.FREE
            for rank in range(case.world_size)
        ]
        rows = [case.summed(rank) + cases.FREE for rank in range(case.world_size)]
        sent = [column + row for column, row in zip(allowed, rows, strict=True)]
        ranks.record(case, step, {"sent_bytes": sent})
        cases.assert_axis(step, case, 0, allowed)


@points(19, "communication")
def test_bytes_of_a_column(ranks, rng):
    passes = {"forward": forward_bytes, "backward": backward_bytes}
    checked({name: functools.partial(check, ranks, rng) for name, check in passes.items()})


@points(8, "communication")
def test_bytes_of_a_row(ranks, rng):
    for grid, widths, n in (
        ((2, 3), (30, 24, 12), 1), ((2, 4), (24, 32, 16), 1), ((1, 5), (20, 20, 10), 1),
        ((3, 4), (24, 36, 12), 1), ((3, 6), (24, 24, 12), 1), ((2, 2), (100, 200, 40), 2),
    ):  # fmt: skip
        case = train2d_case(grid, widths, n, rng)
        result = trained(ranks, case)
        allowed = [2 * (case.summed(rank) + cases.FREE) for rank in range(case.world_size)]
        cases.assert_axis(result, case, 1, allowed)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    for grid, members, world_size in (((2, 2), [4, 2, 0, 3], 5), ((2, 3), [5, 3, 6, 1, 0, 2], 7)):
        case = train2d_case(grid, WIDE, 2, rng)
        on_members(functools.partial(trained, ranks, case), members, world_size, case)


@points(5, "schedule")
def test_each_rank_multiplies_its_own_rows_and_samples(ranks, rng):
    for grid in ((2, 3), (4, 2)):
        case = train2d_case(grid, (8, 12, 8, 4), 4, rng)
        cases.assert_work(trained(ranks, case), case)


# -- safety ----------------------------------------------------------------------------------------


@points(8, "safety")
def test_messages_may_wait_and_come_in_any_order(ranks, rng):
    case = train2d_case((2, 3), WIDE, 2, rng)

    def run(**options):
        result = trained(ranks, case, **options)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])

    with_waiting_sends(run, case)
    for seed in LATENCY_SEEDS:
        run(machine=rendezvous(), seed=seed)


@points(5, "safety")
def test_inputs_stay_and_other_grids_are_refused(ranks, rng):
    def inputs():
        for grid in ((2, 2), (2, 3)):
            case = train2d_case(grid, WIDE, 2, rng)
            trained(ranks, case)
            given, right = case.arguments_of_ranks(), cases.serial(case)
            case, p = case.via("train2d_looked_at", ", called twice"), case.world_size
            result = ranks.call("callers:train2d_looked_at", p, given, machine=buffered())
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                cases.assert_kept(value, right, rank, case.seen_in(result))

    def refused():
        trained(ranks, train2d_case((2, 2), WIDE, 2, rng))
        for p, grid in ((5, (2, 2)), (4, (2, 3)), (3, (2, 1))):
            case = cases.train2d_refusal(p, grid)
            result = ranks.call("callers:train2d_refused", p, [grid] * p, machine=buffered())
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                cases.assert_refused(value, rank, case.seen_in(result))

    checked({"inputs": inputs, "other grids": refused})


# -- speed -----------------------------------------------------------------------------------------


def timed(ranks, rng, grid, widths, n):
    """Two steps on ``zaratan``, where an element of the small model stands for many."""
    machine = cases.train2d_miniature(Machine.load("zaratan"))
    case = train2d_case(grid, widths, n, rng)
    result = trained(ranks, case, machine=machine)
    cases.assert_work(result, case, least=True)
    assert_makespan(result, cases.step_s(case, machine), case)


@points(10, "speed")
def test_time_on_two_and_four_nodes(ranks, rng):
    timed(ranks, rng, (4, 2), (16, 32, 32, 16), 16)
    timed(ranks, rng, (2, 4), (16, 32, 32, 16), 16)
    timed(ranks, rng, (4, 4), (16, 48, 48, 16), 12)
