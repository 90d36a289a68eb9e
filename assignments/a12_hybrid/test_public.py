"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. ``ranks.call`` runs something on simulated ranks, through ``callers.py`` where it
must be made or looked at inside a rank.
"""

import itertools
import sys
from pathlib import Path

import grid_cases
import planner_cases
import predict_cases
import train2d_cases
import train3d_cases_torch as train3d
from einsum_graph import MLP_SIZES
from grid_cases import DRAWN, DRAWN_ORDER, Laid
from layout_cases import layout_case, layout_check, layout_counted
from planner_cases import GB, planner_check, planner_plans, planner_refused
from predict_cases import megatron, predict_asked, predict_near
from train2d_cases import train2d_case, trained

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.factors import Factors
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
from ringside.jobs.real.watch import watched
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
from ringside.jobs.real.watch import watched
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
    allowed = [case.gathered(rank) + case.scattered(rank) + 128 for rank in range(6)]
    ranks.record(case, result, {})
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


# -- train3d_torch ---------------------------------------------------------------------------------


TRAIN3D_ALL = train3d.Training((1, 1), dp=2, tp=2, sizes=(1, 1, 1))
TRAIN3D_STAGES = train3d.Training((1, 2, 1), sizes=(1, 1, 1, 1))
TRAIN3D_PLAIN = {"words": False, "loss": False}


def train3d_run(ranks, rng, case, *, words=True, loss=True, **where):
    """Train on a grid with announced passes, and compare with one process."""
    call, (whole, data) = case.call(), train3d.sample(rng, case)
    arguments = [train3d.arguments_of(case, whole, data, rank) for rank in range(case.world_size)]
    where = {"factors": Factors.drawn(rng), "world_size": case.world_size, **where}
    world_size = where.pop("world_size")
    result = ranks.call("train3d_callers_torch:trained", world_size, arguments, **where)
    assert_ran(result, call)
    call = call.seen_in(result)
    wanted = train3d.serial(case, whole, data, result.factors)
    for rank, value in enumerate(result.values):
        train3d.check_training(value, wanted, case, call, rank, words=words, loss=loss)
    return call, result


@points(10, "values", "train3d_torch")
def test_train3d_groups_of_the_grid(ranks):
    for sizes in ((2, 2, 2), (2, 3, 1), (1, 3, 2)):
        call = train3d.grid_call(sizes)
        result = ranks.call("train3d_callers_torch:grid_made", call.world_size, sizes)
        assert_ran(result, call)
        for rank, value in enumerate(result.values):
            train3d.check_grid(value, sizes, call, rank)


@points(10, "values", "train3d_torch")
def test_train3d_layer_on_a_tensor_axis(ranks, rng):
    for tp in (2, 3):
        call, case = train3d.layer_call(tp), train3d.layer_case(tp)
        whole, *rest = train3d.layer_sample(rng, case)
        parts = [train3d.parts_of(case, whole, rank) for rank in range(tp)]
        arguments = [(vars(case), own, *rest) for own in parts]
        result = ranks.call("train3d_callers_torch:layer_run", tp, arguments)
        assert_ran(result, call)
        wanted = train3d.serial_layer(case, whole, *rest)
        for rank, value in enumerate(result.values):
            train3d.check_layer(value, wanted, case, call, rank)


@points(8, "values", "train3d_torch")
def test_train3d_pipeline_alone(ranks, rng):
    train3d_run(ranks, rng, TRAIN3D_STAGES, **TRAIN3D_PLAIN)


@points(6, "values", "train3d_torch")
def test_train3d_data_axis_alone(ranks, rng):
    train3d_run(ranks, rng, train3d.Training(dp=2), loss=False)


@points(4, "values", "train3d_torch")
def test_train3d_tied_words_of_both_ends(ranks, rng):
    train3d_run(ranks, rng, TRAIN3D_STAGES, loss=False)


@points(4, "values", "train3d_torch")
def test_train3d_loss_on_every_rank(ranks, rng):
    for case in (TRAIN3D_STAGES, train3d.Training(dp=2)):
        train3d_run(ranks, rng, case, words=False)


@points(4, "values", "train3d_torch")
def test_train3d_smaller_last_microbatch(ranks, rng):
    train3d_run(ranks, rng, train3d.Training((1, 1), sizes=(2, 1)), **TRAIN3D_PLAIN)


@points(9, "values", "train3d_torch")
def test_train3d_equal_to_serial_over_two_steps(ranks, rng):
    train3d_run(ranks, rng, train3d.given(TRAIN3D_ALL, steps=2))


@points(18, "communication", "train3d_torch")
def test_train3d_bytes_by_axis(ranks, rng):
    for case in (
        train3d.Training(tp=2),
        train3d.Training(dp=2),
        TRAIN3D_STAGES,
        TRAIN3D_ALL,
    ):
        call, result = train3d_run(ranks, rng, case, **TRAIN3D_PLAIN)
        train3d.assert_bytes_by_axis(result, case, call)


@points(4, "communication", "train3d_torch")
def test_train3d_given_group_is_used(ranks, rng):
    def call(**where):
        return train3d_run(ranks, rng, train3d.Training(tp=3), **TRAIN3D_PLAIN, **where)

    on_three_members(rng, call, comm="the group")


@points(7, "schedule", "train3d_torch")
def test_train3d_passes_follow_the_actions(ranks, rng):
    for case in (TRAIN3D_STAGES, train3d.given(TRAIN3D_STAGES, schedule="gpipe")):
        call, result = train3d_run(ranks, rng, case, **TRAIN3D_PLAIN)
        train3d.assert_passes(result, case, call)


@points(7, "safety", "train3d_torch")
def test_train3d_sends_may_wait(ranks, rng):
    where = {"machine": rendezvous(), "seed": LATENCY_SEEDS[0]}
    call, result = train3d_run(ranks, rng, TRAIN3D_STAGES, **TRAIN3D_PLAIN, **where)
    assert_requests_complete(result, call)


@points(9, "speed", "train3d_torch")
def test_train3d_time_of_a_large_step(ranks, rng):
    call, _ = train3d_run(ranks, rng, train3d.Training((1, 1)), **TRAIN3D_PLAIN)
    train3d.assert_time(ranks.trace, call, 8)


# -- predict ---------------------------------------------------------------------------------------

# The docstring's example, and the two replays' tables.
PREDICT_MODEL = predict_cases.model(2, 4, 2, 8, vocabulary=5, sequence=3)
PREDICT_REPLAYS = Path(__file__).with_name("replays.toml")


def predict_mixture(**changed):
    sizes = {"data": 2, "tensor": 2, "pipeline": 2, "microbatch_size": 1, "recompute": "none"}
    return [PREDICT_MODEL, {**sizes, **changed}]


@points(10, "values", "predict")
def test_predict_parameters_and_days_as_published(ranks):
    rows = [row for row in megatron("scaling") if row["parameters"] >= 7.5]
    calls = [[predict_cases.model(row["layers"], row["hidden"], 32, 512)] for row in rows]
    rights = [1e9 * row["parameters"] for row in rows]
    predict_near(ranks, "num_parameters", calls, rights, 0.005, ", as published")
    predict_near(ranks, "num_parameters", [[PREDICT_MODEL]], [520], 0.02)
    rows = megatron("days")
    calls = [[1e9 * row["parameters"], 300e9, row["gpus"], 1e12 * row["tflops"]] for row in rows]
    rights = [row["days"] for row in rows]
    predict_near(ranks, "training_days", calls, rights, 0.035, ", as published")


@points(10, "values", "predict")
def test_predict_flops(ranks):
    calls = [[PREDICT_MODEL, False], [PREDICT_MODEL, True]]
    predict_near(ranks, "step_flops", calls, [65088, 85824], 0.005)
    gpt3 = predict_cases.model(96, 12288, 96, 1536)
    predict_near(ranks, "step_flops", [[gpt3, True]], [4.522e18], 0.005)


@points(15, "memory", "predict")
def test_predict_state_as_published(ranks):
    calls = [[7_500_000_000, 64, zero] for zero in range(4)] + [[7, 2, 1]]
    rights = [120e9, 31.40625e9, 16.640625e9, 1.875e9, 76]
    predict_near(ranks, "state_bytes", calls, rights, 1e-9)


@points(15, "memory", "predict")
def test_predict_memory(ranks):
    calls = [
        predict_mixture(),
        predict_mixture(zero=1),
        predict_mixture(recompute="full"),
        predict_mixture(data=4, pipeline=1, microbatch_size=2),
        predict_mixture(data=1, tensor=1, pipeline=2, microbatch_size=2),
    ]
    rights = [2736, 1908, 2520, 5216, 6048]
    predict_near(ranks, "memory_bytes", calls, rights, 0.005)


@points(25, "communication", "predict")
def test_predict_bytes(ranks):
    several = [
        (predict_mixture(), (384, 96, 268)),
        (predict_mixture(recompute="full"), (576, 96, 268)),
        (predict_mixture(data=4, pipeline=1), (384, 0, 804)),
        (predict_mixture(zero=2), (384, 96, 670)),
        (predict_mixture(zero=3), (384, 96, 1608)),
        (predict_mixture(interleave=2), (384, 192, 268)),
    ]
    traced = list(predict_cases.replays(PREDICT_REPLAYS, "bytes"))
    for place, axis in enumerate(("tensor", "pipeline", "data")):
        calls, rights = [call for call, _ in several], [each[place] for _, each in several]
        predict_near(ranks, "sent_bytes", calls, rights, 1e-9, key=axis)
        calls, rights = [call for call, _ in traced], [each[axis] for _, each in traced]
        predict_near(ranks, "sent_bytes", calls, rights, 1e-9, ", as was traced", key=axis)


@points(20, "speed", "predict")
def test_predict_seconds(ranks):
    for call, step_s in predict_cases.replays(PREDICT_REPLAYS, "times"):
        predict_near(ranks, "step_s", [call], [step_s], 0.05, " s, as replayed")
    # Five layers on four stages, and two on two that are interleaved; no message takes time.
    free = "textbook,alpha_s=0,beta_s_per_byte=0,flop_per_s=1e6"
    layer, logits = 3 * (24 * 3 * 16 + 4 * 9 * 4), 3 * 2 * 3 * 4 * 5
    five = {**PREDICT_MODEL, "num_layers": 5}
    call = [five, predict_mixture(pipeline=4, tensor=1, data=1)[1], free]
    slowest_s = 2 * layer / 1e6
    right = 8 * slowest_s + 3 * layer / 1e6 + logits / 1e6
    predict_near(ranks, "step_s", [call], [right], 0.05)
    four = {**PREDICT_MODEL, "num_layers": 4}
    call = [four, predict_mixture(tensor=1, data=1, interleave=2)[1], free]
    slowest_s = (2 * layer + logits) / 1e6
    predict_near(ranks, "step_s", [call], [8 * slowest_s + layer / 1e6], 0.05)


@points(5, "speed", "predict")
def test_predict_is_monotone(ranks):
    (call, _), *_ = reversed(list(predict_cases.replays(PREDICT_REPLAYS, "times")))
    model, config, *_ = call
    machines = ("zaratan", "zaratan,beta_s_per_byte=4e-11", "zaratan,beta_s_per_byte=2e-11")
    answers = list(predict_asked(ranks, "step_s", [[model, config, name] for name in machines]))
    times = [predict_cases.number(*each) for each in answers]
    if not times[0] > times[1] > times[2] > 0:
        raise Verdict(
            f"On machines of more and more bandwidth a step takes {times} s; it must get shorter.",
            reproduce=answers[0][2],
        )


# -- planner ---------------------------------------------------------------------------------------
PLANNER_SMALL = planner_cases.sizes(6, 192, 4, 24, vocabulary=3000, sequence=128)
PLANNER_ODD = planner_cases.sizes(7, 192, 4, 15, vocabulary=50_000, sequence=128)
PLANNER_AMPLE = 10**15


@points(30, "values", "planner")
def test_planner_finds_the_fastest_of_a_few_gpus(ranks):
    machines = ("zaratan,flop_per_s=1e13", "zaratan,beta_s_per_byte=8e-9,flop_per_s=1e13")
    planner_check(
        ranks,
        [
            [model, machine, count, PLANNER_AMPLE, "plain"]
            for model in (PLANNER_SMALL, PLANNER_ODD)
            for machine in machines
            for count in (1, 3, 8)
        ],
    )


@points(10, "values", "planner")
def test_planner_finds_the_fastest_of_sixteen(ranks):
    call = [PLANNER_SMALL, "zaratan,flop_per_s=1e13", 16, PLANNER_AMPLE, "plain"]
    planner_check(ranks, [call])


@points(15, "memory", "planner")
def test_planner_finds_the_fastest_that_fits(ranks):
    calls = []
    for count in (4, 8):
        call = [PLANNER_SMALL, "zaratan", count, PLANNER_AMPLE, "plain"]
        least = min(needed for _, needed in planner_cases.planner_all(call))
        calls += [[*call[:3], capacity, "plain"] for capacity in (least, 2 * least)]
    planner_check(ranks, calls)


@points(15, "safety", "planner")
def test_planner_says_what_comes_nearest(ranks):
    call = [PLANNER_SMALL, "zaratan", 4, PLANNER_AMPLE, "plain"]
    least = min(needed for _, needed in planner_cases.planner_all(call))
    planner_refused(ranks, [[*call[:3], least - 1, "plain"]], named=True)


@points(10, "communication", "planner")
def test_planner_asks_the_cost_model_it_is_given(ranks):
    planner_check(ranks, [[PLANNER_SMALL, "zaratan", 8, PLANNER_AMPLE, "heavy"]])


@points(20, "speed", "planner")
def test_planner_of_many_gpus(ranks):
    calls = [
        [planner_cases.MODELS["18B"], "dgx_a100", 512, 20 * GB, "plain"],
        [planner_cases.MODELS["1T"], "dgx_a100", 3072, 50 * GB, "heavy"],
    ]
    list(planner_plans(ranks, calls[:1]))
    planner_check(ranks, calls[1:], 1.10)
    planner_check(ranks, calls[:1], 1.05, 1.25)


# -- layout ----------------------------------------------------------------------------------------
LAYOUT_ALL = {"all": 4}
LAYOUT_GRID = {"rows": 2, "columns": 3}


@points(10, "values", "layout")
def test_layout_shapes(ranks):
    calls = [
        (["batch", "wide"], MLP_SIZES, {"batch": "all"}, LAYOUT_ALL),
        (["batch", "hidden"], MLP_SIZES, {"batch": "rows", "hidden": "columns"}, LAYOUT_GRID),
        (["batch", "hidden"], MLP_SIZES, {"batch": "all", "hidden": "all"}, LAYOUT_ALL),
        (["batch"], MLP_SIZES, {"batch": "columns"}, LAYOUT_GRID),
        (["batch"], MLP_SIZES, {"batch": "depth"}, LAYOUT_GRID),
    ]
    layout_check(ranks, "local_shape", calls, [(2, 4), (4, 4), *["ValueError"] * 3])


@points(20, "values", "layout")
def test_layout_forward(ranks):
    calls = [("MLP", {dim: "all"}, LAYOUT_ALL) for dim in ("hidden", "batch", "wide")]
    layout_check(ranks, "forward", calls, [[["y", ["all"], 32]], [], [["h", ["all"], 96]]])
    both = ("MLP", {"batch": "rows", "hidden": "columns"}, LAYOUT_GRID)
    layout_check(ranks, "forward", [both], [[["y", ["columns"], 16]]])


@points(10, "values", "layout")
def test_layout_forward_over_two_axes(ranks):
    told = [{"a": ["i", "j"], "b": ["i", "j"], "s": []}, [["s", ["a", "b"]]], [], {"i": 4, "j": 6}]
    calls = [
        (told, {"j": "rows", "i": "columns"}, {"rows": 3, "columns": 2}),
        (told, {"i": "rows", "j": "columns"}, {"rows": 1, "columns": 2}),
    ]
    right = [[["s", ["rows", "columns"], 1]], [["s", ["columns"], 1]]]
    layout_check(ranks, "forward", calls, right)


@points(20, "values", "layout")
def test_layout_backward(ranks):
    tensors = {"a": ["n", "i"], "b": ["i", "j"], "c": ["j", "k"], "u": ["n", "k"]}
    three = [tensors, [["u", ["a", "b", "c"]]], [], {"n": 2, "i": 4, "j": 8, "k": 2}]
    layout_check(ranks, "backward", [(three, {"j": "all"}, LAYOUT_ALL)], [[["a", ["all"], 8]]])
    calls = [("MLP", {dim: "all"}, LAYOUT_ALL) for dim in ("batch", "hidden", "out")]
    right = [[["w2", ["all"], 48], ["w1", ["all"], 48]], [], [["h", ["all"], 96]]]
    layout_check(ranks, "backward", calls, right)


@points(5, "values", "layout")
def test_layout_dimensions_that_meet_in_a_step(ranks):
    calls = [("MLP", {"batch": "all", "hidden": "all"}, LAYOUT_ALL)]
    layout_check(ranks, "forward", calls, ["ValueError"])
    told = [{"a": ["i"], "b": ["j"], "s": []}, [["s", ["a", "b"]]], [], {"i": 4, "j": 4}]
    layout_check(ranks, "backward", [(told, {"i": "all", "j": "all"}, LAYOUT_ALL)], ["ValueError"])


@points(10, "values", "layout")
def test_layout_placements(ranks):
    right = {
        ("P", "R"): "all-reduce", ("P", "S(0)"): "reduce-scatter", ("S(0)", "R"): "all-gather",
        ("S(0)", "S(1)"): "all-to-all", ("R", "S(1)"): "", ("R", "P"): "ValueError",
    }  # fmt: skip
    layout_check(ranks, "collective", right, right.values())


@points(20, "values", "layout")
def test_layout_runs(ranks):
    layout_counted(ranks, layout_case("MLP", {"batch": "all"}, {"all": 4}), 0)
    both = {"batch": "rows", "hidden": "columns"}
    # y: 8 x 4 elements on two halves of 4 x 4, each summed by three ranks
    case = layout_case("MLP", both, LAYOUT_GRID)
    layout_counted(ranks, case, 2 * 2 * 2 * 16 * 8)


@points(5, "communication", "layout")
def test_layout_on_members(ranks, rng):
    case = layout_case("MLP", {"hidden": "all"}, {"all": 3})
    on_three_members(rng, lambda **there: (case, layout_counted(ranks, case, 1024, **there)))
