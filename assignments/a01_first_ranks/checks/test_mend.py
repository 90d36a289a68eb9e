"""mend.py: three programs that neither hang nor race, and say no more than before."""

import numpy as np

from checks.cases import (
    Collect,
    Exchange,
    Mean,
    assert_new,
    assert_only_messages,
    right_in_a_row,
)
from ringside.checking import (
    LATENCY_SEEDS,
    assert_inputs_kept,
    assert_makespan,
    assert_pairs,
    assert_requests_complete,
)
from ringside.checking.suite import Suite, group, right_run, right_twice
from ringside.trace import Kind

suite = Suite("mend")
NUMBERS, CALLS = 3, 4  # of a collective; in all
LABEL_BYTES = 64  # of whatever comes with a number
STARTED = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)  # what must be waited for
LONG_WIRE = "beta_s_per_byte=1e-08"  # 10,000 bytes take 100 alpha
WITH, EQUAL = "elements on every rank", "equal elements"
LONG, MANY = "long vectors", "many ranks"
BUFFERED = {"machine": "buffered"}  # where sends wait is a matter of test_exchange


def mean(*lengths, equal=0.0):
    return Mean(len(lengths), lengths, equal)


def of_each(exchange=(), mean=(), collect=()):
    """Each function earns its part."""
    of_three = {"exchange": exchange, "mean_and_deviation": mean, "collect": collect}
    return [group(name, *cases) for name, cases in of_three.items() if cases]


@suite.test(
    "own_messages", "communication",
    *of_each([Exchange(4, 50, **BUFFERED)], (), [Collect(2, 1, 25, **BUFFERED)]), checked=False,
)  # fmt: skip
def test_data_travels_in_messages(case, run):
    for rank, sent in enumerate(run.sent_bytes()):
        if sent == 0 and (rank or isinstance(case, Exchange)):
            raise case.fail(
                f"rank {rank} sent nothing in messages of its own; what it has travels in messages "
                "from point to point, and not in a collective."
            )


# -- what each of them computes --------------------------------------------------------------------


@suite.test(
    "exchange", "values",
    Exchange(4, 6), Exchange(3, 300), Exchange(2, 0),
    *(Exchange(4, 20, latencies=seed) for seed in LATENCY_SEEDS),
)  # fmt: skip
def test_exchange(case, run):
    """Each rank gets the previous one's; every send waits until its receive is posted."""


@suite.test("alone", "values", Exchange(1, 4), Exchange(1, 0))
def test_exchange_of_one_rank(case, run):
    """A copy of its own, where a send to itself waits too."""


@suite.test(
    "mean", "values", group(WITH, mean(3, 2), mean(6), weight=2),
    group(EQUAL, mean(3, 4, equal=0.1)),
)  # fmt: skip
def test_mean_and_deviation(case, run):
    """On every rank; no NaN where all elements are equal."""


@suite.test("empty", "values", mean(4, 0, 1), mean(0, 5, 0, 2))
def test_mean_where_ranks_have_no_element(case, run):
    """They take part in the collectives, and get the numbers too."""


@suite.test(
    "collect", "values", Collect(3, 4, 5), Collect(2, 3, 1), Collect(1, 2, 2), Collect(4, 0, 3),
    *(Collect(6, 2, 3, latencies=seed) for seed in LATENCY_SEEDS),
)  # fmt: skip
def test_collect(case, run):
    """Squares in order of rank and row, whichever messages are slow."""


@suite.test("any_order", "safety", Collect(3, 2, 4))
def test_collect_in_any_order(case, ranks):
    for seed in LATENCY_SEEDS:
        for machine in ("buffered", "rendezvous"):
            right_run(ranks, case.on_sends(machine).with_(latencies=seed))
    right_in_a_row(ranks, case)


# -- what it says, and how long that takes ---------------------------------------------------------


@suite.test("little", "communication", Exchange(4, 10), Exchange(2, 3), checked=False, weight=5)
def test_exchange_sends_to_the_next_rank_only(case, run, ranks):
    nbytes = 8 * case.n
    assert_only_messages(run, case)
    ranks.record(case, run, {"sent_bytes": [nbytes] * case.p})
    assert_pairs(run, nbytes * np.roll(np.eye(case.p, dtype=int), 1, axis=1), case)
    for source, dest in np.argwhere(run.messages_matrix()):
        if dest != (source + 1) % case.p:
            raise case.fail(
                f"rank {source} sent rank {dest} a message; a rank sends to its next rank only."
            )
    if n := case.n - min(run.sent_bytes()) // 8:
        raise case.fail(f"a rank kept {n} of {case.n} numbers back from the next rank.")


@suite.test(
    "little", "communication", group(LONG, mean(50, 40, 30)), group(MANY, mean(*[20] * 9)),
    weight=7,
)  # fmt: skip
def test_mean_and_deviation_by_few_numbers(case, run):
    if any(run.sent_messages()):
        raise case.fail("a message was sent point to point; only collectives are asked for.")
    if len(run.collectives) > CALLS:
        raise case.fail(
            f"{len(run.collectives)} collectives were called; at most {CALLS} are allowed."
        )
    if run.comm_calls:
        raise case.fail("a communicator was made; only collectives on comm are asked for.")
    for used in run.collectives:
        of_one = used.by_members or used.name in ("allreduce", "bcast", "reduce")
        parts = 1 if of_one else len(used.members)
        allowed = (8 * NUMBERS + LABEL_BYTES) * parts
        if used.nbytes > allowed:
            raise case.fail(
                f"{used.name} took {used.nbytes} bytes; {NUMBERS} numbers of "
                f"{'a' if parts == 1 else 'each'} rank, with their names, are at most {allowed}."
            )


@suite.test(
    "little", "communication", Collect(3, 1, 5, **BUFFERED), Collect(4, 1, 3, **BUFFERED),
    checked=False, weight=6,
)  # fmt: skip
def test_collect_sends_to_rank_0_only(case, run):
    assert_only_messages(run, case)
    allowed = np.zeros((case.p, case.p), int)
    allowed[1:, 0] = 8 * case.rows * case.n
    assert_pairs(run, allowed, case)
    for source, dest in np.argwhere(run.messages_matrix()):
        if dest != 0 or source == 0:
            raise case.fail(
                f"rank {source} sent rank {dest} a message; messages go to rank 0 only."
            )
    if not min(run.sent_bytes()[1:]):
        raise case.fail("a rank sent rank 0 nothing.")


@suite.test(
    "speed", "speed", Exchange(9, 1250, machine=f"{LONG_WIRE},poll_s=1e-10"), checked=False,
    weight=7,
)  # fmt: skip
def test_exchange_takes_no_longer_on_more_ranks(case, run):
    machine = run.machine
    message_s = machine.alpha_s + 8 * case.n * machine.beta_s_per_byte
    if run.makespan_s < message_s:
        raise case.fail("took less time than a message: not every rank sent its x.")
    assert_makespan(run, 3 * message_s, case, full=1.0, half=2.0)


@suite.test("speed", "speed", Collect(4, 5, 100), weight=3)
def test_collect_takes_one_row_after_the_other(case, run):
    machine = run.machine
    row_s = machine.alpha_s + 8 * case.n * machine.beta_s_per_byte
    assert_makespan(run, (case.p - 1) * case.rows * row_s, case)


# -- what all of them keep to ----------------------------------------------------------------------


@suite.test(
    "kept", "values", group("exchange", Exchange(3, 4, **BUFFERED), weight=3),
    group("one rank", Exchange(1, 4, **BUFFERED)), group("mean_and_deviation", mean(3, 2)),
    group("collect", Collect(2, 1, 4, **BUFFERED), weight=3),
)  # fmt: skip
def test_inputs_stay_and_results_are_new(case, run, ranks):
    assert_inputs_kept(run, case)
    assert_new(run, case)
    right_twice(ranks, case)


test_real_mpi = suite.real_ranks("reality", Exchange(3, 9), mean(4, 2, 7), Collect(3, 2, 4))

test_given_communicator_is_used = suite.given_communicator(
    "comm",
    *of_each([Exchange(3, 4, **BUFFERED)], [mean(3, 1, 2)], [Collect(2, 1, 4, **BUFFERED)]),
)


@suite.test(
    "ends", "safety", group("exchange", Exchange(4, 20, **BUFFERED), weight=2),
    group("mean_and_deviation", mean(3, 2, 2)),
    group("collect", Collect(2, 1, 2, **BUFFERED), Collect(2, 0, 2, **BUFFERED), weight=2),
    checked=False,
)  # fmt: skip
def test_what_is_started_ends(case, run):
    assert_requests_complete(run, case, STARTED)
    if run.unreceived:
        raise case.fail(f"a message was never received: {run.unreceived[0]}")
