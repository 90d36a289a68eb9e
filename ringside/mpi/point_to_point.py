"""Messages from buffers into buffers: the upper-case point-to-point calls."""

from __future__ import annotations

from typing import Any, Literal

from ringside.link import Call, Completion
from ringside.mpi.attached import check_attached
from ringside.mpi.buffers import Region, region
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from ringside.mpi.membership import Membership
from ringside.mpi.operation import GuardedSend, NoOperation, Operation, Receive, deliver
from ringside.mpi.request import Prequest, Request
from ringside.mpi.status import Status


class PointToPoint(Membership):
    """Send, receive, probe."""

    __slots__ = ()

    # -- blocking ----------------------------------------------------------------------------------

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer; returns when it may be used again."""
        self._send("Send", "standard", buf, dest, tag)

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer; returns when the receive has begun."""
        self._send("Ssend", "sync", buf, dest, tag)

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer through the one given to Attach_buffer."""
        self._send("Bsend", "buffered", buf, dest, tag)

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer whose receive is posted already."""
        self._send("Rsend", "ready", buf, dest, tag)

    def Recv(
        self,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Receive into a buffer."""
        source, tag, call = self._receiving("Recv", source, tag)
        if source == PROC_NULL:
            _nobody(status)
            return
        target = region(buf, True)
        site = self._link.site(call)
        number = self._link.irecv(self._id, source, tag, target.nbytes, call=site)
        completion = self._link.wait((number,), "all", call=site)[0]
        _received(target, completion, call, status)

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send one buffer and receive into another, at the same time."""
        dest, sendtag, sending = self._sending("Sendrecv", dest, sendtag)
        source, recvtag, receiving = self._receiving("Sendrecv", source, recvtag)
        sent = region(sendbuf, False).read() if dest != PROC_NULL else None
        target = region(recvbuf, True) if source != PROC_NULL else None
        self._exchange(dest, sendtag, sent, source, recvtag, target, sending, receiving, status)

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send a buffer and receive into the same one."""
        dest, sendtag, sending = self._sending("Sendrecv_replace", dest, sendtag)
        source, recvtag, receiving = self._receiving("Sendrecv_replace", source, recvtag)
        target = region(buf, True) if source != PROC_NULL else None
        sent = region(buf, False).read() if dest != PROC_NULL else None
        self._exchange(dest, sendtag, sent, source, recvtag, target, sending, receiving, status)

    def _send(self, name: str, mode: str, buf: Any, dest: int, tag: int) -> None:
        dest, tag, call = self._sending(name, dest, tag)
        if dest == PROC_NULL:
            return
        data = region(buf, False)
        if mode == "buffered":
            check_attached(data.nbytes, call)
        site = self._link.site(call)
        number = self._link.isend(self._id, dest, tag, data.read(), mode, borrowed=True, call=site)
        self._link.wait((number,), "all", call=site)

    def _exchange(
        self,
        dest: int,
        sendtag: int,
        sent: memoryview | None,
        source: int,
        recvtag: int,
        target: Region | None,
        sending: Call,
        receiving: Call,
        status: Status | None,
    ) -> None:
        """Both halves in one round trip; either may be missing."""
        link = self._link
        call = sending if source == PROC_NULL else receiving
        if sent is not None and target is not None:
            call = (sending[0], (sending[1][0], receiving[1][0]))
        site = link.site(call)
        if target is None:
            if sent is not None:
                number = link.isend(self._id, dest, sendtag, sent, borrowed=True, call=site)
                link.wait((number,), "all", call=site)
            _nobody(status)
            return
        if sent is None:
            number = link.irecv(self._id, source, recvtag, target.nbytes, call=site)
            completion = link.wait((number,), "all", call=site)[0]
        else:
            completion = link.exchange(
                self._id, dest, sendtag, sent, source, recvtag, target.nbytes, call=site
            )
        _received(target, completion, receiving, status)

    # -- non-blocking ------------------------------------------------------------------------------

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Begin to send a buffer, which must stay as it is until the request is complete."""
        return Request._of(self._post_send("Isend", "standard", buf, dest, tag))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """As Isend; complete when the receive has begun."""
        return Request._of(self._post_send("Issend", "sync", buf, dest, tag))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """As Isend, through the buffer given to Attach_buffer."""
        return Request._of(self._post_send("Ibsend", "buffered", buf, dest, tag))

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """As Isend, for a receive that is posted already."""
        return Request._of(self._post_send("Irsend", "ready", buf, dest, tag))

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Begin to receive into a buffer, which holds nothing of use until that is complete."""
        return Request._of(self._post_receive("Irecv", buf, source, tag))

    def _post_send(self, name: str, mode: str, buf: Any, dest: int, tag: int) -> Operation:
        dest, tag, call = self._sending(name, dest, tag)
        if dest == PROC_NULL:
            return NoOperation(self._link, call, receives=False)
        data = region(buf, False)
        if mode == "buffered":
            check_attached(data.nbytes, call)
        number = self._link.isend(self._id, dest, tag, data.read(), mode, call=call)
        return GuardedSend(self._link, number, call, data)

    def _post_receive(self, name: str, buf: Any, source: int, tag: int) -> Operation:
        source, tag, call = self._receiving(name, source, tag)
        if source == PROC_NULL:
            return NoOperation(self._link, call, receives=True)
        target = region(buf, True)
        number = self._link.irecv(self._id, source, tag, target.nbytes, call=call)
        return Receive(self._link, number, call, target, poison=True)

    # -- persistent --------------------------------------------------------------------------------

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Prepare an Isend."""
        return self._prepare_send("Send_init", "standard", buf, dest, tag)

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Prepare an Issend."""
        return self._prepare_send("Ssend_init", "sync", buf, dest, tag)

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Prepare an Ibsend."""
        return self._prepare_send("Bsend_init", "buffered", buf, dest, tag)

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Prepare an Irsend."""
        return self._prepare_send("Rsend_init", "ready", buf, dest, tag)

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Prepare an Irecv."""
        if self._receiving("Recv_init", source, tag)[0] != PROC_NULL:
            region(buf, True)  # what is wrong with it is said here, not at Start
        return Prequest._persistent(lambda: self._post_receive("Recv_init", buf, source, tag))

    def _prepare_send(self, name: str, mode: str, buf: Any, dest: int, tag: int) -> Prequest:
        if self._sending(name, dest, tag)[0] != PROC_NULL:
            region(buf, False)
        return Prequest._persistent(lambda: self._post_send(name, mode, buf, dest, tag))

    # -- probing -----------------------------------------------------------------------------------

    def Probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        """Block until a message could be received, and describe it in ``status``."""
        self._probe("Probe", source, tag, status, blocking=True)
        return True

    def Iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        """Tell whether a message could be received now, and describe it in ``status``."""
        return self._probe("Iprobe", source, tag, status, blocking=False)

    def _probe(
        self, name: str, source: int, tag: int, status: Status | None, *, blocking: bool
    ) -> bool:
        source, tag, call = self._receiving(name, source, tag)
        if source == PROC_NULL:
            _nobody(status)
            return True
        found = self._link.probe(self._id, source, tag, blocking=blocking, call=call)
        if found is None:
            return False
        if status is not None:
            status.fill(found.source, found.tag, found.nbytes)
        return True


def _nobody(status: Status | None) -> None:
    if status is not None:
        status.fill(PROC_NULL, ANY_TAG, 0)


def _received(target: Region, completion: Completion, call: Call, status: Status | None) -> None:
    deliver(target, completion, call)
    if status is not None:
        status.fill(completion.source, completion.tag, completion.nbytes)
