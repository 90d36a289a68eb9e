"""mend.py: three programs that neither hang nor race, and say no more than before."""

import numpy as np

from ringside.checking import (
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_pairs,
    assert_requests_complete,
    long_wire,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a01_first_ranks.cases import collect_call, exchange_call, mean_call
from solutions.a01_first_ranks.hidden import oracle, runs
from solutions.a01_first_ranks.hidden.runs import examples

EXCHANGES = ((2, 5), (3, 3001), (4, 0), (5, 33), (12, 700), (17, 4))
LENGTHS = (
    (3, 4), (2, 3, 1, 9, 40), tuple(range(1, 19)), (90, 10, 30, 20, 70, 60, 1, 50, 2),
    (0, 5, 2), (6, 0, 0, 1, 4),
)  # fmt: skip
COLLECTS = (
    (2, 3, 4), (3, 5, 7), (4, 1, 300), (5, 4, 1), (3, 2, 3001), (12, 3, 2), (18, 2, 3),
)  # fmt: skip
NUMBERS, CALLS = 3, 4  # of a collective; in all
LABEL_BYTES = 64  # of whatever comes with a number

points = points_of("mend")


def by_lengths(lengths):
    return "ranks without elements" if 0 in lengths else "elements on every rank"


def exchanged(ranks, shape):
    case = exchange_call(*shape)
    return case, runs.seen(ranks, case, oracle.exchange)


def averaged(ranks, lengths):
    case = mean_call(lengths)
    return case, runs.seen(ranks, case, lambda rng, _: oracle.mean(rng, lengths))


def collected(ranks, shape):
    case = collect_call(*shape)
    return case, runs.seen(ranks, case, lambda rng, _: oracle.collect(rng, *shape))


@points(4, "communication", essential=True)
def test_data_travels_in_messages(ranks, rng):
    def check(asked, senders):
        result = ranks.call(asked.case.target, 4, asked.arguments, machine=runs.EAGER)
        runs.assert_ran(result, asked.case.seen_in(result))
        examples.assert_in_messages(result, asked.case, senders)

    runs.of_each(
        lambda: check(oracle.exchange(rng, exchange_call(4, 100)), 0),
        lambda: check(oracle.collect(rng, 4, 2, 50), 1),
    )


@points(9, "values")
def test_exchange(ranks, rng):
    def check(shape):
        if shape in EXCHANGES:
            exchanged(ranks, shape)
        else:
            runs.run(ranks, oracle.exchange(rng, exchange_call(*shape)))

    shapes = [*EXCHANGES, (8, 2003), (7, 1), (1, 4)]
    kind = lambda shape: "one rank" if shape[0] == 1 else "several ranks"  # noqa: E731
    check_kinds(shapes, kind, check, weights={"several ranks": 3})


@points(11, "values")
def test_mean_and_deviation(ranks, rng):
    def check(lengths):
        averaged(ranks, lengths)
        if lengths in LENGTHS:
            runs.run(ranks, oracle.mean_of_equal(rng, lengths))

    more = ((5,), (0, 0, 1), (1, 1), (30, 0, 1, 2, 3, 0, 7, 500))
    check_kinds([*LENGTHS, *more], by_lengths, check)


@points(14, "values")
def test_collect(ranks, rng):
    for shape in COLLECTS:
        collected(ranks, shape)
    for shape in ((1, 3, 2), (3, 0, 2), (3, 2, 0), (8, 2, 5)):
        runs.run(ranks, oracle.collect(rng, *shape))
    for seed in runs.LATENCY_SEEDS:
        runs.run(ranks, oracle.collect(rng, 6, 3, 2), seed=seed)


@points(4, "values")
def test_inputs_stay_and_results_are_new(ranks, rng):
    def check(run, *shapes):
        for shape in shapes:
            case, result = run(ranks, shape)
            assert_inputs_kept(result, case)
            examples.assert_new(result, case)

    runs.of_each(
        lambda: check(exchanged, *EXCHANGES[:2], (1, 4)),
        lambda: check(averaged, LENGTHS[1]),
        lambda: check(collected, *COLLECTS, (1, 3, 2)),
    )
    asked = [oracle.exchange(rng, exchange_call(3, 4)), oracle.collect(rng, 3, 2, 4)]
    runs.check_again(ranks, asked)


@points(5, "reality")
def test_real_mpi(mpi, rng):
    asked = [
        oracle.exchange(rng, exchange_call(3, 2003)),
        oracle.mean(rng, (4, 2, 7)),
        oracle.collect(rng, 3, 5, 20),
    ]
    runs.check_real_mpi(mpi, asked)


@points(8, "communication")
def test_exchange_sends_to_the_next_rank_only(ranks):
    for p, n in EXCHANGES:
        case, result = exchanged(ranks, (p, n))
        runs.assert_only_messages(result, case)
        allowed = np.zeros((p, p), int)
        for rank in range(p):
            allowed[rank, (rank + 1) % p] = case.nbytes
        ranks.record(case, result, {"sent_bytes": [case.nbytes] * p})
        assert_pairs(result, allowed, case)
        examples.assert_next_only(result, case)


@points(8, "communication")
def test_mean_and_deviation_by_few_numbers(ranks):
    def check(lengths):
        case, result = averaged(ranks, lengths)
        examples.assert_few_numbers(result, case, CALLS, NUMBERS, LABEL_BYTES)

    check_kinds(LENGTHS, by_lengths, check)


@points(8, "communication")
def test_collect_sends_to_rank_0_only(ranks):
    for p, rows, width in COLLECTS:
        case, result = collected(ranks, (p, rows, width))
        runs.assert_only_messages(result, case)
        allowed = np.zeros((p, p), int)
        allowed[1:, 0] = 8 * rows * width
        assert_pairs(result, allowed, case)
        examples.assert_to_rank_0(result, case)


@points(6, "communication")
def test_given_communicator_is_used(ranks, rng):
    asked = [
        oracle.exchange(rng, exchange_call(3, 4)),
        oracle.mean(rng, (3, 1, 2)),
        oracle.collect(rng, 3, 2, 4),
    ]
    runs.check_members(ranks, rng, asked)


@points(5, "safety")
def test_exchange_and_collect_in_any_order(ranks, rng):
    asked = [oracle.exchange(rng, exchange_call(5, 20)), oracle.collect(rng, 4, 5, 3)]
    runs.check_any_order(ranks, asked)
    runs.check_in_a_row(ranks, asked)


@points(8, "safety")
def test_what_is_started_ends(ranks):
    def check(run, shapes):
        for shape in shapes:
            case, result = run(ranks, shape)
            assert_requests_complete(result, case, runs.STARTED)
            examples.assert_received(result, case)

    runs.of_each(
        lambda: check(exchanged, EXCHANGES),
        lambda: check(averaged, LENGTHS[:4]),
        lambda: check(collected, COLLECTS),
    )


@points(5, "speed")
def test_exchange_takes_no_longer_on_more_ranks(ranks, rng):
    partly = None
    for p in (7, 12):
        case = exchange_call(p, 1250)
        result = runs.run(ranks, oracle.exchange(rng, case), machine=long_wire())
        limit_s = 3 * oracle.trip_s(long_wire(), case.nbytes)
        try:
            examples.assert_at_most(result, case, limit_s)
        except Verdict as verdict:
            if not verdict.fraction:
                raise
            partly = verdict
    if partly is not None:
        raise partly


@points(5, "speed")
def test_collect_takes_one_row_after_the_other(ranks, rng):
    for p, rows in ((6, 4), (3, 16)):
        case = collect_call(p, rows, 400)
        machine = runs.RENDEZVOUS
        result = runs.run(ranks, oracle.collect(rng, p, rows, 400), machine=machine)
        bound_s = (p - 1) * rows * oracle.trip_s(machine, 3200)
        assert_makespan(result, bound_s, case)
