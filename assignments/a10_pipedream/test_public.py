"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, numbers of stages, values,
machines and data.
"""

import itertools
import sys
from functools import partial
from pathlib import Path

import examples
from axonn_cases import axonn_case, axonn_serial
from axonn_times import message_driven, one_f_one_b
from callers import partition_profile
from cases import stash_case
from cases_torch import (
    assert_stash_torch,
    assert_stash_torch_kept,
    assert_stash_torch_losses,
    assert_stash_torch_memory,
    assert_stash_torch_order,
    assert_stash_torch_passed_on,
    assert_stash_torch_sent,
    stash_torch_case,
    stash_torch_reference_s,
)
from profiles import VGG16, equal_layers

from ringside import Machine, checking
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_own_messages,
    assert_peers,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    award,
    buffered,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors

# -- stash -----------------------------------------------------------------------------------------
STASH_FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)


def stash_trained(ranks, case, rng=None, **options):
    """``stash.train``, compared with the recursion in one process.

    With ``rng`` the passes are announced, and the network scales their inputs.
    """
    if rng is not None:
        options["factors"] = Factors.drawn(rng)
    world_size = options.pop("world_size", case.world_size)
    options.setdefault("machine", buffered())
    result = ranks.call("callers:stash_trained", world_size, case.arguments_of_ranks(), **options)
    checking.assert_ran(result, case)
    right, seen = case.right(result.factors), case.seen_in(result)
    for stage, value in enumerate(result.values):
        examples.stash_check_values(value, stage, right, seen)
    return result


@points(17, "values", "stash")
def test_stash_equals_the_delayed_recursion(ranks, rng):
    for p, count in ((2, 4), (3, 6), (4, 7)):
        stash_trained(ranks, stash_case(p, count, rng), rng)


@points(10, "values", "stash")
def test_stash_with_vertical_sync(ranks, rng):
    for p, count in ((2, 4), (3, 6)):
        stash_trained(ranks, stash_case(p, count, rng, vertical_sync=True), rng)


@points(5, "values", "stash")
def test_stash_with_few_minibatches_and_one_stage(ranks, rng):
    for p, count in ((4, 2), (3, 1), (2, 0), (1, 3)):
        stash_trained(ranks, stash_case(p, count, rng), rng)


@points(5, "values", "stash")
def test_stash_with_minibatches_of_different_sizes_and_float32(ranks, rng):
    stash_trained(ranks, stash_case(3, (2, 1, 4, 3), rng), rng)
    stash_trained(ranks, stash_case(3, 5, rng, "float32"), rng)


@points(3, "values", "stash")
def test_stash_losses_of_the_last_stage(ranks, rng):
    case = stash_case(3, 5, rng)
    result = stash_trained(ranks, case)
    right = case.right(result.factors)
    for stage, value in enumerate(result.values):
        examples.stash_check_losses(value, stage, right, case.seen_in(result))


@points(5, "values", "stash")
def test_stash_twice_and_what_is_given_stays(ranks, rng):
    case = stash_case(2, (1, 2, 2, 4, 3), rng, calls=2)
    result = stash_trained(ranks, case)
    for stage, value in enumerate(result.values):
        examples.stash_check_kept(value, stage, case.seen_in(result))


REAL_STASH = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
from types import SimpleNamespace
import examples, stash
from model import Piece
comm = watched(MPI.COMM_WORLD, 20.0)
options = SimpleNamespace(n=5, dtype="float64", seed=1, others={"minibatches": 4})
given = examples.stash_arguments("measured_training", 3, comm.Get_rank(), options)
right = examples.stash_expected("measured_training", 3, comm.Get_rank(), options)
params, _ = stash.train(comm, Piece(comm.Get_rank()), *given)
found = np.concatenate([param.reshape(-1) for param in params])
np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)
"""


@points(5, "reality", "stash")
def test_stash_under_mpiexec(ranks, rng, mpiexec):
    case = stash_case(3, 4, rng)
    stash_trained(ranks, case)
    words = [mpiexec, "-n", "3", sys.executable, "-c", REAL_STASH]
    assert_real_run(words, Path(__file__).parent, f"{case} under mpiexec")


@points(10, "communication", "stash")
def test_stash_sends_two_messages_a_minibatch_and_boundary(ranks, rng):
    case = stash_case(4, 6, rng, width=300, hidden=2)  # far longer than the envelope that is free
    result = stash_trained(ranks, case)
    counts, nbytes = examples.stash_allowed(case)
    ranks.record(case, result, {"messages": counts, "bytes": nbytes})
    examples.stash_assert_sent(result, case)


@points(2, "communication", "stash", essential=True)
def test_stash_stages_compute_their_pieces_and_pass_arrays_on(ranks, rng):
    case = stash_case(3, 6, rng)
    arguments = case.arguments_of_ranks()
    result = ranks.call("callers:stash_trained", 3, arguments, machine=buffered())
    assert_ran(result, case)
    examples.stash_assert_passed_on(result, case)


@points(8, "communication", "stash")
def test_stash_talks_to_neighbours_on_any_communicator(ranks, rng):
    case = stash_case(3, 5, rng)
    result = stash_trained(ranks, case)
    checking.assert_own_messages(result, case)
    rule = "a stage talks to the one before and the one after"
    checking.assert_peers(result, [{1}, {0, 2}, {1}], case, rule)
    stash_trained(ranks, case, world_size=5, members=[3, 1, 4])


@points(10, "schedule", "stash")
def test_stash_computes_one_forward_one_backward_in_turn(ranks, rng):
    case = stash_case(4, 7, rng)
    examples.stash_assert_order(stash_trained(ranks, case, rng), case)


@points(5, "memory", "stash")
def test_stash_lets_versions_go(ranks, rng):
    for vertical_sync in (False, True):
        case = stash_case(
            3, 14, rng, width=64, hidden=256, alike=True, memory=True, vertical_sync=vertical_sync
        )
        examples.stash_assert_held(stash_trained(ranks, case), case)


@points(5, "safety", "stash")
def test_stash_with_sends_that_wait(ranks, rng):
    for seed in (None, *LATENCY_SEEDS[:2]):
        case = stash_case(3, 8, rng)
        result = stash_trained(ranks, case, rng, machine=rendezvous(), seed=seed)
        checking.assert_requests_complete(result, case)


@points(10, "speed", "stash")
def test_stash_takes_no_longer_than_it_must(ranks, rng):
    case = stash_case(4, 8, rng, costs=(1e-3, 2e-3))
    result = stash_trained(ranks, case, rng, machine=STASH_FREE)
    examples.stash_assert_work(result, case)
    checking.assert_makespan(result, (8 + 3) * 3e-3, case)
    # Here a message takes 2.5 us. The best order and messages that nobody waits for take 172 us.
    wire = Machine("wire", alpha_s=2.5e-6, beta_s_per_byte=0.0)
    case = stash_case(4, 8, rng, costs=(4e-6, 8e-6))
    result = stash_trained(ranks, case, rng, machine=wire)
    checking.assert_makespan(result, 172e-6, case)


# -- stash_torch -----------------------------------------------------------------------------------


def stash_torch(ranks, rng, case, **options):
    """Train on stages whose passes are announced; parameters must be those of the recursion."""
    options.setdefault("factors", Factors.drawn(rng))
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:stash_torch_trained", world_size, given, **options)
    assert_ran(result, case)
    assert_stash_torch(result, case)
    return result


@points(15, "values", "stash_torch")
def test_stash_torch_delayed_recursion(ranks, rng):
    for num_stages, count in ((2, 4), (3, 6)):
        stash_torch(ranks, rng, stash_torch_case(num_stages, (2,) * count, rng))


@points(10, "values", "stash_torch")
def test_stash_torch_few_minibatches_and_one_stage(ranks, rng):
    for num_stages, count in ((3, 2), (4, 1), (1, 3)):
        stash_torch(ranks, rng, stash_torch_case(num_stages, (2,) * count, rng))


@points(10, "values", "stash_torch")
def test_stash_torch_vertical_sync(ranks, rng):
    stash_torch(ranks, rng, stash_torch_case(3, (2,) * 6, rng, vertical_sync=True))


@points(10, "values", "stash_torch")
def test_stash_torch_momentum_and_minibatches_of_any_length(ranks, rng):
    stash_torch(ranks, rng, stash_torch_case(2, (2,) * 5, rng, optimizer="momentum"))
    stash_torch(ranks, rng, stash_torch_case(2, (1, 3, 2, 4), rng))


@points(10, "values", "stash_torch")
def test_stash_torch_losses_and_second_call(ranks, rng):
    case = stash_torch_case(2, (2,) * 3, rng, num_calls=2)
    result = stash_torch(ranks, rng, case)
    assert_stash_torch_losses(result, case)
    assert_stash_torch_kept(result, case)


@points(2, "communication", "stash_torch", essential=True)
def test_stash_torch_stages_compute_their_pieces_and_pass_tensors_on(ranks, rng):
    case = stash_torch_case(3, (2,) * 6, rng)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:stash_torch_trained", 3, given, machine=buffered())
    assert_ran(result, case)
    assert_stash_torch_passed_on(result, case)


@points(8, "communication", "stash_torch")
def test_stash_torch_messages_in_any_group(ranks, rng):
    case = stash_torch_case(3, (2,) * 5, rng)
    result = stash_torch(ranks, rng, case)
    assert_own_messages(result, case.seen_in(result))
    ranks.record(case, result, {"messages": [case.sent(stage)[0] for stage in range(3)]})
    assert_stash_torch_sent(result, case)
    stash_torch(ranks, rng, case, world_size=5, members=[3, 1, 4])


@points(10, "schedule", "stash_torch")
def test_stash_torch_order_of_1f1b(ranks, rng):
    case = stash_torch_case(3, (2,) * 5, rng)
    assert_stash_torch_order(stash_torch(ranks, rng, case), case)


@points(10, "safety", "stash_torch")
def test_stash_torch_sends_may_wait(ranks, rng):
    for seed in LATENCY_SEEDS[:2]:
        case = stash_torch_case(3, (2,) * 4, rng)
        result = stash_torch(ranks, rng, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case)


@points(5, "memory", "stash_torch")
def test_stash_torch_keeps_few_versions(ranks, rng):
    case = stash_torch_case(2, (1,) * 10, rng, ends=(60, 60), hidden=60, memory=True)
    result = ranks.call("callers_torch:stash_torch_memory", 2, case.arguments_of_ranks())
    assert_ran(result, case)
    assert_stash_torch(result, case)
    assert_stash_torch_memory(result, case)


@points(10, "speed", "stash_torch")
def test_stash_torch_time(ranks, rng):
    free = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
    case = stash_torch_case(3, (1,) * 5, rng, costs=(1e-2, 2e-2))
    assert_makespan(stash_torch(ranks, rng, case, machine=free), 7 * 3e-2, case)
    slow = Machine("slow wire", alpha_s=1e-3, beta_s_per_byte=3e-5)
    case = stash_torch_case(3, (1,) * 5, rng, costs=(1e-2, 2e-2), ends=(30, 30), hidden=2)
    result = stash_torch(ranks, rng, case, machine=slow)
    assert_makespan(result, stash_torch_reference_s(case, slow), case)


# -- partition -------------------------------------------------------------------------------------

# The docstring's example, and another profile: seconds, bytes of output, bytes of weights.
PARTITION_SMALL = [(4, 10**9, 10**9), (2, 10**9, 10**9), (2, 10**9, 2 * 10**9)]
PARTITION_FIVE = [(2, 4 * 10**8, 10**8), (1, 9 * 10**8, 10**8), (3, 10**8, 5 * 10**8),
        (2, 3 * 10**8, 2 * 10**9), (1, 10**7, 3 * 10**9)]  # fmt: skip
PARTITION_FREE = float("inf")


def partition_line(function, call):
    words = ", ".join(repr(each) for each in call).replace("inf", "float('inf')")
    return f"python -c \"from callers import try_partition; try_partition('{function}', {words})\""


def partition_ask(ranks, function, call):
    """What a function of ``partition.py`` gives, and its error."""
    target = f"partition:{function}"
    result = ranks.call("callers:partition_answers", 1, [(target, [call])])
    return result.raise_for_error().values[0][0]


def partition_check(ranks, function, call, right):
    value, error = partition_ask(ranks, function, call)
    if error or value != right:
        raise Verdict(
            f"{function} {f'raised {error}' if error else f'is {value}'}; it must be {right}.",
            reproduce=partition_line(function, call),
        )


def partition_sums(layers, lo, hi):
    return [sum(layer[kind] for layer in layers[lo:hi]) for kind in range(3)]


def partition_cost(layers, plan, bytes_per_s):
    """Seconds, and bytes of the worker that needs most: the docstring's formulas once more."""
    seconds, needed, workers = 0.0, 0, 0
    for lo, hi, replicas in plan[::-1]:
        computing, outputs, weights = partition_sums(layers, lo, hi)
        averaging = 2 * weights * (replicas - 1) / bytes_per_s
        link_s = 2 * layers[hi - 1][1] / bytes_per_s if hi < len(layers) else 0.0
        seconds = max(seconds, computing / replicas, averaging / replicas, link_s)
        workers += replicas
        needed = max(needed, (workers + replicas - 1) // replicas * (weights + outputs))
    return seconds, needed


def partition_plans(num_layers, num_workers, lo=0):
    if lo == num_layers:
        yield []
    for hi, replicas in itertools.product(range(lo + 1, num_layers + 1), range(1, num_workers + 1)):
        for rest in partition_plans(num_layers, num_workers - replicas, hi):
            yield [(lo, hi, replicas), *rest]


def partition_check_plan(ranks, layers, num_workers, bytes_per_s, capacity=None):
    """The student's plan is legal, fits, and is as short as the shortest of all plans."""
    call = (list(layers), num_workers, bytes_per_s, capacity)
    plan, error = partition_ask(ranks, "partition", call)
    line = partition_line("partition", call)
    if error:
        raise Verdict(f"partition raised {error}; it must return a plan.", reproduce=line)
    legal = list(partition_plans(len(layers), num_workers))
    if not isinstance(plan, list) or [tuple(stage) for stage in plan] not in legal:
        raise Verdict(
            f"partition is {plan}, which is no plan of {len(layers)} layers on at most "
            f"{num_workers} workers.",
            reproduce=line,
        )
    time_s, needed = partition_cost(layers, plan, bytes_per_s)
    if capacity is not None and needed > capacity:
        raise Verdict(
            f"The plan {plan} needs {needed} bytes a worker; {capacity} are there.", reproduce=line
        )
    costs = [partition_cost(layers, each, bytes_per_s) for each in legal]
    best_s = min(each_s for each_s, most in costs if capacity is None or most <= capacity)
    if time_s > best_s * (1 + 1e-9):
        raise Verdict(
            f"The plan {plan} takes {time_s:.9g} s; the shortest takes {best_s:.9g} s.",
            reproduce=line,
        )


@points(12, "values", "partition")
def test_partition_time_of_plans(ranks):
    partition_check(ranks, "plan_s", (PARTITION_SMALL, [(0, 1, 2), (1, 3, 1)], 1e9), 4.0)
    partition_check(ranks, "plan_s", (PARTITION_SMALL, [(0, 2, 2), (2, 3, 1)], 1e9), 3.0)
    partition_check(ranks, "plan_s", (PARTITION_SMALL, [(0, 2, 1), (2, 3, 1)], 2.5e8), 8.0)
    partition_check(ranks, "plan_s", (PARTITION_SMALL, [(0, 3, 4)], 1e9), 6.0)
    partition_check(ranks, "plan_s", (PARTITION_SMALL, [(0, 3, 4)], PARTITION_FREE), 2.0)


@points(8, "memory", "partition")
def test_partition_bytes_that_a_worker_keeps(ranks):
    gb = 10**9
    partition_check(
        ranks, "plan_bytes", (PARTITION_SMALL, [(0, 1, 2), (1, 3, 1)]), [4 * gb, 5 * gb]
    )
    straight = [(0, 1, 1), (1, 2, 1), (2, 3, 1)]
    partition_check(ranks, "plan_bytes", (PARTITION_SMALL, straight), [6 * gb, 4 * gb, 3 * gb])
    partition_check(
        ranks, "plan_bytes", (PARTITION_SMALL, [(0, 2, 1), (2, 3, 3)]), [16 * gb, 3 * gb]
    )


@points(12, "values", "partition")
def test_partition_plans_where_messages_are_free(ranks):
    for layers, workers in (
        (PARTITION_SMALL, 2),
        (PARTITION_SMALL, 4),
        (PARTITION_FIVE, 3),
        (PARTITION_FIVE, 4),
    ):
        partition_check_plan(ranks, layers, workers, PARTITION_FREE)


@points(22, "values", "partition")
def test_partition_shortest_plans(ranks):
    for layers, workers in (
        (PARTITION_SMALL, 3),
        (PARTITION_FIVE, 3),
        (PARTITION_FIVE, 4),
        (PARTITION_FIVE[:1], 4),
        (PARTITION_FIVE, 1),
    ):
        for bytes_per_s in (2e8, 1e9, 5e9):
            partition_check_plan(ranks, layers, workers, bytes_per_s)


@points(13, "values", "partition")
def test_partition_published_plan_of_vgg16(ranks):
    layers = [(each.compute_s, each.output_bytes, each.weight_bytes) for each in VGG16]
    for bytes_per_s in (1.25e9, 6e9):
        call = ("VGG16", 16, bytes_per_s)
        plan, error = partition_ask(ranks, "partition", call)
        published_s = min(
            partition_cost(layers, [(0, cut, 15), (cut, 16, 1)], bytes_per_s)[0]
            for cut in range(1, 16)
        )
        taken_s = PARTITION_FREE if error else partition_cost(layers, plan, bytes_per_s)[0]
        if taken_s > published_s * (1 + 1e-9):
            raise Verdict(
                f"The plan of VGG-16 is {error or plan} and takes {taken_s:.6g} s; with 15 workers "
                f"in the first stage and 1 in the second it takes {published_s:.6g} s.",
                reproduce=partition_line("partition", call),
            )


@points(12, "memory", "partition")
def test_partition_shortest_plan_that_fits(ranks):
    partition_check_plan(ranks, PARTITION_SMALL, 3, 1e9, 5 * 10**9)
    for layers, workers in ((PARTITION_FIVE, 3), (PARTITION_FIVE, 4)):
        needed = sorted(
            partition_cost(layers, plan, 1e9)[1] for plan in partition_plans(len(layers), workers)
        )
        for capacity in (needed[0], needed[len(needed) // 3], needed[-1]):
            partition_check_plan(ranks, layers, workers, 1e9, capacity)


@points(6, "safety", "partition")
def test_partition_refuses_where_no_plan_fits(ranks):
    call = (PARTITION_FIVE, 4, 1e9, 2 * 10**9)
    plan, error = partition_ask(ranks, "partition", call)
    if error != "ValueError":
        raise Verdict(
            f"No plan fits, and partition {f'raised {error}' if error else f'is {plan}'}; it must "
            "raise ValueError.",
            reproduce=partition_line("partition", call),
        )


@points(15, "speed", "partition")
def test_partition_long_profiles(ranks):
    for seed, num_layers, workers in ((1, 14, 5), (2, 50, 64)):
        call = ((seed, num_layers, 0.3, 0.3), workers, 5e9)
        plan, error = partition_ask(ranks, "partition", call)
        layers = [
            (each.compute_s, each.output_bytes, each.weight_bytes)
            for each in partition_profile(call[0])
        ]
        equal_s = partition_cost(layers, equal_layers(num_layers, workers), 5e9)[0]
        taken_s = PARTITION_FREE if error else partition_cost(layers, plan, 5e9)[0]
        award(
            float(taken_s <= equal_s / 1.2),
            f"The plan of {num_layers} layers on {workers} workers "
            f"{f'raised {error}' if error else f'takes {taken_s:.6g} s'}; stages of equally many "
            f"layers take {equal_s:.6g} s, and it must be 1.2 times as fast.",
            reproduce=partition_line("partition", call),
        )


# -- axonn -----------------------------------------------------------------------------------------


def axonn_stepped(ranks, rng, num_stages, batch_sizes, limit=None, **options):
    """One step: compare values.

    ``observed``: False: passes aren't announced; ``second``: as a second step.
    """
    dtype, second = options.pop("dtype", "float64"), options.pop("second", False)
    case = axonn_case(num_stages, batch_sizes, limit or 2 * num_stages, rng, dtype)
    case, valued = case.second() if second else case, options.pop("valued", True)
    if options.pop("observed", True):
        options["factors"] = Factors.drawn(rng)
    options.setdefault("machine", buffered())
    through = "axonn_second_step" if second else "axonn_step"
    world_size = options.pop("world_size", num_stages)
    result = ranks.call(f"callers:{through}", world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    right = axonn_serial(case, result.factors) if valued else None
    for stage, value in enumerate(result.values) if valued else ():
        examples.axonn_check_values(value, stage, right, case.seen_in(result))
    return case, result


def axonn_driven(*arguments, to_the_limit=False, **options):
    """The same, and no stage waits while there is work."""
    case, result = axonn_stepped(*arguments, **options)
    limit = case.limit if to_the_limit else 1
    examples.axonn_assert_driven(result, case, len(case.batch_sizes), limit)


@points(9, "values", "axonn")
def test_axonn_gradient(ranks, rng):
    for num_stages in (2, 3, 4):
        axonn_stepped(ranks, rng, num_stages, (2,) * 7)


@points(3, "schedule", "axonn", essential=True)
def test_axonn_no_stage_waits_while_there_is_work(ranks, rng):
    axonn_driven(ranks, rng, 4, (2,) * 8, valued=False)


@points(7, "values", "axonn")
def test_axonn_microbatches_of_different_sizes(ranks, rng):
    axonn_stepped(ranks, rng, 3, (3, 1, 2, 4, 1))


@points(6, "values", "axonn")
def test_axonn_one_stage_and_fewer_microbatches_than_stages(ranks, rng):
    axonn_driven(ranks, rng, 4, (2, 2))
    axonn_driven(ranks, rng, 1, (2, 2, 2))


@points(5, "values", "axonn")
def test_axonn_limits_from_one_on(ranks, rng):
    for limit in (1, 2):
        axonn_driven(ranks, rng, 3, (2,) * 5, limit, to_the_limit=True)


@points(5, "values", "axonn")
def test_axonn_any_order_of_arrival(ranks, rng):
    for seed in (1, 2):
        axonn_stepped(ranks, rng, 3, (2,) * 6, seed=seed)


@points(5, "values", "axonn")
def test_axonn_loss_and_what_is_given_stays(ranks, rng):
    for num_stages, sizes in ((2, (2,) * 4), (3, (3, 1, 2))):
        case, result = axonn_stepped(ranks, rng, num_stages, sizes)
        right, seen = axonn_serial(case, result.factors), case.seen_in(result)
        for stage, value in enumerate(result.values):
            examples.axonn_check_loss(value, stage, right, seen)
            examples.axonn_check_kept(value, stage, seen)


@points(3, "values", "axonn")
def test_axonn_float32(ranks, rng):
    axonn_stepped(ranks, rng, 2, (2,) * 4, dtype="float32", observed=False)


@points(4, "values", "axonn")
def test_axonn_second_step_is_independent(ranks, rng):
    axonn_stepped(ranks, rng, 2, (2,) * 4, second=True, observed=False)


AXONN_REAL = """
from mpi4py import MPI
from ringside.checking.inputs import Options
from ringside.jobs.real.watch import watched
import callers, examples
comm = watched(MPI.COMM_WORLD, 20.0)
options = Options(n=8, others={"batch_sizes": [2, 1, 3, 2]})
given = examples.arguments("axonn_step", comm.Get_size(), comm.Get_rank(), options)
value = callers.axonn_step(comm, *given)
case = examples.axonn_case_of(comm.Get_size(), options)
examples.axonn_check_values(value, comm.Get_rank(), examples.axonn_serial(case), case)
"""


@points(4, "reality", "axonn")
def test_axonn_under_mpiexec(ranks, rng, mpiexec):
    case, _ = axonn_stepped(ranks, rng, 3, (2,) * 4)
    words = [mpiexec, "-n", "3", sys.executable, "-c", AXONN_REAL]
    assert_real_run(words, Path(__file__).parent, f"{case} under mpiexec")


@points(6, "communication", "axonn")
def test_axonn_messages(ranks, rng):
    case, result = axonn_stepped(ranks, rng, 3, (50,) * 4)
    for stage, widths in enumerate(([4], [5, 4], [5])):
        bound = sum(8 * 50 * width * 4 for width in widths)
        examples.axonn_assert_sent(result, case, 4 * len(widths), stage, bound)
    ranks.record(case, result, {"messages": 8})


@points(3, "communication", "axonn")
def test_axonn_messages_go_to_neighbours_only(ranks, rng):
    case, result = axonn_stepped(ranks, rng, 4, (2,) * 4)
    assert_own_messages(result, case)
    beside = [{1}, {0, 2}, {1, 3}, {2}]
    assert_peers(result, beside, case, "pieces pass arrays to the piece after and before alone")


@points(4, "communication", "axonn")
def test_axonn_given_communicator_is_used(ranks, rng):
    on_three_members(rng, partial(axonn_stepped, ranks, rng, 3, (2,) * 4))


@points(9, "schedule", "axonn")
def test_axonn_as_many_in_flight_as_asked(ranks, rng):
    for limit in (2, 3):
        case, result = axonn_stepped(ranks, rng, 3, (2,) * 8, limit)
        examples.axonn_assert_in_flight(result, case, 8, limit)


@points(9, "schedule", "axonn")
def test_axonn_backward_before_forward(ranks, rng):
    for num_stages in (2, 3):
        case, result = axonn_stepped(ranks, rng, num_stages, (2,) * 12)
        examples.axonn_assert_backward_first(result, case, 12)


@points(8, "safety", "axonn")
def test_axonn_every_send_may_wait_for_its_receive(ranks, rng):
    for num_stages in (2, 3):
        case, result = axonn_stepped(ranks, rng, num_stages, (2,) * 6, machine=rendezvous())
        assert_requests_complete(result, case)


@points(10, "speed", "axonn")
def test_axonn_faster_than_1f1b(ranks, rng):
    steps = []
    for _ in range(3):
        case, result = axonn_stepped(ranks, rng, 4, (1,) * 20)
        *_, forward_s, backward_s = case.inputs()
        by_rule_s = message_driven(forward_s, backward_s, case.limit, 1e-6)
        steps.append((result, case, by_rule_s, one_f_one_b(forward_s, backward_s, 1e-6)))
    examples.axonn_assert_fast(steps)
