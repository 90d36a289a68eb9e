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
from ringside.checking.suite import Suite, called, contrasted, group, right_run, right_twice
from ringside.trace import Kind
from ringside.units import format_count

suite = Suite("ping")
BUFFERED = "buffered,poll_s=1e-10"
SLOW_WIRE = "beta_s_per_byte=1e-07,poll_s=1e-10"  # where each single byte is seen
PARTNER_1, OTHERS, ODD = "partner 1", "other partners", "sizes that 8 does not divide"
SEVERAL, ONE = "several ranks", "one rank"


def both(*shapes, **options):
    """Calls of both functions: each earns half.

    Args:
        shapes: ranks, elements or bytes, repetitions, partner.
    """
    return [
        group(kind.__name__.lower(), *(kind(*each, **options) for each in shapes))
        for kind in (Bounce, Ping)
    ]


def of_both(*shapes, **options):
    """Calls of both functions, which earn together."""
    return [kind(*each, **options) for kind in (Bounce, Ping) for each in shapes]


def by_partner(shapes):
    ones = [each for each in shapes if each[3] == 1]
    return [(PARTNER_1, ones), (OTHERS, [each for each in shapes if each[3] != 1])]


# -- what comes back -------------------------------------------------------------------------------


@suite.test(
    "ball", "values", group(PARTNER_1, Bounce(2, 5, 3), Bounce(3, 5, 2, dtype="float32")),
    group(OTHERS, Bounce(4, 5, 3, 2, "int64"), Bounce(3, 0, 1, 2)), weight=8,
)  # fmt: skip
def test_what_was_sent_comes_back(case, run):
    """On rank 0, to the bit; the others return None."""


@suite.test("kept", "values", Bounce(2, 6, 2))
def test_inputs_stay_and_results_are_new(case, run, ranks):
    assert_inputs_kept(run, case)
    assert_new(run, case)
    right_twice(ranks, case)


test_real_mpi = suite.real_ranks("ball", Bounce(3, 50, 4), Ping(3, 100, 5), weight=2)


# -- the time of a message -------------------------------------------------------------------------


@suite.test(
    "time", "values", group(PARTNER_1, Ping(2, 1000, 3), Ping(3, 0, 1), Ping(2, 20, 5)),
    group(OTHERS, Ping(3, 4000, 2, 2, machine="alpha_s=5e-05,beta_s_per_byte=2e-09,poll_s=1e-10")),
    group(ODD, Ping(2, 7, 2, machine=SLOW_WIRE), Ping(2, 13, 1, machine=SLOW_WIRE)), weight=6,
)  # fmt: skip
def test_time_of_a_message(case, run):
    """Half of the mean round trip."""


@suite.test(
    "time", "values", BusyPing(3, 2000, 12, members=(2, 0, 1), world=3, machine=BUFFERED), weight=8
)
def test_mean_where_one_trip_takes_longer(case, ranks):
    disturbed(case, ranks, "where one round trip takes longer than the others")


@suite.test(
    "time", "values", group(PARTNER_1, LatePing(2, 100, 2)), group(OTHERS, LatePing(3, 8, 3, 2)),
    weight=11,
)  # fmt: skip
def test_who_comes_late_is_waited_for_first(case, ranks):
    disturbed(case, ranks, f"if rank {case.who} comes 1 ms late")


def disturbed(case, ranks, words):
    """What is wrong without a disturbance isn't told as if that did it."""
    contrasted(
        lambda: right_run(ranks, case), lambda: right_run(ranks, case.plain), case,
        f"right, but wrong {words}:",
    )  # fmt: skip


# -- the messages, whatever comes of them ----------------------------------------------------------


@suite.test(
    "to_and_fro", "communication",
    group("bounce", Bounce(2, 100, 3, machine="buffered")),
    group("ping", Ping(2, 800, 3, machine="buffered")), checked=False,
)  # fmt: skip
def test_two_ranks_exchange_messages(case, run):
    for source, dest in ((0, 1), (1, 0)):
        sent = int(run.bytes_matrix()[source, dest])
        if sent < case.nbytes:
            raise case.fail(
                f"rank {source} sent rank {dest} {sent} bytes in messages; what is "
                f"bounced goes to rank 1 and back in messages of {case.nbytes} bytes."
            )


# Where sends don't wait, who sends ahead of time is faster.
EAGER = group("sends that don't wait", Bounce(3, 100, 4, machine=BUFFERED), weight=6)


@suite.test(
    "to_and_fro", "schedule", *both((2, 1000, 4, 1), (3, 10, 2, 1)), EAGER, checked=False, weight=3
)
def test_messages_follow_one_another(case, run):
    pair = 0, case.partner
    sent, nbytes = (
        sum(each[rank] for rank in pair) for each in (run.sent_messages(), run.sent_bytes())
    )
    if sent < 2 * case.repetitions:
        raise case.fail(
            f"ranks 0 and {case.partner} sent {format_count(sent, 'message')}; "
            f"{case.repetitions} round trips are {2 * case.repetitions} at least."
        )
    link = run.machine.link(*(run.members[rank] for rank in pair))
    least_s = sent * link.alpha_s + nbytes * link.beta_s_per_byte
    if run.makespan_s < least_s * (1 - 1e-9):
        raise case.fail(
            f"took {run.makespan_s * 1e6:.2f} µs; {sent} messages one after the other take "
            f"{least_s * 1e6:.2f} µs: some were under way together."
        )


PLAIN = (2, 10, 2, 1), (3, 10, 3, 1)


@suite.test("messages", "communication", *both(*PLAIN, machine="buffered"), checked=False, weight=3)
def test_messages_on_both_ways(case, run):
    allowed = np.zeros((case.p, case.p), int)
    allowed[0, case.partner] = allowed[case.partner, 0] = case.trips
    for source, dest in np.argwhere(run.messages_matrix() != allowed):
        sent = format_count(run.messages_matrix()[source, dest], "message")
        right = allowed[source, dest]
        are = "is" if right == 1 else "are"
        raise case.fail(f"rank {source} sent rank {dest} {sent}; {right} {are} asked for.")


@suite.test(
    "messages", "communication", *of_both(*PLAIN, machine="buffered"),
    Bounce(2, 5, 2, dtype="float32", machine="buffered"), checked=False, weight=6,
)  # fmt: skip
def test_bytes_of_the_messages(case, run, ranks):
    allowed = [0] * case.p
    allowed[0] = allowed[case.partner] = case.trips * case.nbytes
    ranks.record(case, run, {"sent_bytes": allowed})
    for rank, (sent, right) in enumerate(zip(run.sent_bytes(), allowed, strict=True)):
        if sent != right:
            raise case.fail(f"rank {rank} sent {sent} bytes; {right} are asked for.")


@suite.test("messages", "speed", *both((2, 1000, 4, 1), (3, 10, 2, 1)), weight=1)
def test_nothing_is_waited_for_besides(case, run):
    assert_makespan(run, 2 * case.trips * case.trip_s(run), case)


@suite.test("partner", "communication", *both((4, 10, 3, 2), machine="buffered"), checked=False)
def test_messages_go_to_the_partner(case, run):
    for source, dest in np.argwhere(run.messages_matrix()):
        if {source, dest} != {0, case.partner}:
            raise case.fail(
                f"rank {source} sent rank {dest} a message; the partner is rank {case.partner}."
            )
    if not run.messages_matrix()[0, case.partner]:
        raise case.fail(f"rank 0 sent its partner, rank {case.partner}, nothing.")


BUSY = {int(kind) for kind in (Kind.ISEND, Kind.IRECV, Kind.WAIT, Kind.COLLECTIVE)}
ALONE = group(ONE, Bounce(1, 3, 2), Ping(1, 3, 2))


@suite.test(
    "bystanders", "communication",
    group(SEVERAL, *of_both((3, 10, 2, 1), (4, 10, 3, 2)), weight=3), ALONE, checked=False,
)  # fmt: skip
def test_others_are_left_alone(case, run, ranks):
    if case.p == 1:
        case.compare(run)
        if run.peers(0):
            raise case.fail("with one rank there is nobody to talk to, and a message was sent.")
        run = called(ranks, case.with_(p=2))  # what does nothing at all earns nothing here
    assert_only_messages(run, case)
    if not any(run.sent_messages()):
        raise case.fail(f"on {len(run.values)} ranks nobody sent a message.")
    for rank in set(range(case.p)) - {0, case.partner}:
        if any(int(op.kind) in BUSY for op in run.trace.ops[rank]):
            raise case.fail(f"rank {rank} takes part; only ranks 0 and {case.partner} do.")


test_given_communicator_is_used = suite.given_communicator(
    "comm", group("bounce", Bounce(3, 5, 2, 2)), group("ping", Ping(3, 100, 2, 2))
)


@suite.test(
    "ends", "safety", *both((2, 10, 2, 1), (3, 10, 3, 1)),
    group("bounce", Bounce(3, 5, 2, 1, machine="buffered", latencies=1)),
)  # fmt: skip
def test_sends_may_wait_and_requests_end(case, run):
    assert_requests_complete(run, case)
