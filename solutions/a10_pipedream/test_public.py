"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, numbers of stages, values,
machines and data.
"""

import sys
from pathlib import Path

import examples
from cases import stash_case

from ringside import Machine, checking
from ringside.checking import LATENCY_SEEDS, assert_real_run, rendezvous
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
    result = ranks.call("callers:stash_trained", world_size, case.arguments_of_ranks(), **options)
    checking.assert_ran(result, case)
    right, seen = case.right(result.factors), case.seen_in(result)
    for stage, value in enumerate(result.values):
        examples.stash_check_values(value, stage, right, seen)
    return result


@points(20, "values", "stash")
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


@points(5, "values", "stash")
def test_stash_twice_and_what_is_given_stays(ranks, rng):
    case = stash_case(2, 5, rng, calls=2)
    result = stash_trained(ranks, case)
    for stage, value in enumerate(result.values):
        examples.stash_check_kept(value, stage, case.seen_in(result))


REAL_STASH = """
import numpy as np
from mpi4py import MPI
from ringside.real.watch import watched
from types import SimpleNamespace
import examples, stash
comm = watched(MPI.COMM_WORLD, 20.0)
options = SimpleNamespace(n=5, dtype="float64", seed=1, others={"minibatches": 4})
given = examples.stash_arguments("measured_training", 3, comm.Get_rank(), options)
right = examples.stash_expected("measured_training", 3, comm.Get_rank(), options)
np.testing.assert_allclose(stash.measured_training(comm, *given), right, rtol=1e-9, atol=1e-12)
"""


@points(5, "reality", "stash")
def test_stash_under_mpiexec(ranks, rng, mpiexec):
    case = stash_case(3, 4, rng)
    stash_trained(ranks, case)
    words = [mpiexec, "-n", "3", sys.executable, "-c", REAL_STASH]
    assert_real_run(words, Path(__file__).parent, f"{case} under mpiexec")


@points(10, "communication", "stash")
def test_stash_sends_two_messages_a_minibatch_and_boundary(ranks, rng):
    case = stash_case(4, 6, rng)
    result = stash_trained(ranks, case)
    counts, nbytes = examples.stash_allowed(case)
    ranks.record(case, result, {"messages": counts, "bytes": nbytes})
    examples.stash_assert_sent(result, case)


@points(10, "communication", "stash")
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
