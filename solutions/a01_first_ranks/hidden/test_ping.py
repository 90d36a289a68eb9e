"""ping.py: messages to and fro, and the time of one."""

import numpy as np

from ringside.checking import (
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    long_wire,
)
from ringside.checking.case_kinds import check_kinds
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
    (2, 1, 33, 1), (3, 1, 8, 4), (12, 1, 3000, 2), (3, 2, 0, 2), (5, 3, 1000, 3), (18, 7, 5, 1),
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


def by_partner(shape):
    return "partner 1" if shape[1] == 1 else "other partners"


def of_both(ranks, check):
    """``check(case, result, partner, round trips, bytes of a message)`` on runs of both functions.

    Each of the two functions earns half, and of it each kind of partner.
    """

    def one(each):
        function, shape = each
        _, partner, nbytes, repetitions = shape
        if function == "bounce":
            case, result = bounced(ranks, shape)
            check(case, result, partner, repetitions, case.nbytes)
        else:
            case, result = pinged(ranks, shape)
            check(case, result, partner, repetitions + 1, nbytes)

    cases = [(function, shape) for function in ("bounce", "ping") for shape in SHAPES]
    check_kinds(cases, lambda each: f"{each[0]} with {by_partner(each[1])}", one)


@points(4, "communication", essential=True)
def test_two_ranks_exchange_messages(ranks, rng):
    def exchanged(asked, nbytes):
        case = asked.case
        result = ranks.call(case.target, 2, asked.arguments, machine=EAGER)
        assert_ran(result, case.seen_in(result))
        examples.assert_exchange(result, case, nbytes)

    bounce, ping = bounce_call(2, 100, 3), ping_call(2, 800, 3)
    runs.of_each(
        lambda: exchanged(oracle.bounce(rng, bounce, 3), bounce.nbytes),
        lambda: exchanged(oracle.ping(ping, 3), 800),
    )


@points(12, "values")
def test_what_was_sent_comes_back(ranks, rng):
    def check(shape, dtype="float64"):
        world_size, partner, n, repetitions = shape
        case = bounce_call(world_size, n, repetitions, partner, dtype)
        runs.run(ranks, oracle.bounce(rng, case, repetitions, partner), machine=EAGER)

    def check_all(shape):
        check(shape)
        for dtype in ("float32", "int64", "int16", "complex64") if shape[0] == 3 else ():
            check(shape, dtype)

    shapes = [*SHAPES, (2, 1, 3001, 2), (4, 3, 2003, 1)]
    check_kinds(shapes, by_partner, check_all)


@points(14, "values")
def test_time_of_a_message(ranks, rng):
    drawn = Machine("drawn", float(10 ** rng.uniform(-6, -4)), float(10 ** rng.uniform(-10, -8)))
    machines = [EAGER, long_wire().with_(poll_s=1e-10), drawn.with_(poll_s=1e-10), PAIRS]
    calls = [(RENDEZVOUS, shape) for shape in SHAPES]
    calls += [
        (machine, (4, partner, nbytes, 3))
        for machine, nbytes in zip(machines, (10**6, 0, 8192, 3000), strict=True)
        for partner in (1, 3)
    ]

    def check(call):
        machine, (world_size, partner, nbytes, repetitions) = call
        asked = oracle.ping(
            ping_call(world_size, nbytes, repetitions, partner), repetitions, partner
        )
        runs.run(ranks, asked, machine=machine)

    check_kinds(calls, lambda call: by_partner(call[1]), check)


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


@points(9, "values")
def test_who_comes_late_is_waited_for_first(ranks):
    def check(call):
        p, partner, nbytes, who = call
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

    check_kinds([(2, 1, 100, 1), (2, 1, 100, 0), (3, 2, 0, 2)], by_partner, check)


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
        oracle.bounce(rng, bounce_call(3, 50, 4), 4),
        oracle.ping(ping_call(3, 1000, 10), 10),
    ]
    runs.check_real_mpi(mpi, asked)


@points(10, "communication")
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


@points(6, "communication")
def test_others_are_left_alone(ranks):
    def check(case, result, partner, trips, nbytes):
        runs.assert_only_messages(result, case)
        for rank in set(range(case.world_size)) - {0, partner}:
            examples.assert_left_alone(result, case, rank, partner)

    def alone(case, ask):
        result = runs.seen(ranks, case, ask)
        runs.assert_only_messages(result, case)
        examples.assert_alone(result, case)

    def with_one_rank():
        bounce, ping = bounce_call(1, 5, 2), ping_call(1, 5, 2)
        bounced(ranks, SHAPES[0])  # what does nothing at all earns nothing here
        alone(bounce, lambda rng, case: oracle.bounce(rng, case, 2))
        pinged(ranks, SHAPES[0])
        alone(ping, lambda _, case: oracle.ping(case, 2))

    runs.of_each(lambda: of_both(ranks, check), with_one_rank)


@points(5, "communication")
def test_given_communicator_is_used(ranks, rng):
    asked = [
        oracle.bounce(rng, bounce_call(3, 9, 2), 2),
        oracle.ping(ping_call(2, 100, 2), 2),
        oracle.bounce(rng, bounce_call(1, 4, 2), 2),
        oracle.ping(ping_call(1, 100, 2), 2),
    ]
    runs.check_members(ranks, rng, asked)


@points(7, "safety")
def test_sends_may_wait_and_requests_end(ranks):
    of_both(ranks, lambda case, result, *_: assert_requests_complete(result, case))


@points(7, "schedule")
def test_messages_follow_one_another(ranks, rng):
    def check(case, result, partner, trips, nbytes):
        examples.assert_one_after_the_other(result, case, trips, nbytes)

    def where_sends_do_not_wait():  # there, who sends ahead of time is faster
        for n, trips in ((100, 4), (1000, 2)):
            case = bounce_call(3, n, trips).on(EAGER)
            result = runs.run(ranks, oracle.bounce(rng, case, trips), machine=EAGER)
            check(case, result, 1, trips, case.nbytes)

    runs.of_each(lambda: of_both(ranks, check), where_sends_do_not_wait)


@points(6, "speed")
def test_nothing_is_waited_for_besides(ranks):
    def check(case, result, partner, trips, nbytes):
        assert_makespan(result, 2 * trips * oracle.trip_s(RENDEZVOUS, nbytes), case)

    of_both(ranks, check)
