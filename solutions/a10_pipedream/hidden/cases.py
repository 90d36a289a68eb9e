"""The cases of the hidden run."""

from checks import test_axonn as axonn
from checks import test_partition as planner
from checks import test_stash as stash
from checks import test_stash_torch as stash_torch
from checks.cases import Train
from checks.cases_axonn import Step
from checks.cases_plan import FREE, Long, Partition, PlanBytes, PlanS, Published
from checks.cases_torch import TrainTorch
from given.profiles import VGG16, layers_of
from hidden import plan_oracle as oracle

from ringside.checking import LATENCY_SEEDS
from ringside.checking.suite import group, hidden

# -- stash -----------------------------------------------------------------------------------------


def train(p, count, **fields):
    """Minibatches of two samples; passes are announced."""
    return Train(p, (2,) * count, **{"announced": True, **fields})


FOUR = ((2, 5), (3, 7), (4, 9), (5, 8))

hidden(
    stash.test_delayed_recursion_on_2_to_5_stages,
    *(train(p, count) for p, count in (*FOUR, (3, 3))),
)
hidden(
    stash.test_vertical_sync_on_2_to_5_stages,
    *(train(p, count, vertical_sync=True) for p, count in FOUR),
)
hidden(
    stash.test_fewer_minibatches_than_stages_and_one_stage,
    # On several stages first: what has no messages shows little.
    group(stash.FEW, *(train(p, count) for p, count in ((2, 1), (4, 2), (5, 3), (3, 0)))),
    group(stash.ALONE, train(1, 4), train(1, 1)),
)
hidden(
    stash.test_minibatches_of_different_sizes_and_float32,
    group("float32", *(train(p, 6, dtype="float32", announced=False) for p in (2, 4))),
    group(
        "float64",
        Train(2, (1, 3, 2, 4), announced=True),
        Train(3, (1, 4, 2, 3, 1, 2), announced=True),
        Train(4, (2, 5, 1, 1, 3), announced=True),
    ),
)
hidden(stash.test_losses_of_the_last_stage, train(2, 5), train(4, 6))
UNEQUAL = (3, 4, 2, 2, 1)
hidden(
    stash.test_second_call_and_all_that_is_given_stays,
    group("a second call", *(Train(p, UNEQUAL, before=True) for p in (2, 3))),
    group("a first call", *(Train(p, UNEQUAL, announced=True) for p in (2, 3))),
)
hidden(stash.test_real_mpi, train(3, 6, announced=False))
hidden(stash.test_stages_compute_their_pieces_and_pass_arrays_on, train(4, 8, announced=False))
hidden(
    stash.test_two_messages_for_each_minibatch_and_boundary,
    group(
        "float64",
        *(train(p, count) for p, count in ((2, 4), (3, 5), (4, 6), (5, 6), (12, 13), (18, 19))),
        train(3, 4, width=900, hidden=2),
    ),
    group("float32", train(3, 4, dtype="float32", announced=False, width=900, hidden=2)),
)
hidden(
    stash.test_messages_go_to_neighbours_in_the_given_communicator,
    group(stash.WORLD, *(train(p, p + 2) for p in (2, 4, 18))),
    group(stash.PART, *(train(p, p + 2, announced=False).in_part() for p in (3, 4)), weight=3),
)
hidden(
    stash.test_one_forward_one_backward_in_turn,
    *(train(p, count) for p, count in ((2, 5), (3, 6), (4, 9), (5, 7))),
)
hidden(
    stash.test_versions_are_let_go,
    group(stash.OWN, Train(5, (2,) * 14, **stash.WIDE)),
    group(stash.SYNC, Train(3, (2,) * 14, vertical_sync=True, **stash.WIDE), weight=0.5),
)
hidden(
    stash.test_neighbours_send_to_each_other,
    *(train(p, 8, machine="rendezvous") for p in (2, 4)),
)
hidden(stash.test_sends_may_wait_for_their_receives, train(2, 6), train(4, 24))
MS, WIRE = (1e-3, 2e-3), {"costs": (4e-6, 8e-6), "width": 8, "alike": True, "machine": "long wire"}
hidden(
    stash.test_time_with_free_messages_and_on_a_slow_wire,
    group(stash.FREE, *(train(p, n, costs=MS, machine="free") for p, n in ((3, 7), (4, 10)))),
    # A message takes more than half of a forward pass.
    group(stash.SLOW, train(4, 10, **WIRE), train(3, 8, **WIRE), weight=3),
)

# -- partition -------------------------------------------------------------------------------------


def some(rng, num_layers, weights=1.0, outputs=1.0):
    """A profile, named by its seed."""
    return int(rng.integers(2**31)), num_layers, weights, outputs


def timed(profile, plan, bytes_per_s):
    """A plan and its time."""
    seconds = oracle.time_s(layers_of(profile), plan, bytes_per_s)
    return PlanS(profile, tuple(plan), bytes_per_s, gives=float(seconds))


def shortest(profile, workers, bytes_per_s, capacity=None):
    """A profile and the time of its shortest plan."""
    seconds = oracle.shortest_s(layers_of(profile), workers, bytes_per_s, capacity)
    return Partition(profile, workers, bytes_per_s, capacity, gives=float(seconds))


def straight(rng):
    cases = []
    for n in (1, 2, 5, 9, 9):
        for outputs in (0.1, 10.0):
            plan = oracle.anything(rng, n, n, stages=min(n, 1 + n // 2))
            plan = [(lo, hi, 1) for lo, hi, _ in plan]
            cases.append(timed(some(rng, n, 1.0, outputs), plan, 1e9))
    return cases


def replicated(rng):
    """The links take no time to speak of."""
    return [
        timed(some(rng, n, weights, 0.01), oracle.anything(rng, n, workers, stages), rate)
        for n, workers, stages in ((1, 4, 1), (3, 7, 2), (6, 16, 2), (8, 9, 3))
        for weights, rate in ((0.1, 1e9), (3.0, 1e9), (1.0, FREE))
    ]


def linked(rng):
    return [
        timed(some(rng, n, 0.01, 10.0), [(0, n // 2, many), (n // 2, n, workers - many)], 1e9)
        for n, workers in ((2, 5), (5, 6), (8, 12))
        for many in (2, workers - 2)
    ]


def plans_and_bytes(rng):
    shapes = ((1, 1, 1), (1, 3, 1), (4, 4, 4), (6, 3, 2), (6, 16, 3), (9, 20, 4), *[(8, 11)] * 4)
    plans = [(some(rng, n), oracle.anything(rng, n, *rest)) for n, *rest in shapes]
    plans.append(("VGG16", [(0, 11, 15), (11, 16, 1)]))
    return [
        PlanBytes(profile, tuple(plan), gives=oracle.bytes_of(layers_of(profile), plan))
        for profile, plan in plans
    ]


def where_messages_are_free(rng):
    shapes = ((3, 2), (4, 3), (5, 4), (6, 3), (7, 4), (8, 4), (8, 4))
    return [shortest(some(rng, n), workers, FREE) for n, workers in shapes]


def where_activations_take_long(rng):
    """Weights so heavy that no stage is replicated."""
    return [
        shortest(some(rng, n, 1e4, outputs), workers, 1e9)
        for n, workers in ((2, 2), (4, 3), (6, 4), (8, 4), (8, 3))
        for outputs in (1.0, 4.0)
    ]


def where_averaging_takes_long(rng):
    """Outputs of no size; with very heavy weights some workers are left idle."""
    return [
        shortest(some(rng, n, weights, 0.0), workers, 1e9)
        for n, workers in ((1, 4), (2, 4), (4, 4), (6, 4), (8, 4))
        for weights in (1.0, 8.0, 40.0)
    ]


def where_everything_counts(rng):
    return [
        shortest(some(rng, n, weights, outputs), workers, rate)
        for n, workers in ((5, 4), (8, 4))
        for weights, outputs in ((1.0, 1.0), (0.2, 2.0), (3.0, 0.3))
        for rate in (3e8, 1e9, 4e9)
    ]


def small(*shapes):
    return lambda rng: [shortest(some(rng, n, 0.1, 0.1), workers, 1e9) for n, workers in shapes]


def vgg16(bytes_per_s):
    """As short as the best plan with 15 workers in the first stage and 1 in the second."""
    plans = ([(0, cut, 15), (cut, 16, 1)] for cut in range(1, 16))
    seconds = min(oracle.time_s(VGG16, plan, bytes_per_s) for plan in plans)
    return Published(bytes_per_s=bytes_per_s, gives=float(seconds))


def tight(rng):
    """The best plan doesn't fit, but others do, which need exactly what there is.

    Messages are free: what they cost is another test's matter.
    """
    cases = []
    for n, workers in ((3, 4), (4, 3), (6, 4), (7, 4), (8, 4), (8, 4)):
        between = []
        while not between:
            profile = some(rng, n, 1.0, 0.5)
            layers = layers_of(profile)
            plans = sorted(
                (oracle.time_s(layers, plan, FREE), max(oracle.bytes_of(layers, plan)))
                for plan in oracle.plans(n, workers)
            )
            least, most = min(needed for _, needed in plans), plans[0][1]
            between = sorted({needed for _, needed in plans if least < needed < most})
        for capacity in (least, between[len(between) // 2], most - 1):
            cases.append(shortest(profile, workers, FREE, capacity))
    return cases


def too_large(rng):
    """One layer's weights alone: what else a worker keeps is another test's matter."""
    cases = [Partition("VGG16", 2, 1e9, 4 * 10**8, raises="ValueError")]
    for n, workers in ((1, 1), (1, 3), (4, 3), (8, 4)):
        profile = some(rng, n)
        largest = max(layer.weight_bytes for layer in layers_of(profile))
        cases.append(Partition(profile, workers, 1e9, largest - 1, raises="ValueError"))
    return cases


def long(*shapes):
    """Long profiles."""

    def drawn(rng):
        cases = []
        for n, workers, rate in shapes:
            profile = some(rng, n, 0.3, 0.3)
            seconds = oracle.shortest_of_long_s(layers_of(profile), workers, rate)
            cases.append(Long(profile, workers, rate, gives=seconds))
        return cases

    return drawn


def mistaken_times(case):
    """What mistakes in ``plan_s`` give."""
    layers, plan = case.layers, list(case.plan)
    last = 2 * layers[-1].output_bytes / case.bytes_per_s
    added = []
    for lo, hi, replicas in plan:
        computing = sum(layer.compute_s for layer in layers[lo:hi])
        traffic = 2 * (replicas - 1) * sum(layer.weight_bytes for layer in layers[lo:hi])
        added.append((computing + traffic / case.bytes_per_s) / replicas)
    return {
        "The output of the last layer was counted; no link is behind it.": max(case.gives, last),
        "Averaging was added to the computation; both happen at the same time.": max(
            case.gives, *added
        ),
    }


def mistaken_bytes(case):
    """What mistakes in ``plan_bytes`` give."""
    found, behind = {}, 0
    once, down = [], []
    for lo, hi, replicas in reversed(case.plan):
        behind += replicas
        kept = sum(layer.weight_bytes + layer.output_bytes for layer in case.layers[lo:hi])
        once.append(kept)
        down.append(behind // replicas * kept)
    found["One version was counted in each stage."] = once[::-1]
    found["A part of a version was left out; versions are rounded up."] = down[::-1]
    return found


PlanS.wrong, PlanBytes.wrong = mistaken_times, mistaken_bytes

hidden(
    planner.test_time_of_plans,
    group(planner.STRAIGHT, straight),
    group(planner.REPLICATED, replicated, weight=2),
    group(planner.LINKS, linked),
)
hidden(planner.test_bytes_that_a_worker_keeps, plans_and_bytes)
hidden(planner.test_plans_where_messages_are_free, where_messages_are_free)
hidden(planner.test_plans_where_activations_take_long, where_activations_take_long)
hidden(planner.test_plans_where_averaging_takes_long, where_averaging_takes_long)
hidden(planner.test_plans_where_everything_counts, where_everything_counts)
hidden(
    planner.test_one_layer_and_one_worker,
    group(planner.ONE, small((1, 1), (5, 1))),
    group(planner.MORE, small((1, 4), (2, 4), (3, 4))),
)
hidden(
    planner.test_published_plan_of_vgg16,
    group(planner.FAST, *map(vgg16, (3.125e9, 6e9, 12e9)), weight=5),
    group(planner.SLOW, *map(vgg16, (1.25e9, 2e9)), weight=3),
)
hidden(planner.test_shortest_plan_that_fits, tight)
hidden(planner.test_refuses_where_no_plan_fits, too_large)
hidden(
    planner.test_better_than_equally_many_layers,
    long(
        *((n, workers, rate) for n, workers in ((12, 6), (14, 5), (16, 4)) for rate in (1e9, 5e9))
    ),
)
hidden(planner.test_fifty_layers_on_sixty_four_workers, long((50, 64, 5e9)))

# -- axonn -----------------------------------------------------------------------------------------


def step(p, count, **fields):
    """Microbatches of two samples; passes are announced."""
    return Step(p, (2,) * count, **{"announced": True, **fields})


hidden(
    axonn.test_gradient_on_2_to_5_stages_in_any_order_of_arrival,
    group(
        axonn.ALIKE,
        *(step(p, count, digits=10) for p, count in ((2, 6), (3, 8), (4, 10), (5, 10))),
    ),
    group(axonn.OVERTAKE, *(step(p, 8, latencies=seed) for seed in LATENCY_SEEDS for p in (3, 4))),
)
hidden(
    axonn.test_gradient_of_microbatches_of_different_sizes,
    *(Step(p, (3, 1, 2, 4, 1, 2, 2, 5), announced=True) for p in (2, 3, 4)),
)
hidden(
    axonn.test_one_stage_and_fewer_microbatches_than_stages,
    group(axonn.FEW, *(step(p, count) for p, count in ((3, 1), (4, 2), (5, 3)))),
    group(axonn.ALONE, step(1, 4), step(1, 1)),
)
hidden(
    axonn.test_limits_from_one_on,
    *(step(p, 7, limit=limit) for p, limit in ((2, 1), (3, 2), (3, 3), (2, 50))),
)
hidden(
    axonn.test_loss_of_the_whole_batch_and_all_that_is_given_stays,
    group(
        axonn.LOSS,
        Step(2, (2, 4, 1, 2, 3, 1), announced=True),
        Step(3, (2, 4, 1, 2), announced=True),
    ),
    group(axonn.GIVEN, step(2, 6), step(3, 4)),
)
hidden(
    axonn.test_float32_and_a_second_step,
    group("float32", *(step(p, 6, dtype="float32", announced=False) for p in (2, 3))),
    group("a second step", *(step(p, 5, before=True, announced=False) for p in (2, 3)), weight=2),
)
hidden(
    axonn.test_real_mpi,
    *(step(3, 5, limit=limit, digits=10, announced=False) for limit in (3, 6)),
)
SHAPES = ((2, 20), (3, 20), (4, 100), (5, 20), (12, 20), (18, 20))
hidden(
    axonn.test_one_message_for_each_activation_and_gradient,
    group(
        "float64",
        *(Step(p, (size,) * 6, widths=(40, 3, 30), announced=True) for p, size in SHAPES),
    ),
    group("float32", Step(3, (50,) * 6, dtype="float32", widths=(40, 3, 30), announced=True)),
)
hidden(
    axonn.test_messages_go_to_neighbours_in_the_given_communicator,
    group(axonn.WORLD, *(step(p, 6) for p in (3, 5, 1))),
    group(axonn.PART, step(3, 6, announced=False).in_part(), weight=2),
)
hidden(axonn.test_no_stage_waits_while_there_is_work, step(4, 8))
hidden(
    axonn.test_as_many_in_flight_as_asked,
    *(step(p, 10, limit=limit) for p, limit in ((2, 2), (3, 2), (4, 4), (3, 6))),
)
hidden(axonn.test_backward_before_forward, *(step(p, 14) for p in (2, 3, 4)))
hidden(
    axonn.test_neighbours_send_to_each_other,
    *(step(p, 8, machine="rendezvous") for p in (2, 4)),
)
hidden(axonn.test_every_send_may_wait_for_its_receive, step(2, 8), step(4, 8))
hidden(
    axonn.test_faster_than_1f1b_where_times_vary,
    Step(4, (1,) * 24, machine=axonn.WIRE, announced=True),
)

# -- stash_torch -----------------------------------------------------------------------------------


def in_torch(p, count, samples=2, **fields):
    """Minibatches of as many samples; passes are announced."""
    return TrainTorch(p, (samples,) * count, **{"announced": True, **fields})


hidden(
    stash_torch.test_delayed_recursion_on_2_to_5_stages,
    *(in_torch(p, count) for p, count in ((2, 5), (3, 7), (4, 8), (5, 7))),
)
hidden(
    stash_torch.test_fewer_minibatches_than_stages_and_one_stage,
    # On several stages first: what has no messages shows little.
    group(stash_torch.FEW, *(in_torch(p, count) for p, count in ((3, 2), (4, 3), (5, 1)))),
    group(stash_torch.ALONE, in_torch(1, 4)),
)
hidden(
    stash_torch.test_vertical_sync,
    *(in_torch(p, count, vertical_sync=True) for p, count in ((2, 5), (3, 7), (4, 6))),
)
hidden(
    stash_torch.test_minibatches_of_any_length_and_momentum,
    group(
        stash_torch.ANY,
        TrainTorch(2, (1, 3, 2, 4), announced=True),
        TrainTorch(3, (1, 2, 5, 1, 3, 2), announced=True),
    ),
    group(stash_torch.MOMENTUM, *(in_torch(p, 6, optimizer="momentum") for p in (2, 3)), weight=2),
)
hidden(
    stash_torch.test_losses_of_the_last_stage,
    *(TrainTorch(p, (1, 3, 2, 4), calls=2, announced=True) for p in (2, 3)),
)
hidden(
    stash_torch.test_second_call_goes_on,
    *(TrainTorch(p, (3, 1, 2, 4), optimizer="momentum", calls=2, announced=True) for p in (2, 3)),
)
hidden(stash_torch.test_real_gloo, in_torch(3, 6, calls=2, announced=False))
hidden(
    stash_torch.test_stages_compute_their_pieces_and_pass_tensors_on,
    in_torch(4, 8, announced=False),
)
COUNTS = ((2, 4), (3, 6), (4, 5), (5, 6), (12, 13), (18, 18))
hidden(
    stash_torch.test_two_messages_for_each_minibatch_and_boundary,
    *(in_torch(p, count, 30, ends=(4, 3), hidden=2) for p, count in COUNTS),
)
hidden(
    stash_torch.test_no_collective_in_the_given_group,
    group(stash_torch.WORLD, in_torch(2, 5), in_torch(4, 5)),
    group(stash_torch.PART, in_torch(3, 5, announced=False).in_part(), weight=2),
)
hidden(
    stash_torch.test_passes_are_in_the_order_of_1f1b,
    *(in_torch(p, count) for p, count in ((2, 5), (3, 6), (4, 7))),
)
hidden(stash_torch.test_every_send_may_wait_for_its_receive, in_torch(4, 6))
SIXTY = {"ends": (60, 60), "hidden": 60, "watched": True}
hidden(
    stash_torch.test_few_versions_are_kept,
    *(TrainTorch(p, (1,) * count, **SIXTY) for p, count in ((3, 12), (2, 10))),
)
TENS, THIN = stash_torch.TENS, stash_torch.THIN
hidden(
    stash_torch.test_time_with_free_messages_and_on_a_slow_wire,
    group(
        stash_torch.FREE,
        *(in_torch(p, count, 1, machine="free", **TENS) for p, count in ((4, 7), (3, 9))),
    ),
    group(
        stash_torch.SLOW,
        *(in_torch(p, n, 1, **TENS, **THIN) for p, n in ((4, 8), (3, 9))),
        weight=2,
    ),
)
