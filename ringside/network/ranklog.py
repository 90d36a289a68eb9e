"""What one rank did on fake tensors: the compact, untrusted form in which it leaves the process.

A log knows only its own rank's side. ``ringside.scale.assembly`` puts logs together to a trace, as
the network would have recorded it; ``ringside.scale.symmetry`` turns one rank's log into another's.

    rows     int64, shape (n, 8): kind, peer, tag, nbytes, comm, ref, count, site
    work     float64, shape (k, 5): FLOPs, bytes, operators (-1: declared), moved bytes, seconds
    waits    int64: numbers of requests, which wait rows cut out by (ref, count)
    shared   what collective rows have in common, see ``Collective``
    comms    per communicator: how many of these members it made before, and its members;
             number 0 is the world
    sites    (call, file, line); labels: names of phases

    row          peer   tag     nbytes     comm  ref          count
    compute      -      label   -          -     work row     -
    isend        world  tag     payload    comm  -            -
    irecv        world  tag     expected   comm  -            -
    wait         -      -       -          -     first wait   how many
    collective   -      -       -          comm  shared row   -

Requests are numbered 1, 2, ... in the order of isend, irecv and collective rows, messages and
collectives in the order of posting, so their numbers needn't be written down.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.errors import TraceError
from ringside.network import codec
from ringside.network.gathering import NAMES, TIMED_AS
from ringside.trace import Kind

KIND, PEER, TAG, NBYTES, COMM, REF, COUNT, SITE = range(8)
FLOPS, BYTES, KERNELS, MOVED, SECONDS = range(5)
KINDS = (Kind.COMPUTE, Kind.ISEND, Kind.IRECV, Kind.WAIT, Kind.COLLECTIVE)
MAKES_GROUP = "create_group"
MAX_ROWS, MAX_SHARED, MAX_SITES, MAX_COMMS = 1_000_000, 60_000, 60_000, 4096
_MOST = 1e18
_WORLD_RANK = re.compile(r"\b(src|dst)=(\d{1,9})\b")


@codec.register
@dataclass(frozen=True)
class Collective:
    """One rank's side of a collective.

    Attributes:
        name: as the network calls it.
        shown: as the student's code calls it.
        root: its place in the communicator; 0 where there is none.
        members: of the group that ``create_group`` makes, as world ranks; else empty.
        sizes: bytes of this rank's own part or parts.
        alike: names and values that all members must give alike.
    """

    name: str
    shown: str
    root: int
    members: tuple[int, ...]
    sizes: tuple[int, ...]
    alike: tuple[tuple[str, str], ...]


@codec.register
@dataclass(frozen=True, eq=False)
class RankLog:
    """See the module's docstring."""

    rank: int
    rows: Array
    work: Array
    waits: Array
    shared: tuple[Collective, ...]
    comms: tuple[tuple[int, Array], ...]
    sites: tuple[tuple[str, str, int], ...]
    labels: tuple[str, ...]
    memory: dict[str, Any]


def checked(log: Any, world_size: int) -> RankLog:
    """Return the log if it has the form of one, whoever wrote it.

    Raises:
        TraceError: it has not, or is too large.
    """
    if not isinstance(log, RankLog):
        raise TraceError("a rank's log was expected, and something else came.")
    for good, what in _form(log, world_size):
        if not good():
            raise TraceError(f"the log of rank {log.rank!r} is malformed: {what}.")
    return log


def _form(log: RankLog, world_size: int) -> Any:
    """Checks in an order in which each may rely on those before it."""
    rows = log.rows
    yield lambda: type(log.rank) is int and 0 <= log.rank < world_size, "its rank"
    yield lambda: _is_array(rows, np.int64, (None, 8)) and len(rows) <= MAX_ROWS, "its rows"
    yield lambda: _is_array(log.work, np.float64, (None, 5)), "its work"
    yield lambda: _is_array(log.waits, np.int64, (None,)), "its waits"
    yield lambda: len(log.work) <= MAX_ROWS and len(log.waits) <= 8 * MAX_ROWS, "its size"
    yield lambda: _are(log.comms, MAX_COMMS, lambda c: _is_comm(c, world_size)), "communicators"
    yield lambda: _are(log.shared, MAX_SHARED, lambda c: _is_shared(c, world_size)), "collectives"
    yield lambda: _are(log.sites, MAX_SITES, _is_site), "its sites"
    yield lambda: _are(log.labels, MAX_SHARED, lambda text: _is_text(text, 80)), "its phases"
    yield lambda: isinstance(log.memory, dict), "its memory"
    yield lambda: bool(np.isin(rows[:, KIND], [int(kind) for kind in KINDS]).all()), "kinds"
    yield lambda: _within(rows[:, NBYTES], 0, int(_MOST)), "bytes below 0 or beyond reason"
    yield lambda: _within(rows[:, SITE], -1, len(log.sites)), "sites that don't exist"
    yield lambda: _within(rows[:, COMM], 0, len(log.comms) + 1), "communicators that don't exist"
    yield lambda: _good_work(log), "impossible work"
    yield lambda: _good_messages(log, world_size), "messages to or from strangers"
    of_collectives = rows[rows[:, KIND] == Kind.COLLECTIVE]
    yield lambda: _within(of_collectives[:, REF], 0, len(log.shared)), "unknown collectives"
    yield lambda: _good_waits(log), "waits for what isn't there"


def _is_array(value: Any, dtype: Any, shape: tuple[int | None, ...]) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != len(shape):
        return False
    return all(want in (None, extent) for want, extent in zip(shape, value.shape, strict=True))


def _are(value: Any, most: int, good: Any) -> bool:
    return isinstance(value, tuple) and len(value) <= most and all(good(item) for item in value)


def _is_text(value: Any, length: int) -> bool:
    return isinstance(value, str) and len(value) <= length


def _is_site(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 3
        and _is_text(value[0], 200)
        and _is_text(value[1], 200)
        and type(value[2]) is int
    )


def _is_comm(value: Any, world_size: int) -> bool:
    if not isinstance(value, tuple) or len(value) != 2 or type(value[0]) is not int:
        return False
    members = value[1]
    return (
        _is_array(members, np.int64, (None,))
        and 0 <= value[0] <= MAX_ROWS
        and _within(members, 0, world_size)
        and len(np.unique(members)) == len(members)
    )


def _is_shared(value: Any, world_size: int) -> bool:
    if not isinstance(value, Collective) or value.name not in NAMES:
        return False
    if value.name in TIMED_AS and value.name != MAKES_GROUP:
        return False
    sizes, members, alike = value.sizes, value.members, value.alike
    return (
        _is_text(value.shown, 100)
        and type(value.root) is int
        and 0 <= value.root < world_size
        and _are(members, world_size, lambda m: type(m) is int and 0 <= m < world_size)
        and len(set(members)) == len(members)
        and _are(sizes, world_size, lambda n: type(n) is int and 0 <= n < _MOST)
        and _are(alike, 12, lambda pair: isinstance(pair, tuple) and len(pair) == 2)
        and all(_is_text(what, 100) and _is_text(value, 200) for what, value in alike)
    )


def _within(numbers: Array, low: int, end: int) -> bool:
    return bool(((numbers >= low) & (numbers < end)).all())


def _good_work(log: RankLog) -> bool:
    computing = log.rows[log.rows[:, KIND] == Kind.COMPUTE]
    amounts, kernels = log.work[:, [FLOPS, BYTES, MOVED]], log.work[:, KERNELS]
    seconds = log.work[:, SECONDS]
    return (
        _within(computing[:, REF], 0, len(log.work))
        and _within(computing[:, TAG], 0, len(log.labels))
        and bool(((amounts >= 0) & (amounts < _MOST)).all())
        and bool(((kernels >= -1) & (kernels < 1 << 40) & (kernels == np.floor(kernels))).all())
        and bool(((seconds == -1) | ((seconds >= 0) & (seconds <= 1e6))).all())
    )


def _good_messages(log: RankLog, world_size: int) -> bool:
    rows = log.rows
    moving = rows[np.isin(rows[:, KIND], [int(Kind.ISEND), int(Kind.IRECV)])]
    if not _within(moving[:, PEER], 0, world_size):
        return False
    if not _within(moving[:, TAG], -(1 << 31), 1 << 31):
        return False
    for number, (_, members) in enumerate(log.comms, start=1):
        inside = rows[rows[:, COMM] == number]
        talking = np.isin(inside[:, KIND], [int(Kind.ISEND), int(Kind.IRECV)])
        if len(inside) and log.rank not in members:
            return False
        if not np.isin(inside[talking][:, PEER], members).all():
            return False
    return True


def _good_waits(log: RankLog) -> bool:
    rows = log.rows
    posts = np.isin(rows[:, KIND], [int(Kind.ISEND), int(Kind.IRECV), int(Kind.COLLECTIVE)])
    posted = np.cumsum(posts)
    seen = np.zeros(int(posted[-1]) + 1 if len(posted) else 1, bool)
    for index in np.flatnonzero(rows[:, KIND] == Kind.WAIT):
        first, count = int(rows[index, REF]), int(rows[index, COUNT])
        if not 0 <= first <= first + count <= len(log.waits):
            return False
        numbers = log.waits[first : first + count]
        if not _within(numbers, 1, int(posted[index]) + 1) or seen[numbers].any():
            return False
        seen[numbers] = True
        if len(np.unique(numbers)) < count:
            return False
    return True


def difference(a: RankLog, b: RankLog) -> str | None:
    """What two logs of one rank don't have in common, in words; None if they are the same."""
    for row in range(min(len(a.rows), len(b.rows))):
        if (a.rows[row] != b.rows[row]).any():
            return f"operation {row} is {_shown(a, row)} in one and {_shown(b, row)} in the other"
    if len(a.rows) != len(b.rows):
        return f"one makes {len(a.rows)} operations and the other {len(b.rows)}"
    differs = np.flatnonzero((a.work != b.work).any(axis=1)) if len(a.work) == len(b.work) else [0]
    if len(differs):
        at = int(differs[0])
        return (
            f"computation {at} has {a.work[at, FLOPS]:.6g} FLOPs and {a.work[at, MOVED]:.6g} "
            f"moved bytes in one, {b.work[at, FLOPS]:.6g} and {b.work[at, MOVED]:.6g} in the other"
        )
    for name in ("shared", "sites", "labels"):
        for one, other in zip(getattr(a, name), getattr(b, name), strict=False):
            if one != other:
                return f"{one} in one is {other} in the other"
    same_comms = [(n, list(m)) for n, m in a.comms] == [(n, list(m)) for n, m in b.comms]
    same_waits = np.array_equal(a.waits, b.waits)
    return None if same_comms and same_waits else "their groups or waits differ"


def _shown(log: RankLog, row: int) -> str:
    kind, peer, _, nbytes = (int(n) for n in log.rows[row, :4])
    site = log.sites[int(log.rows[row, SITE])] if log.rows[row, SITE] >= 0 else ("", "", 0)
    if kind == Kind.COLLECTIVE:
        shared = log.shared[int(log.rows[row, REF])]
        return f"{shared.shown} of {sum(shared.sizes)} bytes at {site[1]}:{site[2]}"
    to = f" with rank {peer}, {nbytes} bytes" if kind in (Kind.ISEND, Kind.IRECV) else ""
    return f"{Kind(kind).name.lower()}{to} at {site[1]}:{site[2]}"


def moved_to(log: RankLog, new_ranks: Array) -> RankLog:
    """The log of rank ``new_ranks[log.rank]``, if ``new_ranks[r]`` plays every rank r's part.

    Raises:
        TraceError: a group's members aren't in the order of their ranks.
    """
    rows = log.rows.copy()
    moving = np.isin(rows[:, KIND], [int(Kind.ISEND), int(Kind.IRECV)])
    rows[moving, PEER] = new_ranks[rows[moving, PEER]]
    comms = tuple((count, _moved_members(members, new_ranks)) for count, members in log.comms)
    shared = tuple(
        dataclasses.replace(
            entry,
            members=tuple(int(m) for m in _moved_members(np.array(entry.members, int), new_ranks)),
        )
        if entry.members
        else entry
        for entry in log.shared
    )
    sites = _moved_sites(log, comms, new_ranks)
    return dataclasses.replace(
        log, rank=int(new_ranks[log.rank]), rows=rows, comms=comms, shared=shared, sites=sites
    )


def _moved_sites(
    log: RankLog, comms: tuple[tuple[int, Array], ...], new_ranks: Array
) -> tuple[tuple[str, str, int], ...]:
    """Calls name peers and roots by their world ranks: ``isend(dst=2)``, ``broadcast(src=0)``.

    A root keeps its place in its group; its rank is that of the member there now.
    """
    roots = {}
    for row in np.flatnonzero(log.rows[:, KIND] == Kind.COLLECTIVE):
        comm, ref, site = (int(log.rows[row, column]) for column in (COMM, REF, SITE))
        if site >= 0 and _WORLD_RANK.search(log.sites[site][0]):
            root = log.shared[ref].root
            call = log.sites[site][0].removesuffix(".wait()")
            roots[call] = int(comms[comm - 1][1][root]) if comm else root

    def moved(call: str) -> str:
        base = call.removesuffix(".wait()")

        def renamed(match: re.Match[str]) -> str:
            rank = int(match[2])
            if base not in roots and rank >= len(new_ranks):
                return match[0]
            return f"{match[1]}={roots[base] if base in roots else int(new_ranks[rank])}"

        return _WORLD_RANK.sub(renamed, call)

    return tuple((moved(call), file, line) for call, file, line in log.sites)


def _moved_members(members: Array, new_ranks: Array) -> Array:
    check_ascending(members)
    return np.sort(new_ranks[members])


def check_ascending(members: Array) -> None:
    """Refuse a group that can't be moved.

    Raises:
        TraceError: its members aren't in the order of their ranks.
    """
    if (np.diff(members) < 0).any():
        raise TraceError(
            f"a group's members {members[:8].tolist()} aren't in ascending order; ranks with such "
            "groups can't stand for others."
        )
