"""The cases of the hidden run."""

import functools
import itertools
from types import SimpleNamespace

from checks import test_grid as grid
from checks import test_layout as layout
from checks import test_planner as planner
from checks import test_predict as predict
from checks import test_train2d as train2d
from checks import test_train3d_torch as train3d
from checks.cases import Logits, Refused, Train
from checks.cases_grid import Coordinates, Groups, Neighbour, Place, Summed
from checks.cases_layout import Backward, Collective, Execute, Forward, LocalShape
from checks.cases_planner import GB, MODELS, Plan
from checks.cases_predict import (
    Faster,
    MemoryBytes,
    SentBytes,
    StateBytes,
    StepS,
    replayed,
    traced,
)
from checks.cases_torch import MakeGrid, RunLayer, Step
from given.planner_costs import COSTS
from hidden import oracle, replays

from ringside import Machine
from ringside.checking.suite import group, hidden
from ringside.scale.hybrid_cost import AXES, Config, Model, configs

# -- grid ------------------------------------------------------------------------------------------

THREE = {"data": 2, "pipe": 4, "tensor": 3}
FIVE = {"expert": 2, "data": 3, "context": 2, "pipe": 2, "tensor": 2}
OF_THREE = list(itertools.permutations(THREE))


def coordinates(sizes, order):
    count = 1
    for size in sizes.values():
        count *= size
    order = tuple(str(axis) for axis in order)
    return Coordinates(count, sizes, order, gives=oracle.coordinates(sizes, order))


def groups(at, axes):
    return Groups(at, tuple(axes), gives=[list(each) for each in oracle.groups(at, axes)])


def in_order(sizes, order=None):
    return oracle.coordinates(sizes, order or list(sizes))


def shuffled(rng):
    at = in_order(THREE)
    order = rng.permutation(24)
    at = {axis: "".join(digits[k] for k in order) for axis, digits in at.items()}
    return [groups(at, [axis]) for axis in THREE]


def neighbours(orders, steps, wrap):
    for order, rank, axis, step in itertools.product(orders, (0, 7, 13, 23), THREE, steps):
        at = in_order(THREE, order)
        gives = oracle.neighbour(at, rank, axis, step, wrap)
        yield Neighbour(at, rank, axis, step, wrap, gives=gives)


hidden(grid.test_three_axes_in_every_order, *(coordinates(THREE, order) for order in OF_THREE))
hidden(
    grid.test_other_numbers_of_axes,
    group(
        grid.SEVERAL,
        coordinates({"data": 6}, ["data"]),
        coordinates({"rows": 3, "columns": 4}, ["columns", "rows"]),
        lambda rng: [coordinates(FIVE, rng.permutation(list(FIVE))) for _ in range(3)],
        weight=4,
    ),
    group(
        grid.ONES,
        *(
            coordinates({"data": 1, "pipe": 3, "tensor": 1}, order)
            for order in itertools.permutations(("data", "pipe", "tensor"))
        ),
    ),
    group(grid.NO_AXES, Coordinates(1, {}, (), gives={})),
)
hidden(
    grid.test_sizes_that_do_not_fit_are_refused,
    *(
        Coordinates(count, sizes, tuple(sizes), raises="ValueError")
        for count, sizes in (
            (23, THREE),
            (25, THREE),
            (48, THREE),
            (0, THREE),
            (-24, {**THREE, "pipe": -4}),
            (24, {**THREE, "pipe": -4, "data": -2}),
            (0, {"data": 0}),
        )
    ),
)
hidden(
    grid.test_orders_that_do_not_name_each_axis_once_are_refused,
    *(
        Coordinates(24, THREE, order, raises="ValueError")
        for order in (
            ("data", "pipe"),
            ("data", "pipe", "pipe"),
            ("data", "pipe", "tensor", "data"),
            ("data", "pipe", "expert"),
        )
    ),
)
hidden(
    grid.test_groups_of_one_axis,
    *(
        groups(in_order(THREE, order), [axis])
        for order in (OF_THREE[0], OF_THREE[2], OF_THREE[4])
        for axis in THREE
    ),
)
hidden(
    grid.test_groups_of_several_axes,
    *(groups(in_order(THREE), axes) for axes in itertools.combinations(THREE, 2)),
    *(
        groups(in_order(FIVE), [list(FIVE)[k] for k in chosen])
        for chosen in ((0, 2), (1, 3, 4), (2,))
    ),
    groups(in_order(THREE), list(THREE)),
)
hidden(
    grid.test_the_first_axis_of_a_group_is_the_fastest,
    *(groups(in_order(THREE), axes[:2]) for axes in OF_THREE),
)
hidden(
    grid.test_groups_of_no_axis_and_of_ranks_in_any_order,
    group(grid.NO_AXIS, groups(in_order(THREE), []), groups(in_order({"data": 3}), [])),
    group(grid.SHUFFLED, shuffled),
)
hidden(
    grid.test_groups_of_unknown_axes_are_refused,
    *(
        Groups(in_order(THREE), axes, raises="ValueError")
        for axes in (("expert",), ("data", "experts"), ("pipe", "pipe"))
    ),
)
hidden(
    grid.test_neighbours_on_a_ring,
    *neighbours((OF_THREE[0], OF_THREE[4]), (1, -1, 2, 9, -11), True),
)
hidden(grid.test_neighbours_where_an_axis_ends, *neighbours((OF_THREE[3],), (1, -1, 3), False))
hidden(
    grid.test_asked_axes_are_inside_nodes,
    Place(24, THREE, ("tensor",), 3),
    Place(24, THREE, ("pipe",), 4),
    Place(24, THREE, ("pipe",), 8),
    Place(24, THREE, ("pipe", "data"), 8),
    Place(24, THREE, ("tensor", "data"), 6),
    Place(48, FIVE, ("tensor", "expert"), 4),
    Place(48, FIVE, ("data", "context"), 12),
    Place(24, THREE, ("tensor", "pipe"), 30),
    Place(12, {"data": 4, "tensor": 3}, ("tensor",), 9),
    Place(24, THREE, (), 5),
    Place(24, THREE, tuple(THREE), 24),
)
hidden(
    grid.test_groups_that_would_cross_nodes_are_refused,
    *(
        Place(24, THREE, inside, per_node, raises="ValueError")
        for inside, per_node in (
            (("tensor",), 4),
            (("tensor",), 2),
            (("pipe",), 6),
            (("data", "tensor"), 8),
            (("data", "pipe", "tensor"), 23),
            (("expert",), 4),
        )
    ),
)
hidden(grid.test_real_mpi, Summed(), Summed(order=("data", "tensor"), groups=((0, 2), (1, 3))))

# -- train2d ---------------------------------------------------------------------------------------

WIDE = (6, 60, 60, 4)

hidden(
    train2d.test_equal_to_serial_over_several_steps,
    Train(6, 2, steps=3),
    Train(9, 3, (6, 60, 72, 6), steps=3),
    Train(12, 4, (5, 64, 64, 4), steps=3),
)
hidden(train2d.test_one_row_is_data_parallelism, Train(2, 1), Train(5, 1))
hidden(train2d.test_one_column_is_tensor_parallelism, *(Train(p, p, samples=(3,)) for p in (2, 4)))
hidden(
    train2d.test_uneven_batches,
    *(Train(6, 2, samples=samples) for samples in ((3, 2, 2), (5, 1, 4), (0, 3, 1))),
)
hidden(
    train2d.test_widths_that_rows_do_not_divide_and_float32,
    group(
        train2d.WIDTHS,
        Train(4, 2, (5, 61, 59, 3)),
        Train(6, 3, (4, 50, 70, 5)),
        Train(6, 3, (4, 2, 71, 70, 2)),
        weight=2,
    ),
    group(train2d.FLOAT32, Train(6, 2, dtype="float32")),
)
hidden(
    train2d.test_losses_are_means_over_the_global_batch,
    Train(6, 2, (6, 60, 60, 6), losses=True),
    Train(6, 3, (6, 60, 60, 6), (3,), losses=True),
    Train(3, 1, (6, 60, 60, 6), losses=True),
)
hidden(train2d.test_real_mpi, Train(4))
hidden(
    train2d.test_bytes_of_a_column,
    group(
        train2d.FORWARD,
        *(
            Logits(p, rows, widths, (n,), 1)
            for p, rows, widths, n in (
                (6, 2, (4, 60, 40), 10),
                (8, 4, (8, 80, 120, 40), 6),
                (10, 5, (4, 50, 100), 7),
                (12, 12, (4, 48, 96), 5),
                (18, 6, (4, 60, 36), 6),
                (4, 2, (8, 400, 300), 40),
            )
        ),
    ),
    group(  # the input and the output are narrow
        train2d.BACKWARD,
        *(
            Train(p, rows, widths, (n,), 1)
            for p, rows, widths, n in (
                (6, 2, (2, 60, 90, 2), 10),
                (8, 4, (4, 80, 120, 40, 4), 6),
                (10, 5, (5, 150, 100, 5), 7),
                (12, 12, (12, 144, 96, 12), 5),
                (18, 6, (6, 120, 60, 6), 6),
                (4, 2, (2, 400, 300, 2), 40),
            )
        ),
    ),
)
hidden(
    train2d.test_bytes_of_a_row,
    *(
        Train(p, rows, widths, (n,))
        for p, rows, widths, n in (
            (6, 2, (30, 24, 12), 1),
            (8, 2, (24, 32, 16), 1),
            (5, 1, (20, 20, 10), 1),
            (12, 3, (24, 36, 12), 1),
            (18, 3, (24, 24, 12), 1),
            (4, 2, (100, 200, 40), 2),
        )
    ),
    Train(8, 2, (24, 32, 16), (1,), dtype="float32"),
)
hidden(train2d.test_given_communicator_is_used, Train(4), Train(6, 2))
hidden(
    train2d.test_each_rank_multiplies_its_own_rows_and_samples,
    *(Train(p, rows, (8, 12, 8, 4), (4,)) for p, rows in ((6, 2), (8, 4))),
)
hidden(train2d.test_messages_may_wait_and_come_in_any_order, Train(6, 2))
hidden(
    train2d.test_inputs_stay_and_other_grids_are_refused,
    group(train2d.INPUTS, Train(4), Train(6, 2), weight=2),
    group(train2d.OTHERS, Refused(5), Refused(4, 2, 3), Refused(3, 2, 1)),
)
hidden(
    train2d.test_time_on_two_and_four_nodes,
    Train(8, 4, (16, 32, 32, 16), (16,), machine="miniature"),
    Train(8, 2, (16, 32, 32, 16), (16,), machine="miniature"),
    Train(16, 4, (16, 48, 48, 16), (12,), machine="miniature"),
)

# -- train3d_torch ---------------------------------------------------------------------------------


def stages(*layers):
    return Step(len(layers), layers, sizes=(2,) * 5)


hidden(
    train3d.test_groups_of_the_grid,
    MakeGrid(8, dp=2, tp=2),
    MakeGrid(24, dp=3, tp=4),
    MakeGrid(6, dp=1, tp=2),
    MakeGrid(1),
)
hidden(train3d.test_layer_on_a_tensor_axis, *(RunLayer(tp, tp=tp) for tp in (2, 3, 5)))
hidden(train3d.test_pipeline_alone, stages(1, 2, 1), stages(1, 1, 1, 1))
hidden(train3d.test_data_axis_alone, *(Step(dp, dp=dp, words=True) for dp in (2, 3)))
hidden(
    train3d.test_tied_words_and_the_loss_on_every_rank,
    group(train3d.WORDS, stages(1, 1, 1).with_(words=True)),
    group(train3d.LOSS, stages(1, 1, 1).with_(loss=True), Step(2, dp=2, loss=True)),
)
hidden(train3d.test_smaller_last_microbatch, Step(2, sizes=(3, 3, 1)))
hidden(
    train3d.test_all_axes_equal_serial_over_steps,
    Step(8, (1, 1), 2, 2, (2, 2), 3, words=True),
    Step(12, (2, 1, 1), 2, 2, (1, 1, 1), 2, words=True),
)
hidden(train3d.test_real_gloo, Step(2, dp=2, sizes=(1, 1), announced=False))
hidden(
    train3d.test_bytes_of_one_axis_alone,
    group(train3d.TENSOR, Step(3, tp=3)),
    group(train3d.DATA, Step(2, dp=2), Step(3, dp=3, sizes=(1, 1))),
)
hidden(
    train3d.test_bytes_by_axis_of_all_together,
    group(train3d.TWO, Step(6, (1, 1, 1), 2, sizes=(1, 1, 1))),
    group(train3d.ALL, Step(8, (1, 1), 2, 2, (2, 2)), Step(18, (1, 1, 1), 3, 2, (1, 1))),
)
hidden(train3d.test_given_group_is_used, Step(3, dp=3))
hidden(
    train3d.test_passes_follow_the_actions, stages(1, 2, 1), stages(1, 1).with_(schedule="gpipe")
)
hidden(train3d.test_any_order_and_everything_waited_for, stages(1, 1, 1))
hidden(train3d.test_time_on_64_ranks, Step(4, (1, 1), 2, gpus=64))

# -- predict ---------------------------------------------------------------------------------------

MACHINES = ("zaratan", "dgx_a100", "zaratan,gpus_per_nic=1")
GRIDS = ((1, 2, 1, 1), (4, 1, 1, 2), (2, 4, 2, 1), (3, 8, 4, 2), (8, 4, 8, 3))


def model(rng, **given):
    """A model of no pattern; eight divides its heads and its layers, and 96 the batch."""
    heads = 8 * int(rng.integers(1, 5))
    drawn = {
        "num_layers": 8 * int(rng.integers(1, 6)),
        "hidden": heads * int(rng.integers(20, 90)),
        "num_heads": heads,
        "batch": 96 * int(rng.integers(1, 5)),
        "vocabulary": int(rng.integers(3_000, 60_000)),
        "sequence": int(rng.integers(100, 3000)),
    }
    return tuple({**drawn, **given}.values())


def answered(case):
    """The case with the oracle's answer."""
    given = list(case.arguments())
    for place, each in enumerate(given):
        if isinstance(each, dict):
            made = SimpleNamespace if "num_layers" in each else Config
            given[place] = made(**each)
        elif isinstance(each, str):
            given[place] = Machine.load(each)
    gives = getattr(oracle, case.function)(*given)
    return case.with_(gives=gives[case.axis] if isinstance(case, SentBytes) else gives)


def on_grids(kind, grids=GRIDS, of_model=None, **options):
    """Cases of models that are drawn on these grids."""
    return lambda rng: [
        answered(kind(model(rng, **(of_model or {})), *sizes, **options)) for sizes in grids
    ]


def states(rng):
    psi, d = int(rng.integers(10**6, 10**9)), int(rng.integers(2, 2000))
    several = [(7_500_000_000, 64), (7_500_000_000, 4), (psi * d, d), (1200, 1)]
    return [answered(StateBytes(*each, zero)) for each in several for zero in range(4)]


OF_MEMORY = ((1, 1, 1, 1), (4, 2, 1, 2), (2, 4, 4, 1), (3, 8, 8, 2), (1, 2, 8, 4))
RECOMPUTED = ((1, 1, 1, 4), (4, 2, 1, 8), (2, 4, 4, 8), (1, 8, 8, 4))


def uneven(rng):
    return [
        answered(StepS(model(rng, num_layers=n, vocabulary=5000), 2, 2, p, 2, machine=machine))
        for n, p, machine in zip((5, 9, 19), (4, 8, 8), MACHINES, strict=True)
    ]


def interleaved(rng):
    return [
        answered(
            StepS(
                model(rng, num_layers=16, vocabulary=5000, batch=24),
                *(2, 2, 4, 3, v),
                machine=machine,
            )
        )
        for v, machine in zip((2, 4, 2), MACHINES, strict=True)
    ]


def faster(rng):
    fast = "zaratan,beta_s_per_byte=4e-11,intra_beta_s_per_byte=5e-12"
    on = "zaratan", "zaratan,flop_per_s=3.9e13", fast, f"{fast},flop_per_s=3.9e13"
    return [Faster(model(rng), *sizes, on=on) for sizes in GRIDS]


hidden(predict.test_state_of_every_stage, states)
hidden(
    predict.test_memory_of_mixtures,
    group(predict.PLAIN, on_grids(MemoryBytes, OF_MEMORY), weight=6),
    # What ZeRO cuts is the test of ``state_bytes``: here it hardly counts.
    group(predict.ZERO, *(on_grids(MemoryBytes, OF_MEMORY, zero=zero) for zero in (1, 2, 3))),
    group(
        predict.AGAIN,
        on_grids(MemoryBytes, RECOMPUTED, {"vocabulary": 5000}, recompute="full"),
        weight=3,
    ),
    group(
        predict.UNEVEN,
        on_grids(MemoryBytes, ((4, 2, 4, 2), (1, 2, 8, 4)), {"num_layers": 19}),
        weight=3,
    ),
)
for axis, test in (
    ("tensor", predict.test_bytes_of_the_tensor_axis),
    ("pipeline", predict.test_bytes_of_the_pipeline_axis),
    ("data", predict.test_bytes_of_the_data_axis),
):
    hidden(test, *traced(replays, axis), on_grids(SentBytes, axis=axis))
hidden(
    predict.test_bytes_with_recomputation_and_interleaved_stages,
    on_grids(SentBytes, recompute="full"),
    on_grids(SentBytes, ((2, 2, 4, 3),), interleave=2, axis="pipeline"),
)
hidden(
    predict.test_bytes_of_zero_2_and_3,
    *(on_grids(SentBytes, zero=zero, axis="data") for zero in (2, 3)),
)
hidden(predict.test_step_without_stages, *(c for c in replayed(replays) if c.pipeline == 1))
hidden(predict.test_step_with_stages, *(c for c in replayed(replays) if c.pipeline > 1))
hidden(
    predict.test_uneven_and_interleaved_stages_and_faster_machines,
    group(predict.UNEVEN, uneven),
    group(predict.INTERLEAVED, interleaved),
    group(predict.FASTER, faster),
)

# -- planner ---------------------------------------------------------------------------------------

OF_PLANS = (
    "zaratan,flop_per_s=2e12",
    "zaratan,flop_per_s=5e13",
    "zaratan,beta_s_per_byte=8e-9",
    "zaratan,alpha_s=1e-3,intra_alpha_s=1e-3",
    "zaratan,intra_beta_s_per_byte=8e-11,ranks_per_node=2",
    "dgx_a100,flop_per_s=1e13",
    "dgx_a100,flop_per_s=1e13,ranks_per_node=3",
)
SPECIAL = {"order", "interleaved", "uneven"}


def small(rng, **given):
    """A model of some millions of parameters; a few thousand mixtures on 16 GPUs at most."""
    heads = int(rng.choice((4, 8, 12)))
    drawn = {
        "num_layers": int(rng.choice((4, 6, 8, 12))),
        "hidden": 0,
        "num_heads": heads,
        "batch": int(rng.choice((4, 6, 12, 24, 48))),
        "vocabulary": int(rng.integers(1000, 9000)),
        "sequence": int(rng.integers(64, 513)),
        **given,
    }
    drawn["hidden"] = heads * int(rng.integers(16, 65))
    return tuple(drawn.values())


@functools.lru_cache(maxsize=8)
def mixtures(model, num_gpus, cost, machine):
    """All that can run: ``(step_s, memory_bytes, config, what tests of their own ask for)``."""
    given = Plan(model).named
    given, on, several = Model(**given), Machine.load(machine), []
    for config in configs(given, num_gpus):
        told = COSTS[cost](given, config, on)
        ones = [axis for axis in AXES if getattr(config, axis) == 1]
        usual = tuple(axis for axis in AXES if axis not in ones) + tuple(ones)
        special = {"order"} if config.order != usual else set()
        special |= {"interleaved"} if config.interleave > 1 else set()
        special |= {"uneven"} if model[0] % config.pipeline else set()
        several.append((told.step_s, told.memory_bytes, config, special))
    return several


def all_of(case):
    return mixtures(case.model, case.num_gpus, case.cost, case.machine)


def fastest(case, without=frozenset()):
    """Seconds of the fastest mixture that fits and has nothing of ``without``."""
    several = [
        step_s
        for step_s, needed, _, special in all_of(case)
        if needed <= case.memory_bytes and not special & without
    ]
    return min(several, default=float("inf"))


def planned(case):
    """The case with the time of its fastest mixture."""
    return case.with_(gives=fastest(case))


def is_usual(case, but=None):
    """Is its fastest mixture usual, or special in the way of ``but`` alone?"""
    best_s = fastest(case) * (1 + 1e-7)
    if best_s == float("inf") or fastest(case, SPECIAL - {but}) > best_s:
        return False  # no heads, layers or samples divide so
    return but is None or fastest(case, {but}) > best_s


def plan(rng, num_gpus, but=None, **given):
    """A plan whose fastest mixture is usual, or special in one way."""
    for _ in range(200):
        case = Plan(small(rng, **given), num_gpus, machine=str(rng.choice(OF_PLANS)))
        if is_usual(case, but):
            return planned(case)
    raise RuntimeError(f"no plan of {num_gpus} GPUs that is special by {but}")


def plans(*counts, but=None, **given):
    return lambda rng: [plan(rng, count, but, **given) for count in counts]


def odd(rng):
    return [plan(rng, count, batch=4 * count, num_layers=count) for count in (3, 5, 7, 15)]


def ordered(rng):
    """Long sequences and narrow layers: stages must be neighbours, and replicas needn't."""
    cases = []
    for count, machine in ((8, OF_PLANS[1]), (12, OF_PLANS[-1]), (16, OF_PLANS[1])):
        width, words = int(rng.integers(48, 97)), int(rng.integers(1000, 3000))
        of_model = 12, width, 1, 4, words, int(rng.integers(1500, 2500))
        cases.append(planned(Plan(of_model, count, machine=machine)))
    # Two GPUs a node and many words: replicas must be neighbours.
    of_models = (4, 256, 4, 2, 20_000, 512), (4, 128, 2, 4, 20_000, 512)
    return cases + [planned(Plan(each, machine=planner.TWO_A_NODE)) for each in of_models]


def of_pieces(rng):
    """Wide layers and short sequences: gradients take long, messages between stages don't."""
    cases = []
    for count in (4, 8, 8):
        of_model = 16, int(rng.integers(400, 700)), 1, 8, 800, int(rng.integers(64, 100))
        cases.append(planned(Plan(of_model, count, machine=planner.SLOW_PORTS)))
    return cases


def tight(rng):
    """The fastest mixture doesn't fit, but others do, which take exactly what there is."""
    cases, counts = [], (4, 4, 8, 8, 16, 16)
    while len(cases) < len(counts):
        case = plan(rng, counts[len(cases)])
        least, most = (
            min(each[1] for each in all_of(case)),
            min(all_of(case), key=lambda each: each[0])[1],
        )
        between = sorted({each[1] for each in all_of(case) if least <= each[1] < most})
        if len(between) > 3:
            case = case.with_(memory_bytes=between[int(rng.integers(1, len(between) - 1))])
            if is_usual(case):
                cases.append(planned(case))
    return cases


def least(case):
    """Bytes of the mixture that takes least."""
    return min(each[1] for each in all_of(case))


def to_the_byte(rng):
    cases = [plan(rng, count) for count in (1, 8)]
    return [planned(case.with_(memory_bytes=least(case))) for case in cases]


def too_much(named):
    """A byte less than the least that a mixture takes."""

    def drawn(rng):
        cases = [plan(rng, count) for count in (1, 6, 16)]
        cases = [case.with_(memory_bytes=least(case) - 1) for case in cases]
        cases.append(Plan(MODELS["39B"], 8, 16 * GB, machine="dgx_a100"))
        return [
            case.with_(raises="ValueError", gives=least(case) if named else None) for case in cases
        ]

    return drawn


def heavy(rng):
    """What the kit's cost model takes for the fastest doesn't fit in this one."""
    cases = []
    while len(cases) < 3:
        case = plan(rng, 8)
        config = min(all_of(case), key=lambda each: each[0])[2]
        needed = COSTS["heavy"](Model(**case.named), config, Machine.load(case.machine))
        case = case.with_(memory_bytes=needed.memory_bytes - 1, cost="heavy")
        if is_usual(case):
            cases.append(planned(case))
    return cases


hidden(planner.test_up_to_eight_gpus, plans(2, 2, 4, 4, 8, 8, 8))
hidden(planner.test_nine_to_sixteen_gpus, plans(9, 12, 12, 16, 16))
hidden(
    planner.test_one_gpu_and_odd_numbers_of_gpus,
    group(planner.ONE, plans(1, 1, 1)),
    group(planner.ODD, odd),
)
hidden(
    # Few samples and a prime number of layers, so that stages and tensor ranks are what is left.
    planner.test_layers_that_stages_do_not_divide,
    plans(8, 8, 12, but="uneven", num_layers=11, batch=4),
)
hidden(planner.test_orders_of_the_axes, ordered)
hidden(planner.test_interleaved_stages, of_pieces)
hidden(planner.test_fastest_that_fits, tight)
hidden(planner.test_one_mixture_fits_to_the_byte, to_the_byte)
hidden(
    # A byte less than the fastest mixture takes of 40 GB.
    planner.test_fits_on_512_gpus,
    Plan(MODELS["146B"], 512, 33_641_513_471, machine="dgx_a100"),
)
hidden(
    planner.test_refuses_and_says_what_comes_nearest,
    group(planner.REFUSING, too_much(named=False)),
    group(planner.NEAREST, too_much(named=True)),
)
hidden(planner.test_another_cost_model, heavy)
# Of so many mixtures the time of the fastest is written down: ``planned`` tells it in a minute.
hidden(
    # With more memory a ZeRO-3 of replicas alone is nearly the fastest; here axes must be mixed.
    planner.test_512_gpus,
    Plan(MODELS["146B"], 512, 50 * GB, machine="dgx_a100", gives=31.7475097524),
)
hidden(
    # As fast as in 16 bits, so the port decides.
    planner.test_512_gpus_with_a_port_a_node,
    Plan(MODELS["39B"], 512, 40 * GB, machine="zaratan,flop_per_s=1.5e14", gives=15.3940894638),
)
hidden(
    # The second one's best is far from the first 20,000 that ``configs`` yields.
    planner.test_a_trillion_parameters_on_3072_gpus,
    Plan(MODELS["1T"], 3072, 80 * GB, machine="dgx_a100", gives=53.6175732999),
    Plan(MODELS["1T"], 3072, 60 * GB, "heavy", machine="dgx_a100", gives=153.011808455),
)

# -- layout ----------------------------------------------------------------------------------------

ALL, GRID = {"all": 4}, {"rows": 2, "columns": 3}
APART = {"i": "all", "j": "all"}


def forward(*given):
    case = Forward(*given)
    return case.with_(gives=oracle.reductions(case))


def backward(*given):
    case = Backward(*given)
    return case.with_(gives=oracle.reductions(case, backward=True))


def execute(*given, **options):
    case = Execute(*given, **options)
    return case.with_(sends=oracle.needed_bytes(case))


hidden(
    layout.test_layout_shapes,
    LocalShape(("batch", "wide"), {"batch": "all"}, ALL, gives=(2, 4)),
    LocalShape(gives=(4, 4)),
    LocalShape(("wide", "hidden"), {"batch": "rows"}, gives=(4, 12)),
    LocalShape(("batch",), {"batch": "one"}, {"one": 1}, gives=(8,)),
    LocalShape((), {"batch": "all"}, ALL, gives=()),
)
hidden(
    layout.test_layout_shapes_refused,
    LocalShape(("wide", "hidden"), {"wide": "all", "hidden": "all"}, ALL, raises="ValueError"),
    LocalShape(layout={"batch": "columns"}, raises="ValueError"),
    LocalShape(("batch",), {"batch": "depth"}, raises="ValueError"),
)
hidden(
    layout.test_layout_forward,
    *(forward("MLP", {dim: "all"}) for dim in ("hidden", "batch", "wide", "out")),
    forward("MLP", {}),
    forward("MLP", {"batch": "rows", "hidden": "columns"}, GRID),
    *(forward("ATTENTION", {dim: "all"}) for dim in ("head", "batch", "key")),
)
hidden(
    layout.test_layout_forward_over_two_axes_and_axes_of_one_rank,
    group(
        layout.TWO,
        forward("LONGER", {"i": "rows", "j": "columns"}, GRID),
        forward("MLP", {"wide": "rows", "hidden": "columns"}, {"rows": 2, "columns": 2}),
        forward("LONGER", {"i": "columns", "j": "rows"}, {"rows": 3, "columns": 2}),
        forward("LONGER", {"j": "x"}, {"y": 3, "x": 2}),
        weight=2,
    ),
    group(
        layout.ONES,
        forward("MLP", {"hidden": "one", "wide": "all"}, {"one": 1, "all": 2}),
        forward("MLP", {"hidden": "one"}, {"one": 1, "all": 2}),
    ),
)
hidden(
    layout.test_layout_backward,
    *(backward("MLP", {dim: "all"}) for dim in ("batch", "out")),
    backward("MLP", {"batch": "rows", "out": "columns"}, {"rows": 2, "columns": 4}),
    backward("ATTENTION", {"batch": "all"}),
    # In a product of three, j is a dimension of the other inputs alone.
    *(backward("THREE", {dim: "all"}, {"all": 2}) for dim in "nijk"),
)
hidden(
    layout.test_layout_backward_order_and_what_has_no_gradient,
    backward("LONGER", {"n": "all"}, {"all": 3}),
    backward("LONGER", {"k": "all"}, {"all": 2}),
    backward("MLP", {"hidden": "all"}),
)
hidden(
    layout.test_layout_dimensions_that_meet_in_a_step_alone,
    *(
        kind(*given, raises="ValueError")
        for kind in (Forward, Backward)
        for given in (("APART", APART), ("MLP", {"batch": "all", "wide": "all"}))
    ),
)
hidden(
    layout.test_layout_placements,
    *(
        Collective(source, to, gives=gives)
        for source, to, gives in (
            ("P", "R", "all-reduce"),
            ("P", "S(0)", "reduce-scatter"),
            ("S(1)", "R", "all-gather"),
            ("S(0)", "S(1)", "all-to-all"),
            ("S(1)", "S(1)", ""),
            ("R", "S(0)", ""),
            ("R", "R", ""),
            ("P", "P", ""),
        )
    ),
    *(Collective(source, "P", raises="ValueError") for source in ("R", "S(0)")),
)
hidden(
    layout.test_layout_runs_on_one_axis,
    *(execute(4, "MLP", {dim: "all"}) for dim in ("batch", "hidden", "wide")),
    execute(2, "ATTENTION", {"head": "all"}, {"all": 2}),
    execute(3, "LONGER", {"j": "all"}, {"all": 3}, "float32"),
)
hidden(
    # Every layout that may be, of two dimensions on two axes, on 2 x 2 ranks.
    layout.test_layout_result_does_not_depend_on_it,
    *(
        execute(4, "MLP", {one: "rows", other: "columns"}, {"rows": 2, "columns": 2})
        for one, other in itertools.permutations(("batch", "wide", "hidden", "out"), 2)
    ),
    execute(8, "ATTENTION", {"batch": "a", "head": "b", "key": "c"}, {"a": 1, "b": 2, "c": 4}),
)
hidden(
    layout.test_layout_real_mpi,
    Execute(),
    Execute(4, "MLP", {"batch": "a", "hidden": "b"}, {"a": 2, "b": 2}),
)
hidden(
    layout.test_layout_on_more_ranks,
    execute(16, "ATTENTION", {"batch": "a", "head": "b", "wide": "c"}, {"a": 2, "b": 2, "c": 4}),
    execute(20, "WIDE_MLP", {"hidden": "all"}, {"all": 20}),
    execute(10, "WIDE_MLP", {"batch": "a", "hidden": "b"}, {"a": 2, "b": 5}),
    execute(6, "LONGER", {"i": "rows", "j": "columns"}, GRID),
)
hidden(
    layout.test_layout_given_communicator,
    Execute(4, "MLP", {"batch": "a", "hidden": "b"}, {"a": 2, "b": 2}),
)
hidden(layout.test_layout_inputs_and_a_second_run, Execute(3, mesh={"all": 3}))
