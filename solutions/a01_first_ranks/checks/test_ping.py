"""ping.py: messages to and fro, and the time of one."""

import numpy as np

from checks.cases import (
    Bounce,
    BusyPing,
    LatePing,
    Ping,
    assert_new,
    assert_only_messages,
)
from ringside.checking import assert_inputs_kept, assert_makespan, assert_requests_complete
from ringside.checking.suite import Suite, contrasted, group, right_run, right_twice
from ringside.trace import Kind
from ringside.units import format_count

suite = Suite("ping")
BUFFERED = "buffered,poll_s=1e-10"
PARTNER_1, OTHERS = "partner 1", "other partners"


def both(*shapes, **options):
    """Calls of both functions: each earns half, and of it each kind of partner.

    Args:
        shapes: ranks, elements or bytes, repetitions, partner.
    """
    return [
        group(f"{kind.__name__.lower()} with {name}", *(kind(*each, **options) for each in some))
        for kind in (Bounce, Ping)
        for name, some in by_partner(shapes)
    ]


def by_partner(shapes):
    ones = [each for each in shapes if each[3] == 1]
    return [(PARTNER_1, ones), (OTHERS, [each for each in shapes if each[3] != 1])]


SMALL = both((2, 10, 2, 1), (4, 10, 3, 2))


@suite.test(
    "point", "communication",
    group("bounce", Bounce(2, 100, 3, machine="buffered")),
    group("ping", Ping(2, 800, 3, machine="buffered")), checked=False, weight=4,
)  # fmt: skip
def test_two_ranks_exchange_messages(case, run):
    for source, dest in ((0, 1), (1, 0)):
        sent = int(run.bytes_matrix()[source, dest])
        if sent < case.nbytes:
            raise case.fail(
                f"rank {source} sent rank {dest} {sent} bytes in messages; what is "
                f"bounced goes to rank 1 and back in messages of {case.nbytes} bytes."
            )


@suite.test(
    "values", "values", group(PARTNER_1, Bounce(2, 5, 3), Bounce(3, 5, 2, dtype="float32")),
    group(OTHERS, Bounce(4, 5, 3, 2, "int64"), Bounce(3, 0, 1, 2)), weight=12,
)  # fmt: skip
def test_what_was_sent_comes_back(case, run):
    """On rank 0, to the bit; the others return None."""


@suite.test(
    "values", "values",
    group(PARTNER_1, Ping(2, 1000, 3), Ping(3, 0, 1), Ping(2, 20, 5)),
    group(OTHERS, Ping(3, 4000, 2, 2, machine="alpha_s=5e-05,beta_s_per_byte=2e-09,poll_s=1e-10")), weight=14,
)  # fmt: skip
def test_time_of_a_message(case, run):
    """Half of the mean round trip."""


@suite.test(
    "values",
    "values",
    BusyPing(3, 2000, 12, members=(2, 0, 1), world=3, machine=BUFFERED),
    weight=4,
)
def test_mean_where_one_trip_takes_longer(case, ranks):
    disturbed(case, ranks, "where one round trip takes longer than the others")


@suite.test(
    "values",
    "values",
    group(PARTNER_1, LatePing(2, 100, 2)),
    group(OTHERS, LatePing(3, 8, 3, 2)),
    weight=9,
)
def test_who_comes_late_is_waited_for_first(case, ranks):
    disturbed(case, ranks, f"if rank {case.who} comes 1 ms late")


def disturbed(case, ranks, words):
    """What is wrong without a disturbance isn't told as if that did it."""
    contrasted(
        lambda: right_run(ranks, case), lambda: right_run(ranks, case.plain), case,
        f"right, but wrong {words}:",
    )  # fmt: skip


@suite.test("values", "values", Bounce(2, 6, 2), weight=4)
def test_inputs_stay_and_results_are_new(case, run, ranks):
    assert_inputs_kept(run, case)
    assert_new(run, case)
    right_twice(ranks, case)


test_real_mpi = suite.real_ranks("reality", Bounce(3, 50, 4), Ping(3, 100, 5), weight=5)


@suite.test("communication", "communication", *SMALL, weight=10)
def test_messages_on_both_ways(case, run):
    allowed = np.zeros((case.p, case.p), int)
    allowed[0, case.partner] = allowed[case.partner, 0] = case.trips
    for source, dest in np.argwhere(run.messages_matrix() != allowed):
        sent = format_count(run.messages_matrix()[source, dest], "message")
        right = allowed[source, dest]
        are = "is" if right == 1 else "are"
        raise case.fail(f"rank {source} sent rank {dest} {sent}; {right} {are} asked for.")


@suite.test("communication", "communication", *SMALL, weight=7)
def test_bytes_of_the_messages(case, run, ranks):
    allowed = [0] * case.p
    allowed[0] = allowed[case.partner] = case.trips * case.nbytes
    ranks.record(case, run, {"sent_bytes": allowed})
    for rank, (sent, right) in enumerate(zip(run.sent_bytes(), allowed, strict=True)):
        if sent != right:
            raise case.fail(f"rank {rank} sent {sent} bytes; {right} are asked for.")


BUSY = {int(kind) for kind in (Kind.ISEND, Kind.IRECV, Kind.WAIT, Kind.COLLECTIVE)}
ALONE = group("one rank", Bounce(1, 3, 2), Ping(1, 3, 2), weight=4)


@suite.test("communication", "communication", *both((3, 10, 2, 1), (4, 10, 3, 2)), ALONE, weight=6)
def test_others_are_left_alone(case, run, ranks):
    assert_only_messages(run, case)
    if case.p == 1:
        right_run(ranks, case.with_(p=2))  # what does nothing at all earns nothing here
        if run.peers(0):
            raise case.fail("with one rank there is nobody to talk to, and a message was sent.")
        return
    for rank in set(range(case.p)) - {0, case.partner}:
        if any(int(op.kind) in BUSY for op in run.trace.ops[rank]):
            raise case.fail(f"rank {rank} takes part; only ranks 0 and {case.partner} do.")


test_given_communicator_is_used = suite.given_communicator(
    "group",
    group("bounce", Bounce(3, 5, 2, 2)),
    group("ping", Ping(2, 100, 2)),
    group("one rank", Bounce(1, 4, 2), Ping(1, 100, 2), weight=2),
    weight=5,
)


@suite.test(
    "safety", "safety", *SMALL,
    group("bounce with other partners", Bounce(3, 5, 2, 2, machine="buffered", latencies=1)), weight=7,
)  # fmt: skip
def test_sends_may_wait_and_requests_end(case, run):
    assert_requests_complete(run, case)


# Where sends don't wait, who sends ahead of time is faster.
EAGER = group("sends that don't wait", Bounce(3, 100, 4, machine=BUFFERED), weight=4)


@suite.test("schedule", "schedule", *both((2, 1000, 4, 1), (3, 10, 2, 2)), EAGER, weight=7)
def test_messages_follow_one_another(case, run):
    least_s = 2 * case.trips * case.trip_s(run)
    if run.makespan_s >= least_s * (1 - 1e-9):
        return
    sent, nbytes, right = sum(run.sent_messages()), sum(run.sent_bytes()), 2 * case.trips
    if (sent, nbytes) != (right, right * case.nbytes):
        raise case.fail(
            f"{sent} messages of {nbytes} bytes in all were sent; {right} of "
            f"{right * case.nbytes} are asked for."
        )
    raise case.fail(
        f"took {run.makespan_s * 1e6:.2f} µs; {right} messages one after the other take "
        f"{least_s * 1e6:.2f} µs: some were under way together."
    )


@suite.test("speed", "speed", *both((2, 1000, 4, 1), (3, 10, 2, 2)), weight=6)
def test_nothing_is_waited_for_besides(case, run):
    assert_makespan(run, 2 * case.trips * case.trip_s(run), case)
