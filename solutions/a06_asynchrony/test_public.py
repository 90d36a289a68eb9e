"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Call`` is what a verdict names; ``ranks.call`` runs something on simulated
ranks, through ``callers.py`` where it must be made or looked at inside a rank.
"""

import sys
from pathlib import Path

import examples
from cases import refusal_call, server_call
from server_problem import Problem, seed_apart, trained

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_declared_at_once,
    assert_makespan,
    assert_messages,
    assert_own_messages,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors

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
    examples.assert_protocol(result, call)
    if staleness is not None:
        examples.assert_ahead(result, staleness, call)
    return call, result, right


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
from ringside.real.watch import watched
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


@points(10, "communication", "server")
def test_messages_are_those_of_the_protocol(ranks, rng):
    for steps, staleness, n in (([2, 3], None, 100), ([2] * 5, 0, 3)):
        call, result, _ = served(ranks, rng, steps, staleness, n=n)
        ranks.record(call, result, {"messages_of_worker_1": 2 * steps[0] + 1})


@points(5, "communication", "server")
def test_server_answers_with_the_version_that_it_should(ranks, rng):
    for staleness, late in ((None, 0), (1, 0), (0, 20)):
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
