"""Windows: memory that its owner lets others read and write, with no call of its own.

access   a Put, a Get or an Accumulate is posted: checked, recorded
land     the engine has come to where its bytes are at the target
served   the target's link has done it, and the origin's request is ready
grant    a lock is asked for or given back

The memory stays in its owner; nothing of it is kept here. An access lands when all ranks are
blocked, in the order of virtual time. So its target's link, which waits for an answer, can be asked
to do it, and neither real arrival nor what the target computes meanwhile decides what it finds.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.errors import Frame as Line
from ringside.errors import LimitError, RankError
from ringside.network import codec
from ringside.network.bounds import MIB, MOST_LOOKED_AT, Ledger
from ringside.network.communicator import Communicator
from ringside.network.matching import Pending
from ringside.network.peers import Peer
from ringside.network.requests import Requests
from ringside.network.wire import ATOMIC, FETCHES, Frame, Op, Reply, ReplyFrame
from ringside.timing.queries import Query
from ringside.trace import CallSite, Kind
from ringside.trace import Op as TraceOp
from ringside.units import format_bytes

_NAME_CHARACTERS = 20  # of an operation or a type
# What is kept of accesses that have landed, to see races: of one that has very many runs the first,
# and after so many bytes of all together none of those before.
_MOST_RUNS, _MOST_KEPT_BYTES, _KEPT_BYTES = 4096, 64 * MIB, 1024


@dataclass(eq=False, slots=True)
class Access:
    """A Put, a Get or an Accumulate on its way, or one of the last that have landed."""

    window: int
    target: int  # world rank
    what: str  # of wire.ATOMIC and wire.FETCHES, or "put"
    runs: Array  # shape (n, 2): the bytes of the window, from and to; of very many the first
    back: int  # bytes that come back; -1: none
    fence: int  # the epoch between two fences that it belongs to; -1: another epoch
    body: bytes
    request: Pending
    site: CallSite
    content: int  # equal for equal bytes
    posted: int = -1
    landed: int = -1

    @property
    def origin(self) -> int:
        """The world rank that has posted it."""
        return self.request.rank

    def is_beside(self, later: Access) -> bool:
        """Whether nothing puts the two into an order."""
        if self.fence >= 0 and self.fence == later.fence:
            return True
        return later.posted < self.landed

    def clashes(self, other: Access) -> bool:
        """Whether the two may not touch the same bytes: it makes a difference which comes first."""
        both = {self.what, other.what}
        if both == {"put"} and self.content == other.content:
            return not np.array_equal(self.runs, other.runs)
        return both != {"get"} and not both <= ATOMIC


class Windows:
    """The accesses and the locks of all windows; a window is a communicator that has sizes."""

    def __init__(self, peers: Sequence[Peer], requests: Requests, ledger: Ledger) -> None:
        self._peers = peers
        self._requests = requests
        self._ledger, self._limits = ledger, ledger.limits
        self._on_the_way: dict[int, Access] = {}  # by the number of its message
        self._landed: dict[tuple[int, int], deque[Access]] = {}  # by window and target
        self._landed_bytes = 0
        self._serving: dict[int, Access] = {}  # by the rank whose link does it now
        self._locks: dict[int, list[Query]] = {}  # by window: those that are held
        self._lock_queues: dict[int, list[Query]] = {}

    @property
    def wait_for_the_clock(self) -> bool:
        """Whether an access has yet to land."""
        return bool(self._on_the_way)

    # -- accesses --------------------------------------------------------------------------------

    def access(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        """A rank posts an access."""
        target = self._target(peer, comm, frame.peer)
        what, runs, data, back = self._checked(peer, frame.body, comm.sizes[frame.peer])
        request = self._requests.open(peer, frame.request)
        number = peer.sent * len(self._peers) + peer.rank
        peer.sent += 1
        peer.ops.append(TraceOp(
            Kind.ACCESS, target, 0, data.nbytes, comm.path, frame.request, number, (back,),
            frame.site,
        ))  # fmt: skip
        body = bytes(frame.body)
        self._ledger.hold(peer.rank, len(body))
        self._on_the_way[number] = Access(
            comm.number, target, what, runs, back, frame.tag, body, request,
            self._requests.site_of(request), zlib.crc32(data.tobytes()),
        )  # fmt: skip

    def _target(self, peer: Peer, comm: Communicator, member: int) -> int:
        if not comm.sizes:
            raise LimitError(peer.rank, "used a window that doesn't exist")
        if not 0 <= member < len(comm.members):
            raise LimitError(
                peer.rank, f"used rank {member} of a window of {len(comm.members)} ranks"
            )
        return comm.members[member]

    def _checked(
        self, peer: Peer, body: codec.Part, window_bytes: int
    ) -> tuple[str, Array, Array, int]:
        """What an access does and where, the data that it carries, and the bytes that come back."""
        what, op, kind, runs, data = codec.decode(body, copy=False)
        names = (what, op, kind)
        if not all(isinstance(name, str) and len(name) <= _NAME_CHARACTERS for name in names):
            raise LimitError(peer.rank, "named an access wrongly")
        if what != "put" and what not in ATOMIC | FETCHES:
            raise LimitError(peer.rank, f"made an access that doesn't exist ({what})")
        is_array = isinstance(runs, np.ndarray) and runs.dtype == np.int64 and runs.ndim == 2
        if not is_array or runs.shape[1] != 2 or not isinstance(data, np.ndarray):
            raise LimitError(peer.rank, "made an access that can't be read")
        starts, ends = runs[:, 0], runs[:, 1]
        if not bool(((starts >= 0) & (ends >= starts) & (ends <= window_bytes)).all()):
            raise LimitError(peer.rank, f"made an access outside a window of {window_bytes} bytes")
        # Runs may lie over one another, so that many of them have more bytes than 64 bits count.
        if float((ends - starts).astype(np.float64).sum()) > self._limits.frame_bytes:
            most = format_bytes(self._limits.frame_bytes)
            raise LimitError(peer.rank, f"made an access of more than {most}")
        num_bytes = int((ends - starts).sum())
        expected = {"get": 0, "compare_and_swap": 2 * num_bytes}.get(what, num_bytes)
        if data.nbytes != expected and not (op == "NO_OP" and not data.nbytes):
            raise LimitError(
                peer.rank, f"gave {data.nbytes} bytes to an access of {num_bytes} bytes"
            )
        return what, runs[:_MOST_RUNS].copy(), data, num_bytes if what in FETCHES else -1

    def land(self, number: int, posted: int, landed: int) -> RankError | None:
        """The bytes of an access are at its target: its owner's link is asked to do it.

        Args:
            posted, landed: in picoseconds.

        Returns:
            Why the run ends here, if it does.
        """
        access = self._on_the_way.pop(number)
        access.posted, access.landed = posted, landed
        owner = self._peers[access.target]
        if owner.failure is not None:  # which is the run's own
            return None
        if owner.body is not None:
            return _failed(
                access,
                "WindowClosed",
                f"rank {owner.rank} has returned while its window was in use. "
                "Let all ranks call Free on the window before they return.",
            )
        self._landed_bytes += _KEPT_BYTES + access.runs.nbytes
        if self._landed_bytes > _MOST_KEPT_BYTES:
            self._landed.clear()
            self._landed_bytes = 0
        last = self._landed.setdefault((access.window, access.target), deque(maxlen=MOST_LOOKED_AT))
        for other in last:
            if other.is_beside(access) and other.origin != access.origin and other.clashes(access):
                shared = _shared_bytes(other.runs, access.runs)
                if shared is not None:
                    return _race(other, access, shared)
        last.append(access)
        self._serving[owner.rank] = access
        self._requests.resume(owner)
        reply = ReplyFrame(Reply.SERVE, (access.body,), len(access.body), access.window)
        self._requests.replies.append((owner, reply))
        return None

    def is_serving(self, peer: Peer) -> bool:
        """Whether the link of a rank does an access now."""
        return peer.rank in self._serving

    def served(self, peer: Peer, frame: Frame) -> None:
        """The link of a target has done an access."""
        access = self._serving.pop(peer.rank, None)
        if access is None or frame.op != Op.SERVED:
            raise LimitError(peer.rank, "spoke to the network out of turn")
        if len(frame.body) != max(access.back, 0):
            raise LimitError(
                peer.rank, f"answered {len(frame.body)} bytes for {max(access.back, 0)}"
            )
        self._requests.stop(peer)
        self._ledger.release(len(access.body))
        access.body = b""
        request = access.request
        if access.back >= 0:
            request.payload = bytes(frame.body)
            self._ledger.hold(access.origin, access.back)
        self._requests.is_ready(request)

    # -- locks -----------------------------------------------------------------------------------

    def ask(self, peer: Peer, comm: Communicator, frame: Frame, *, release: bool) -> None:
        """A rank asks for a lock, or gives it back; of all targets where it names -1."""
        if frame.peer != -1 or not comm.sizes:
            self._target(peer, comm, frame.peer)
        kind = "unlock" if release else "lock"
        self._requests.ask(peer, frame.site, Query(
            peer.rank, len(peer.ops), kind, blocking=True,
            lock=(comm.number, frame.peer, bool(frame.flags)),
        ))  # fmt: skip

    def grant(self, query: Query) -> bool:
        """Whether a rank has the lock now that it asks for; the engine asks in order of time."""
        window, target, _ = query.lock
        held = self._locks.setdefault(window, [])
        if query.kind == "unlock":
            held[:] = [q for q in held if (q.rank, q.lock[1]) != (query.rank, target)]
            return True
        queue = self._lock_queues.setdefault(window, [])
        if query not in queue:
            queue.append(query)
        ahead = queue[: queue.index(query)]
        if any(_excludes(query, other) for other in [*held, *ahead]):
            return False
        queue.remove(query)
        held.append(query)
        return True

    def holders(self, query: Query) -> list[tuple[int, CallSite]]:
        """The ranks whose locks keep one from its own, each with the call that took it."""
        return [
            (other.rank, self._peers[other.rank].site_of(other.op))
            for other in self._locks.get(query.lock[0], [])
            if _excludes(query, other)
        ]


def _excludes(one: Query, other: Query) -> bool:
    (_, target, exclusive), (_, other_target, other_exclusive) = one.lock, other.lock
    meets = target == other_target or -1 in (target, other_target)
    return meets and (exclusive or other_exclusive)


def _shared_bytes(one: Array, other: Array) -> tuple[int, int] | None:
    """The first bytes that lie in runs of both, from and to; None if there are none."""
    one, other = (
        runs[np.argsort(runs[:, 0], kind="stable")]
        for runs in (one[one[:, 0] < one[:, 1]], other[other[:, 0] < other[:, 1]])
    )
    # Runs of one access may lie over one another: the farthest end of all that begin before.
    ends = np.maximum.accumulate(other[:, 1])
    # Of each run of ``one``, the first of ``other`` that ends behind its beginning.
    nearest = np.searchsorted(ends, one[:, 0], side="right")
    inside = nearest < len(other)
    one, nearest = one[inside], nearest[inside]
    low = np.maximum(one[:, 0], other[nearest, 0])
    high = np.minimum(one[:, 1], ends[nearest])
    shared = np.flatnonzero(low < high)
    return (int(low[shared[0]]), int(high[shared[0]])) if len(shared) else None


def _race(earlier: Access, later: Access, shared: tuple[int, int]) -> RankError:
    epoch = "between the same two fences" if later.fence >= 0 else "while it was on its way"
    other = f"rank {earlier.origin}'s {earlier.site.call} at {earlier.site.where}"
    return _failed(
        later,
        "WindowRace",
        f"its {later.site.call} and {other} use the bytes {shared[0]} to {shared[1] - 1} of rank "
        f"{later.target}'s window {epoch}: what they find or leave there depends on which comes "
        "first. Put a Fence between them, give each rank bytes of its own, or use Accumulate.",
    )


def _failed(access: Access, name: str, message: str) -> RankError:
    site: Any = access.site
    lines = (Line(site.file, site.line, site.parts[0], ""),) if site.file else ()
    return RankError(access.origin, name, message, lines)
