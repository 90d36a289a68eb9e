"""A rank's end of the network: what the front ends (mpi4py, torch) are built on.

Non-blocking calls are written into a buffer that travels with the next blocking call, so that a
Sendrecv (isend, irecv, wait) is one write and one read.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ringside.errors import RingsideError, StoreError
from ringside.factors import Order
from ringside.kit import PACKAGE
from ringside.network import codec
from ringside.network.codec import Part
from ringside.network.in_flight import Awaited, InFlight
from ringside.network.wire import (
    COMPLETION,
    DOWN,
    LAST,
    OBJECT,
    OBSERVED,
    PROC_FAILED,
    About,
    Frame,
    How,
    Op,
    Reply,
    ReplyFrame,
    exchange_head,
    make_reply,
)
from ringside.trace import Mode

Call = tuple[str, tuple[tuple[str, Any], ...]]  # name and arguments, for verdicts

_FLUSH_BYTES = 1 << 16
_READ_BYTES = 1 << 16
_GATHER_BYTES, _MAX_PARTS = 4096, 512
_MAX_SITES = 60_000
_HEAD_BYTES = DOWN.size
_ERROR_AT = struct.calcsize("<Iiiq")  # in a COMPLETION
_MODES = {mode.name.lower(): int(mode) for mode in Mode}
_HOW = {how.name.lower(): int(how) for how in How}
_HERE = str(PACKAGE)


class CommInfo(NamedTuple):
    """A communicator: its number on the wire, its members as world ranks, our place among them."""

    id: int
    members: tuple[int, ...]
    rank: int


class Completion(NamedTuple):
    """A complete request; ``nbytes`` is the payload's real size, ``payload`` None for sends.

    The payload lies in the link's buffer: take it out before the next call.
    """

    request: int
    source: int
    tag: int
    nbytes: int
    error: int
    payload: memoryview | None
    overflow: bool


_make_completion: Callable[[tuple[Any, ...]], Completion] = partial(tuple.__new__, Completion)


class _Work:
    """Operators counted since the last call to the network."""

    __slots__ = ("flops", "label", "moved", "nbytes", "num_kernels")

    def __init__(self, label: str) -> None:
        self.label = label
        self.flops = self.nbytes = self.moved = 0.0
        self.num_kernels = 0


class ProtocolError(RingsideError):
    """The network refused a call, or went away."""


class Link:
    """One rank's connection; not for use from a second thread."""

    # The front end's own error of a failed request, from its number on the wire and a sentence.
    failed: Callable[[int, str], Exception]

    def __init__(self, sock: socket.socket, rank: int, world_size: int, folder: str = "") -> None:
        self.rank = rank
        self.world_size = world_size
        self.ranks_per_node = 1  # of the machine that a call is timed on
        self.world = CommInfo(0, tuple(range(world_size)), rank)
        self._sock = sock
        self._folder = folder.rstrip("/") + "/" if folder else ""
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._requests = 0
        self._start = np.empty(_READ_BYTES, np.uint8).data
        self._sites: dict[tuple[Any, str, int], int] = {}
        self._places: dict[tuple[int, int, int, int, str], tuple[int, CodeType]] = {}
        self._process, self._thread = os.getpid(), get_ident()
        self.refused: ProtocolError | None = None  # a second thread's call, for the main thread
        self._work: _Work | None = None
        self.last_call = False  # whether the rank may end after the present call
        self.observed = False  # whether passes are announced in the present call
        self.order = Order()  # of the inputs of its passes
        self._phase = ""  # that the program is in, as timelines show it
        self.in_flight = InFlight()
        self.remarks: dict[str, str] = {}  # that stand beside the run's own notes
        self._place = "", 0  # file and line of the last call
        # What does the accesses of others to our windows, by number, while we wait for an answer.
        self.windows: dict[int, Callable[[memoryview], Part]] = {}
        self.libraries: tuple[str, ...] = (_HERE,)  # folders whose frames are not the student's

    @property
    def node(self) -> int:
        """The node that this rank lives on, as ``Machine.node`` says."""
        return self.rank // self.ranks_per_node

    # -- point to point --------------------------------------------------------------------------

    def isend(
        self,
        comm: int,
        dest: int,
        tag: int,
        data: Any,
        mode: str = "standard",
        *,
        kind: int = 0,
        claimed: int | None = None,
        borrowed: bool = False,
        call: Call | int,
    ) -> int:
        """Post a send of ``data`` and return its request.

        ``data`` is copied now, unless it is ``borrowed``: then the caller waits for the request
        before it lets anybody change the buffer.

        Args:
            kind: of ``KINDS``; what is ``claimed`` is of an object.
        """
        payload = memoryview(data).cast("B") if borrowed else bytes(data)
        site = self._begin_call(call)
        self._requests += 1
        self._post(Frame.isend(
            site=site, comm=comm, dest=dest, tag=tag, request=self._requests, payload=payload,
            mode=_MODES[mode], kind=kind if claimed is None else OBJECT, claimed=claimed,
        ))  # fmt: skip
        return self._requests

    def irecv(
        self,
        comm: int,
        source: int,
        tag: int,
        capacity: int,
        *,
        kind: int = 0,
        call: Call | int,
    ) -> int:
        """Post a receive for at most ``capacity`` bytes (-1: any) and return its request."""
        site = self._begin_call(call)
        self._requests += 1
        self._post(Frame.irecv(
            site=site, comm=comm, source=source, tag=tag, request=self._requests,
            capacity=capacity, kind=kind,
        ))  # fmt: skip
        return self._requests

    def exchange(
        self, comm: int, dest: int, sendtag: int, data: Part, source: int, recvtag: int,
        capacity: int, *, kinds: tuple[int, int] = (0, 0), claimed: int | None = None, call: int,
    ) -> Completion:  # fmt: skip
        """Send and receive at once, and return the receive: isend, irecv and wait in one frame."""
        site, number = self._begin_call(call), self._requests + 1
        self._requests += 2
        nbytes = len(data)
        head = exchange_head(
            site=site, comm=comm, dest=dest, sendtag=sendtag, request=number, claimed=claimed,
            source=source, recvtag=recvtag, capacity=capacity, kinds=kinds, nbytes=nbytes,
        )  # fmt: skip
        out, nbytes = [*self._out, head, data], self._out_bytes + len(head) + nbytes
        self._out, self._out_bytes = [], 0
        self._write(out, nbytes)
        body = memoryview(self._read().parts[0])
        if body[_ERROR_AT]:  # of the send, which has a text behind it then, and else nothing
            self.checked(_completion(body, 0)[0])
        return self.checked(_completion(body, COMPLETION.size)[0])

    def wait(
        self, requests: Sequence[int], how: str = "all", *, call: Call | int
    ) -> list[Completion]:
        """Block until all, any or some of the requests are complete; "all" keeps their order."""
        if not requests:
            return []
        site = self._begin_call(call)
        self._post(Frame.completion(Op.WAIT, site=site, requests=requests, how=_HOW[how]))
        return self._completions(self._answer())

    def test(
        self, requests: Sequence[int], how: str = "all", *, call: Call
    ) -> list[Completion] | None:
        """As wait, but return None if not enough are complete now."""
        if not requests:
            return []
        site = self._begin_call(call)
        self._post(Frame.completion(Op.TEST, site=site, requests=requests, how=_HOW[how]))
        reply = self._answer()
        return None if reply.kind == Reply.EMPTY else self._completions(reply)

    def probe(
        self, comm: int, source: int, tag: int, *, blocking: bool, call: Call
    ) -> Completion | None:
        """Look for a message without receiving it."""
        site = self._begin_call(call)
        self._post(Frame.probe(site=site, comm=comm, source=source, tag=tag, blocking=blocking))
        reply = self._answer()
        return None if reply.kind == Reply.EMPTY else self.checked(self._completions(reply)[0])

    def checked(self, completion: Completion) -> Completion:
        """A completion of a request that has come to a good end, or to one that its call tells.

        Raises:
            what ``failed`` makes: somebody has died, or revoked the communicator.
        """
        if completion.error >= PROC_FAILED:
            raise self.failed(completion.error, bytes(completion.payload or b"").decode())
        return completion

    def told(self, call: Call) -> Callable[[], str]:
        """What tells the call just posted, with its place."""
        place = self._place
        return lambda: f"{format_call(call)} at {self._told(place)}"

    def awaited(self, call: Call, address: int) -> Awaited:
        """Register the call just posted, which has a buffer to be filled."""
        awaited, earlier = self.in_flight.add(self.told(call), address)
        if earlier is not None:
            self.remark(
                "shared",
                f"{awaited.call()} is given the buffer that {earlier.call()} still waits for: what "
                "comes first is lost. Give each its own.",
            )
        return awaited

    def has_come(self, awaited: Awaited) -> None:
        """Note that the last call has completed one with a buffer."""
        place = self._place
        awaited.until = lambda: self._told(place)

    def remark(self, name: str, sentence: str) -> None:
        """Note something on a call of this rank, which may mean nothing; the first of a name."""
        self.remarks.setdefault(name, sentence)

    @property
    def place(self) -> str:
        """Where the last call was made: ``ring.py:12``."""
        return self._told(self._place)

    @property
    def here(self) -> str:
        """Where the program is, in a call that isn't begun yet."""
        return self._told(self._students_line()[:2])

    def _told(self, place: tuple[str, int]) -> str:
        file, line = place
        return f"{file.removeprefix(self._folder)}:{line}"

    # -- collectives -----------------------------------------------------------------------------

    def icollective(
        self,
        comm: int,
        name: str,
        spec: tuple[Any, ...],
        *,
        call: Call,
        kind: int = 0,
        shown: str = "",
        alike: tuple[tuple[str, Any], ...] = (),
        begins: bool = False,
    ) -> int:
        """Join a collective and return its request.

        Args:
            begins: the call is one that doesn't match a blocking one of other members.
            kind: of ``KINDS``, of this rank's buffer.
            shown: what verdicts call it; default: ``name``.
            alike: names and values that all members must give alike, besides what ``name`` asks.
        """
        body = codec.encode((name, spec, shown, alike) if shown else (name, spec))
        site = self._begin_call(call)
        self._requests += 1
        self._post(Frame.collective(
            site=site, comm=comm, request=self._requests, contribution=body, kind=kind,
            begins=begins,
        ))  # fmt: skip
        return self._requests

    def collective(
        self,
        comm: int,
        name: str,
        spec: tuple[Any, ...],
        *,
        call: Call,
        kind: int = 0,
        shown: str = "",
    ) -> Any:
        """Join a collective and return its value."""
        request = self.icollective(comm, name, spec, call=call, kind=kind, shown=shown)
        return self.collective_result(self.wait([request], "all", call=call)[0])

    def collective_result(self, completion: Completion) -> Any:
        """Return what a completed collective gives this member."""
        self.checked(completion)
        value = codec.decode(completion.payload if completion.payload is not None else b"N")
        return _with_comm_info(value)

    def comm_world(self) -> CommInfo:
        """Return the communicator of all ranks."""
        return self.world

    def free(self, comm: int, *, call: Call) -> None:
        """Give a communicator back."""
        self._post(Frame(Op.FREE, site=self._begin_call(call), comm=comm))

    # -- windows ---------------------------------------------------------------------------------

    def access(
        self, window: int, target: int, body: tuple[Any, ...], *, fence: int, call: Call
    ) -> int:
        """Post an access to a target's window and return its request.

        Args:
            body: what it does (see ``wire.ATOMIC``), the operation, the type of the numbers, the
                runs of bytes in the window, and the data.
            fence: the epoch between two fences that it belongs to; -1: another one.
        """
        site = self._begin_call(call)
        self._requests += 1
        self._post(Frame.access(
            site=site, window=window, target=target, fence=fence, request=self._requests,
            body=codec.encode(body),
        ))  # fmt: skip
        return self._requests

    def lock(self, window: int, target: int, *, exclusive: bool, call: Call) -> None:
        """Wait for the lock of a target's window, -1: of all of them."""
        self._lock(Op.LOCK, window, target, exclusive, call)

    def unlock(self, window: int, target: int, *, call: Call) -> None:
        """Give a lock back."""
        self._lock(Op.UNLOCK, window, target, False, call)

    def _lock(self, op: Op, window: int, target: int, exclusive: bool, call: Call) -> None:
        site = self._begin_call(call)
        self._post(Frame.lock(op, site=site, window=window, target=target, exclusive=exclusive))
        self._answer()

    def sync(self, *, call: Call) -> None:
        """Let what others write into our windows come; again with no news, wait for some."""
        self._post(Frame(Op.SYNC, site=self._begin_call(call)))
        self._answer()

    # -- the rest --------------------------------------------------------------------------------

    def compute(self, flops: float, nbytes: float, seconds: float | None, label: str) -> None:
        """Let virtual time pass for work done."""
        duration_s = None if seconds is None else float(seconds)
        body = codec.encode((float(flops), float(nbytes), duration_s, label))
        self._post(Frame(Op.COMPUTE, site=self._begin_call(_compute(label)), body=body))

    def work(self, flops: float, nbytes: float, moved: float, label: str) -> None:
        """Count one operator's work; consecutive ones of one label become one computation.

        Args:
            flops, nbytes: of an operator that calculates.
            moved: memory traffic of an operator that is bound by it.
        """
        if self._work is None or self._work.label != label:
            self._end_work()
            self._work = _Work(label)
        self._work.flops += flops
        self._work.nbytes += nbytes
        self._work.moved += moved
        self._work.num_kernels += 1

    def _end_work(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            amounts = (float(work.flops), float(work.nbytes), None, work.label)
            body = codec.encode((*amounts, work.num_kernels, float(work.moved)))
            self._post(Frame(Op.COMPUTE, site=self._begin_call(_compute(work.label)), body=body))

    def enter(self, phase: str) -> str:
        """Name what the program does from here on, for timelines; returns what it did before."""
        if get_ident() != self._thread:
            return self._phase  # autograd's threads work on what the main thread is in
        self._end_work()  # what was counted belongs to the phase before
        before, self._phase = self._phase, phase
        return before

    def announce(self, phase: str, number: int, count: int) -> bytes:
        """Announce a pass; returns its factors in sixty-fourths, ``count`` of them."""
        self._begin_call(0)
        self._post(Frame.announcement(phase=phase, number=number, num_factors=count))
        return bytes(self._answer().parts[0])

    def wtime(self) -> float:
        """Return the rank's virtual time in seconds."""
        self._post(Frame(Op.WTIME, site=self._begin_call(("Wtime", ()))))
        picoseconds: int = struct.unpack("<Q", self._answer().parts[0])[0]
        return picoseconds / 1e12

    def failures(self, about: About, comm: int, *, call: Call, number: int = -1) -> Any:
        """What is known of failures in a communicator; see ``wire.About``."""
        site = self._begin_call(call)
        self._post(Frame.failures(about, site=site, comm=comm, number=number))
        return codec.decode(self._answer().parts[0])

    def store(self, what: str, asked: tuple[Any, ...], *, call: Call) -> Any:
        """Put an array into a store, get one, list or remove; see ``ringside.session.store``.

        Raises:
            StoreError: the store doesn't hold what is asked for, or can't hold more.
        """
        site = self._begin_call(call)
        self._post(Frame.store(site=site, body=codec.encode((what, *asked))))
        reply = self._answer()
        value = codec.decode(reply.parts[0])
        if reply.number:
            raise StoreError(value)
        return value

    def time_out(self, comm: int, milliseconds: int) -> None:
        """Tell how long this rank waits for ranks of a communicator that hang."""
        about = About.TIME_OUT
        self._post(Frame.failures(about, site=self._begin_call(0), comm=comm, number=milliseconds))

    def abort(self, code: int) -> NoReturn:
        """End the run for all ranks."""
        site = self._begin_call(("Abort", (("errorcode", code),)))
        self._post(Frame.abort(site=site, code=code))
        self._answer()
        raise SystemExit(code)

    def report(self, op: Op, *parts: codec.Part) -> None:
        """Send the function's result or failure, in one frame."""
        self._end_work()
        self._append(Frame(op).head(sum(map(len, parts))))
        for part in parts:
            self._append(part)
        self.flush()

    def next_call(self) -> tuple[memoryview, memoryview]:
        """Wait for the next call of a function; returns it twice, each to write in as well.

        A large call is a file that both are views of: what one of them writes, only it sees.
        """
        data, files, _, _ = socket.recv_fds(self._sock, len(self._start), 1)
        self._start[: len(data)] = data
        reply = self._rest_of_reply(len(data))
        [body], flags = reply.parts, reply.number
        self.last_call, self.observed = bool(flags & LAST), bool(flags & OBSERVED)
        self.order = Order()
        self.in_flight = InFlight()
        self.remarks = {}
        self._requests = 0
        self.windows.clear()
        self._sites.clear()
        self._places.clear()
        self._phase = ""
        if not files:
            return memoryview(bytearray(body)), memoryview(bytearray(body))
        try:
            return _private_view(files[0]), _private_view(files[0])
        finally:
            os.close(files[0])

    def flush(self) -> None:
        """Write what is buffered."""
        out, nbytes = self._out, self._out_bytes
        if out:
            self._out, self._out_bytes = [], 0
            self._write(out, nbytes)

    def _write(self, parts: list[bytes | memoryview], nbytes: int) -> None:
        sent = 0
        if nbytes > _GATHER_BYTES and len(parts) <= _MAX_PARTS:
            sent = self._sock.sendmsg(parts)  # large payloads are not copied together first
        if sent < nbytes:
            self._sock.sendall(memoryview(b"".join(parts))[sent:])

    def leave(self) -> None:
        """Come first in a process that a rank has forked: it is no rank."""
        self._thread = 0

    # -- frames ----------------------------------------------------------------------------------

    def _begin_call(self, call: Call | int = 0) -> int:
        """Come before every frame of a call; returns the number of its site."""
        if get_ident() != self._thread:
            self._refuse_thread()
        if self._work is not None:
            self._end_work()  # what was counted happened before this call
        # The network learns of a site before the frame that names it.
        return call if isinstance(call, int) else self.site(call)

    def _refuse_thread(self) -> NoReturn:
        """End the rank at once: what waits for the second thread's call would hide the reason."""
        file, line, name = self._students_line()
        call = f"calls {name} at {file.removeprefix(self._folder)}:{line}"
        if os.getpid() != self._process:
            raise ProtocolError(f"a process that rank {self.rank} has started {call}; it is none.")
        self.refused = ProtocolError(
            f"a second thread {call}, and ranks here communicate from their main thread only. "
            "Start the transfer there, without waiting, and wait for it when it is needed."
        )
        signal.pthread_kill(self._thread, signal.SIGUSR2)  # whose handler raises it there
        raise SystemExit  # which a thread ends by without a word

    def _post(self, frame: Frame) -> None:
        body = frame.body
        self._append(frame.head(len(body)))
        if body:
            self._append(body)

    def _append(self, part: bytes | memoryview) -> None:
        self._out.append(part)
        self._out_bytes += len(part)
        if self._out_bytes > _FLUSH_BYTES:
            self.flush()

    def site(self, call: Call) -> int:
        """The number of (call, file, line); a new one is described to the network first.

        Where one line of the student's makes several calls here, the number stands for ``call``.
        """
        file, line, _ = self._students_line()
        self._place = file, line
        call_in_phase: tuple[Any, ...] = (*call, self._phase) if self._phase else call
        key = (call_in_phase, file, line)
        try:
            number = self._sites.get(key)
        except TypeError:  # an argument that can't be hashed
            key = ((call[0], (), *call_in_phase[2:]), file, line)
            number = self._sites.get(key)
        if number is None:
            number = min(len(self._sites), _MAX_SITES)
            self._sites[key] = number
            short = file.removeprefix(self._folder) if self._folder else file
            body = codec.encode((format_call(key[0]), short, line))
            self._post(Frame(Op.SITE, site=number, body=body))
        return number

    def _students_line(self) -> tuple[str, int, str]:
        """File and line that are innermost on the stack and no library's, and what they call."""
        frame: FrameType | None = sys._getframe(1)
        libraries = self.libraries
        name = ""
        while frame is not None and frame.f_code.co_filename.startswith(libraries):
            # torch's functions are called through a decorator's "wrapper".
            name = name if frame.f_code.co_name == "wrapper" else frame.f_code.co_name
            frame = frame.f_back
        if frame is None:
            return "", 0, name
        return frame.f_code.co_filename, frame.f_lineno, name

    def site_of_sendrecv(self, frame: FrameType, dest: int, source: int) -> int:
        """As ``site``, for a Sendrecv that ``frame`` makes; known again without its line."""
        code = frame.f_code
        key = (id(code), frame.f_lasti, dest, source, self._phase)
        entry = self._places.get(key)
        if entry is not None:
            return entry[0]
        number = self.site(("Sendrecv", (("dest", dest), ("source", source))))
        if number < _MAX_SITES and not code.co_filename.startswith(self.libraries):
            self._places[key] = number, code  # which is kept, so that nothing else gets its id
        return number

    def _answer(self) -> ReplyFrame:
        self.flush()
        return self._read()

    def _read(self) -> ReplyFrame:
        """The reply that we wait for; accesses to our windows that come before it are done.

        The network sends nothing unasked, so what is there belongs to one reply.
        """
        while True:
            reply = self._rest_of_reply(self._sock.recv_into(self._start))
            if reply.kind != Reply.SERVE:
                return reply
            self._post(
                Frame(Op.SERVED, body=self.windows[reply.number](memoryview(reply.parts[0])))
            )
            self.flush()

    def _rest_of_reply(self, at: int) -> ReplyFrame:
        """The reply whose first ``at`` bytes are there."""
        start = self._start
        if not at:
            raise SystemExit(0)  # the network has gone: the run is over
        while at < _HEAD_BYTES:
            at += self._receive(start[at:])
        kind, _, _, count, nbytes = DOWN.unpack_from(start)
        if kind == Reply.DIE:
            os._exit(1)  # killed: not a line of the program runs any more
        end = _HEAD_BYTES + nbytes
        if end <= len(start):
            body = start[_HEAD_BYTES:end]
        else:
            body = np.empty(nbytes, np.uint8).data
            body[: at - _HEAD_BYTES] = start[_HEAD_BYTES:at]
        while at < end:
            at += self._receive(body[at - _HEAD_BYTES :])
        return make_reply((kind, (body,), nbytes, count))

    def _receive(self, into: memoryview) -> int:
        nbytes = self._sock.recv_into(into)
        if not nbytes:
            raise SystemExit(0)  # the network has gone: the run is over
        return nbytes

    @staticmethod
    def _completions(reply: ReplyFrame) -> list[Completion]:
        body = memoryview(reply.parts[0])
        completions, at = [], 0
        for _ in range(reply.number):
            completion, at = _completion(body, at)
            completions.append(completion)
        return completions


def _private_view(file: int) -> memoryview:
    """All of a file's bytes; what is written into them stays here."""
    access = mmap.PROT_READ | mmap.PROT_WRITE
    return memoryview(mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=access))


def _compute(label: str) -> Call:
    return "compute", (("phase", label),)


def _completion(body: memoryview, at: int) -> tuple[Completion, int]:
    """The completion at byte ``at`` of a reply, and where the next one begins."""
    request, source, tag, nbytes, error, flags, _, _, size = COMPLETION.unpack_from(body, at)
    at += COMPLETION.size
    end = at + size
    payload = body[at:end] if flags & 2 else None
    fields = request, source, tag, nbytes, error, payload, bool(flags & 1)
    return _make_completion(fields), end


def format_call(call: tuple[Any, ...]) -> str:
    """Return a call as a person reads it: ``Ssend(dest=1, tag=0) [phase]``."""
    name, arguments = call[:2]
    phase = f" [{call[2]}]" if len(call) > 2 else ""
    text = f"{name}({', '.join(f'{key}={value}' for key, value in arguments)})"
    room = 200 - len(phase)
    return (text if len(text) <= room else text[: room - 1] + ")") + phase


def _with_comm_info(value: Any) -> Any:
    if isinstance(value, tuple) and len(value) == 4 and value[0] == "comm":
        return CommInfo(*value[1:])
    return value


_current: list[Link] = []


def current() -> Link:
    """Return this rank's link.

    Raises:
        ProtocolError: this process isn't a rank.
    """
    if not _current:
        raise ProtocolError(
            "this process isn't a rank: start it with ringside.run or `ringside run`."
        )
    return _current[0]


def set_current(link: Link) -> None:
    """Make ``link`` this process's own."""
    _current[:] = [link]


def unset_current() -> None:
    """Make this process nobody's rank again."""
    _current.clear()


def inside_rank() -> bool:
    """Tell whether this process is a rank of ours."""
    return bool(_current)
