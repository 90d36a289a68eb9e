"""Messages from buffers into buffers: the upper-case point-to-point calls."""

from __future__ import annotations

from typing import Any, Literal

from ringside.mpi import transfer
from ringside.mpi.buffers import plain_bytes
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from ringside.mpi.datatypes import OF_DTYPE
from ringside.mpi.membership import Membership
from ringside.mpi.message import Message
from ringside.mpi.payload import IntoBuffer, of_buffer
from ringside.mpi.request import Prequest, Request
from ringside.mpi.status import Status


class PointToPoint(Membership):
    """Send, receive, probe."""

    __slots__ = ()

    # -- blocking ----------------------------------------------------------------------------------

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer; returns when it may be used again."""
        transfer.send(self, "Send", "standard", of_buffer, buf, dest, tag)

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer; returns when the receive has begun."""
        transfer.send(self, "Ssend", "sync", of_buffer, buf, dest, tag)

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer through the one given to Attach_buffer."""
        transfer.send(self, "Bsend", "buffered", of_buffer, buf, dest, tag)

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer whose receive is posted already."""
        transfer.send(self, "Rsend", "ready", of_buffer, buf, dest, tag)

    def Recv(
        self,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Receive into a buffer."""
        transfer.receive(self, "Recv", IntoBuffer, buf, source, tag, status)

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
        send_view, recv_view = plain_bytes(sendbuf), plain_bytes(recvbuf)
        if (
            send_view is not None
            and recv_view is not None
            and not recv_view.readonly
            and transfer.exchange_bytes(
                self,
                send_view,
                dest,
                sendtag,
                recv_view,
                source,
                recvtag,
                status,
                (OF_DTYPE[sendbuf.dtype].kind, OF_DTYPE[recvbuf.dtype].kind),
            )
        ):
            return
        transfer.exchange(self, "Sendrecv", of_buffer, sendbuf, dest, sendtag,
            IntoBuffer, recvbuf, source, recvtag, status,
        )  # fmt: skip

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
        transfer.exchange(self, "Sendrecv_replace", of_buffer, buf, dest, sendtag,
            IntoBuffer, buf, source, recvtag, status,
        )  # fmt: skip

    # -- non-blocking ------------------------------------------------------------------------------

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Begin to send a buffer, which must stay as it is until the request is complete."""
        return Request._of(transfer.post_send(self, "Isend", "standard", of_buffer, buf, dest, tag))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """As Isend; complete when the receive has begun."""
        return Request._of(transfer.post_send(self, "Issend", "sync", of_buffer, buf, dest, tag))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """As Isend, through the buffer given to Attach_buffer."""
        return Request._of(
            transfer.post_send(self, "Ibsend", "buffered", of_buffer, buf, dest, tag)
        )

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """As Isend, for a receive that is posted already."""
        return Request._of(transfer.post_send(self, "Irsend", "ready", of_buffer, buf, dest, tag))

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Begin to receive into a buffer, which holds nothing of use until that is complete."""
        return Request._of(transfer.post_receive(self, "Irecv", IntoBuffer, buf, source, tag))

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Begin a Sendrecv."""
        sent = transfer.post_send(self, "Isendrecv", "standard", of_buffer, sendbuf, dest, sendtag)
        return transfer.together(
            self,
            sent,
            transfer.post_receive(self, "Isendrecv", IntoBuffer, recvbuf, source, recvtag),
        )

    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Begin a Sendrecv_replace."""

        def unguarded(buf: Any) -> Any:
            return of_buffer(buf)._replace(guarded=None)  # what comes in replaces it

        sent = transfer.post_send(
            self, "Isendrecv_replace", "standard", unguarded, buf, dest, sendtag
        )
        return transfer.together(
            self,
            sent,
            transfer.post_receive(self, "Isendrecv_replace", IntoBuffer, buf, source, recvtag),
        )

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
            IntoBuffer(buf)  # what is wrong with it is said here, not at Start
        return Prequest._persistent(
            lambda: transfer.post_receive(self, "Recv_init", IntoBuffer, buf, source, tag)
        )

    def _prepare_send(self, name: str, mode: str, buf: Any, dest: int, tag: int) -> Prequest:
        if self._sending(name, dest, tag)[0] != PROC_NULL:
            of_buffer(buf)
        return Prequest._persistent(
            lambda: transfer.post_send(self, name, mode, of_buffer, buf, dest, tag)
        )

    # -- probing -----------------------------------------------------------------------------------

    def Probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        """Block until a message could be received, and describe it in ``status``."""
        transfer.probe(self, "Probe", source, tag, status, blocking=True)
        return True

    def Iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        """Tell whether a message could be received now, and describe it in ``status``."""
        return transfer.probe(self, "Iprobe", source, tag, status, blocking=False)

    def Mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        """Block until there is a message, and return it: only ``Message.Recv`` gets it now."""
        message = transfer.matched_probe(self, "Mprobe", source, tag, status, blocking=True)
        assert message is not None
        return message

    def Improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        """As Mprobe; None if there is no message now."""
        return transfer.matched_probe(self, "Improbe", source, tag, status, blocking=False)
