"""What a test asserts about a run, in sentences that a student can act on.

A check that fails raises ``Verdict``: an author's sentence with both values, to which the test adds
the line that makes it again::

    all_reduce on 5 ranks, n = 11, float64: rank 3 sent 880 bytes; at most 192 are allowed.
      ringside check ring --test bytes --case "p=5 n=11"
"""

from __future__ import annotations

import dataclasses
import functools
import math
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ringside.arrays import Array
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.errors import DeadlineError, DeadlockError, RankError
from ringside.network.wire import FIRST_INTERNAL_TAG
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import UNDESCRIBED, CallSite, Kind, Op
from ringside.units import format_count

if TYPE_CHECKING:
    from ringside.session.session import Result

EAGER_BYTES = 65536
LATENCY_SEEDS = (1, 2, 3)
IN_A_PART = "right on COMM_WORLD, wrong on a communicator of its ranks {members}. There:"
IN_A_GROUP = "right on the whole world, wrong on a group of its ranks {members}. There:"


class Verdict(AssertionError):
    """A check that failed, or that gives part of the points.

    Attributes:
        reproduce: the line that makes it again; who runs the test knows it.
        run: what the test looked at, where that is one run.
        case: what it is about, where that isn't the case of the table, but one made of it.
        on_real_ranks: whether it is about real ranks, which no earlier test has called.
    """

    def __init__(
        self, sentence: str, *, fraction: float = 0.0, detail: str = "", on_real_ranks: bool = False
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.fraction = fraction
        self.detail = detail
        self.on_real_ranks = on_real_ranks
        self.reproduce = ""
        self.run: object = None
        self.case: object = None

    def __str__(self) -> str:
        more = (*self.detail.splitlines(), self.reproduce)
        return "\n".join([self.sentence, *(f"  {line}" for line in more if line)])


class About(Protocol):
    """What a sentence is about: a ``ringside.checking.cases.Case``."""

    @property
    def p(self) -> int: ...

    def fail(self, sentence: str, detail: str = "") -> Verdict: ...


def verify(condition: bool, sentence: str, *, detail: str = "") -> None:
    """Raise a verdict unless the condition holds."""
    if not condition:
        raise Verdict(sentence, detail=detail)


def award(fraction: float, sentence: str) -> None:
    """End the test with a fraction of its points; 1 and more go on."""
    if fraction < 1:
        raise Verdict(sentence, fraction=max(0.0, fraction))


def assert_strangers_idle(
    result: Result, members: Sequence[int], case: About, comm: str = "comm"
) -> None:
    """Ranks of the world outside ``comm`` exchanged no messages and came to no collective."""
    for stranger in sorted(set(range(result.world_size)) - set(members)):
        if result.peers(stranger) or any(stranger in c.members for c in result.collectives):
            raise case.fail(
                f"rank {stranger} of the world isn't in {comm}, and took part in its messages: "
                f"take ranks from {comm}, not from the world."
            )


def total(vectors: Sequence[Array]) -> Array:
    """The serial sum, in the vectors' dtype; floats are added in double precision."""
    exact = vectors[0].dtype if vectors[0].dtype.kind in "ic" else np.dtype("float64")
    summed: Array = np.sum(np.array(vectors, dtype=exact), axis=0, dtype=exact)
    return summed.astype(vectors[0].dtype)


@functools.cache
def buffered() -> Machine:
    """A machine that buffers short messages, as real MPI libraries do."""
    return Machine.load("textbook").with_(name="buffered", eager_threshold_bytes=EAGER_BYTES)


@functools.cache
def rendezvous() -> Machine:
    """A machine on which every send waits for its receive."""
    return Machine.load("textbook").with_(name="rendezvous", eager_threshold_bytes=0)


def long_wire() -> Machine:
    """A machine for long vectors: 10,000 bytes take 100 alpha."""
    return Machine("long wire", alpha_s=1e-6, beta_s_per_byte=1e-8)


def short_wire() -> Machine:
    """A machine for short vectors: 10,000 bytes take a tenth of alpha."""
    return Machine("short wire", alpha_s=1e-3, beta_s_per_byte=1e-8)


def one_line(text: str, limit: int = 160) -> str:
    """Text from student code, made safe to stand in a sentence: one line, printable, short."""
    return cut(" ".join("".join(c if c.isprintable() else " " for c in str(text)).split()), limit)


def cut(text: str, limit: int) -> str:
    """A text of at most so many characters, its end cut off behind a whole word.

    >>> cut("rank 1 received nothing", 20)
    'rank 1 received ...'
    """
    if len(text) <= limit:
        return text
    head = text[: limit - 3]
    at = max(head.rfind(" "), head.rfind("\n"))
    return f"{head[:at]} ..." if at > limit // 2 else f"{head}..."


def _shown(line: str) -> str:
    """A line of a report with its columns kept, and nothing in it that a terminal would obey."""
    return cut("".join(c if c.isprintable() else " " for c in line), 400)


def notes(result: Result) -> list[str]:
    """What the network noticed of a run's messages, to stand beside a verdict on its values."""
    noticed: Mapping[str, str] = getattr(result, "notes", {})  # real ranks have none
    return [one_line(note, 400) for note in noticed.values()]


def noted(detail: str, results: Iterable[Result]) -> str:
    """A verdict's detail on values, with what the network noticed of the runs it is about."""
    remarks = dict.fromkeys(note for result in results for note in notes(result))
    new = [note for note in remarks if note not in detail]
    return "\n".join(filter(None, [detail, *new[:2]]))


def assert_ran(result: Result, case: About) -> None:
    """The run ended on all ranks, without an exception, a deadlock or a broken limit."""
    error = result.error
    if error is None:
        return
    lines = [*str(error).splitlines()[:24], *notes(result)]
    detail = "\n".join(_shown(line) for line in lines)
    if isinstance(error, RankError):
        where = f" at {error.where}" if error.frames else ""
        what = f"rank {error.rank} raised {one_line(error.type_name, 60)}{where}"
        message = f": {one_line(error.message)}" if error.message else "."
        raise case.fail(f"{one_line(what)}{message}", detail)
    if isinstance(error, DeadlockError):
        raise case.fail(one_line(error.headline), detail)
    if isinstance(error, DeadlineError):
        raise case.fail(f"did not end {error.allowed}.", detail)
    raise case.fail(one_line(str(error)), detail)


def assert_array(
    value: Any,
    expected: Array,
    scale: Array | None,
    case: About,
    what: str,
    parts: Sequence[Array] = (),
) -> None:
    """One array: its type, dtype, shape and elements.

    Args:
        scale: per element, the sum of absolute values that rounding errors grow with.
        what: what the sentence calls it, like ``"rank 3's result"``.
        parts: the ranks' summands, where ``expected`` is their sum.
    """
    if not isinstance(value, np.ndarray):
        raise case.fail(f"{what} is {_kind(value)}; it must be a NumPy array.")
    if value.dtype != expected.dtype:
        raise case.fail(f"{what} has dtype {value.dtype}; it must be {expected.dtype}.")
    if value.shape != expected.shape:
        raise case.fail(f"{what} has shape {value.shape}; it must be {expected.shape}.")
    wrong = differs(value, expected, scale, case.p)
    if wrong.any():
        position = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        at = ", ".join(str(index) for index in position)
        raise case.fail(
            f"{what} is wrong in {int(wrong.sum())} of {value.size} elements: "
            f"{f'element {at}' if at else 'it'} is {value[position]!s}; it must be "
            f"{expected[position]!s}."
            f"{resemblance(value, expected, wrong, case.p, parts, scale)}"
        )


def resemblance(
    value: Array,
    expected: Array,
    wrong: npt.NDArray[np.bool_],
    world_size: int,
    parts: Sequence[Array] = (),
    scale: Array | None = None,
) -> str:
    """A sentence on what all wrong elements are, where another value is expected; empty if nothing.

    Args:
        parts: the ranks' summands, where ``expected`` is their sum.
    """
    if expected.dtype.kind not in "fi":
        return ""
    for what, other in _others(expected, parts, world_size):
        same = ~differs(value, other, scale, world_size) & np.isfinite(other)
        if same[wrong].all() and np.isfinite(expected[wrong]).all():
            return f" {'The' if wrong.sum() == 1 else 'Each'} wrong element is {what}."
    return ""


def _others(
    expected: Array, parts: Sequence[Array], world_size: int
) -> Iterator[tuple[str, Array]]:
    """What is often computed instead of a sum, or of any array, of so many ranks."""
    for rank, part in enumerate(parts):
        yield f"rank {rank}'s own part alone", part
    with np.errstate(all="ignore"):
        for rank, part in enumerate(parts):
            yield f"the sum without rank {rank}'s part", expected - part
            yield f"the sum with rank {rank}'s part twice", expected + part
        yield "twice the right value", 2 * expected
        if world_size > 2:
            yield f"the right value times {world_size}", world_size * expected
        if world_size > 1 and expected.dtype.kind == "f":
            yield f"the right value divided by {world_size}", expected / world_size


def differs(
    value: Array, expected: Array, scale: Array | None, world_size: int
) -> npt.NDArray[np.bool_]:
    """Where a sum of so many terms differs from what it must be, beyond rounding errors."""
    if expected.dtype.kind != "f":
        return np.asarray(value != expected)
    size = np.abs(expected) if scale is None else scale
    # Higham: p terms, in any order, err by at most (p - 1) eps / 2 of the scale. Over 4 times that:
    allowed = 2 * (world_size + 1) * np.finfo(expected.dtype).eps * size.astype("float64")
    with np.errstate(all="ignore"):  # a signaling NaN would warn, and a warning may be an error
        difference = np.abs(value.astype("float64") - expected.astype("float64"))
    within = (difference <= allowed) & np.isfinite(expected)  # a NaN differs from any number
    alike = (value == expected) | (np.isnan(value) & np.isnan(expected))
    wrong: npt.NDArray[np.bool_] = ~(within | alike)
    return wrong


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def magnitude(vectors: Sequence[Array]) -> Array:
    """Per element, the sum of absolute values over all ranks: what rounding errors grow with."""
    summed: Array = np.sum([np.abs(vector).astype("float64") for vector in vectors], axis=0)
    return summed


def assert_inputs_kept(result: Result, case: About) -> None:
    """No rank changed its input."""
    for rank, changed in enumerate(result.inputs_changed):
        if changed:
            raise case.fail(f"rank {rank} changed its input; it must stay as it was.")


def assert_bytes(
    result: Result, allowed: Sequence[int], case: About, members: Sequence[int] | None = None
) -> None:
    """Each rank sent and received at most so many bytes."""
    sent, received = result.sent_bytes(), result.received_bytes()
    for rank, bound in enumerate(allowed):
        world_rank = rank if members is None else members[rank]
        for did, counted in (("sent", sent), ("received", received)):
            if counted[world_rank] > bound:
                raise case.fail(
                    f"rank {rank} {did} {counted[world_rank]} bytes; at most {bound} are allowed."
                )


def assert_moved(
    result: Result, allowed: float, case: About, rule: str = "", *, rank: int | None = None
) -> None:
    """Each rank sent and received at most so many bytes, collectives counted as a ring's.

    Args:
        rule: what is allowed, in words.
        rank: of this one only.
    """
    for did, counted in (("sent", sent_as_ring(result)), ("received", received_as_ring(result))):
        for number, nbytes in enumerate(counted):
            if nbytes > allowed + 1e-6 and rank in (None, number):
                raise case.fail(
                    f"rank {number} {did} {nbytes:.0f} bytes, collectives counted as a ring's; "
                    f"at most {allowed:.0f} are allowed{': ' + rule if rule else ''}."
                )


def assert_pairs(result: Result, allowed: Array, case: About) -> None:
    """Each rank sent each other rank at most so many bytes: ``allowed[source, dest]``."""
    sent = np.asarray(result.bytes_matrix())
    over = np.argwhere(sent > allowed)
    if len(over):
        source, dest = (int(index) for index in over[0])
        raise case.fail(
            f"rank {source} sent {int(sent[source, dest])} bytes to rank {dest}; "
            f"at most {int(allowed[source, dest])} are allowed."
        )


def assert_messages(result: Result, allowed: Sequence[int], case: About) -> None:
    """Each rank sent at most so many messages."""
    for rank, (count, bound) in enumerate(zip(result.sent_messages(), allowed, strict=True)):
        if count > bound:
            sent = format_count(count, "message")
            raise case.fail(f"rank {rank} sent {sent}; at most {bound} {_are(bound)} allowed.")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def assert_peers(result: Result, allowed: Sequence[set[int]], case: About, rule: str) -> None:
    """Each rank exchanged messages with some ranks only."""
    for rank, peers in enumerate(allowed):
        strangers = sorted(set(result.peers(rank)) - peers)
        if strangers:
            raise case.fail(f"rank {rank} exchanged messages with rank {strangers[0]}; {rule}.")


def assert_own_messages(result: Result, case: About) -> None:
    """No library collective, no message to oneself; communicators within the docstrings' bound."""
    used = result.collectives[0].name if result.collectives else _not_point_to_point(result)
    if used:
        raise case.fail(f"the library's {used} was called; only point-to-point calls are allowed.")
    allowed = case.p * (4 + 2 * math.ceil(math.log2(case.p)))
    count = len(result.comm_calls)
    if count > allowed:
        raise case.fail(
            f"the ranks made {count} communicators; at most {allowed} {_are(allowed)} allowed in "
            "one call."
        )
    for rank in range(result.world_size):
        if rank in result.peers(rank):
            raise case.fail(f"rank {rank} sent a message to itself; none is allowed.")


def _not_point_to_point(result: Result) -> str:
    """The name of a call that the network carries as messages: one-sided, or among neighbours."""
    for ops in result.trace.ops:
        for op in ops:
            among_neighbours = op.kind == Kind.ISEND and op.tag >= FIRST_INTERNAL_TAG
            if among_neighbours or op.kind == Kind.ACCESS:
                site = result.trace.site_of(op)
                name = site.call.partition("(")[0] if site is not UNDESCRIBED else ""
                otherwise = "collective among neighbours" if among_neighbours else "window"
                return one_line(name, 60) or otherwise
    return ""


def assert_requests_complete(
    result: Result, case: About, kinds: Sequence[int] = (Kind.ISEND, Kind.IRECV)
) -> None:
    """Every send and receive that a rank started was waited for, or tested until it was done.

    And no two of them had one buffer at once, where MPI leaves open what it holds.

    Args:
        kinds: other operations than sends and receives, such as ``Kind.COLLECTIVE``.
    """
    if "shared" in result.notes:
        raise case.fail(one_line(result.notes["shared"], 400))
    left_open = open_request(result, kinds)
    if left_open:
        raise case.fail(left_open)


def open_request(result: Result, kinds: Sequence[int] = (Kind.ISEND, Kind.IRECV)) -> str:
    """A sentence on an operation that nobody waited for; empty if there is none.

    A test of sends that wait fails by it as by a deadlock, so it says that there was none.
    """
    for rank, ops in enumerate(result.trace.ops):
        for site in _left_open(result, ops, kinds):
            call = _called(site)
            return f"no rank hangs, but rank {rank} returned before {call} was complete: {_WAIT}"
    return ""


def open_requests(
    result: Result, kinds: Sequence[int] = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
) -> list[str]:
    """Sentences on all operations that nobody waited for: one for ranks that left the same."""
    ranks_of: dict[str, list[int]] = {}
    for rank, ops in enumerate(result.trace.ops):
        sites = list(_left_open(result, ops, kinds))
        if len(sites) == 1:
            ranks_of.setdefault(f"{_called(sites[0])} was", []).append(rank)
        elif sites:
            calls = Counter(_called(site._replace(call=site.call.split("(")[0])) for site in sites)
            times = {call: f"{call} ({n} times)" if n > 1 else call for call, n in calls.items()}
            what = ", ".join(list(times.values())[:6]) + (", ..." if len(times) > 6 else "")
            ranks_of.setdefault(f"{len(sites)} requests ({what}) were", []).append(rank)
    return [
        f"{_some(ranks)} returned before {what} complete: {_WAIT}"
        for what, ranks in ranks_of.items()
    ]


_WAIT = "wait for everything that was started, or test until it is done."


def _left_open(result: Result, ops: Sequence[Op], kinds: Sequence[int]) -> Iterator[CallSite]:
    """The calls of a rank that started what it didn't wait for."""
    done = {request for op in ops if op.kind == Kind.WAIT for request in op.detail}
    return (result.trace.site_of(op) for op in ops if op.kind in kinds and op.request not in done)


def _called(site: CallSite) -> str:
    return one_line(site.call, 60) + (f" at {one_line(site.where, 60)}" if site.where else "")


def _some(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"ranks {', '.join(map(str, ranks[:8]))}{more}"


def assert_makespan(
    result: Result,
    bound_s: float,
    case: About,
    *,
    full: float = 1.05,
    half: float = 1.5,
    beside: str = "",
) -> None:
    """The virtual time is at most ``full`` times the bound; half the points up to ``half``.

    Making communicators counts as no time.
    """
    taken_s = message_time_s(result)
    verify(taken_s > 0, f"{case}: no time passed, so nothing was sent.")
    ratio = taken_s / bound_s
    award(
        1.0 if ratio <= full + 1e-9 else 0.5 if ratio <= half + 1e-9 else 0.0,
        f"{case} on machine {result.machine.name!r}: took {microseconds(taken_s)}, "
        f"{ratio_above(ratio, full)} times {microseconds(bound_s)}; at most "
        f"{'that' if full == 1 else f'{full:g} times that'} is asked for"
        f"{' (half the points)' if full < ratio <= half else ''}.{beside}",
    )


def ratio_above(ratio: float, most: float) -> str:
    """A ratio with as many digits as tell it from a bound that it exceeds.

    >>> ratio_above(1.31, 1.05), ratio_above(1.0532, 1.05)
    ('1.31', '1.053')
    """
    texts = (f"{ratio:.{digits}f}" for digits in range(2, 9))
    return next((text for text in texts if float(text) > most), f"{ratio:.2f}")


def message_time_s(result: Result) -> float:
    """The makespan without the collectives that make communicators."""
    # The library's own collectives would be left out as well: where there are any, all count.
    if not result.comm_calls or result.collectives:
        return result.makespan_s
    ops = [_without_collectives(rank_ops) for rank_ops in result.trace.ops]
    rest = dataclasses.replace(result.trace, ops=ops)
    return replay(rest, result.machine, latency_seed=result.seed).makespan_s


def _without_collectives(ops: Sequence[Op]) -> list[Op]:
    """A rank's operations but for its collectives.

    One ``Waitall`` may wait for an ``Idup`` and for messages: of it the messages remain.
    """
    left_out = {op.request for op in ops if op.kind == Kind.COLLECTIVE}
    rest = []
    for op in ops:
        if op.kind != Kind.WAIT:
            rest += [op] if op.request not in left_out else []
        elif remaining := tuple(number for number in op.detail if number not in left_out):
            rest.append(op._replace(detail=remaining))
    return rest


def microseconds(time_s: float) -> str:
    """A time for a sentence: ``1234.5 µs``."""
    return f"{time_s * 1e6:.1f} µs"


def assert_real_run(words: Sequence[str], folder: Path, what: str, timeout_s: float = 60.0) -> None:
    """Run a program that starts real ranks, such as ``mpiexec``; it must end with status 0.

    Args:
        folder: where it is started.
        what: how the sentence begins, such as ``"ring:all_reduce under mpiexec"``.

    Raises:
        Verdict: the first error that it told, and after a deadline where each rank was.
        subprocess.TimeoutExpired: it was still running after ``timeout_s``.
    """
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode == 0:
        return
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    errors = (line for line in lines if "Error" in line or "Exception" in line)
    message = one_line(next(errors, f"it ended with status {done.returncode}."))
    rank_lines = [_shown(line) for line in lines if line.startswith("  rank ")]
    raise Verdict(f"{what}: {message}", detail="\n".join(rank_lines))
