"""ping.py: messages to and fro, and the time of one."""

from dataclasses import replace

import numpy as np

from ringside.checking import (
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    long_wire,
    short_wire,
)
from ringside.checking.points import points_of
from ringside.timing.machine import Machine
from solutions.a01_first_ranks.cases import bounce_call, ping_call
from solutions.a01_first_ranks.hidden import oracle, runs
from solutions.a01_first_ranks.hidden.runs import EAGER, RENDEZVOUS, examples

PAIRS = Machine.load("textbook").with_(
    name="pairs",
    ranks_per_node=2,
    intra_alpha_s=2e-7,
    intra_beta_s_per_byte=1e-10,
    poll_s=1e-10,
)
# world size, partner, elements or bytes, repetitions
SHAPES = (
    (2, 1, 33, 1), (3, 1, 8, 4), (3, 2, 0, 2), (5, 3, 1000, 3), (12, 11, 5, 2), (18, 7, 3000, 1),
)  # fmt: skip

points = points_of("ping")


def bounced(ranks, shape, dtype="float64"):
    """The shared run of a ``bounce``."""
    world_size, partner, n, repetitions = shape
    case = bounce_call(world_size, n, repetitions, partner, dtype)
    ask = lambda rng, case: oracle.bounce(rng, case, repetitions, partner)  # noqa: E731
    return case, runs.seen(ranks, case, ask)


def pinged(ranks, shape):
    """The shared run of a ``ping``."""
    world_size, partner, nbytes, repetitions = shape
    case = ping_call(world_size, nbytes, repetitions, partner)
    return case, runs.seen(ranks, case, lambda _, case: oracle.ping(case, repetitions, partner))


def of_both(ranks, check, more=()):
    """``check(case, result, partner, round trips, bytes of a message)`` on runs of both functions.

    Each of the two functions earns half; ``more`` are runs of ``bounce`` besides.
    """

    def bounces():
        for shape in SHAPES:
            _, partner, _, trips = shape
            case, result = bounced(ranks, shape)
            check(case, result, partner, trips, case.nbytes)
        for run in more:
            check(*run())

    def pings():
        for shape in SHAPES:
            _, partner, nbytes, repetitions = shape
            case, result = pinged(ranks, shape)
            check(case, result, partner, repetitions + 1, nbytes)

    runs.of_each(bounces, pings)


@points(9, "values")
def test_what_was_sent_comes_back(ranks, rng):
    for shape in SHAPES:
        bounced(ranks, shape)
    for dtype in ("float32", "int64", "int16", "complex64"):
        bounced(ranks, (3, 2, 7, 3), dtype)
    for p, n in ((2, 2003), (8, 1)):
        case = bounce_call(p, n, 2, p - 1)
        runs.run(ranks, oracle.bounce(rng, case, 2, p - 1), machine=EAGER)
    named = oracle.bounce(rng, bounce_call(3, 4, 2), 2)
    unnamed = replace(named, arguments=[given[:2] for given in named.arguments])
    result = runs.run(ranks, unnamed)
    for source, dest in ((0, 1), (1, 0)):  # partner is rank 1 where none is named
        examples.assert_count(result, named.case, source, dest, 2)


@points(10, "values")
def test_time_of_a_message(ranks):
    for shape in SHAPES:
        pinged(ranks, shape)
    for p, nbytes, repetitions in ((2, 0, 1), (2, 10**6, 2), (4, 8192, 5)):
        call = oracle.ping(ping_call(p, nbytes, repetitions), repetitions)
        runs.run(ranks, call, machine=EAGER)


@points(4, "values")
def test_mean_where_one_trip_takes_longer(ranks):
    # A message of another kind keeps rank 0's port busy, after the first trip.
    nbytes, repetitions, other, members = 2000, 12, 15_000, [2, 0, 1]
    trip_s = oracle.trip_s(EAGER, nbytes)
    case = ping_call(3, nbytes, repetitions).among(members, 3)
    runs.run(ranks, oracle.ping(case, repetitions), machine=EAGER, members=members)
    arguments = [("ping:ping", 2.5 * trip_s, other, nbytes, repetitions, 1)] * 3
    result = ranks.call("callers:busy", 3, arguments, machine=EAGER, members=members)
    case = case.called_by(f"callers:busy --seconds {2.5 * trip_s} --other {other}")
    assert_ran(result, case.seen_in(result))
    try:
        examples.assert_busy_trip(result, case, nbytes, repetitions)
    except Verdict as verdict:
        raise Verdict(
            f"{verdict.sentence} Comm holds ranks {members} of the world here, and one round trip "
            "takes longer than the others (callers.busy).",
            reproduce=verdict.reproduce,
        ) from None


@points(4, "values")
def test_time_on_other_machines(ranks, rng):
    drawn = Machine("drawn", float(10 ** rng.uniform(-6, -4)), float(10 ** rng.uniform(-10, -8)))
    drawn = drawn.with_(poll_s=1e-10)
    long = long_wire().with_(poll_s=1e-10)
    for machine, p, partner in (
        (long, 2, 1), (short_wire(), 3, 2), (drawn, 2, 1), (PAIRS, 4, 1), (PAIRS, 4, 3),
    ):  # fmt: skip
        call = oracle.ping(ping_call(p, 3000, 3, partner), 3, partner)
        runs.run(ranks, call, machine=machine)


@points(9, "values")
def test_who_comes_late_is_waited_for_first(ranks):
    for p, partner, who, nbytes in ((2, 1, 1, 100), (3, 2, 2, 0), (2, 1, 0, 100)):
        case = ping_call(p, nbytes, 2, partner)
        runs.run(ranks, oracle.ping(case, 2, partner))
        arguments = [("ping:ping", who, 1e-3, nbytes, 2, partner)] * p
        result = ranks.call("callers:late", p, arguments, machine=RENDEZVOUS)
        case = case.called_by(f"callers:late --who {who} --seconds 0.001")
        assert_ran(result, case.seen_in(result))
        try:
            examples.assert_trip(result, case, nbytes, 2, partner)
        except Verdict as verdict:
            raise Verdict(
                f"{verdict.sentence} Rank {who} came 1 ms late (callers.late).",
                reproduce=verdict.reproduce,
            ) from None


@points(4, "values")
def test_inputs_stay_and_results_are_new(ranks, rng):
    for shape in SHAPES[:2]:
        case, result = bounced(ranks, shape)
        assert_inputs_kept(result, case)
        examples.assert_new(result, case)
    runs.check_again(ranks, [oracle.bounce(rng, bounce_call(2, 5, 2), 2)])


@points(5, "reality")
def test_real_mpi(mpi, rng):
    asked = [
        oracle.bounce(rng, bounce_call(3, 50, 4, 2), 4, 2),
        oracle.ping(ping_call(3, 1000, 10), 10),
    ]
    runs.check_real_mpi(mpi, asked)


@points(11, "communication")
def test_messages_on_both_ways(ranks):
    def check(case, result, partner, trips, nbytes):
        allowed = np.zeros((case.world_size,) * 2, int)
        allowed[0, partner] = allowed[partner, 0] = trips
        for source, dest in np.argwhere(result.messages_matrix() != allowed):
            examples.assert_count(result, case, source, dest, allowed[source, dest])

    of_both(ranks, check)


@points(7, "communication")
def test_bytes_of_the_messages(ranks):
    def check(case, result, partner, trips, nbytes):
        allowed = [0] * case.world_size
        allowed[0] = allowed[partner] = trips * nbytes
        ranks.record(case, result, {"sent_bytes": allowed})
        for rank, right in enumerate(allowed):
            examples.assert_exact_bytes(result, case, rank, right)

    of_both(ranks, check)


@points(4, "communication")
def test_others_are_left_alone(ranks):
    def check(case, result, partner, trips, nbytes):
        runs.assert_only_messages(result, case)
        for rank in set(range(case.world_size)) - {0, partner}:
            examples.assert_left_alone(result, case, rank, partner)

    of_both(ranks, check)


@points(3, "communication")
def test_one_rank_has_nobody_to_talk_to(ranks):
    def alone(case, ask):
        result = runs.seen(ranks, case, ask)
        runs.assert_only_messages(result, case)
        examples.assert_alone(result, case)

    # What does nothing at all earns nothing here.
    bounced(ranks, SHAPES[0])
    pinged(ranks, SHAPES[0])
    bounce, ping = bounce_call(1, 5, 2), ping_call(1, 5, 2)
    runs.of_each(
        lambda: alone(bounce, lambda rng, case: oracle.bounce(rng, case, 2)),
        lambda: alone(ping, lambda _, case: oracle.ping(case, 2)),
    )


@points(5, "communication")
def test_given_communicator_is_used(ranks, rng):
    asked = [
        oracle.bounce(rng, bounce_call(3, 9, 2, 2), 2, 2),
        oracle.ping(ping_call(2, 100, 2), 2),
        oracle.bounce(rng, bounce_call(1, 4, 2), 2),
        oracle.ping(ping_call(1, 100, 2), 2),
    ]
    runs.check_members(ranks, rng, asked)


@points(6, "safety")
def test_sends_may_wait_and_requests_end(ranks):
    of_both(ranks, lambda case, result, *_: assert_requests_complete(result, case))


@points(4, "safety")
def test_messages_may_be_slow(ranks, rng):
    asked = [
        oracle.bounce(rng, bounce_call(3, 9, 2, 2), 2, 2),
        oracle.ping(ping_call(3, 100, 2, 2), 2, 2),
    ]
    runs.check_any_order(ranks, asked)


@points(8, "schedule")
def test_messages_follow_one_another(ranks, rng):
    def check(case, result, partner, trips, nbytes):
        examples.assert_one_after_the_other(result, case, trips, nbytes)

    # Where sends don't wait, who sends ahead of time is faster.
    def eager(p, partner, n, trips):
        case = bounce_call(p, n, trips, partner).on(EAGER)
        result = runs.run(ranks, oracle.bounce(rng, case, trips, partner), machine=EAGER)
        return case, result, partner, trips, case.nbytes

    of_both(ranks, check, [lambda: eager(2, 1, 100, 4), lambda: eager(3, 2, 1000, 2)])


@points(7, "speed")
def test_nothing_is_waited_for_besides(ranks):
    def check(case, result, partner, trips, nbytes):
        assert_makespan(result, 2 * trips * oracle.trip_s(RENDEZVOUS, nbytes), case)

    of_both(ranks, check)
