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
    buffered,
    on_three_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a06_asynchrony.cases import refusal_call, server_call
from solutions.a06_asynchrony.hidden.oracle import examples
from solutions.a06_asynchrony.hidden.runs import TEXTBOOK, served
from solutions.a06_asynchrony.server_problem import Problem, trained

points = points_of("server")


def of_its_own(ranks, rng, steps, staleness, **options):
    """``served``, through messages of the ranks' own."""
    case, result, right = served(ranks, rng, steps, staleness, **options)
    assert_own_messages(result, case)
    return case, result, right


def each_way(cases, check):
    """Check cases ``(steps, staleness, ...)``; each way of training has its share of the points."""
    ways = {None: "asynchronous training", 0: "synchronous training"}
    check_kinds(cases, lambda case: ways.get(case[1], "stale-synchronous training"), check)


@points(4, "communication", essential=True)
def test_gradients_travel_to_the_server(ranks, rng):
    first = None
    for staleness in (None, 0, 1):
        case = server_call([3] * 3, [2, 3, 4], staleness, seed=int(rng.integers(2**31)), n=8)
        given = (*case.options.values(), 8, seed_of(case))
        result = ranks.call("callers:server_training", 4, given, machine=buffered())
        try:
            assert_ran(result, case)
            return examples.assert_pushes_travel(result, case)
        except Verdict as verdict:
            first = first or verdict
    raise first


@points(9, "values")
def test_asynchronous_training_takes_each_push_as_it_comes(ranks, rng):
    for steps in ([4, 4], [3, 5, 4], [3] * 4, [2, 3]):  # two calls on three ranks
        of_its_own(ranks, rng, steps, None, n=int(rng.integers(2, 9)))
    of_its_own(ranks, rng, [3], None)


@points(10, "values")
def test_synchronous_rounds_equal_synchronous_sgd(ranks, rng):
    for steps in ([4, 4], [3, 3, 3], [5] * 4, [2] * 8):
        case, result, _ = of_its_own(ranks, rng, steps, 0, n=int(rng.integers(2, 9)))
        examples.assert_near(
            result.values[0]["weights"], synchronous(case), case.seen_in(result), "the result"
        )


def synchronous(case):
    """Synchronous SGD, without a server: every step applies the mean of all gradients."""
    options, n = case.options, case.n
    problem = Problem(n, options["steps"], options["paces"], seed_of(case))
    weights = problem.weights
    for step in range(options["steps"][0]):
        gradients = [problem.gradient(w)(weights, step) for w in range(case.world_size - 1)]
        weights = problem.update(weights, np.mean(gradients, axis=0))
    return weights


def seed_of(case):
    return int(case.line.partition("--seed ")[2].split()[0])


@points(9, "values")
def test_stale_synchronous_training(ranks, rng):
    for steps, staleness in (([4, 4], 1), ([3, 3, 5], 1), ([5, 4, 6, 6], 2)):
        paces = [7] + [2 + worker for worker in range(len(steps) - 1)]
        of_its_own(ranks, rng, steps, staleness, paces=paces)


@points(9, "values")
def test_workers_end_at_different_times(ranks, rng):
    cases = [([4, 1, 0, 3], staleness, [2, 9, 2, 5], 0) for staleness in (0, 1, None)]
    cases += [([1, 5, 3], 0, [9, 2, 3], 0), ([2, 6], 2, [9, 2], 0)]
    cases += [([1, 4, 3], staleness, [2, 3, 4], 40) for staleness in (0, 1)]

    def check(case):
        steps, staleness, paces, late = case
        options = {"through": "scripted_workers", "late": late} if late else {}
        of_its_own(ranks, rng, steps, staleness, paces=paces, **options)

    each_way(cases, check)


@points(4, "values")
def test_no_weights_no_steps_one_rank_and_wrong_arguments(ranks, rng):
    of_its_own(ranks, rng, [2, 3], None, n=0)
    of_its_own(ranks, rng, [0, 0], None)
    served(ranks, rng, [], None)
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


@points(8, "communication")
def test_messages_are_those_of_the_protocol(ranks, rng):
    def check(case):
        steps, staleness, n = case
        case, result, _ = of_its_own(ranks, rng, steps, staleness, n=n)
        ranks.record(case, result, {"messages_of_worker_1": 2 * steps[0] + 1})
        examples.assert_protocol(result, case)

    each_way(
        [
            ([3], 0, 5), ([2, 4], 1, 5), ([3, 1, 2, 2], None, 7), ([2] * 10, 0, 3),
            ([1] * 17, 0, 3), ([3, 2], 1, 4000),
        ],
        check,
    )  # fmt: skip


@points(8, "communication")
def test_server_answers_with_the_version_that_it_should(ranks, rng):
    def check(case):
        steps, staleness = case
        paces = [6, 2, 3][: len(steps)]
        of_its_own(ranks, rng, steps, staleness, paces=paces, through="scripted_workers")

    each_way([([3, 4], None), ([4, 2, 5], 1), ([3, 3, 2], 0)], check)


@points(6, "communication")
def test_worker_pushes_the_version_that_it_pulled(ranks, rng):
    for steps in ([3], [2, 0, 4], [2] * 4):
        of_its_own(ranks, rng, steps, None, through="scripted_server")


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(of_its_own, ranks, rng, [3, 2], None))


@points(6, "schedule")
def test_nobody_gets_too_far_ahead(ranks, rng):
    for staleness in (1, 2, 3):
        case, result, _ = of_its_own(
            ranks, rng, [3, 8, 8], staleness, paces=[20, 3, 4], observed=True
        )
        assert_declared_at_once(result, case)
        examples.assert_ahead(result, staleness, case)
        most = max(clock - slowest for _, clock, slowest in examples.answered_ahead(result))
        if most < staleness:
            raise case.seen_in(result).fail(
                f"no worker was ever more than {most} steps ahead; {staleness} are allowed."
            )


@points(7, "safety")
def test_messages_may_be_slow_and_come_at_once(ranks, rng):
    def check(case):
        steps, staleness, options = case
        case, result, _ = of_its_own(ranks, rng, steps, staleness, **options)
        assert_requests_complete(result, case)

    cases = [
        ([3, 2, 4], staleness, {"machine": rendezvous(), "seed": seed})
        for seed in LATENCY_SEEDS
        for staleness in (0, 1, None)
    ]
    cases += [
        ([4] * 5, staleness, {"paces": [2] * 5, "fixed": True, "seed": seed})
        for staleness in (0, 2)
        for seed in LATENCY_SEEDS
    ]
    each_way(cases, check)


@points(12, "speed")
def test_time_with_one_slow_worker(ranks, rng):
    def check(case):
        steps, staleness, paces = case
        case, result, right = of_its_own(
            ranks, rng, steps, staleness, paces=paces, n=50, fixed=True, observed=True
        )
        if staleness is not None:
            examples.assert_ahead(result, staleness, case)
        assert_declared_at_once(result, case)
        assert_makespan(result, right.end_s, case)

    # Worker 1 is four times slower: it takes 40 ms, the others 38.
    each_way([([10, 38, 38, 38], s, [4, 1, 1, 1]) for s in (None, 1, 4, 9)], check)
