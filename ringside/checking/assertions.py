"""What a test asserts about a run, in sentences that a student can act on.

Public tests and hidden suites use the same checks. A check that fails raises ``Verdict``: an
author's sentence with both values, and one line that reproduces it::

    all_reduce on 5 ranks, n = 11, float64: rank 3 sent 880 bytes; at most 192 are allowed.
      ringside run ring.py:all_reduce --ranks 5 -- --n 11
"""

from __future__ import annotations

import dataclasses
import functools
import math
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ringside.arrays import Array
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.errors import DeadlineError, DeadlockError, RankError
from ringside.factors import Factors
from ringside.network.wire import FIRST_INTERNAL_TAG
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import UNDESCRIBED, Kind, Op
from ringside.units import format_count

if TYPE_CHECKING:
    from ringside.session.session import Result

    SomeCase: TypeAlias = Any  # a `Case` of here, or of `ringside.checking.cases`

T = TypeVar("T")

EAGER_BYTES = 65536
LATENCY_SEEDS = (1, 2, 3)
IN_A_PART = "right on COMM_WORLD, wrong on a communicator of its ranks {members}. There:"
IN_A_GROUP = "right on the whole world, wrong on a group of its ranks {members}. There:"


class Verdict(AssertionError):
    """A check that failed, or that gives part of the points."""

    def __init__(
        self, sentence: str, *, reproduce: str = "", fraction: float = 0.0, detail: str = ""
    ) -> None:
        self.sentence = sentence
        self.reproduce = reproduce
        self.fraction = fraction
        self.detail = detail
        self.case: Case | None = None  # what it is about, with all that its line holds
        lines = [sentence, *(f"  {line}" for line in (*detail.splitlines(), reproduce) if line)]
        super().__init__("\n".join(lines))


def verify(condition: bool, sentence: str, *, reproduce: str = "", detail: str = "") -> None:
    """Raise a verdict unless the condition holds."""
    if not condition:
        raise Verdict(sentence, reproduce=reproduce, detail=detail)


def award(fraction: float, sentence: str, *, reproduce: str = "") -> None:
    """End the test with a fraction of its points; 1 and more go on."""
    if fraction < 1:
        raise Verdict(sentence, reproduce=reproduce, fraction=max(0.0, fraction))


@dataclass(frozen=True)
class Case:
    """One call of a student's function on p ranks: its inputs, its name, its command line."""

    target: str
    world_size: int
    n: int
    dtype: str = "float64"
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""  # options of `ringside run` beside the ranks, such as "--seed 1"
    ranks: str = ""  # those that make comm of a part of the world: "--ranks 5 --members 4,2"
    drawn: list[int] = field(default_factory=list, compare=False, repr=False)  # seeds of vectors
    through: str = ""  # a supplied function that calls the target: "callers:strided --stride 2"
    num_drawn: int = 1  # so many of the last seeds are of the call
    said: str = ""  # what sentences call it, where its line runs less
    factors: Factors | None = field(default=None, compare=False, repr=False)  # of its run's passes

    @property
    def function(self) -> str:
        """The function's name, without its module."""
        return self.target.partition(":")[2]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole vector."""
        return self.n * np.dtype(self.dtype).itemsize

    @property
    def shard_nbytes(self) -> int:
        """Bytes of the longest shard: ceil(n / p) elements."""
        return -(-self.n // self.world_size) * np.dtype(self.dtype).itemsize

    @property
    def reproduce(self) -> str:
        """The line that runs this case."""
        called, _, arguments = self.through.partition(" ")
        module, _, function = (called or self.target).partition(":")
        ranks = self.ranks or f"--ranks {self.world_size}"
        command: list[Any] = ["ringside run", f"{module}.py:{function}", ranks]
        command += [self.where] if self.where else []
        command += ["--"]
        command += ["--target", self.target] if called else []
        command += [arguments] if arguments else []
        command += ["--n", self.n]
        command += [] if self.dtype == "float64" else ["--dtype", self.dtype]
        seeds = self.drawn[-self.num_drawn :]
        command += ["--drawn", ",".join(map(str, seeds))] if seeds else []
        for name, value in self.options.items():
            command += [f"--{name.replace('_', '-')}", value]
        return " ".join(str(word) for word in command)

    def __str__(self) -> str:
        if self.said:
            return self.said
        more = "".join(f", {name} = {value}" for name, value in self.options.items())
        ranks = format_count(self.world_size, "rank")
        return f"{self.function} on {ranks}, n = {self.n}, {self.dtype}{more}"

    def vectors(self, rng: np.random.Generator) -> list[Array]:
        """Different data for every rank; whole numbers too large for a float64 if integers.

        They come from a seed that is drawn, which the line that reproduces names.
        """
        self.drawn.append(int(rng.integers(2**31)))
        return self.vectors_of(self.drawn[-1])

    def vectors_of(self, seed: int) -> list[Array]:
        """The vectors that come from a seed."""
        rng = np.random.default_rng(seed)
        shape = (self.world_size, self.n)
        if np.dtype(self.dtype).kind == "i":
            # Twice the sum of all ranks stays within int64.
            limit = 2**62 // max(1, self.world_size)
            drawn: Array = rng.integers(-limit, limit, size=shape, dtype=np.int64)
        else:
            drawn = rng.standard_normal(shape) * (1 + rng.integers(0, 9, size=(self.world_size, 1)))
        return [np.ascontiguousarray(row.astype(self.dtype)) for row in drawn]

    def arguments(self, vectors: Sequence[Array]) -> list[tuple[Any, ...]]:
        """What each rank's call gets after ``comm``."""
        return [(vector, *self.options.values()) for vector in vectors]

    def seen_in(self, result: Result) -> Case:
        """This case with machine, permuted latencies, members and factors of a run."""
        case, machine = self, getattr(result, "machine", None)  # real ranks have none
        if machine is not None and not self.where:
            seed = getattr(result, "seed", None)
            case = self.on(machine, *([] if seed is None else [f"--seed {seed}"]))
        members = tuple(getattr(result, "members", ()))
        if members and not self.ranks and members != tuple(range(result.world_size)):
            case = case.among(members, result.world_size)
        factors = getattr(result, "factors", None)
        if factors is not None and case.factors is None:
            case = dataclasses.replace(case.asking("factors"), factors=factors)
        return case

    def on(self, machine: Machine, *options: str, named: bool = False) -> Case:
        """This case on a machine; the line gives it its name, too, where sentences do."""
        spelled = machine.spelled()
        if named and spelled not in ("textbook", machine.name):
            spelled = f"name={machine.name},{spelled}"
        flags = [] if spelled == "textbook" else [f"--machine {shlex.quote(spelled)}"]
        return dataclasses.replace(self, where=" ".join([*flags, *options]))

    def called_by(self, supplied: str, num_drawn: int = 1) -> Case:
        """This case where a supplied function calls the target, such as ``callers:twice``.

        Args:
            num_drawn: how many vectors are drawn for a rank's call.
        """
        return dataclasses.replace(self, through=supplied, num_drawn=num_drawn)

    def asking(self, *checks: str) -> Case:
        """This case with a check that its line makes, such as ``own`` or ``bytes=3:192``."""
        flags = [f"--check {shlex.quote(check)}" for check in checks]
        return dataclasses.replace(self, where=" ".join([self.where, *flags]).strip())

    def among(self, members: Sequence[int], num_ranks: int) -> Case:
        """This case where ``comm`` is made of some ranks of a larger world, in that order."""
        member_text = ",".join(map(str, members))
        return dataclasses.replace(self, ranks=f"--ranks {num_ranks} --members {member_text}")

    def fail(self, sentence: str, detail: str = "") -> Verdict:
        """A verdict on this case."""
        verdict = Verdict(f"{self}: {sentence}", reproduce=self.reproduce, detail=detail)
        verdict.case = self
        return verdict


@dataclass(frozen=True)
class Call(Case):
    """A call that is not of one vector; ``n`` counts what the assignment says."""

    about: str = ""  # such as "5 rows, widths 4, 6, 4"
    line: str = ""  # what runs it
    place: ClassVar[str] = "rank"  # what a rank is to the reader, such as "stage"

    @property
    def reproduce(self) -> str:
        """The line that runs this call."""
        line = self.line
        if self.ranks:
            line = line.replace(f"--ranks {self.world_size}", self.ranks, 1)
        return line.replace(" -- ", f" {self.where} -- ", 1) if self.where else line

    @property
    def real_line(self) -> str:
        """The line that runs this call on real ranks of this machine."""
        line = self.line.replace("ringside run", "ringside launch", 1)
        real = f"--site local --set ranks_per_node={self.world_size}"
        return line.replace(f"--ranks {self.world_size}", real, 1)

    def __str__(self) -> str:
        ranks = format_count(self.world_size, self.place)
        observed = "" if self.factors is None else ", passes announced"
        return f"{self.function} on {ranks}, {self.about}{observed}"


def members_of_world(
    rng: np.random.Generator, world_size: int, strangers: int = 2
) -> tuple[list[int], int]:
    """World ranks that make up ``comm``, in an order of their own, and the world's size.

    Where there are strangers, rank 0 of the world is one of them.
    """
    first = min(strangers, 1)
    drawn = rng.permutation(world_size + strangers - first)[:world_size] + first
    members = [int(rank) for rank in drawn]
    if members == sorted(members):
        members.reverse()
    return members, world_size + strangers


def contrasted(
    run: Callable[..., T], there: Mapping[str, Any], case: Case, words: str, check: str = ""
) -> T:
    """What ``run(**there)`` gives, or a verdict that it is wrong there where ``run()`` is right.

    What is wrong in both is told as ``run()`` tells it: that is another test's matter.

    Args:
        words: how the sentence begins, before the verdict on ``run(**there)``.
        check: what makes a line look at both.
    """
    try:
        return run(**there)
    except Verdict as verdict:
        if verdict.sentence.startswith("not run"):
            raise
        drawn = list(case.drawn)
        try:
            run()
        except Verdict as here:
            if here.sentence.startswith("not run"):  # what didn't end is not called again
                raise verdict from None
            raise
        case.drawn[:] = drawn  # the line draws the numbers that were wrong there
        seen = case if verdict.case is None else verdict.case  # what its line holds stays there
        case = dataclasses.replace(case, where=seen.where)
        if "members" in there:
            case = case.among(there["members"], there["world_size"])
        case = case.asking(check) if check else case
        raise case.fail(f"{words} {verdict.sentence}", verdict.detail) from None


def on_members(
    run: Callable[..., Result],
    members: Sequence[int],
    world_size: int,
    case: Case,
    words: str = "",
    comm: str = "comm",
) -> Result:
    """``contrasted`` for ``run(members=..., world_size=...)``, where ``comm`` is of these ranks.

    The other ranks of the world stay idle there, and no rank sends more than by ``run()``.

    Args:
        words: as in ``contrasted``, with ``{members}`` in their place.
        comm: what sentences call the communicator; ``"the group"`` is one of torch.
    """
    words = (words or (IN_A_PART if comm == "comm" else IN_A_GROUP)).format(members=list(members))
    there = {"members": members, "world_size": world_size}
    check = "part" if comm == "comm" else f"part={comm}"
    result = contrasted(run, there, case, words, check)
    assert_strangers_idle(result, members, case, comm)
    most, here = (max(sent_as_ring(outcome)) for outcome in (result, run()))
    if most > 1.1 * here + 64:
        raise (
            case.seen_in(result)
            .asking(check)
            .fail(
                f"{words} a rank sent {most:.0f} bytes; where {comm} is the whole world, none "
                f"sent more than {here:.0f}."
            )
        )
    return result


def on_three_members(
    rng: np.random.Generator,
    call: Callable[..., tuple[Any, ...]],
    words: str = "",
    comm: str = "comm",
) -> None:
    """``on_members`` for ``call(...)`` on three ranks, which gives case, result and more."""
    members, world_size = members_of_world(rng, 3)
    here = call()

    def run(**there: Any) -> Result:
        result: Result = (call(**there) if there else here)[1]
        return result

    on_members(run, members, world_size, here[0], words, comm)


def with_waiting_sends(run: Callable[..., T], case: Case) -> T:
    """``contrasted`` for ``run(machine=...)`` where every send waits for its receive."""
    phrase = (
        f"works only while messages stay below {EAGER_BYTES} bytes, "
        "where a send does not wait for its receive. Above:"
    )
    return contrasted(run, {"machine": rendezvous()}, case, phrase, "short")


def assert_strangers_idle(
    result: Result, members: Sequence[int], case: SomeCase, comm: str = "comm"
) -> None:
    """Ranks of the world outside ``comm`` exchanged no messages and came to no collective."""
    case = case.seen_in(result).among(members, result.world_size)
    case = case.asking("part" if comm == "comm" else f"part={comm}")
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


def assert_ran(result: Result, case: SomeCase) -> None:
    """The run ended on all ranks, without an exception, a deadlock or a broken limit."""
    error, case = result.error, case.seen_in(result)
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
    case: SomeCase,
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
    wrong = differs(value, expected, scale, case.world_size)
    if wrong.any():
        position = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        at = ", ".join(str(index) for index in position)
        raise case.fail(
            f"{what} is wrong in {int(wrong.sum())} of {value.size} elements: "
            f"element {at} is {value[position]!s}; it must be {expected[position]!s}."
            f"{resemblance(value, expected, wrong, case.world_size, parts, scale)}"
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


def assert_values(
    result: Result,
    expected: Sequence[Array],
    case: SomeCase,
    *,
    scales: Sequence[Array] | None = None,
    parts: Sequence[Sequence[Array]] | None = None,
) -> None:
    """Every rank returned what it must.

    Args:
        scales: parts of ``magnitude``, one per rank.
        parts: for each rank, what all ranks add to its result, where that is a sum.
    """
    assert_ran(result, case)
    case = case.seen_in(result)
    for rank, (value, truth) in enumerate(zip(result.values, expected, strict=True)):
        scale = None if scales is None else scales[rank]
        summands = () if parts is None else parts[rank]
        assert_array(value, truth, scale, case, f"rank {rank}'s result", summands)


def assert_sum(result: Result, vectors: Sequence[Array], case: SomeCase) -> None:
    """Every rank returned the sum of all ranks' vectors."""
    ranks = case.world_size
    assert_values(
        result,
        [total(vectors)] * ranks,
        case,
        scales=[magnitude(vectors)] * ranks,
        parts=[vectors] * ranks,
    )


def assert_inputs_kept(result: Result, case: SomeCase) -> None:
    """No rank changed its input."""
    case = case.seen_in(result).asking("inputs")
    for rank, changed in enumerate(result.inputs_changed):
        if changed:
            raise case.fail(f"rank {rank} changed its input; it must stay as it was.")


def assert_bytes(
    result: Result, allowed: Sequence[int], case: SomeCase, members: Sequence[int] | None = None
) -> None:
    """Each rank sent and received at most so many bytes."""
    sent, received = result.sent_bytes(), result.received_bytes()
    for rank, bound in enumerate(allowed):
        world_rank = rank if members is None else members[rank]
        for did, counted in (("sent", sent), ("received", received)):
            if counted[world_rank] > bound:
                case, count = case.seen_in(result), counted[world_rank]
                raise case.asking(f"bytes={rank}:{bound}").fail(
                    f"rank {rank} {did} {count} bytes; at most {bound} are allowed."
                )


def assert_moved(
    result: Result, allowed: float, case: SomeCase, rule: str = "", *, rank: int | None = None
) -> None:
    """Each rank sent and received at most so many bytes, collectives counted as a ring's.

    Args:
        rule: what is allowed, in words.
        rank: of this one only.
    """
    for did, counted in (("sent", sent_as_ring(result)), ("received", received_as_ring(result))):
        for number, nbytes in enumerate(counted):
            if nbytes > allowed + 1e-6 and rank in (None, number):
                check = f"moved={number}:{allowed:.0f}" + (f":{rule}" if rule else "")
                raise (
                    case.seen_in(result)
                    .asking(check)
                    .fail(
                        f"rank {number} {did} {nbytes:.0f} bytes, collectives counted as a ring's; "
                        f"at most {allowed:.0f} are allowed{': ' + rule if rule else ''}."
                    )
                )


def assert_pairs(result: Result, allowed: Array, case: SomeCase) -> None:
    """Each rank sent each other rank at most so many bytes: ``allowed[source, dest]``."""
    sent = np.asarray(result.bytes_matrix())
    over = np.argwhere(sent > allowed)
    if len(over):
        source, dest = (int(index) for index in over[0])
        check = f"pair={source}:{dest}:{int(allowed[source, dest])}"
        raise (
            case.seen_in(result)
            .asking(check)
            .fail(
                f"rank {source} sent {int(sent[source, dest])} bytes to rank {dest}; "
                f"at most {int(allowed[source, dest])} are allowed."
            )
        )


def assert_messages(result: Result, allowed: Sequence[int], case: SomeCase) -> None:
    """Each rank sent at most so many messages."""
    for rank, (count, bound) in enumerate(zip(result.sent_messages(), allowed, strict=True)):
        if count > bound:
            sent = format_count(count, "message")
            raise (
                case.seen_in(result)
                .asking(f"messages={rank}:{bound}")
                .fail(f"rank {rank} sent {sent}; at most {bound} {_are(bound)} allowed.")
            )


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def assert_peers(result: Result, allowed: Sequence[set[int]], case: SomeCase, rule: str) -> None:
    """Each rank exchanged messages with some ranks only."""
    for rank, peers in enumerate(allowed):
        strangers = sorted(set(result.peers(rank)) - peers)
        if strangers:
            check = f"peers={rank}:{','.join(map(str, sorted(peers)))}:{rule}"
            case = case.seen_in(result).asking(check)
            raise case.fail(f"rank {rank} exchanged messages with rank {strangers[0]}; {rule}.")


def assert_own_messages(result: Result, case: SomeCase) -> None:
    """No library collective, no message to oneself; communicators within the docstrings' bound."""
    seen = case.seen_in(result).asking("own")
    used = result.collectives[0].name if result.collectives else _among_neighbours(result)
    if used:
        raise seen.fail(f"the library's {used} was called; only point-to-point calls are allowed.")
    allowed = case.world_size * (4 + 2 * math.ceil(math.log2(case.world_size)))
    count = len(result.comm_calls)
    if count > allowed:
        raise seen.fail(
            f"the ranks made {count} communicators; at most {allowed} {_are(allowed)} allowed in "
            "one call."
        )
    for rank in range(result.world_size):
        if rank in result.peers(rank):
            raise seen.fail(f"rank {rank} sent a message to itself; none is allowed.")


def _among_neighbours(result: Result) -> str:
    """The name of a collective among neighbours, which the network carries as messages."""
    for ops in result.trace.ops:
        for op in ops:
            if op.kind == Kind.ISEND and op.tag >= FIRST_INTERNAL_TAG:
                site = result.trace.site_of(op)
                name = site.call.partition("(")[0] if site is not UNDESCRIBED else ""
                return one_line(name, 60) or "collective among neighbours"
    return ""


def assert_requests_complete(
    result: Result, case: SomeCase, kinds: Sequence[int] = (Kind.ISEND, Kind.IRECV)
) -> None:
    """Every send and receive that a rank started was waited for, or tested until it was done.

    Args:
        kinds: other operations than sends and receives, such as ``Kind.COLLECTIVE``.
    """
    left_open = open_request(result, kinds)
    if left_open:
        kind_names = ",".join(Kind(kind).name for kind in kinds)
        raise case.seen_in(result).asking(f"requests={kind_names}").fail(left_open)


def open_request(result: Result, kinds: Sequence[int] = (Kind.ISEND, Kind.IRECV)) -> str:
    """A sentence on an operation that nobody waited for; empty if there is none."""
    for rank, ops in enumerate(result.trace.ops):
        done = {request for op in ops if op.kind == Kind.WAIT for request in op.detail}
        for op in ops:
            if op.kind in kinds and op.request not in done:
                site = result.trace.site_of(op)
                at = f" at {one_line(site.where, 60)}" if site.where else ""
                what = f"{one_line(site.call, 60)}{at}"
                return (
                    f"rank {rank} returned before {what} was complete: "
                    "wait for everything that was started, or test until it is done."
                )
    return ""


def assert_makespan(
    result: Result,
    bound_s: float,
    case: SomeCase,
    *,
    full: float = 1.05,
    half: float = 1.5,
    beside: str = "",
    wide: int | None = None,
) -> None:
    """The virtual time is at most ``full`` times the bound; half the points up to ``half``.

    Making communicators counts as no time.

    Args:
        wide: the run was stretched to so many ranks, by ``ringside.timing.extrapolation``.
    """
    taken_s = message_time_s(result)
    case = case.on(result.machine, named=True).asking(
        f"time={bound_s:.9g},{full:g},{half:g}" + (f",{wide}" if wide else "")
    )
    verify(taken_s > 0, f"{case}: no time passed, so nothing was sent.", reproduce=case.reproduce)
    ratio = taken_s / bound_s
    award(
        1.0 if ratio <= full + 1e-9 else 0.5 if ratio <= half + 1e-9 else 0.0,
        f"{case} on machine {result.machine.name!r}: took {microseconds(taken_s)}, "
        f"{ratio:.2f} times {microseconds(bound_s)}; at most "
        f"{'that' if full == 1 else f'{full:g} times that'} is asked for"
        f"{' (half the points)' if full < ratio <= half else ''}.{beside}",
        reproduce=case.reproduce,
    )


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
