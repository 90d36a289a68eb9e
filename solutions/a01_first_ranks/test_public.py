"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Call`` (``cases.py``) is one call; ``ranks.call`` makes it on simulated
ranks.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from cases import bounce_call, collect_call, exchange_call, mean_call, ping_call, where_call
from where_table import line

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_array,
    assert_bytes,
    assert_inputs_kept,
    assert_makespan,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    assert_values,
    buffered,
    long_wire,
    rendezvous,
)
from ringside.checking.points import points

QUIET = rendezvous().with_(poll_s=1e-10)  # to look at the clock takes next to no time


IN_A_ROW = "called twice in a row, the last rank 1 ms late (callers.in_a_row):"


def own_messages(result, case):
    """Point-to-point calls only."""
    if result.collectives or result.comm_calls:
        used = (result.comm_calls or [each.name for each in result.collectives])[0]
        raise case.fail(f"{used} was called; only point-to-point calls are allowed.")


def none_elsewhere(result, case):
    for rank, value in enumerate(result.values):
        if rank > 0 and value is not None:
            raise case.fail(f"rank {rank} did not return None.")


# -- ping ------------------------------------------------------------------------------------------

ALPHA_S, BETA = 1e-6, 1e-9  # of the machine "textbook"


def bounce(ranks, rng, case, repetitions, partner=1, machine=QUIET, **options):
    """Call ``bounce`` with another array on every rank."""
    vectors = case.vectors(rng)
    arguments = [(x, repetitions, partner) for x in vectors]
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, arguments, machine=machine, **options)
    assert_ran(result, case)
    if case.world_size > 1:
        assert_array(result.values[0], vectors[0], None, case, "rank 0's result")
    none_elsewhere(result, case)
    return result


def is_time(value, right_s, case):
    """A number, NumPy's or Python's, right to a hundredth."""
    found = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if type(found) not in (int, float) or abs(found - right_s) > 0.01 * right_s:
        double = type(found) in (int, float) and abs(found - 2 * right_s) <= 0.02 * right_s
        more = " It is the time of a whole round trip." if double else ""
        raise case.fail(f"rank 0 returned {found!r}; a message takes {right_s:.6g} s.{more}")


def ping(ranks, case, repetitions, partner=1, machine=QUIET):
    arguments = [(case.n, repetitions, partner)] * case.world_size
    result = ranks.call(case.target, case.world_size, arguments, machine=machine)
    assert_ran(result, case)
    if case.world_size > 1:
        link = machine.link(0, partner)
        is_time(result.values[0], link.alpha_s + case.n * link.beta_s_per_byte, case)
    none_elsewhere(result, case)
    return result


@points(10, "values", "ping")
def test_what_was_sent_comes_back(ranks, rng):
    for p, partner, dtype in ((2, 1, "float64"), (4, 2, "int64"), (3, 2, "float32")):
        bounce(ranks, rng, bounce_call(p, 5, 3, partner, dtype), 3, partner)


@points(15, "values", "ping")
def test_time_of_a_message(ranks):
    for p, nbytes, repetitions in ((2, 1000, 3), (3, 0, 1), (2, 20, 5)):
        ping(ranks, ping_call(p, nbytes, repetitions), repetitions)
    slow = Machine("slow", alpha_s=5e-5, beta_s_per_byte=2e-9)
    ping(ranks, ping_call(3, 4000, 2, 2).on(slow), 2, 2, slow)


@points(10, "values", "ping")
def test_who_comes_late_is_waited_for_first(ranks):
    case = ping_call(2, 100, 2)
    ping(ranks, case, 2)  # what is wrong without a delay is not told as if the delay did it
    arguments = [("ping:ping", 1, 1e-3, 100, 2, 1)] * 2
    result = ranks.call("callers:late", 2, arguments, machine=QUIET)
    assert_ran(result, case)
    try:
        is_time(result.values[0], ALPHA_S + 100 * BETA, case)
    except Verdict as verdict:
        raise case.fail(f"right, but wrong if rank 1 comes 1 ms late: {verdict.sentence}") from None


@points(5, "values", "ping")
def test_input_of_bounce_stays(ranks, rng):
    case = bounce_call(2, 6, 2)
    result = bounce(ranks, rng, case, 2)
    assert_inputs_kept(result, case)
    if any(result.aliased):
        raise case.fail("the result must be a new array.")
    vectors = case.vectors(rng)
    result = ranks.call("callers:again", 2, [(case.target, x, 2) for x in vectors], machine=QUIET)
    assert_ran(result, case)
    what = "rank 0's result, looked at after a second call,"
    assert_array(result.values[0], vectors[0], None, case, what)


@points(5, "communication", "ping", essential=True)
def test_two_ranks_exchange_messages(ranks, rng):
    case = bounce_call(2, 100, 3)
    arguments = [(x, 3, 1) for x in case.vectors(rng)]
    result = ranks.call(case.target, 2, arguments, machine=buffered())
    there, back = result.bytes_matrix()[[0, 1], [1, 0]]
    if there < case.nbytes or back < case.nbytes:
        raise case.fail("x must travel to the partner and back in messages between the two.")


@points(15, "communication", "ping")
def test_messages_to_and_fro_and_no_others(ranks, rng):
    for case, result, trips in (
        (bounce_call(4, 10, 3, 2), bounce(ranks, rng, bounce_call(4, 10, 3, 2), 3, 2), 3),
        (ping_call(4, 80, 3, 2), ping(ranks, ping_call(4, 80, 3, 2), 3, 2), 4),
    ):
        own_messages(result, case)
        ranks.record(case, result, {"sent_bytes": [80 * trips, 0, 80 * trips, 0]})
        if result.sent_messages() != [trips, 0, trips, 0]:
            raise case.fail(f"messages sent: {result.sent_messages()}, not {[trips, 0, trips, 0]}.")
        if result.sent_bytes() != [80 * trips, 0, 80 * trips, 0]:
            raise case.fail(f"bytes sent: {result.sent_bytes()}; {80 * trips} each way, please.")


@points(5, "communication", "ping")
def test_one_rank_is_left_alone(ranks, rng):
    for case, result in (
        (bounce_call(1, 3, 2), bounce(ranks, rng, bounce_call(1, 3, 2), 2)),
        (ping_call(1, 3, 2), ping(ranks, ping_call(1, 3, 2), 2)),
    ):
        own_messages(result, case)
        if result.values != [None] or result.peers(0):
            raise case.fail("with one rank nothing is sent, and None is returned.")


@points(5, "communication", "ping")
def test_players_are_ranks_of_comm(ranks, rng):
    bounce(ranks, rng, bounce_call(3, 5, 2, 2), 2, 2, world_size=5, members=[3, 1, 4])


@points(10, "safety", "ping")
def test_sends_may_wait_or_not_and_messages_be_slow(ranks, rng):
    case = bounce_call(3, 5, 2, 2)
    for machine in (rendezvous(), buffered()):
        for seed in (None, *LATENCY_SEEDS):
            result = bounce(ranks, rng, case, 2, 2, machine, seed=seed)
            assert_requests_complete(result, case)


@points(15, "speed", "ping")
def test_one_message_after_the_other(ranks, rng):
    case = bounce_call(2, 1000, 4)
    for machine in (rendezvous(), buffered()):
        result = bounce(ranks, rng, case, 4, machine=machine)
        right_s = 2 * 4 * (ALPHA_S + case.nbytes * BETA)
        assert_makespan(result, right_s, case)
        if result.makespan_s < right_s * (1 - 1e-9):
            sent = sum(result.sent_messages()), sum(result.sent_bytes())
            if sent != (8, 8 * case.nbytes):
                raise case.fail(
                    f"{sent[0]} messages of {sent[1]} bytes in all were sent; 8 of "
                    f"{8 * case.nbytes} bytes are asked for."
                )
            raise case.fail("messages were under way together; they must follow one another.")


# -- fit -------------------------------------------------------------------------------------------

SIZES = [0, 8, 64, 512, 4096, 32768, 262144, 2097152]
MEASURED = [1.1e-6, 0.9e-6, 1.2e-6, 1.5e-6, 5.5e-6, 3.1e-5, 2.8e-4, 1.9e-3]


def answer(ranks, function, *call):
    """What a function of fit.py gives, computed inside a rank."""
    result = ranks.call("callers:answers", 1, [(f"fit:{function}", [call])])
    assert_ran(result, Case(f"fit:{function}", 1, 0))
    value, raised, changed = result.values[0][0]
    shown = f"{function}({', '.join(map(repr, call))})"
    again = f'python -c "import fit; print(fit.{shown})"'
    if changed:
        raise Verdict(f"{shown} changed its arguments.", reproduce=again)
    return value, raised, shown, again


def must_be(found, right, shown, again):
    try:
        same = np.shape(found) == np.shape(right) and np.allclose(found, right, 1e-5, 1e-12)
    except TypeError:
        same = False
    if not same:
        raise Verdict(f"{shown} is {found!r}; it must be {right!r}.", reproduce=again)


@points(20, "values", "fit")
def test_exact_times(ranks):
    for alpha_s, beta in ((1e-6, 1e-9), (3e-5, 2e-10)):
        times_s = [alpha_s + n * beta for n in SIZES]
        found, raised, shown, again = answer(ranks, "fit", SIZES, times_s)
        must_be(raised or found, (alpha_s, beta), shown, again)


@points(30, "values", "fit")
def test_noise_counts_alike_at_all_sizes(ranks):
    for order in (1, -1):
        found, raised, shown, again = answer(ranks, "fit", SIZES[::order], MEASURED[::order])
        must_be(raised or found, (1.0189665e-06, 9.7302786e-10), shown, again)


@points(15, "values", "fit")
def test_residuals(ranks):
    found, raised, shown, again = answer(
        ranks, "residuals", [0, 1000, 9000], [2e-6, 2e-6, 8e-6], 1e-6, 1e-9
    )
    must_be(raised or found, [0.5, 0.0, -0.25], shown, again)
    if not isinstance(found, np.ndarray):
        raise Verdict(f"{shown} must be an array.", reproduce=again)


@points(25, "values", "fit")
def test_two_regimes(ranks):
    sizes = [64, 8, 512, 32768, 4096, 262144]
    times_s = [(1e-6 if n < 4096 else 5e-6) + 1e-9 * n for n in sizes]
    found, raised, shown, again = answer(ranks, "two_regimes", sizes, times_s)
    if raised or not isinstance(found, tuple | list) or len(found) != 3:
        raise Verdict(f"{shown} is {raised or found!r}.", reproduce=again)
    must_be(float(found[0]), 4096.0, f"the threshold of {shown}", again)
    must_be(found[1], (1e-6, 1e-9), f"the short line of {shown}", again)
    must_be(found[2], (5e-6, 1e-9), f"the long line of {shown}", again)


@points(10, "safety", "fit")
def test_too_few_sizes_are_refused(ranks):
    for function, sizes in (("fit", [8, 8]), ("two_regimes", [1, 2, 3, 3])):
        found, raised, shown, again = answer(ranks, function, sizes, [1e-6] * len(sizes))
        if raised != "ValueError":
            raise Verdict(f"{shown} is {raised or found!r}; ValueError is due.", reproduce=again)


# -- mend ------------------------------------------------------------------------------------------


def exchange(ranks, rng, case, machine=QUIET, **options):
    vectors = case.vectors(rng)
    arguments = [(x,) for x in vectors]
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, arguments, machine=machine, **options)
    assert_values(result, [vectors[rank - 1] for rank in range(case.world_size)], case)
    return result


def mean(ranks, rng, lengths, machine=QUIET):
    case = mean_call(lengths)
    vectors = [rng.normal(3, 2, size=n) for n in lengths]
    every = np.concatenate(vectors)
    result = ranks.call(case.target, len(lengths), [(x,) for x in vectors], machine=machine)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        right = (float(every.mean()), float(every.std()))
        pair = isinstance(value, tuple | list) and len(value) == 2 and None not in value
        if not pair or not np.allclose(np.array(value, float), right, 1e-9, 1e-9):
            raise case.fail(f"rank {rank} returned {value!r}; it must be {right}.")
    return case, result


def collect(ranks, rng, case, rows, machine=QUIET, seed=None):
    drawn = rng.standard_normal((case.world_size, rows, case.n))
    arguments = [(each,) for each in drawn]
    result = ranks.call(case.target, case.world_size, arguments, machine=machine, seed=seed)
    assert_ran(result, case)
    assert_array(result.values[0], drawn**2, None, case.seen_in(result), "rank 0's result")
    none_elsewhere(result, case)
    return result


@points(10, "values", "mend")
def test_exchange(ranks, rng):
    for p, n in ((4, 6), (3, 300), (1, 4), (2, 0)):
        case = exchange_call(p, n)
        result = exchange(ranks, rng, case)
        assert_inputs_kept(result, case)
        if any(result.aliased):
            raise case.fail("the result must be a new array.")


@points(10, "values", "mend")
def test_mean_and_deviation(ranks, rng):
    for lengths in ((3, 2), (4, 0, 1), (0, 5, 0, 2), (6,)):
        mean(ranks, rng, lengths)


@points(10, "values", "mend")
def test_collect(ranks, rng):
    for p, rows, width in ((3, 4, 5), (2, 3, 1), (1, 2, 2), (4, 0, 3)):
        collect(ranks, rng, collect_call(p, rows, width), rows)
    collect(ranks, rng, collect_call(6, 2, 3), 2, seed=2)


@points(5, "communication", "mend", essential=True)
def test_data_travels_in_messages(ranks, rng):
    one, other = exchange_call(4, 50), collect_call(4, 2, 25)
    given = [(x,) for x in one.vectors(rng)]
    sent = ranks.call(one.target, 4, given, machine=buffered()).sent_bytes()
    rows = [(each,) for each in rng.standard_normal((4, 2, 25))]
    gathered = ranks.call(other.target, 4, rows, machine=buffered()).sent_bytes()
    if not (all(sent) or all(gathered[1:])):
        raise one.fail("ranks must send what they have in messages of their own, as they did.")


@points(5, "communication", "mend")
def test_exchange_sends_to_the_next_rank(ranks, rng):
    case = exchange_call(4, 10)
    result = exchange(ranks, rng, case)
    own_messages(result, case)
    ranks.record(case, result, {"sent_bytes": [80] * 4})
    assert_bytes(result, [80] * 4, case)
    for source, dest in np.argwhere(result.messages_matrix()):
        if dest != (source + 1) % 4:
            raise case.fail(
                f"rank {source} sent rank {dest} a message; a rank sends to its next rank only."
            )


@points(10, "communication", "mend")
def test_mean_and_deviation_takes_few_numbers(ranks, rng):
    case, result = mean(ranks, rng, (50, 40, 0))
    if any(result.sent_messages()) or result.comm_calls:
        raise case.fail("only collectives on comm are asked for.")
    if len(result.collectives) > 4:
        raise case.fail(f"{len(result.collectives)} collectives were called; at most 4 may be.")
    for used in result.collectives:
        if used.nbytes > 3 * (24 + 64):
            raise case.fail(f"{used.name} brought together {used.nbytes} bytes: too many numbers.")


@points(10, "communication", "mend")
def test_collect_sends_to_rank_0(ranks, rng):
    case = collect_call(3, 4, 5)
    result = collect(ranks, rng, case, 4)
    own_messages(result, case)
    assert_bytes(result, [2 * 160, 160, 160], case)
    for source, dest in np.argwhere(result.messages_matrix()):
        if dest != 0 or source == 0:
            raise case.fail(f"rank {source} sent rank {dest} a message; to rank 0 only, please.")


@points(5, "communication", "mend")
def test_neighbours_are_ranks_of_comm(ranks, rng):
    exchange(ranks, rng, exchange_call(3, 5), world_size=5, members=[3, 1, 4])


@points(10, "safety", "mend")
def test_a_rank_may_be_in_its_next_call(ranks, rng):
    case = collect_call(3, 2, 4)
    collect(ranks, rng, case, 2)
    drawn = rng.standard_normal((3, 2, 4))
    arguments = [(case.target, each) for each in drawn]
    result = ranks.call("callers:in_a_row", 3, arguments, machine=QUIET)
    assert_ran(result, case)
    assert_array(result.values[0], drawn**2, None, case, f"{IN_A_ROW} rank 0's result")


@points(10, "safety", "mend")
def test_any_order_and_all_requests(ranks, rng):
    one, other = exchange_call(4, 20), collect_call(4, 3, 2)
    for machine in (buffered(), rendezvous()):
        mean(ranks, rng, (3, 0, 2), machine)
        for seed in LATENCY_SEEDS:
            assert_requests_complete(exchange(ranks, rng, one, machine, seed=seed), one)
            assert_requests_complete(collect(ranks, rng, other, 3, machine, seed), other)


@points(10, "speed", "mend")
def test_times(ranks, rng):
    case = exchange_call(9, 1250)
    result = exchange(ranks, rng, case, long_wire())
    assert_makespan(result, 3 * (1e-6 + case.nbytes * 1e-8), case, full=1.0, half=2.0)
    case = collect_call(4, 5, 100)
    result = collect(ranks, rng, case, 5, rendezvous())
    assert_makespan(result, 3 * 5 * (ALPHA_S + 800 * BETA), case)


# -- where -----------------------------------------------------------------------------------------


def located(ranks, p, ranks_per_node, visible, rows, **options):
    """Call ``where`` and compare the table; ``rows`` are (host, local rank, GPU)."""
    machine = QUIET.with_(ranks_per_node=ranks_per_node)
    case = where_call(p, visible).on(machine)
    size = options.pop("world_size", p)
    result = ranks.call(case.target, size, [(visible,)] * p, machine=machine, **options)
    assert_ran(result, case)
    none_elsewhere(result, case)
    rows = [(rank, *row) for rank, row in enumerate(rows)]
    found = result.values[0]
    alike = isinstance(found, list | tuple) and all(isinstance(r, list | tuple) for r in found)
    if not alike or [tuple(row) for row in found] != rows:
        raise case.fail(f"rank 0 returned {found!r}; it must be {rows}.")
    return case, result


@points(25, "values", "where")
def test_hosts_and_local_ranks_in_order(ranks):
    nodes = ("node0", "node0", "node1", "node1", "node2")
    located(ranks, 5, 2, None, [(n, k % 2, None) for k, n in enumerate(nodes)])
    located(ranks, 1, 2, None, [("node0", 0, None)])


@points(15, "values", "where")
def test_ranks_of_a_host_need_not_be_neighbours(ranks):
    rows = [("node1", 0, "0"), ("node0", 0, "0"), ("node1", 1, "1"), ("node0", 1, "1")]
    located(ranks, 4, 2, "0,1", rows, world_size=5, members=[3, 0, 2, 1])


@points(10, "values", "where")
def test_rank_0_alone_prints(ranks):
    rows = [("node0", 0, "7"), ("node0", 1, "8"), ("node1", 0, "7")]
    case, result = located(ranks, 3, 2, "7,8", rows)
    first, *others = result.output
    wanted = [line(rank, *row) for rank, row in enumerate(rows)]
    printed = [text.rstrip() for text in first.splitlines()]
    if [text for text in printed if text in wanted] != wanted:
        raise case.fail(f"rank 0 printed {printed}; the lines {wanted} were due.")
    if any(text.strip() for text in others):
        raise case.fail("a rank other than 0 printed something.")


@points(15, "values", "where")
def test_gpus(ranks):
    located(ranks, 3, 3, "2,GPU-8f", [("node0", k, g) for k, g in enumerate(("2", "GPU-8f", "2"))])
    located(ranks, 2, 1, "", [("node0", 0, None), ("node1", 0, None)])


@points(15, "communication", "where")
def test_few_calls_and_bytes(ranks):
    rows = [(f"node{k // 2}", k % 2, None) for k in range(4)]
    case, result = located(ranks, 4, 2, None, rows)
    count = len(result.collectives) + -(-len(result.comm_calls) // 4)
    if count > 4 or max(result.sent_messages()[1:]) > 4:
        raise case.fail("at most four collectives, and four messages of each rank, are allowed.")
    given = sum(used.nbytes / len(used.members) for used in result.collectives)
    if max(result.sent_bytes()[1:]) + given > 1000:
        raise case.fail("a rank gave more than 1000 bytes.")


@points(15, "safety", "where")
def test_places_come_in_any_order(ranks):
    rows = [(f"node{k // 2}", k % 2, "0") for k in range(4)]
    machine = QUIET.with_(ranks_per_node=2)
    for seed in LATENCY_SEEDS:
        case, result = located(ranks, 4, 2, "0", rows, seed=seed)
        assert_requests_complete(result, case)
    result = ranks.call("callers:in_a_row", 4, [("where:where", "0")] * 4, machine=machine)
    assert_ran(result, case)
    if [list(row) for row in result.values[0]] != [[k, *row] for k, row in enumerate(rows)]:
        raise case.fail(f"{IN_A_ROW} rank 0 returned {result.values[0]!r}.")


# -- real ranks ------------------------------------------------------------------------------------

REAL = {
    "ping": "assert (comm.rank == 0) == (ping(comm, 100, 5) is not None)",
    "mend": "assert exchange(comm, np.full(9, float(comm.rank)))[0] == (comm.rank - 1) % comm.size",
    "where": "table = where(comm, None); assert comm.rank or len(table) == comm.size",
}
BEFORE = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
comm = watched(MPI.COMM_WORLD, 20.0)
"""
TRIED = {
    "ping": lambda ranks, rng: ping(ranks, ping_call(3, 100, 5), 5),
    "mend": lambda ranks, rng: exchange(ranks, rng, exchange_call(3, 9)),
    "where": lambda ranks, rng: located(ranks, 3, 3, None, [("node0", k, None) for k in range(3)]),
}


@pytest.mark.parametrize(
    "module", [pytest.param(m, marks=points(5, "reality", m), id=m) for m in REAL]
)
def test_real_mpi(ranks, rng, mpiexec, module):
    # What fails on simulated ranks isn't tried on real ones, where a hang takes its whole time.
    TRIED[module](ranks, rng)
    program = f"{BEFORE}from {module} import *\n{REAL[module]}"
    words = [mpiexec, "-n", "3", sys.executable, "-c", program]
    assert_real_run(words, Path(__file__).parent, f"{module} under mpiexec")
