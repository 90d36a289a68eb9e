"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Call`` is what a verdict names; ``ranks.call`` runs something on simulated
ranks, through ``callers.py`` where it must be made or looked at inside a rank.
"""

import sys
from pathlib import Path

import cases_torch
import examples
import numpy as np
import pytest
from cases import (
    GOSSIP_REFUSALS,
    gossip_case,
    gossip_refusal,
    local_sgd_case,
    local_sgd_refusal,
    refusal_call,
    server_call,
)
from cases_torch import (
    COMPRESS_REFUSALS,
    DILOCO_REFUSALS,
    EVEN,
    assert_equal_means,
    assert_equal_params,
    compress_case,
    compress_refusal,
    diloco_case,
    diloco_refusal,
    one_call_case,
    ring_all_reduce_s,
)
from local_loss import FLOPS_PER_ELEMENT
from server_problem import Problem, seed_apart, trained

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_declared_at_once,
    assert_inputs_kept,
    assert_makespan,
    assert_messages,
    assert_moved,
    assert_own_messages,
    assert_pairs,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.factors import Factors
from ringside.trace import Kind

TEXTBOOK = Machine.load("textbook")


def under_mpiexec(mpiexec, program, call):
    """Run a program on three real ranks."""
    words = [mpiexec, "-n", "3", sys.executable, "-c", program]
    assert_real_run(words, Path(__file__).parent, f"{call} under mpiexec")


# -- server ----------------------------------------------------------------------------------------


def served(ranks, rng, steps, staleness, paces=None, n=4, **options):
    """``serve`` and ``work`` together: compare with training in one process, look at messages.

    ``fixed``: gradients that don't depend on the weights; ``observed``: passes are announced.
    """
    paces = [worker + 2 for worker in range(len(steps))] if paces is None else paces
    fixed = options.pop("fixed", False)
    seed = 1 if fixed or len(steps) < 2 else seed_apart(rng, n, steps, paces, staleness, TEXTBOOK)
    call = server_call(steps, paces, staleness, n, seed, fixed)
    if options.pop("observed", False):
        options["factors"] = Factors.drawn(rng)
    world_size = options.pop("world_size", call.world_size)
    given = (steps, paces, staleness, n, seed, fixed)
    result = ranks.call("callers:server_training", world_size, given, **options)
    assert_ran(result, call)
    seen = call.seen_in(result)
    right = trained(Problem(n, steps, paces, seed, fixed), staleness, TEXTBOOK, result.factors)
    examples.check_weights(result.values[0], right, seen)
    for rank in range(1, call.world_size):
        if not fixed:
            examples.check_versions(result.values[rank], rank, right.versions[rank - 1], seen)
    assert_own_messages(result, call)
    return call, result, right


@points(5, "communication", "server", essential=True)
def test_gradients_travel_to_the_server(ranks):
    first = None
    for staleness in (None, 0, 1):
        given = [2] * 3, [2, 3, 4], staleness, 8
        call = server_call(*given)
        result = ranks.call("callers:server_training", 4, given, machine=buffered())
        try:
            assert_ran(result, call)
            return examples.assert_pushes_travel(result, call)
        except Verdict as verdict:
            first = first or verdict
    raise first


@points(10, "values", "server")
def test_asynchronous_training(ranks, rng):
    for steps in ([3], [3, 4, 2]):
        served(ranks, rng, steps, None)


@points(10, "values", "server")
def test_synchronous_rounds(ranks, rng):
    for steps in ([3, 3], [2, 2, 2]):
        served(ranks, rng, steps, 0)


@points(10, "values", "server")
def test_stale_synchronous_training(ranks, rng):
    served(ranks, rng, [3, 5], 1, paces=[8, 2])
    served(ranks, rng, [4, 6, 6], 2, paces=[9, 2, 3])


@points(10, "values", "server")
def test_workers_end_at_different_times(ranks, rng):
    for staleness in (0, 1, None):
        served(ranks, rng, [3, 1, 0], staleness)


@points(5, "values", "server")
def test_no_weights_and_one_rank_alone(ranks, rng):
    served(ranks, rng, [2, 1], 1, n=0)
    served(ranks, rng, [], None)


@points(5, "values", "server")
def test_arguments_that_cannot_be_right(ranks):
    call = refusal_call(2, -1, -1)
    result = ranks.call("callers:server_refusals", 2, (-1, -1))
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        examples.check_refusal(value, rank, call)
    assert_messages(result, [0, 0], call)


REAL_TRAINING = """
from mpi4py import MPI
from ringside.jobs.real.watch import watched
import examples, server
from ringside.checking.inputs import Options
import numpy as np
comm = watched(MPI.COMM_WORLD, 20.0)
for staleness in (None, 0, 1):
    options = Options(n=6, others={"staleness": staleness})
    asked = "measured_training", 3, comm.Get_rank(), options
    value = server.measured_training(comm, *examples.arguments(*asked))
    np.testing.assert_allclose(value, examples.expected(*asked), 1e-10, 1e-10)
"""


@points(5, "reality", "server")
def test_training_under_mpiexec(ranks, rng, mpiexec):
    call, *_ = served(ranks, rng, [2, 2], None)
    under_mpiexec(mpiexec, REAL_TRAINING, call)


@points(5, "communication", "server")
def test_messages_are_those_of_the_protocol(ranks, rng):
    for steps, staleness, n in (([2, 3], None, 100), ([2] * 5, 0, 3)):
        call, result, _ = served(ranks, rng, steps, staleness, n=n)
        examples.assert_protocol(result, call)
        ranks.record(call, result, {"messages": max(sum(steps), 2 * max(steps) + 1)})


@points(3, "communication", "server")
def test_server_answers_with_the_version_that_it_should(ranks, rng):
    for staleness in (None, 1):
        answered(ranks, rng, staleness, 0)


@points(2, "communication", "server")
def test_an_end_may_complete_a_round_and_allow_a_pull(ranks, rng):
    answered(ranks, rng, 0, 20)


def answered(ranks, rng, staleness, late):
    """Scripted workers ask your server; their END comes ``late`` ms after their last step."""
    given = ([2, 4], [8, 2], staleness)
    seed = seed_apart(rng, 4, *given, TEXTBOOK, late)
    call = server_call(*given, seed=seed, through="scripted_workers", late=late)
    result = ranks.call("callers:scripted_workers", 3, (*given, 4, seed, late))
    assert_ran(result, call)
    right = trained(Problem(4, *given[:2], seed), staleness, TEXTBOOK, late=late)
    examples.check_weights(result.values[0], right, call)
    for rank in (1, 2):
        examples.check_answers(result.values[rank], rank, right, call)


@points(5, "communication", "server")
def test_worker_pushes_the_version_that_it_pulled(ranks, rng):
    steps, seed = [2, 3], int(rng.integers(2**31))
    call = server_call(steps, [1, 1], None, seed=seed, through="scripted_server")
    result = ranks.call("callers:scripted_server", 3, (steps, 4, seed))
    assert_ran(result, call)
    problem = Problem(4, steps, [1, 1], seed)
    examples.check_replies(result.values[0], 0, problem, seed, call)
    for rank in (1, 2):
        examples.check_given_versions(result.values[rank], rank, problem, seed, call)


@points(5, "communication", "server")
def test_communicator_of_some_ranks(ranks, rng):
    served(ranks, rng, [3, 2], 1, world_size=5, members=[3, 1, 4])


@points(5, "schedule", "server")
def test_nobody_gets_too_far_ahead(ranks, rng):
    call, result, _ = served(ranks, rng, [2, 6], 2, paces=[20, 3], observed=True)
    assert_declared_at_once(result, call)
    examples.assert_ahead(result, 2, call)
    most = max(clock - slowest for _, clock, slowest in examples.answered_ahead(result))
    if most < 2:
        raise call.fail(f"no worker was ever more than {most} steps ahead; 2 are allowed.")


@points(5, "safety", "server")
def test_messages_may_be_slow_and_come_at_once(ranks, rng):
    for seed in LATENCY_SEEDS:
        call, result, _ = served(ranks, rng, [3, 2, 4], 1, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call)
        served(ranks, rng, [2] * 4, 0, paces=[2] * 4, fixed=True, seed=seed)


@points(10, "speed", "server")
def test_time_with_one_slow_worker(ranks, rng):
    for staleness in (None, 1):
        call, result, right = served(
            ranks, rng, [3, 12, 12], staleness, paces=[8, 1, 1], fixed=True, observed=True
        )
        assert_declared_at_once(result, call)
        assert_makespan(result, right.end_s, call)


# -- local_sgd -------------------------------------------------------------------------------------

SHAPES = ((3, 4), (4,), (2,))
ODD = ((3, 2), (), (0, 2), (1,))


def locally_trained(ranks, case, **options):
    """``local_sgd.train``; checks parameters, and that ranks met once a period."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers:local_sgd_trained", world_size, given, **options)
    assert_ran(result, case)
    wanted = examples.local_sgd_serial(*case.inputs(), case.num_steps, case.period)
    for rank, value in enumerate(result.values):
        examples.assert_params(value, wanted, case.seen_in(result), f"rank {rank}'s parameter")
    loosely = 2 * case.rounds * (case.world_size - 1) * (case.nbytes + 8 * len(case.shapes))
    examples.assert_averages(result, case, case.rounds, loosely)
    return result


@points(5, "communication", "local_sgd", essential=True)
def test_local_sgd_ranks_meet_once_a_period(ranks, rng):
    case = local_sgd_case(4, 4, 2, [(4, 5)], rng)
    given = case.arguments_of_ranks()
    result = ranks.call("callers:local_sgd_trained", 4, given, machine=buffered())
    assert_ran(result, case)
    examples.assert_meets(result, case)


@points(15, "values", "local_sgd")
def test_local_sgd_serial_recursion_on_two_and_three_ranks(ranks, rng):
    for p, num_steps, period in ((2, 6, 3), (3, 8, 2)):
        locally_trained(ranks, local_sgd_case(p, num_steps, period, SHAPES, rng))


@points(10, "values", "local_sgd")
def test_local_sgd_last_partial_period_is_averaged(ranks, rng):
    for p, num_steps, period in ((2, 8, 3), (3, 3, 2), (3, 2, 5)):
        locally_trained(ranks, local_sgd_case(p, num_steps, period, SHAPES, rng))


@points(5, "values", "local_sgd")
def test_local_sgd_period_1_is_data_parallelism(ranks, rng):
    case = local_sgd_case(3, 4, 1, SHAPES, rng)
    result = locally_trained(ranks, case)
    (*w,), losses, lr = case.inputs()
    for step in range(case.num_steps):
        gradients = [
            [a * (v - c) for a, v, c in zip(curvatures, w, samples[step % 4], strict=True)]
            for curvatures, samples in losses
        ]
        w = [v - lr * np.mean(g, axis=0) for v, *g in zip(w, *gradients, strict=True)]
    examples.assert_params(result.values[0], w, case, "beside data-parallel SGD, parameter")


@points(5, "values", "local_sgd")
def test_local_sgd_no_steps_and_one_rank(ranks, rng):
    for p, num_steps, period in ((2, 0, 2), (1, 4, 2)):
        locally_trained(ranks, local_sgd_case(p, num_steps, period, SHAPES, rng))


@points(5, "values", "local_sgd")
def test_local_sgd_of_any_arrays(ranks, rng):
    for p, dtype in ((2, "float32"), (3, "float64")):
        locally_trained(ranks, local_sgd_case(p, 4, 2, ODD, rng, dtype))
    locally_trained(ranks, local_sgd_case(3, 4, 2, SHAPES[::-1], rng))
    locally_trained(ranks, local_sgd_case(3, 4, 2, SHAPES, rng, nan_of=1))


@points(5, "values", "local_sgd")
def test_local_sgd_params_stay_and_results_are_new(ranks, rng):
    for num_steps in (4, 0):
        case = local_sgd_case(2, num_steps, 2, SHAPES, rng)
        assert_inputs_kept(locally_trained(ranks, case), case)
        given = case.arguments_of_ranks()
        result = ranks.call("callers:local_sgd_looked_at", 2, given, machine=buffered())
        assert_ran(result, case.looked_at())
        wanted = examples.local_sgd_serial(*case.inputs(), num_steps, 2)
        for rank, value in enumerate(result.values):
            compare, seen = examples.assert_params, case.looked_at()
            examples.assert_looked_at(value, wanted, compare, seen, rank, "parameter")


@points(5, "values", "local_sgd")
def test_local_sgd_wrong_numbers_are_refused(ranks, rng):
    locally_trained(ranks, local_sgd_case(2, 2, 2, SHAPES, rng))
    for numbers in ((5, 0), (-1, 2)):
        case = local_sgd_refusal(*numbers)
        result = ranks.call("callers:local_sgd_refused", 3, numbers)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_local_sgd_refused(value, rank, case)


REAL_LOCAL_SGD = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
from local_sgd import train
comm = watched(MPI.COMM_WORLD, 20.0)
rank = comm.Get_rank()
gradient = lambda params, step: [np.full(3, float(rank + step))]
(w,) = train(comm, [np.zeros(3)], gradient, 4, 2, 0.5)
np.testing.assert_allclose(w, -0.5 * (4 + 6))
"""


@points(5, "reality", "local_sgd")
def test_local_sgd_under_mpiexec(ranks, rng, mpiexec):
    case = local_sgd_case(3, 4, 2, SHAPES, rng)
    locally_trained(ranks, case)
    under_mpiexec(mpiexec, REAL_LOCAL_SGD, case)


def bytes_of_rings(case):
    """What a rank may send: a ring for each array and average."""
    elements = sum(-(-int(np.prod(shape)) // case.world_size) for shape in case.shapes)
    each = np.dtype(case.dtype).itemsize * elements
    return case.rounds * 2 * (case.world_size - 1) * each


@points(8, "communication", "local_sgd")
def test_local_sgd_bytes_of_one_all_reduce_a_period(ranks, rng):
    for p, num_steps, period in ((2, 6, 3), (3, 4, 2), (4, 2, 1)):
        case = local_sgd_case(p, num_steps, period, SHAPES, rng)
        result, bound = locally_trained(ranks, case), bytes_of_rings(case)
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        examples.assert_averages(result, case, case.rounds, bound)


@points(2, "communication", "local_sgd")
def test_local_sgd_float32_travels_as_float32(ranks, rng):
    case = local_sgd_case(2, 4, 2, SHAPES, rng, "float32")
    result = locally_trained(ranks, case)
    examples.assert_averages(result, case, case.rounds, bytes_of_rings(case))


@points(5, "communication", "local_sgd")
def test_local_sgd_copies_are_equal_bit_for_bit(ranks, rng):
    case = local_sgd_case(3, 4, 2, SHAPES, rng)
    examples.assert_equal_copies(locally_trained(ranks, case), case)


@points(5, "communication", "local_sgd")
def test_local_sgd_uses_the_given_communicator(ranks, rng):
    case = local_sgd_case(3, 4, 2, SHAPES, rng)
    locally_trained(ranks, case)
    locally_trained(ranks, case, world_size=5, members=[3, 1, 4])


@points(5, "safety", "local_sgd")
def test_local_sgd_where_messages_are_slow(ranks, rng):
    case = local_sgd_case(3, 4, 2, SHAPES, rng)
    with_waiting_sends(lambda **there: locally_trained(ranks, case, **there), case)
    for seed in LATENCY_SEEDS:
        result = locally_trained(ranks, case, seed=seed)
        assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(7.5, "speed", "local_sgd")
@pytest.mark.parametrize("shapes", [((90, 100),), ((5, 4), (4,)) * 8], ids=["long", "short"])
def test_time_of_local_sgd(ranks, rng, shapes):
    machine = Machine.load("textbook,flop_per_s=1e9")  # a gradient takes time
    case = local_sgd_case(8, 6, 2, shapes, rng)
    shard_s = -(-case.n // 8) * 8 * machine.beta_s_per_byte
    gradient_s = FLOPS_PER_ELEMENT * case.n / machine.flop_per_s
    bound_s = 6 * gradient_s + case.rounds * 14 * (machine.alpha_s + shard_s)
    assert_makespan(locally_trained(ranks, case, machine=machine), bound_s, case)


# -- gossip ----------------------------------------------------------------------------------------

THREE_A_NODE = buffered().with_(ranks_per_node=3, intra_alpha_s=1e-8)  # between nodes it is 1e-6


def gossiped(ranks, case, **options):
    """``gossip.average``; checks values, and that ranks talk to neighbours only."""
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call("gossip:average", world_size, case.arguments_of_ranks(), **options)
    assert_ran(result, case)
    wanted = examples.gossip_serial(*case.inputs(), case.num_rounds)
    for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
        examples.assert_near(value, right, case.seen_in(result), f"rank {rank}'s result")
    examples.assert_gossip(result, case, case.neighbours)
    return result


@points(5, "communication", "gossip", essential=True)
def test_gossip_values_travel_to_neighbours(ranks, rng):
    case = gossip_case(4, "ring", 2, (4,), rng)
    result = ranks.call("gossip:average", 4, case.arguments_of_ranks(), machine=buffered())
    assert_ran(result, case)
    examples.assert_values_travel(result, case)


@points(10, "values", "gossip")
def test_gossip_on_a_ring(ranks, rng):
    for p in (2, 3, 4):
        gossiped(ranks, gossip_case(p, "ring", 3, (5,), rng))


@points(10, "values", "gossip")
def test_gossip_on_a_wheel(ranks, rng):
    for p in (4, 6):
        gossiped(ranks, gossip_case(p, "wheel", 3, (5,), rng))


@points(10, "values", "gossip")
def test_gossip_on_a_random_graph(ranks, rng):
    gossiped(ranks, gossip_case(6, "random", 4, (3,), rng))


@points(5, "values", "gossip")
def test_gossip_error_shrinks_by_the_second_eigenvalue(ranks, rng):
    case = gossip_case(6, "ring", 5, (3,), rng)
    gossiped(ranks, case)
    _, neighbours, weights = case.inputs()
    wave = np.cos(2 * np.pi * np.arange(6) / 6)  # its eigenvalue is (1 + 2 cos(60 degrees)) / 3
    rows = zip([np.array([each]) for each in wave], neighbours, weights, [5] * 6, strict=True)
    result = ranks.call("gossip:average", 6, list(rows), machine=buffered())
    assert_ran(result, case)
    mixed = np.concatenate(result.values)
    if not np.allclose(mixed, (2 / 3) ** 5 * wave, rtol=0, atol=1e-12):
        raise case.fail("the second eigenvector of a ring of 6 must shrink to 2/3 in each round.")


@points(5, "values", "gossip")
def test_gossip_of_any_array(ranks, rng):
    for shape, dtype in (((2, 3), "float32"), ((), "float64"), ((0, 2), "float64")):
        gossiped(ranks, gossip_case(3, "ring", 2, shape, rng, dtype))
    gossiped(ranks, gossip_case(5, "ring", 1, (3,), rng, nan_of=2))


@points(5, "values", "gossip")
def test_gossip_no_rounds_no_neighbours_and_one_rank(ranks, rng):
    for p, graph, num_rounds in ((4, "apart", 3), (3, "ring", 0), (1, "ring", 2)):
        gossiped(ranks, gossip_case(p, graph, num_rounds, (5,), rng))


@points(5, "values", "gossip")
def test_gossip_keeps_its_inputs(ranks, rng):
    for graph, num_rounds in (("ring", 2), ("line", 1), ("ring", 0)):
        case = gossip_case(3, graph, num_rounds, (3, 2), rng)
        assert_inputs_kept(gossiped(ranks, case), case)
        given = case.arguments_of_ranks()
        result = ranks.call("callers:gossip_looked_at", 3, given, machine=buffered())
        assert_ran(result, case.looked_at())
        wanted = examples.gossip_serial(*case.inputs(), num_rounds)
        for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
            compare, seen = examples.assert_near, case.looked_at()
            examples.assert_looked_at(value, right, compare, seen, rank, "result")


@points(5, "values", "gossip")
def test_gossip_wrong_rows_are_refused(ranks, rng):
    gossiped(ranks, gossip_case(3, "ring", 1, (2,), rng))
    for row in GOSSIP_REFUSALS:
        case = gossip_refusal(*row)
        result = ranks.call("callers:gossip_refused", 2, row)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_gossip_refused(value, rank, case)


REAL_GOSSIP = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
from gossip import average
comm = watched(MPI.COMM_WORLD, 20.0)
rank = comm.Get_rank()
others = [each for each in range(3) if each != rank]
mean = average(comm, np.full(4, float(rank)), others, [1 / 3, 1 / 3], 2)
np.testing.assert_allclose(mean, 1.0)
"""


@points(5, "reality", "gossip")
def test_gossip_under_mpiexec(ranks, rng, mpiexec):
    case = gossip_case(3, "ring", 2, (4,), rng)
    gossiped(ranks, case)
    under_mpiexec(mpiexec, REAL_GOSSIP, case)


def bytes_of_edges(case):
    """What each rank may send each other one."""
    allowed = np.zeros((case.world_size, case.world_size))
    for rank, own in enumerate(case.neighbours):
        allowed[rank, own] = case.num_rounds * case.nbytes
    return allowed


@points(5, "communication", "gossip")
def test_gossip_one_message_a_round_and_neighbour(ranks, rng):
    for p, graph in ((3, "ring"), (5, "wheel")):
        case = gossip_case(p, graph, 3, (5,), rng)
        result, allowed = gossiped(ranks, case), bytes_of_edges(case)
        assert_messages(result, [3 * len(own) for own in case.neighbours], case)
        ranks.record(case, result, {"sent_bytes": allowed.sum(axis=1).tolist()})
        assert_pairs(result, allowed, case)


@points(5, "communication", "gossip")
def test_gossip_float32_travels_as_float32(ranks, rng):
    case = gossip_case(3, "ring", 3, (5,), rng, "float32")
    assert_pairs(gossiped(ranks, case), bytes_of_edges(case), case)


@points(5, "communication", "gossip")
def test_gossip_uses_the_given_communicator(ranks, rng):
    case = gossip_case(3, "ring", 3, (5,), rng)
    gossiped(ranks, case)
    gossiped(ranks, case, world_size=5, members=[3, 1, 4])


@points(5, "safety", "gossip")
def test_gossip_where_sends_wait_and_messages_are_slow(ranks, rng):
    for graph in ("ring", "even"):
        case = gossip_case(5, graph, 4, (5,), rng)
        with_waiting_sends(lambda case=case, **there: gossiped(ranks, case, **there), case)
        for seed in LATENCY_SEEDS:
            assert_requests_complete(gossiped(ranks, case, seed=seed), case)
    # Rank 2 waits for rank 3, which is on another node, and rank 0 is a round ahead of it.
    gossiped(ranks, gossip_case(4, "line", 3, (5,), rng), machine=THREE_A_NODE)


@points(7.5, "speed", "gossip")
@pytest.mark.parametrize(("graph", "n"), [("wheel", 1), ("ring", 2)])
def test_time_of_gossip(ranks, rng, graph, n):
    machine = buffered()
    case = gossip_case(8, graph, 5, (n,), rng)
    result = gossiped(ranks, case, machine=machine)
    round_s = machine.alpha_s + 2 * case.degree * case.nbytes * machine.beta_s_per_byte
    assert_makespan(result, case.num_rounds * round_s, case)


SLOW_WIRE = Machine("slow wire", alpha_s=1e-4, beta_s_per_byte=1e-6)

# -- diloco_torch ----------------------------------------------------------------------------------

OUTER = (0.7, 0.9)  # rate and momentum
NO_MOMENTUM = (0.7, 0.0)


def diloco(ranks, case, *, turns=False, **options):
    """``diloco_torch.train``; checks parameters, and perhaps what was sent after each step."""
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:diloco_trained", world_size, given, **options)
    assert_ran(result, case)
    cases_torch.assert_diloco(result, case, turns)
    return result


@points(5, "communication", "diloco_torch", essential=True)
def test_diloco_ranks_meet_once_a_period(ranks, rng):
    case = diloco_case(4, 4, 2, 1, rng, outer=NO_MOMENTUM, widths=EVEN)
    result = ranks.call("callers_torch:diloco_trained", 4, case.arguments_of_ranks())
    assert_ran(result, case)
    cases_torch.assert_meets(result, case)


@points(15, "values", "diloco_torch")
def test_diloco_serial_recursion(ranks, rng):
    for p, num_steps, period, num_fragments in ((2, 6, 3, 1), (3, 8, 4, 2), (2, 10, 4, 3)):
        case = diloco_case(p, num_steps, period, num_fragments, rng, outer=OUTER, widths=EVEN)
        diloco(ranks, case)


@points(5, "values", "diloco_torch")
def test_diloco_of_period_1(ranks, rng):
    diloco(ranks, diloco_case(2, 3, 1, 1, rng))


@points(10, "values", "diloco_torch")
def test_diloco_inner_optimizers_keep_their_state(ranks, rng):
    for inner in ("momentum", "adamw"):
        diloco(ranks, diloco_case(2, 6, 3, 1, rng, outer=OUTER, inner=inner))


@points(10, "values", "diloco_torch")
def test_diloco_last_partial_period_is_averaged(ranks, rng):
    for num_steps, period in ((8, 3), (10, 4), (2, 4)):
        diloco(ranks, diloco_case(2, num_steps, period, 1, rng, outer=OUTER))
    diloco(ranks, diloco_case(2, 0, 2, 1, rng))


@points(5, "values", "diloco_torch")
def test_diloco_uneven_and_empty_fragments(ranks, rng):
    diloco(ranks, diloco_case(2, 6, 5, 5, rng, outer=OUTER))
    diloco(ranks, diloco_case(2, 7, 6, 6, rng, outer=OUTER, widths=(1, 1, 1)))


@points(5, "values", "diloco_torch")
def test_diloco_frozen_parameters_and_float32(ranks, rng):
    diloco(ranks, diloco_case(2, 4, 2, 1, rng, outer=OUTER, frozen=True), turns=True)
    diloco(ranks, diloco_case(2, 4, 2, 1, rng, outer=OUTER, dtype="float32"), turns=True)


@points(5, "values", "diloco_torch")
def test_diloco_wrong_numbers_are_refused(ranks, rng):
    diloco(ranks, diloco_case(2, 2, 2, 1, rng))
    for numbers in DILOCO_REFUSALS[::2]:
        case = diloco_refusal(numbers)
        result = ranks.call("callers_torch:diloco_refused", 2, numbers)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_refused(value, rank, case)


@points(7, "communication", "diloco_torch")
def test_diloco_bytes_of_one_all_reduce_a_period(ranks, rng):
    for p, num_steps, period, num_fragments in ((2, 6, 3, 3), (3, 5, 2, 1)):
        outer = NO_MOMENTUM
        case = diloco_case(p, num_steps, period, num_fragments, rng, outer=outer, widths=EVEN)
        result = diloco(ranks, case, turns=True)
        bound = 2 * (p - 1) / p * 8 * sum(case.averages)
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        assert_moved(result, bound, case)


@points(8, "communication", "diloco_torch")
def test_diloco_peak_falls_by_the_number_of_fragments(ranks, rng):
    case = diloco_case(2, 9, 4, 4, rng, outer=OUTER, widths=EVEN)
    diloco(ranks, case, turns=True, factors=Factors.drawn(rng))


@points(5, "communication", "diloco_torch")
def test_diloco_uses_the_given_group(ranks, rng):
    diloco(ranks, diloco_case(3, 5, 2, 1, rng), world_size=5, members=[3, 1, 4])


@points(5, "communication", "diloco_torch")
def test_diloco_copies_are_equal_bit_for_bit(ranks, rng):
    case = diloco_case(3, 5, 2, 1, rng, outer=NO_MOMENTUM)
    assert_equal_params(diloco(ranks, case), case)


@points(5, "safety", "diloco_torch")
def test_diloco_where_messages_are_slow(ranks, rng):
    case = diloco_case(3, 5, 2, 1, rng, outer=NO_MOMENTUM)
    for seed in LATENCY_SEEDS:
        result = diloco(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(10, "speed", "diloco_torch")
def test_time_of_diloco(ranks, rng):
    widths = (9, 9, 9)
    case = diloco_case(8, 6, 3, 1, rng, outer=NO_MOMENTUM, widths=widths, step_s=1e-3)
    averages_s = sum(ring_all_reduce_s(length, 8, SLOW_WIRE) for length in case.averages)
    assert_makespan(diloco(ranks, case, machine=SLOW_WIRE), 6e-3 + averages_s, case)


# -- compress_torch --------------------------------------------------------------------------------


def compressed(ranks, case, **options):
    """``compress_torch.all_reduce``, called several times; checks values."""
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:compressed", world_size, given, **options)
    assert_ran(result, case)
    check = cases_torch.assert_zeros if case.kind == "zeros" else cases_torch.assert_compressed
    check(result, case)
    return result


@points(5, "communication", "compress_torch", essential=True)
def test_compress_thin_matrices_travel(ranks, rng):
    case = one_call_case(4, (12, 16), 1, rng)
    result = ranks.call("callers_torch:compressed", 4, case.arguments_of_ranks())
    assert_ran(result, case)
    cases_torch.assert_thin(result, case)


@points(15, "values", "compress_torch")
def test_compress_a_first_call(ranks, rng):
    for p, shape, approx_rank in ((2, (6, 9), 1), (3, (9, 5), 2)):
        compressed(ranks, one_call_case(p, shape, approx_rank, rng))


@points(10, "values", "compress_torch")
def test_compress_sends_later_what_was_left_out(ranks, rng):
    compressed(ranks, compress_case(2, (5, 8), 2, rng, num_calls=4))


@points(5, "values", "compress_torch")
def test_compress_states_and_results_belong_to_one_gradient(ranks, rng):
    for _ in range(2):  # of the same sizes, with other seeds
        case = cases_torch.in_turns_case(compress_case(2, (6, 9), 2, rng))
        arguments = cases_torch.turns_arguments(case)
        result = ranks.call("callers_torch:compressed_in_turns", 2, arguments)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            cases_torch.assert_in_turns(value, rank, case, case.seen_in(result))


@points(10, "values", "compress_torch")
def test_compress_sends_vectors_and_small_sides_whole(ranks, rng):
    for shape, approx_rank in (((7,), 2), ((9, 2), 2), ((3, 8), 4), ((), 1), ((0, 5), 1)):
        compressed(ranks, compress_case(2, shape, approx_rank, rng, num_calls=2))


@points(5, "values", "compress_torch")
def test_compress_more_dimensions_and_float32(ranks, rng):
    compressed(ranks, compress_case(2, (4, 3, 3), 2, rng, num_calls=2))
    compressed(ranks, compress_case(2, (6, 8), 2, rng, dtype="float32"))


@points(5, "values", "compress_torch")
def test_compress_zeros(ranks, rng):
    compressed(ranks, compress_case(2, (6, 7), 2, rng, kind="zeros"))


@points(5, "values", "compress_torch")
def test_compress_converges_on_least_squares(ranks, rng):
    case = cases_torch.least_squares_case(compress_case(2, (6, 8), 1, rng), 60)
    arguments, best = cases_torch.least_squares(case, 60)
    result = ranks.call("callers_torch:compress_trained", 2, arguments)
    assert_ran(result, case)
    for rank, weight in enumerate(result.values):
        cases_torch.assert_converged(weight, rank, best, case.seen_in(result))
    cases_torch.assert_compressed_bytes(result, case)


@points(5, "values", "compress_torch")
def test_compress_refuses_wrong_arguments(ranks, rng):
    compressed(ranks, one_call_case(2, (4, 6), 1, rng))
    for arguments in COMPRESS_REFUSALS[::2]:
        case = compress_refusal(*arguments)
        result = ranks.call("callers_torch:compress_refused", 2, arguments)
        assert_ran(result, case)
        if result.values != ["ValueError"] * 2:
            raise case.fail(f"the ranks raised {result.values}; it must be ValueError.")


@points(10, "communication", "compress_torch")
def test_compress_bytes(ranks, rng):
    for p, shape, approx_rank, dtype in ((2, (9, 14), 2, "float64"), (3, (12, 7), 1, "float32")):
        case = one_call_case(p, shape, approx_rank, rng, dtype=dtype)
        result = compressed(ranks, case)
        cases_torch.assert_compressed_bytes(result, case)
        itemsize = np.dtype(dtype).itemsize
        bound = 2 * (p - 1) / p * sum(case.lengths) * itemsize
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        assert_moved(result, bound, case)


@points(5, "communication", "compress_torch")
def test_compress_means_are_equal_bit_for_bit(ranks, rng):
    case = one_call_case(3, (7, 9), 2, rng)
    result = compressed(ranks, case)
    assert_equal_means(result, case)


@points(5, "communication", "compress_torch")
def test_compress_uses_the_given_group(ranks, rng):
    case = one_call_case(3, (6, 9), 2, rng)
    compressed(ranks, case, world_size=5, members=[3, 1, 4])


@points(5, "safety", "compress_torch")
def test_compress_where_messages_are_slow(ranks, rng):
    case = one_call_case(3, (6, 9), 2, rng)
    for seed in LATENCY_SEEDS:
        result = compressed(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(10, "speed", "compress_torch")
def test_time_of_compress(ranks, rng):
    case = one_call_case(8, (24, 16), 2, rng)
    call_s = sum(ring_all_reduce_s(length, 8, SLOW_WIRE) for length in case.lengths)
    assert_makespan(compressed(ranks, case, machine=SLOW_WIRE), call_s, case)
