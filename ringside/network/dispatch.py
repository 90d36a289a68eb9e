"""What a frame asks for, checked as far as a frame by itself can be, and whom it concerns."""

from __future__ import annotations

import sys
from typing import Any

from ringside.errors import LimitError, RankError
from ringside.network import codec, failure
from ringside.network.bounds import Ledger
from ringside.network.collectives import Collectives
from ringside.network.communicator import Communicator
from ringside.network.faults import Faults
from ringside.network.messages import Messages
from ringside.network.passes import Passes
from ringside.network.peers import READ_BYTES, Peer
from ringside.network.requests import Requests
from ringside.network.storage import Storage
from ringside.network.wait_graph import Standing
from ringside.network.windows import Windows
from ringside.network.wire import Frame, Op
from ringside.timing.ports import PS
from ringside.timing.queries import Query
from ringside.trace import CallSite, Kind
from ringside.trace import Op as TraceOp
from ringside.units import format_bytes

# Plain numbers of the frames that come most often: an enumeration costs time at every comparison.
_ISEND, _IRECV, _WAIT = int(Op.ISEND), int(Op.IRECV), int(Op.WAIT)
_EXCHANGE = int(Op.EXCHANGE)
_MESSAGES = frozenset({_ISEND, _IRECV, _EXCHANGE})
_NO_CALLS = frozenset({int(Op.SITE), int(Op.RESULT), int(Op.FAILURE)})


class Dispatch:
    """Hands each frame to the part that it concerns; no field is believed, students wrote it."""

    def __init__(
        self,
        ledger: Ledger,
        requests: Requests,
        messages: Messages,
        collectives: Collectives,
        standing: Standing,
        passes: Passes,
        windows: Windows,
        faults: Faults,
        storage: Storage,
    ) -> None:
        self._ledger, self._limits = ledger, ledger.limits
        self._result_bytes = 0
        self._requests = requests
        self._messages = messages
        self._collectives = collectives
        self._standing = standing
        self._passes = passes
        self._windows = windows
        self._faults = faults
        self._storage = storage
        self.aborted: RankError | None = None  # a rank has called MPI_Abort

    def handle(self, peer: Peer, frame: Frame) -> None:
        """Take one frame of a rank; what is raised is that rank's failure."""
        op, body = frame.op, frame.body
        if self._faults.foreseen and (peer.dead or (op != Op.SITE and self._faults.kills(peer))):
            return
        if not peer.running:
            raise LimitError(peer.rank, "spoke to the network out of turn")
        # A link may fail at what it is asked to do; the rank ends then, as in a call of its own.
        if op == Op.SERVED or (op != Op.FAILURE and self._windows.is_serving(peer)):
            self._windows.served(peer, frame)
            return
        if op in _NO_CALLS:
            if op == Op.SITE:
                self._describe_site(peer, frame.site, self._description(peer, body))
            elif op == Op.RESULT:
                # A large body is the frame's own already.
                self._finish(peer, body if len(body) > READ_BYTES else bytes(body), None)
            else:
                error = failure.decode(peer.rank, self._description(peer, body))
                self._finish(peer, None, error)
            return
        ledger = self._ledger
        # A SITE and the ends of a call are free: what a rank does is an operation, three if it is
        # an exchange.
        ledger.operations += 3 if op == _EXCHANGE else 1
        if op == Op.PASS:  # announced by a supplied file: not where the student's code is
            ledger.record(peer.rank, 0)
            self._requests.replies.append((peer, self._passes.announce(peer, frame)))
            return
        peer.site = frame.site
        if ledger.operations > self._limits.operations:
            call, line = self._standing.of_one(peer)
            ledger.record(peer.rank, 0, f"; the last is {call} at {line}" if call else "")
        comm_of, requests = self._collectives.comm_of, self._requests
        if op in _MESSAGES:
            self._message(peer, comm_of(peer, frame.comm), frame)
        elif op == _WAIT:
            requests.wait(peer, frame)
        elif op == Op.TEST:
            self._test(peer, frame)
        elif op == Op.PROBE:
            self._probe(peer, comm_of(peer, frame.comm), frame)
        elif op == Op.FAILURES:
            self._faults.ask(peer, comm_of(peer, frame.comm), frame)
        elif op == Op.WTIME:
            requests.ask(peer, frame.site, Query(
                peer.rank, len(peer.ops), "wtime", key=("wtime",)
            ))  # fmt: skip
        elif op == Op.SYNC:
            requests.ask(peer, frame.site, Query(peer.rank, len(peer.ops), "sync", key=("sync",)))
        elif op == Op.COLLECTIVE:
            comm = comm_of(peer, frame.comm)
            self._collectives.join(peer, comm, frame)
            self._faults.joined(peer, comm, frame)
        elif op == Op.ACCESS:
            self._windows.access(peer, comm_of(peer, frame.comm), frame)
        elif op in (Op.LOCK, Op.UNLOCK):
            comm = comm_of(peer, frame.comm)
            self._windows.ask(peer, comm, frame, release=op == Op.UNLOCK)
        elif op == Op.STORE:
            self._storage.ask(peer, frame)
        elif op == Op.COMPUTE:
            self._compute(peer, frame.site, self._description(peer, body))
        elif op == Op.FREE:
            comm_of(peer, frame.comm)
        elif op == Op.ABORT:
            _, line = self._standing.of_one(peer)
            where = f" at {line}" if line else ""
            message = f"MPI_Abort was called{where} with error code {frame.extra}"
            self.aborted = RankError(peer.rank, "Abort", message)
        else:
            raise LimitError(peer.rank, f"sent an unknown request ({op})")

    def _message(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        if self._faults.refuses(peer, comm, frame):
            return
        if frame.op == _ISEND:
            self._messages.isend(peer, comm, frame)
        elif frame.op == _IRECV:
            self._messages.irecv(peer, comm, frame)
        elif not self._faults.kills_inside(peer, comm, frame):
            self._messages.exchange(peer, comm, frame)

    def _probe(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        self._messages.check_source(peer, comm, frame.peer)
        if self._faults.refuses(peer, comm, frame):
            return
        envelope = frame.comm, frame.peer, frame.tag
        self._requests.ask(peer, frame.site, Query(
            peer.rank, len(peer.ops), "probe", blocking=frame.blocking,
            key=("probe", *envelope), probe=envelope,
        ))  # fmt: skip

    def _test(self, peer: Peer, frame: Frame) -> None:
        numbers, how = self._requests.numbers(peer, frame), frame.flags
        self._requests.pending(peer, numbers)
        # The numbers' hash stands for them: a rank may poll often, for many requests.
        self._requests.ask(peer, frame.site, Query(
            peer.rank, len(peer.ops), "test", numbers, how, key=("test", how, hash(numbers))
        ))  # fmt: skip

    def _description(self, peer: Peer, body: codec.Part) -> codec.Part:
        """The body of a frame that describes something, which is short."""
        if len(body) > self._limits.description_bytes:
            raise LimitError(
                peer.rank,
                f"described something in {format_bytes(len(body))}; "
                f"{format_bytes(self._limits.description_bytes)} are allowed.",
            )
        return body

    def _describe_site(self, peer: Peer, site: int, body: codec.Part) -> None:
        call, file, line = codec.decode(body)
        if site > len(peer.sites) or site >= self._limits.sites:
            raise LimitError(peer.rank, "numbered its calls wrongly")
        entry = CallSite(failure.text(call, 200), failure.text(file, 200), failure.line(line))
        self._ledger.describe(peer.rank, sys.getsizeof(entry.call) + sys.getsizeof(entry.file) + 80)
        if site == len(peer.sites):
            peer.sites.append(entry)
        else:
            peer.sites[site] = entry

    def _finish(self, peer: Peer, body: codec.Part | None, failure: RankError | None) -> None:
        nbytes = len(body or b"")
        self._result_bytes += nbytes
        if self._result_bytes > self._limits.result_bytes:
            raise LimitError(
                peer.rank,
                f"returns {format_bytes(nbytes)}; what all ranks return may have "
                f"{format_bytes(self._limits.result_bytes)} together.",
            )
        self._ledger.hold(peer.rank, nbytes)
        peer.body, peer.failure = body, failure
        self._requests.stop(peer)

    def _compute(self, peer: Peer, site: int, body: codec.Part) -> None:
        flops, nbytes, seconds, label, *kernel_work = codec.decode(body)
        num_kernels, moved = kernel_work or (1, 0.0)
        if not isinstance(num_kernels, int) or not 0 <= num_kernels < 1 << 40:
            raise LimitError(peer.rank, f"declared impossible work ({num_kernels!r:.60} operators)")
        for amount in (flops, nbytes, moved, 0.0 if seconds is None else seconds):
            if not isinstance(amount, float) or not 0 <= amount < 1e18:
                raise LimitError(peer.rank, f"declared impossible work ({amount!r:.60})")
        if seconds is not None and seconds > 1e6:
            raise LimitError(peer.rank, f"declared {seconds} s of work")
        picoseconds = -1 if seconds is None else round(seconds * PS)
        detail: tuple[Any, ...] = (flops, nbytes, picoseconds, failure.text(label, 80))
        if kernel_work:
            detail = (*detail, num_kernels, moved)
        peer.ops.append(TraceOp(Kind.COMPUTE, detail=detail, site=site))
