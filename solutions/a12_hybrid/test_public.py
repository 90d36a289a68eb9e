"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. ``ranks.call`` runs something on simulated ranks, through ``callers.py`` where it
must be made or looked at inside a rank.
"""

import itertools
import sys
from pathlib import Path

import grid_cases
import train2d_cases
from grid_cases import DRAWN, DRAWN_ORDER, Laid
from train2d_cases import train2d_case, trained

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.trace import Kind

# -- grid ------------------------------------------------------------------------------------------
DRAWN_RANKS = Laid(DRAWN, DRAWN_ORDER)


@points(16, "values", "grid")
def test_grid_of_three_axes(ranks, rng):
    orders = [DRAWN_ORDER, ["pipe", "tensor", "data"], ["data", "pipe", "tensor"]]
    grid_cases.check_grid(ranks, "coordinates", [(12, DRAWN, order) for order in orders])


@points(10, "values", "grid")
def test_grid_of_other_numbers_of_axes(ranks, rng):
    calls = [(4, {"data": 4}, ["data"]), (1, {}, []), (3, {"data": 1, "pipe": 3}, ["pipe", "data"])]
    calls += [(12, {"a": 2, "b": 3, "c": 1, "d": 2}, ["d", "a", "c", "b"])]
    grid_cases.check_grid(ranks, "coordinates", calls)


@points(10, "safety", "grid")
def test_grid_refuses_what_does_not_fit(ranks, rng):
    calls = [(11, DRAWN, DRAWN_ORDER), (12, DRAWN, ["data", "pipe"]), (12, DRAWN, ["data"] * 3)]
    calls += [(-12, {**DRAWN, "pipe": -2}, DRAWN_ORDER)]
    grid_cases.check_grid(ranks, "coordinates", calls)


@points(12, "values", "grid")
def test_grid_groups_of_one_axis(ranks, rng):
    axes = ["tensor", "data", "pipe"]
    grid_cases.check_grid(ranks, "groups", [(DRAWN_RANKS, [axis]) for axis in axes])


@points(12, "values", "grid")
def test_grid_groups_of_several_axes(ranks, rng):
    axes = [*itertools.permutations(DRAWN, 2), (), tuple(DRAWN)]
    grid_cases.check_grid(ranks, "groups", [(DRAWN_RANKS, list(each)) for each in axes])


@points(6, "values", "grid")
def test_grid_groups_of_ranks_in_any_order(ranks, rng):
    shuffled = Laid(DRAWN, DRAWN_ORDER, int(rng.integers(1000)))
    grid_cases.check_grid(ranks, "groups", [(shuffled, ["tensor"]), (shuffled, ["data"])])


@points(4, "safety", "grid")
def test_grid_groups_refuse_unknown_axes(ranks, rng):
    calls = [(DRAWN_RANKS, ["expert"]), (DRAWN_RANKS, ["data", "data"])]
    grid_cases.check_grid(ranks, "groups", calls)


@points(12, "values", "grid")
def test_grid_neighbours(ranks, rng):
    calls = [(DRAWN_RANKS, 5, "tensor", 1, True), (DRAWN_RANKS, 5, "tensor", 1, False)]
    calls += [(DRAWN_RANKS, 0, "pipe", 1, False), (DRAWN_RANKS, 1, "data", -1, False)]
    calls += [(DRAWN_RANKS, 1, "data", -1, True), (DRAWN_RANKS, 9, "tensor", -2, True)]
    grid_cases.check_grid(ranks, "neighbour", calls)


@points(8, "communication", "grid")
def test_grid_keeps_axes_inside_nodes(ranks, rng):
    calls = [(12, DRAWN, ["pipe"], 4), (12, DRAWN, ["pipe", "tensor"], 6), (12, DRAWN, [], 5)]
    calls += [(12, DRAWN, ["tensor"], 3), (12, DRAWN, ["data", "tensor"], 12)]
    grid_cases.check_grid(ranks, "place", calls)


@points(5, "safety", "grid")
def test_grid_refuses_groups_that_cross_nodes(ranks, rng):
    calls = [(12, DRAWN, ["data", "tensor"], 8), (12, DRAWN, ["tensor"], 4)]
    calls += [(12, DRAWN, ["expert"], 4)]
    grid_cases.check_grid(ranks, "place", calls)


REAL_GRID = """
from mpi4py import MPI
from ringside.real.watch import watched
import callers, grid_cases
comm = watched(MPI.COMM_WORLD, 20.0)
sizes, order, axes = {"data": 2, "tensor": 2}, ["tensor", "data"], ["data"]
case = grid_cases.grid_sum_case(sizes, order, axes)
found = callers.grid_summed(comm, sizes, order, axes)
ranks = grid_cases.grid_coordinates(sizes, order)
grid_cases.check_grid_sum(found, ranks, comm.rank, axes, case)
"""


@points(5, "reality", "grid")
def test_grid_as_communicators(ranks, rng, mpiexec):
    sizes, order, axes = {"data": 2, "tensor": 2}, ["tensor", "data"], ["data"]
    case = grid_cases.grid_sum_case(sizes, order, axes)
    run = ranks.call("callers:grid_summed", 4, [(sizes, order, axes)] * 4, machine=buffered())
    assert_ran(run, case)
    grid_cases.check_grid_sums(run.values, sizes, order, axes, case.seen_in(run))
    words = [mpiexec, "-n", "4", sys.executable, "-c", REAL_GRID]
    assert_real_run(words, Path(__file__).parent, "the grid under mpiexec")


# -- train2d ---------------------------------------------------------------------------------------
WIDE = (6, 60, 60, 4)


@points(13, "values", "train2d")
def test_train2d_equals_serial_training(ranks, rng):
    for grid in ((2, 3), (3, 2)):
        trained(ranks, train2d_case(grid, WIDE, 2, rng, steps=3))


@points(10, "values", "train2d")
def test_train2d_with_one_row_or_one_column(ranks, rng):
    trained(ranks, train2d_case((1, 3), WIDE, 2, rng))
    trained(ranks, train2d_case((4, 1), WIDE, 3, rng))


@points(11, "values", "train2d")
def test_train2d_with_uneven_samples_and_widths(ranks, rng):
    trained(ranks, train2d_case((2, 3), WIDE, (5, 1, 0), rng))
    trained(ranks, train2d_case((3, 2), (4, 2, 71, 70, 5), 2, rng))


@points(5, "values", "train2d")
def test_train2d_losses_are_means_over_the_global_batch(ranks, rng):
    trained(ranks, train2d_case((2, 3), WIDE, (2, 2, 2), rng), losses=True)


@points(2, "values", "train2d")
def test_train2d_in_float32(ranks, rng):
    trained(ranks, train2d_case((2, 2), WIDE, 2, rng, dtype="float32"))


REAL_TRAIN2D = """
from mpi4py import MPI
from ringside.real.watch import watched
import train2d, train2d_cases, numpy as np
comm = watched(MPI.COMM_WORLD, 20.0)
case = train2d_cases.train2d_case((2, 2), (6, 60, 60, 4), 2, np.random.default_rng(4))
found = train2d.train(comm, *case.arguments_of_ranks()[comm.rank])
train2d_cases.check_rank(found, train2d_cases.serial(case), comm.rank, case)
"""


@points(4, "reality", "train2d")
def test_train2d_under_mpiexec(ranks, rng, mpiexec):
    trained(ranks, train2d_case((2, 2), WIDE, 2, rng))
    words = [mpiexec, "-n", "4", sys.executable, "-c", REAL_TRAIN2D]
    assert_real_run(words, Path(__file__).parent, "train under mpiexec")


@points(7, "communication", "train2d")
def test_train2d_gathers_in_columns_forward(ranks, rng):
    case = train2d_case((3, 2), (6, 60, 90), 10, rng, steps=1)
    trained(ranks, case)
    through, given = case.via("train2d_forward"), case.arguments_of_ranks()
    result = ranks.call("callers:train2d_forward", 6, given, machine=buffered())
    assert_ran(result, through)
    for rank, value in enumerate(result.values):
        train2d_cases.check_logits(value, rank, through.seen_in(result))
    allowed = [case.gathered(rank) + train2d_cases.FREE for rank in range(6)]
    train2d_cases.assert_axis(result, through, 0, allowed)


@points(6, "communication", "train2d")
def test_train2d_scatters_sums_in_columns_backward(ranks, rng):
    case = train2d_case((3, 2), (3, 60, 90, 3), 10, rng, steps=1)
    result = trained(ranks, case)
    allowed = [case.gathered(rank) + case.scattered(rank) + 1024 for rank in range(6)]
    ranks.record(case, result, {"sent_bytes": allowed})
    train2d_cases.assert_axis(result, case, 0, allowed)


@points(8, "communication", "train2d")
def test_train2d_sums_gradients_in_rows(ranks, rng):
    case = train2d_case((2, 3), (30, 24, 12), 1, rng)
    result = trained(ranks, case)
    allowed = [2 * (case.summed(rank) + train2d_cases.FREE) for rank in range(6)]
    train2d_cases.assert_axis(result, case, 1, allowed)


@points(4, "communication", "train2d")
def test_train2d_on_some_ranks_of_the_world(ranks, rng):
    trained(ranks, train2d_case((2, 2), WIDE, 2, rng), world_size=5, members=[3, 1, 4, 2])


@points(5, "schedule", "train2d")
def test_train2d_multiplies_its_own_rows_and_samples(ranks, rng):
    case = train2d_case((2, 3), (8, 12, 8, 4), 4, rng)
    train2d_cases.assert_work(trained(ranks, case), case)


@points(4, "safety", "train2d")
def test_train2d_where_sends_wait_and_messages_come_in_any_order(ranks, rng):
    case = train2d_case((2, 2), WIDE, 2, rng)

    def run(**options):
        result = trained(ranks, case, **options)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])

    with_waiting_sends(run, case)
    for seed in LATENCY_SEEDS[:2]:
        run(machine=rendezvous(), seed=seed)


@points(4, "safety", "train2d")
def test_train2d_leaves_its_inputs(ranks, rng):
    case = train2d_case((2, 2), WIDE, 2, rng)
    given, right = case.arguments_of_ranks(), train2d_cases.serial(case)
    case = case.via("train2d_looked_at", ", called twice")
    result = ranks.call("callers:train2d_looked_at", 4, given, machine=buffered())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        train2d_cases.assert_kept(value, right, rank, case.seen_in(result))


@points(2, "safety", "train2d")
def test_train2d_refuses_grids_of_another_size(ranks, rng):
    for p, grid in ((5, (2, 2)), (3, (2, 2))):
        case = train2d_cases.train2d_refusal(p, grid)
        result = ranks.call("callers:train2d_refused", p, [grid] * p, machine=buffered())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            train2d_cases.assert_refused(value, rank, case.seen_in(result))


@points(15, "speed", "train2d")
def test_train2d_time_on_two_nodes(ranks, rng):
    machine = train2d_cases.train2d_miniature(Machine.load("zaratan"))
    case = train2d_case((4, 2), (16, 32, 32, 16), 16, rng)
    result = trained(ranks, case, machine=machine)
    train2d_cases.assert_work(result, case, least=True)
    assert_makespan(result, train2d_cases.step_s(case, machine), case)
