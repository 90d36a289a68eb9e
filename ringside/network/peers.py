"""The network's end of the ranks: frames in, replies out, and what ranks print.

    for peer in wires.ready(timeout_s)    a rank has something to read, or is gone
        for frame in wires.frames(peer)   what it has sent
    wires.reply(peer, frame)              what the network answers

Nothing here believes a rank: lengths are capped before anything is stored, a rank that doesn't read
is written to only as far as a limit, and none of this ever blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ringside.errors import LimitError, RankError
from ringside.network.bounds import Limits
from ringside.network.codec import Part
from ringside.network.matching import Pending
from ringside.network.wire import DOWN, UP, Frame, Reply, ReplyFrame, make_frame
from ringside.timing.queries import Query
from ringside.trace import UNDESCRIBED, CallSite
from ringside.trace import Op as TraceOp
from ringside.units import format_bytes

READ_BYTES = 1 << 18
_BY_FILE_BYTES = 1 << 17  # calls from here on travel as a file
_MAX_PARTS, _JOIN_BYTES = 512, 4096
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_LAST_READS = 32  # of what a rank has printed, when its run is over: it may print on for ever
_LOOK_AT_CLOCK = 32  # frames


@dataclass(eq=False, slots=True)
class Peer:
    """One rank as the network sees it."""

    rank: int
    sock: socket.socket
    output: int
    partial: memoryview | None = None  # room for a frame that has begun
    filled: int = 0  # bytes of it that are there
    outbox: deque[memoryview] = field(default_factory=deque)  # what its socket didn't take yet
    held: int = 0  # bytes of it
    text: bytearray = field(default_factory=bytearray)
    dropped: int = 0
    gone: bool = False
    # of the present call:
    ops: list[TraceOp] = field(default_factory=list)
    sites: list[CallSite] = field(default_factory=list)
    requests: dict[int, Pending] = field(default_factory=dict)
    sent: int = 0
    last_request: int = 0
    site: int = -1
    num_factors: int = 0  # that it has been told
    called: bool = False
    running: bool = False
    waiting: tuple[Pending, ...] = ()
    num_awaited: int = 0  # of those, not ready yet
    query: Query | None = None
    body: Part | None = None
    failure: RankError | None = None
    dead: bool = False  # killed, or it hangs: nothing more of it is listened to
    hangs: bool = False

    @property
    def blocked(self) -> bool:
        """Whether the rank has called and waits for an answer."""
        return self.called and not self.running and not self.dead

    def site_of(self, op: int) -> CallSite:
        """The call that made an operation."""
        number = self.ops[op].site
        return self.sites[number] if 0 <= number < len(self.sites) else UNDESCRIBED

    def reset(self) -> None:
        """Forget the last call."""
        self.ops, self.sites, self.requests = [], [], {}
        self.sent, self.last_request, self.site, self.num_factors = 0, 0, -1, 0
        self.waiting, self.num_awaited, self.query = (), 0, None
        self.body, self.failure = None, None
        self.called = self.running = self.dead = self.hangs = False
        self.text, self.dropped = bytearray(), 0


class Peers:
    """The sockets and output pipes of a run's ranks.

    A rank whose socket has closed is ``gone``: look at that after each step with it.
    """

    def __init__(self, peers: Sequence[Peer], limits: Limits) -> None:
        self.all = list(peers)
        self.deadline: float | None = None  # by the monotonic clock: later frames are not handled
        self._limits = limits
        self._selector = selectors.DefaultSelector()
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._begun_bytes = 0  # room for frames that have begun
        self._outgoing: dict[int, list[int]] = {}  # object -> how often it waits, its bytes
        self._outgoing_bytes = 0  # a broadcast's one payload may wait for many ranks

    def open(self) -> None:
        """Begin to listen."""
        for peer in self.all:
            if not peer.gone:
                self._selector.register(peer.sock, _READ, (peer, True))
            self._selector.register(peer.output, _READ, (peer, False))

    def close(self) -> None:
        """Take what was printed, and stop listening."""
        for peer in self.all:
            before = -1
            for _ in range(_LAST_READS):
                if before == (before := len(peer.text) + peer.dropped):
                    break
                self.read_output(peer)
        self._selector.close()

    def ready(self, timeout_s: float | None) -> Iterator[Peer]:
        """Wait for ranks, at most so long; yield those that have written something or are gone."""
        for key, events in self._selector.select(timeout_s):
            peer, is_socket = key.data
            if not is_socket:
                self.read_output(peer)
                continue
            # One that died while another's frame was answered is ready as well, and gone.
            if events & _WRITE:
                self._write(peer)
            if events & _READ or peer.gone:
                yield peer

    def call(self, peer: Peer, flags: int, parts: Sequence[Part]) -> LimitError | None:
        """Send a rank its call, as ``reply`` does; ``flags`` are LAST and OBSERVED."""
        size = sum(map(len, parts))
        if size < _BY_FILE_BYTES or peer.outbox or not _send_as_file(peer.sock, flags, parts):
            return self.reply(peer, ReplyFrame(Reply.CALL, parts, size, flags))
        return None

    def reply(self, peer: Peer, frame: ReplyFrame) -> LimitError | None:
        """Send a rank one frame; returns what to say of the slowest reader if too much waits."""
        if peer.gone:  # it died while it was waiting for this
            return None
        kind, parts, size, number = frame
        out = [DOWN.pack(kind, 0, 0, number, size), *parts]
        if not peer.outbox:
            out = self._send(peer, out, size + DOWN.size)
        for part in out:
            if part:
                self._hold(peer, memoryview(part))
        if peer.outbox:
            self._write(peer)
            if max(peer.held, self._outgoing_bytes) > self._limits.held_bytes:
                slowest = max(self.all, key=lambda reader: reader.held)
                return LimitError(slowest.rank, "doesn't read what it is sent")
        return None

    def cut(self, peer: Peer) -> None:
        """Listen to a rank no more, as if it had ended."""
        self._forget(peer)

    # -- reading ---------------------------------------------------------------------------------

    def frames(self, peer: Peer) -> Iterator[Frame]:
        """Read from a rank once, and yield the whole frames that are there.

        A body lies in the buffer that the next read fills, unless it is larger than that: take it
        out before.

        Raises:
            LimitError: a frame is too large.
        """
        data = self._read(peer)
        if data is None:
            return
        at, size, header = 0, len(data), UP.size
        unpack, most = UP.unpack_from, self._limits.frame_bytes
        needed, until_look = header, _LOOK_AT_CLOCK
        while size - at >= header:
            until_look -= 1
            if not until_look:  # a frame may take long that meets many open requests
                if self.deadline is not None and time.monotonic() > self.deadline:
                    return
                until_look = _LOOK_AT_CLOCK
            op, flags, site, comm, to, tag, request, extra, nbytes = unpack(data, at)
            if nbytes > most:
                raise LimitError(
                    peer.rank,
                    f"a message of {nbytes} bytes is too large; {format_bytes(most)} are allowed.",
                )
            end = at + header + nbytes
            if end > size:
                needed = header + nbytes
                break
            body = data[at + header : end]
            yield make_frame((op, flags, site, comm, to, tag, request, extra, body))
            at = end
        if at < size:
            self._begin(peer, data[at:], needed)

    def _read(self, peer: Peer) -> memoryview | None:
        """The bytes from the beginning of a frame on; None while the first one isn't whole."""
        if peer.gone:
            return None
        into = self._view if peer.partial is None else peer.partial[peer.filled :]
        try:
            size = peer.sock.recv_into(into)
        except BlockingIOError:
            return None
        except OSError:
            size = 0
        if not size:
            self._forget(peer)
            return None
        data = self._view[:size]
        if peer.partial is not None:
            peer.filled += size
            if peer.filled < len(peer.partial):
                return None
            data = peer.partial
            self._begun_bytes -= len(data)
        peer.partial, peer.filled = None, 0
        return data

    def _begin(self, peer: Peer, data: memoryview, needed: int) -> None:
        """Keep the beginning of a frame of ``needed`` bytes until the rest has come."""
        self._begun_bytes += needed
        if self._begun_bytes > self._limits.held_bytes:
            raise LimitError(
                peer.rank,
                f"a message of {needed} bytes is too large beside others; together they may "
                f"have {format_bytes(self._limits.held_bytes)}.",
            )
        peer.partial = np.empty(needed, np.uint8).data
        peer.filled = len(data)
        peer.partial[: len(data)] = data

    def read_output(self, peer: Peer) -> None:
        """Take what a rank has printed, as far as its limit."""
        if peer.output not in self._selector.get_map():
            return
        try:
            data = os.read(peer.output, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(peer.output)
            return
        room = max(0, self._limits.output_bytes - len(peer.text))
        peer.text += data[:room]
        peer.dropped += len(data) - len(data[:room])

    def _forget(self, peer: Peer) -> None:
        """A rank's process has ended."""
        if not peer.gone:
            peer.gone = True
            self._selector.unregister(peer.sock)
            self._discard(peer)
        if peer.running:
            self.read_output(peer)

    # -- writing ---------------------------------------------------------------------------------

    def _send(self, peer: Peer, parts: list[Part], size: int) -> list[Part]:
        """Send a frame of ``size`` bytes; returns what the rank's socket doesn't take now."""
        try:
            if size < _JOIN_BYTES:  # small parts cost less when they are copied together first
                parts = [b"".join(parts)]
                sent = peer.sock.send(parts[0])
            else:
                sent = peer.sock.sendmsg(parts[:_MAX_PARTS])
        except BlockingIOError:
            return parts
        except OSError:
            self._forget(peer)
            return []
        return _unsent(parts, sent) if sent < size else []

    def _hold(self, peer: Peer, part: memoryview) -> None:
        peer.outbox.append(part)
        peer.held += len(part)
        # Nobody else gets this id while it is an entry: the part keeps its object.
        entry = self._outgoing.setdefault(id(part.obj), [0, len(part)])
        if not entry[0]:
            self._outgoing_bytes += entry[1]
        entry[0] += 1

    def _sent(self, part: memoryview) -> None:
        """A part has left an outbox."""
        entry = self._outgoing[id(part.obj)]
        entry[0] -= 1
        if not entry[0]:
            self._outgoing_bytes -= entry[1]
            del self._outgoing[id(part.obj)]

    def _discard(self, peer: Peer) -> None:
        """Nobody will read what waits for this rank."""
        while peer.outbox:
            self._sent(peer.outbox.popleft())
        peer.held = 0

    def _write(self, peer: Peer) -> None:
        """Send what waits, as far as the socket takes it."""
        outbox = peer.outbox
        while outbox and not peer.gone:
            try:
                sent = peer.sock.sendmsg(itertools.islice(outbox, _MAX_PARTS))
            except BlockingIOError:
                break
            except OSError:
                self._forget(peer)
                return
            peer.held -= sent
            while outbox and sent >= len(outbox[0]):
                part = outbox.popleft()
                sent -= len(part)
                self._sent(part)
            if sent:
                outbox[0] = outbox[0][sent:]
        if peer.gone:
            return
        events = _READ | (_WRITE if outbox else 0)
        if self._selector.get_key(peer.sock).events != events:
            self._selector.modify(peer.sock, events, (peer, True))


def _send_as_file(sock: socket.socket, flags: int, parts: Sequence[Part]) -> bool:
    """Send a call whose body is a file in memory that nobody can write any more.

    The rank maps it: its pages are copied only where they are written. False: not possible here.
    """
    if not hasattr(os, "memfd_create"):  # not Linux
        return False
    with contextlib.suppress(OSError):  # no descriptor or memory left, a full socket, a dead rank
        descriptor = os.memfd_create("call", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
            head = ReplyFrame(Reply.CALL, (), 0, flags).head()
            socket.send_fds(sock, [head], [descriptor])
        return True
    return False


def _unsent(parts: list[Part], sent: int) -> list[Part]:
    """What remains of ``parts`` after their first ``sent`` bytes."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []
