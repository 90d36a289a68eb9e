"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

ringside run ping.py:ping --ranks 2 -- --nbytes 1000 --repetitions 10
ringside run broken.py:collect --ranks 4 -- --rows 3 --n 5
ringside run where.py:where --ranks 8 --machine zaratan -- --visible 0,1,2,3
"""

import os
import re

import numpy as np
from where_table import line

from ringside.checking import assert_array, award, one_line
from ringside.checking.inputs import vectors
from ringside.trace import Kind
from ringside.units import format_count

CALLERS = ("late", "busy", "again", "in_a_row")  # functions of callers.py
OPTIONS = {
    "nbytes", "repetitions", "partner", "lengths", "equal", "rows", "visible", "target", "who",
    "seconds", "other",
}  # fmt: skip
NEAR = 0.01  # of a measured time: a poll takes a little


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None for functions that aren't known here."""
    others = options.others
    if function in CALLERS:
        target = str(others.get("target", "ping:ping"))
        own = arguments(target.partition(":")[2], world_size, rank, options)
        own = own or (vectors(world_size, options)[rank],)
        if function in ("again", "in_a_row"):
            return target, *own
        first = others.get("who", 1) if function == "late" else others.get("seconds", 1e-6)
        second = others.get("seconds", 1e-3) if function == "late" else others.get("other", 15_000)
        return target, first, second, *own
    trips = [int(others.get("repetitions", 100))]
    if "partner" in others:
        trips.append(int(others["partner"]))
    if function == "ping":
        return (int(others.get("nbytes", 8)), *trips)
    if function == "bounce":
        return (vectors(world_size, options)[rank], *trips)
    if function == "mean_and_deviation":
        return (_elements(world_size, options)[rank],)
    if function == "collect":
        return (_rows(world_size, options)[rank],)
    if function == "where":
        return (_visible(rank, others),)
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where it gets None."""
    if function == "bounce" and rank == 0 and world_size > 1:
        return vectors(world_size, options)[0]
    if function == "exchange":
        return vectors(world_size, options)[(rank - 1) % world_size]
    if function == "mean_and_deviation":
        every = np.concatenate(_elements(world_size, options))
        return float(every.mean()), float(every.std())
    if function == "collect" and rank == 0:
        return np.array(_rows(world_size, options)) ** 2
    return None


def _elements(world_size, options):
    """The ranks' elements: ``--lengths [3,0,2] --equal 0.5``, else three times their rank."""
    lengths = options.others.get("lengths", [3 * rank + 1 for rank in range(world_size)])
    if "equal" in options.others:
        return [np.full(n, float(options.others["equal"])) for n in lengths]
    return elements(lengths, options.drawn[0] if options.drawn else options.seed)


def elements(lengths, seed):
    """So many elements on each rank, with means and deviations of their own."""
    rng = np.random.default_rng(seed)
    return [rng.normal(5 + rank, 1 + rank, size=n) for rank, n in enumerate(lengths)]


def _rows(world_size, options):
    rows, seed = int(options.others.get("rows", 3)), options.seed
    return table(world_size, rows, options.n, options.drawn[0] if options.drawn else seed)


def table(world_size, rows, width, seed):
    """Rows of every rank."""
    return np.random.default_rng(seed).standard_normal((world_size, rows, width)) * 3


def _visible(rank, others):
    """``--visible 0,1``, or a list with each rank's: ``--visible "['0,1', None]"``."""
    if "visible" not in others:
        return os.environ.get("CUDA_VISIBLE_DEVICES")
    given = others["visible"]
    if isinstance(given, list):
        return given[rank]
    # 0,1 has been read as a pair of numbers.
    return ",".join(map(str, given)) if isinstance(given, tuple) else str(given)


# -- what came back --------------------------------------------------------------------------------


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not as it must be."""
    name, p = case.function, case.world_size
    if function not in (*CALLERS, name):
        return False
    if name in ("ping", "bounce", "collect", "where"):
        assert_none_elsewhere([None] * rank + [value], case, 0 if p > 1 or name[0] in "cw" else -1)
    if name in ("bounce", "exchange", "collect"):
        right = expected(name, p, rank, options)
        before = {"again": LATER, "in_a_row": IN_A_ROW}.get(function, "")
        if right is not None:
            assert_array(value, right, None, case, f"{before}rank {rank}'s result")
        return True
    if name == "mean_and_deviation":
        rights = dict(zip(("mean", "deviation"), expected(name, p, rank, options), strict=True))
        assert_mean(value, rank, rights, case, 1e-5 if "equal" in options.others else 1e-9)
        return True
    return name in ("ping", "where")


LATER = "called twice (callers.again), the first result is wrong after the second call: "


IN_A_ROW = (
    "called twice in a row (callers.in_a_row), so that a rank is in its second call while another "
    "one comes late to the first: "
)


def number(value):
    """A number, NumPy's too, which travel as arrays of no dimension; None for anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf":
        value = value.item()
    return value if type(value) in (int, float) else None


def assert_none_elsewhere(values, case, but=0):
    """All ranks but one return None."""
    for rank, value in enumerate(values):
        if rank != but and value is not None:
            shown = one_line(repr(value), 60)
            who = f"ranks other than {but} return" if but >= 0 else "with one rank it returns"
            raise case.fail(f"rank {rank} returned {shown}; {who} None.")


def assert_mean(value, rank, rights, case, within):
    """A rank's pair."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        shown = one_line(repr(value), 60)
        raise case.fail(f"rank {rank} returned {shown}; it must be (mean, deviation).")
    for (name, right), given in zip(rights.items(), value, strict=True):
        found = number(given)
        if found is None:
            shown = one_line(repr(given), 60)
            raise case.fail(f"rank {rank}'s {name} is {shown}; it must be a number.")
        if not abs(found - right) <= within * max(1.0, abs(right)):
            raise case.fail(f"rank {rank}'s {name} is {found}; it must be {right}.")


def trip_s(machine, nbytes, here=0, there=1):
    """A message's time between two world ranks."""
    link = machine.link(here, there)
    return link.alpha_s + nbytes * link.beta_s_per_byte


def assert_trip(result, case, nbytes, repetitions, partner):
    """Rank 0 returned the time of a message."""
    members = result.members
    right_s = trip_s(result.machine, nbytes, members[0], members[partner])
    if result.seed is not None:
        right_s = result.makespan_s / (2 * (repetitions + 1))
    check = f"trip={nbytes}:{repetitions}:{partner}"
    assert_time(result.values[0], right_s, case.seen_in(result).asking(check))


def assert_time(value, right_s, case):
    """Rank 0 returned this time."""
    found = number(value)
    if found is None:
        shown = one_line(repr(value), 60)
        raise case.fail(f"rank 0 returned {shown}; it must be a number of seconds.")
    if not abs(found - right_s) <= NEAR * right_s + 1e-12:
        double = abs(found - 2 * right_s) <= 2 * NEAR * right_s
        more = " It is the time of a whole round trip." if double else ""
        raise case.fail(
            f"rank 0 returned {found:.6g} s; half of the mean round trip, the first one left out, "
            f"is {right_s:.6g} s.{more}"
        )


def assert_printed(result, case, rows):
    """Rank 0 printed the lines of this table, of where the members of ``comm`` are."""
    case = case.seen_in(result).asking("printed")
    told = [text for text in result.output[result.members[0]].splitlines() if text.strip()]
    told = [text for text in told if re.match(r"rank \d+:", text)]
    for row, text in zip(rows, told, strict=False):
        if text.rstrip() != line(*row):
            shown = one_line(text, 100)
            raise case.fail(f"rank 0 printed {shown!r} where {line(*row)!r} was due.")
    if len(told) != len(rows):
        lines, due = format_count(len(told), "line"), format_count(len(rows), "rank")
        raise case.fail(f"rank 0 printed {lines} like {line(*rows[0])!r} for {due}.")


def assert_rows(value, rows, case):
    """Rank 0 returned this table."""
    if not isinstance(value, list | tuple) or len(value) != len(rows):
        shown = one_line(repr(value), 80)
        raise case.fail(f"rank 0 returned {shown}; it must be a list of {len(rows)} tuples.")
    for rank, (found, row) in enumerate(zip(value, rows, strict=True)):
        alike = isinstance(found, tuple | list) and len(found) == 4
        plain = tuple(_plain(each) for each in found) if alike else ()
        if plain != row:
            shown = one_line(repr(found), 100)
            raise case.fail(f"rank {rank}'s place is {shown}; it must be {row}.")


def _plain(value):
    found = number(value)
    return value if found is None else found


def assert_busy_trip(result, case, nbytes, repetitions):
    """Rank 0 returned the mean, of trips of which one takes longer (``callers.busy``)."""
    right_s = (result.makespan_s / 2 - trip_s(result.machine, nbytes)) / repetitions
    case = case.seen_in(result).asking(f"busy_trip={nbytes}:{repetitions}")
    assert_time(result.values[0], right_s, case)


# -- what the network saw --------------------------------------------------------------------------


def assert_only_messages(result, case):
    """Point-to-point calls only: no collective, no communicator made."""
    case = case.seen_in(result).asking("only_messages")
    if result.collectives:
        used = result.collectives[0].name
        raise case.fail(f"the library's {used} was called; only point-to-point calls are allowed.")
    if result.comm_calls:
        raise case.fail("a communicator was made; only point-to-point calls on comm are allowed.")


def assert_at_most(result, case, limit_s):
    """The virtual time; half of the points up to twice as much."""
    ratio = result.makespan_s / limit_s
    line = case.on(result.machine, named=True).asking(f"at_most={limit_s:.9g}").reproduce
    award(
        1.0 if ratio <= 1 + 1e-9 else 0.5 if ratio <= 2 + 1e-9 else 0.0,
        f"{case} on machine {result.machine.name!r}: took {result.makespan_s * 1e6:.1f} µs; "
        f"at most {limit_s * 1e6:.1f} µs are asked for.",
        reproduce=line,
    )


def assert_count(result, case, source, dest, right):
    """So many messages from one rank to another, neither more nor fewer."""
    found = result.messages_matrix()[source, dest]
    if found != right:
        case = case.seen_in(result).asking(f"count={source}:{dest}:{right}")
        sent = format_count(found, "message")
        are = "is" if right == 1 else "are"
        raise case.fail(f"rank {source} sent rank {dest} {sent}; {right} {are} asked for.")


def assert_exchange(result, case, nbytes):
    """Messages between ranks 0 and 1, each way, carry at least so many bytes."""
    for source, dest in ((0, 1), (1, 0)):
        sent = int(result.bytes_matrix()[source, dest])
        if sent < nbytes:
            case = case.seen_in(result).asking(f"exchange={nbytes}")
            raise case.fail(
                f"rank {source} sent rank {dest} {sent} bytes in messages; what is "
                f"bounced goes to rank 1 and back in messages of {nbytes} bytes."
            )


def assert_in_messages(result, case, first):
    """Each rank from ``first`` on sends what it has in messages of its own."""
    for rank, sent in enumerate(result.sent_bytes()):
        if rank >= first and sent == 0:
            case = case.seen_in(result).asking(f"in_messages={first}")
            raise case.fail(
                f"rank {rank} sent nothing in messages of its own; what it has travels in messages "
                "from point to point, and not in a collective."
            )


def assert_exact_bytes(result, case, rank, right):
    """A rank sent so many bytes, neither more nor fewer."""
    found = result.sent_bytes()[rank]
    if found != right:
        case = case.seen_in(result).asking(f"exact_bytes={rank}:{right}")
        raise case.fail(f"rank {rank} sent {found} bytes; {right} are asked for.")


BUSY = {int(kind) for kind in (Kind.ISEND, Kind.IRECV, Kind.WAIT, Kind.COLLECTIVE)}


def assert_left_alone(result, case, rank, partner):
    """A rank has no part in the exchange of two others."""
    if any(int(op.kind) in BUSY for op in result.trace.ops[rank]):
        case = case.seen_in(result).asking(f"left_alone={rank}:{partner}")
        raise case.fail(f"rank {rank} takes part; only ranks 0 and {partner} do.")


def assert_one_after_the_other(result, case, trips, nbytes):
    """No message is under way together with another."""
    least_s = 2 * trips * trip_s(result.machine, nbytes)
    if result.makespan_s < least_s * (1 - 1e-9):
        case = case.seen_in(result).asking(f"in_turn={trips}:{nbytes}")
        sent = sum(result.sent_messages()), sum(result.sent_bytes())
        if sent != (2 * trips, 2 * trips * nbytes):
            raise case.fail(
                f"{sent[0]} messages of {sent[1]} bytes were sent; {2 * trips} of "
                f"{2 * trips * nbytes} are asked for."
            )
        raise case.fail(
            f"took {result.makespan_s * 1e6:.2f} µs; {2 * trips} messages one after the other "
            f"take {least_s * 1e6:.2f} µs: some were under way together."
        )


def assert_alone(result, case):
    """With one rank nothing is sent."""
    if result.peers(0):
        case = case.seen_in(result).asking("alone")
        raise case.fail("with one rank there is nobody to talk to, and a message was sent.")


def assert_new(result, case):
    """No result shares memory with an input."""
    if any(result.aliased):
        case = case.seen_in(result).asking("new")
        raise case.fail("a result shares memory with an input; it must be a new array.")


def assert_received(result, case):
    """Every message was received."""
    if result.unreceived:
        case = case.seen_in(result).asking("received")
        raise case.fail(f"a message was never received: {result.unreceived[0]}")


def assert_next_only(result, case):
    """A rank sends to the next one only."""
    for source, dest in np.argwhere(result.messages_matrix()):
        if dest != (source + 1) % case.world_size:
            case = case.seen_in(result).asking("next_only")
            raise case.fail(
                f"rank {source} sent rank {dest} a message; a rank sends to its next rank only."
            )


def assert_to_rank_0(result, case):
    """Messages go to rank 0 only."""
    for source, dest in np.argwhere(result.messages_matrix()):
        if dest != 0 or source == 0:
            case = case.seen_in(result).asking("to_rank_0")
            raise case.fail(
                f"rank {source} sent rank {dest} a message; messages go to rank 0 only."
            )


def assert_few_numbers(result, case, calls, numbers, label_bytes):
    """A few collectives of a few numbers of each rank."""
    case = case.seen_in(result).asking(f"few_numbers={calls}:{numbers}:{label_bytes}")
    if any(result.sent_messages()):
        raise case.fail("a message was sent point to point; only collectives are asked for.")
    if len(result.collectives) > calls:
        raise case.fail(
            f"{len(result.collectives)} collectives were called; at most {calls} are allowed."
        )
    if result.comm_calls:
        raise case.fail("a communicator was made; only collectives on comm are asked for.")
    for used in result.collectives:
        of_one = used.by_members or used.name in ("allreduce", "bcast", "reduce")
        parts = 1 if of_one else len(used.members)
        allowed = (8 * numbers + label_bytes) * parts
        if used.nbytes > allowed:
            whose = "a" if parts == 1 else "each"
            raise case.fail(
                f"{used.name} took {used.nbytes} bytes; {numbers} numbers of {whose} rank, "
                f"with their names, are at most {allowed}."
            )


def assert_rank_0_prints(result, case):
    """Only rank 0 prints."""
    for rank in range(1, case.world_size):
        if result.output[rank].strip():
            case = case.seen_in(result).asking("rank_0_prints")
            raise case.fail(f"rank {rank} printed a line; only rank 0 prints.")


def assert_few_calls(result, case, calls, messages):
    """A rank takes part in few collectives, and sends few messages."""
    case = case.seen_in(result).asking(f"few_calls={calls}:{messages}")
    made = -(-len(result.comm_calls) // case.world_size)
    for rank in range(case.world_size):
        count = made + sum(rank in used.members for used in result.collectives)
        if count > calls:
            raise case.fail(
                f"rank {rank} took part in {count} collectives; at most {calls} are allowed."
            )
    for rank, sent in enumerate(result.sent_messages()):
        if rank and sent > messages:
            raise case.fail(f"rank {rank} sent {sent} messages; at most {messages} are allowed.")


def assert_few_bytes(result, case, nbytes):
    """A rank gives few bytes."""
    for rank, sent in enumerate(result.sent_bytes()):
        shared = [used for used in result.collectives if rank in used.members]
        given = sent + sum(used.nbytes / len(used.members) for used in shared)
        if rank and given > nbytes:
            case = case.seen_in(result).asking(f"few_bytes={nbytes}")
            raise case.fail(f"rank {rank} gave {given:.0f} bytes; at most {nbytes} are allowed.")


def _numbers(check):
    return lambda result, case, value: check(result, case, *map(int, value.split(":")))


def _alone(check):
    return lambda result, case, _: check(result, case)


CHECKS = {
    "trip": _numbers(assert_trip),
    "busy_trip": _numbers(assert_busy_trip),
    "at_most": lambda result, case, value: assert_at_most(result, case, float(value)),
    "only_messages": _alone(assert_only_messages),
    "count": _numbers(assert_count),
    "exchange": _numbers(assert_exchange),
    "in_messages": _numbers(assert_in_messages),
    "exact_bytes": _numbers(assert_exact_bytes),
    "left_alone": _numbers(assert_left_alone),
    "in_turn": _numbers(assert_one_after_the_other),
    "alone": _alone(assert_alone),
    "new": _alone(assert_new),
    "received": _alone(assert_received),
    "next_only": _alone(assert_next_only),
    "to_rank_0": _alone(assert_to_rank_0),
    "few_numbers": _numbers(assert_few_numbers),
    "printed": lambda result, case, _: assert_printed(result, case, result.values[0]),
    "rank_0_prints": _alone(assert_rank_0_prints),
    "few_calls": _numbers(assert_few_calls),
    "few_bytes": _numbers(assert_few_bytes),
}
