"""server.py: versions and steps, on the wire and in the weights."""

import functools

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_declared_at_once,
    assert_makespan,
    assert_messages,
    assert_own_messages,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from solutions.a06_asynchrony.cases import refusal_call, server_call
from solutions.a06_asynchrony.hidden.oracle import examples
from solutions.a06_asynchrony.hidden.runs import TEXTBOOK, served
from solutions.a06_asynchrony.server_problem import Problem, trained

points = points_of("server")
SLOW = ([10, 38, 38, 38], [4, 1, 1, 1])  # steps and paces: worker 1 takes 40 ms, the others 38


def ordered(ranks, rng, steps, staleness, **options):
    """``served``, and rank 0's record shows the scheme: the protocol, and nobody too far ahead."""
    case, result, right = served(ranks, rng, steps, staleness, **options)
    assert_own_messages(result, case)
    examples.assert_protocol(result, case)
    if staleness is not None:
        examples.assert_ahead(result, staleness, case)
    return case, result, right


@points(9, "values")
def test_asynchronous_training_takes_each_push_as_it_comes(ranks, rng):
    for steps in ([4, 4], [3, 5, 4], [3] * 4):
        ordered(ranks, rng, steps, None, n=int(rng.integers(2, 9)))
    ordered(ranks, rng, [3], None)


@points(10, "values")
def test_synchronous_rounds_equal_synchronous_sgd(ranks, rng):
    for steps in ([4, 4], [3, 3, 3], [5] * 4, [2] * 8):
        case, result, _ = ordered(ranks, rng, steps, 0, n=int(rng.integers(2, 9)))
        examples.assert_near(
            result.values[0]["weights"], synchronous(case), case.seen_in(result), "the result"
        )


def synchronous(case):
    """Synchronous SGD, without a server: every step applies the mean of all gradients."""
    options, n = case.options, case.n
    seed = int(case.line.partition("--seed ")[2].split()[0])
    problem = Problem(n, options["steps"], options["paces"], seed)
    weights = problem.weights
    for step in range(options["steps"][0]):
        gradients = [problem.gradient(w)(weights, step) for w in range(case.world_size - 1)]
        weights = problem.update(weights, np.mean(gradients, axis=0))
    return weights


@points(8, "values")
def test_stale_synchronous_training(ranks, rng):
    for steps, staleness in (([4, 4], 1), ([3, 3, 5], 1), ([5, 4, 6, 6], 2)):
        paces = [7] + [2 + worker for worker in range(len(steps) - 1)]
        ordered(ranks, rng, steps, staleness, paces=paces)


@points(9, "values")
def test_workers_end_at_different_times(ranks, rng):
    for staleness in (0, 1, None):
        ordered(ranks, rng, [4, 1, 0, 3], staleness, paces=[2, 9, 2, 5])
    ordered(ranks, rng, [1, 5, 3], 0, paces=[9, 2, 3])
    ordered(ranks, rng, [2, 6], 2, paces=[9, 2])
    for staleness in (0, 1):
        late = {"through": "scripted_workers", "late": 40}
        ordered(ranks, rng, [1, 4, 3], staleness, paces=[2, 3, 4], **late)


@points(3, "values")
def test_no_weights_no_steps_and_one_rank_alone(ranks, rng):
    ordered(ranks, rng, [2, 3], 1, n=0)
    ordered(ranks, rng, [0, 0], 0)
    served(ranks, rng, [], None)


@points(2, "values")
def test_arguments_that_cannot_be_right(ranks):
    case = refusal_call(3, -1, -2)
    result = ranks.call("callers:server_refusals", 3, (-1, -2))
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.check_refusal(value, rank, case)
    assert_messages(result, [0] * 3, case)


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    steps, paces = [3, 0, 4], [1, 1, 1]
    given = [(steps, paces, staleness, 5, 7, staleness != 0) for staleness in (None, 1, 0)]
    jobs = [("callers:server_training", 4, [each] * 4) for each in given]
    for result, (_, _, staleness, n, seed, fixed) in zip(mpi.call_all(jobs), given, strict=True):
        case = server_call(steps, paces, staleness, n, seed, fixed)
        right = trained(Problem(n, steps, paces, seed, fixed), staleness, TEXTBOOK)
        try:
            assert_ran(result, case)
            examples.check_weights(result.values[0], right, case)
        except Verdict as verdict:
            raise Verdict(
                f"{verdict.sentence} This was under mpiexec.",
                detail=verdict.detail,
                reproduce=case.reproduce,
            ) from None


@points(6, "communication")
def test_messages_are_those_of_the_protocol(ranks, rng):
    for steps, staleness, n in (
        ([3], 0, 5), ([2, 4], 1, 5), ([3, 1, 2, 2], None, 7), ([2] * 10, 0, 3), ([1] * 17, 0, 3),
        ([3, 2], 1, 4000),
    ):  # fmt: skip
        case, result, _ = ordered(ranks, rng, steps, staleness, n=n)
        ranks.record(case, result, {"messages_of_worker_1": 2 * steps[0] + 1})


@points(8, "communication")
def test_server_answers_with_the_version_that_it_should(ranks, rng):
    for steps, staleness in (([3, 4], None), ([4, 2, 5], 1), ([3, 3, 2], 0)):
        ordered(
            ranks, rng, steps, staleness, paces=[6, 2, 3][: len(steps)], through="scripted_workers"
        )


@points(6, "communication")
def test_worker_pushes_the_version_that_it_pulled(ranks, rng):
    for steps in ([3], [2, 0, 4], [2] * 4):
        case, result, _ = served(ranks, rng, steps, None, through="scripted_server")
        assert_own_messages(result, case)
        examples.assert_protocol(result, case)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(ordered, ranks, rng, [3, 2], 1))


@points(6, "schedule")
def test_nobody_gets_too_far_ahead(ranks, rng):
    for staleness in (1, 2, 3):
        case, result, right = ordered(
            ranks, rng, [3, 8, 8], staleness, paces=[20, 3, 4], observed=True
        )
        assert_declared_at_once(result, case)
        most = max(clock - slowest for _, clock, slowest in examples.answered_ahead(result))
        if most < staleness:
            raise case.seen_in(result).fail(
                f"no worker was ever more than {most} steps ahead; {staleness} are allowed."
            )
        bound = (2 * staleness + 1) * (case.world_size - 2)
        assert max(right.lags) <= bound  # a fact about the scheme, not about the submission


@points(6, "safety")
def test_messages_may_be_slow(ranks, rng):
    for seed in LATENCY_SEEDS:
        for staleness in (0, 1, None):
            case, result, _ = ordered(
                ranks, rng, [3, 2, 4], staleness, machine=rendezvous(), seed=seed
            )
            assert_requests_complete(result, case)


@points(4, "safety")
def test_pulls_may_come_at_once(ranks, rng):
    for staleness in (0, 2):
        for seed in LATENCY_SEEDS:
            ordered(ranks, rng, [4] * 5, staleness, paces=[2] * 5, fixed=True, seed=seed)


def timed(ranks, rng, staleness):
    """One worker that is four times slower, and the time of training in one process."""
    steps, paces = SLOW
    case, result, right = served(
        ranks, rng, steps, staleness, paces=paces, n=50, fixed=True, observed=True
    )
    examples.assert_protocol(result, case)
    if staleness is not None:
        examples.assert_ahead(result, staleness, case)
    assert_declared_at_once(result, case)
    assert_makespan(result, right.end_s, case)


@points(8, "speed")
def test_asynchronous_workers_do_not_wait_for_a_slow_one(ranks, rng):
    timed(ranks, rng, None)


@points(7, "speed")
def test_stale_synchronous_workers_wait_by_the_bound_and_no_more(ranks, rng):
    for staleness in (1, 4, 9):
        timed(ranks, rng, staleness)
