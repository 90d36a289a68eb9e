"""Python objects as messages: the lower-case calls."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ringside.mpi import transfer
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, ERR_OTHER
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.membership import Membership
from ringside.mpi.message import Message
from ringside.mpi.op import SUM, Op
from ringside.mpi.payload import IntoObject, of_object
from ringside.mpi.pickling import loads, packed
from ringside.mpi.request import Request
from ringside.mpi.status import Status
from ringside.network.link import Call

# mpi4py's own default for irecv without a buffer
_into_buffered = functools.partial(IntoObject, default=32_768)

Reduction = Op | Callable[[Any, Any], Any]


class Objects(Membership):
    """send, recv, and collectives of objects."""

    __slots__ = ()

    # -- point to point ----------------------------------------------------------------------------

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object."""
        transfer.send(self, "send", "standard", of_object, obj, dest, tag)

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object; returns when the receive has begun."""
        transfer.send(self, "ssend", "sync", of_object, obj, dest, tag)

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object through the buffer given to Attach_buffer."""
        transfer.send(self, "bsend", "buffered", of_object, obj, dest, tag)

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Begin to send an object."""
        return Request._of(transfer.post_send(self, "isend", "standard", of_object, obj, dest, tag))

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Begin to send an object; complete when the receive has begun."""
        return Request._of(transfer.post_send(self, "issend", "sync", of_object, obj, dest, tag))

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Begin to send an object through the buffer given to Attach_buffer."""
        return Request._of(
            transfer.post_send(self, "ibsend", "buffered", of_object, obj, dest, tag)
        )

    def recv(
        self,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Receive an object and return it."""
        if isinstance(buf, np.ndarray) and buf.dtype != np.uint8:
            sentence = "recv fills no array: it returns what send was given. Recv fills one"
            warnings.warn(sentence, UserWarning, stacklevel=2)
        elif buf is not None:
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=2)
        return transfer.receive(self, "recv", IntoObject, buf, source, tag, status)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Begin to receive an object; ``buf`` says how long it may be, 32 KiB by default."""
        operation = transfer.post_receive(self, "irecv", _into_buffered, buf, source, tag)
        return Request._of(operation)

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Send one object and receive another, at the same time."""
        return transfer.exchange(self, "sendrecv", of_object, sendobj, dest, sendtag,
            IntoObject, recvbuf, source, recvtag, status,
        )  # fmt: skip

    def probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        """Block until a message could be received."""
        transfer.probe(self, "probe", source, tag, status, blocking=True)
        return True

    def iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        """Tell whether a message could be received now."""
        return transfer.probe(self, "iprobe", source, tag, status, blocking=False)

    def mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        """Block until there is a message, and return it: only ``Message.recv`` gets it now."""
        message = transfer.matched_probe(self, "mprobe", source, tag, status, blocking=True)
        assert message is not None
        return message

    def improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        """As mprobe; None if there is no message now."""
        return transfer.matched_probe(self, "improbe", source, tag, status, blocking=False)

    # -- collectives -------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until all ranks have come here."""
        self._join("barrier", (), ("barrier", ()))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return the root's object on all ranks."""
        root = self._check_root(root, "bcast")
        data = _contribution(obj) if self._rank == root else None
        return _object(self._join("bcast", (root, data), ("bcast", (("root", root),))))

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return the objects of all ranks in a list, at the root."""
        root = self._check_root(root, "gather")
        call: Call = ("gather", (("root", root),))
        parts = self._join("gather", (root, _contribution(sendobj)), call)
        return None if parts is None else [_object(part) for part in parts]

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Return this rank's item of the root's sequence."""
        root = self._check_root(root, "scatter")
        parts = self._parts("scatter", sendobj) if self._rank == root else None
        return _object(self._join("scatter", (root, parts), ("scatter", (("root", root),))))

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the objects of all ranks in a list."""
        parts = self._join("allgather", (_contribution(sendobj),), ("allgather", ()))
        return [_object(part) for part in parts]

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Give item r of the sequence to rank r; return what all ranks gave to this one."""
        parts = self._join("alltoall", (self._parts("alltoall", sendobj),), ("alltoall", ()))
        return [_object(part) for part in parts]

    def reduce(self, sendobj: Any, op: Reduction = SUM, root: int = 0) -> Any | None:
        """Return the reduction of all ranks' objects, at the root."""
        root = self._check_root(root, "reduce")
        _check_op(op)
        call: Call = ("reduce", (("op", _op_name(op)), ("root", root)))
        parts = self._join("reduce", (root, "USER", _contribution(sendobj)), call)
        return None if parts is None else _reduced(op, parts)

    def allreduce(self, sendobj: Any, op: Reduction = SUM) -> Any:
        """Return the reduction of all ranks' objects."""
        return self._reduce_object("allreduce", sendobj, op)

    def scan(self, sendobj: Any, op: Reduction = SUM) -> Any:
        """Return the reduction of the objects of ranks 0 to this one."""
        return self._reduce_object("scan", sendobj, op)

    def exscan(self, sendobj: Any, op: Reduction = SUM) -> Any:
        """Return the reduction of the objects of the ranks before this one; None on rank 0."""
        return self._reduce_object("exscan", sendobj, op)

    def _reduce_object(self, name: str, sendobj: Any, op: Reduction) -> Any:
        _check_op(op)
        call: Call = (name, (("op", _op_name(op)),))
        parts = self._join(name, ("USER", _contribution(sendobj)), call)
        return None if parts is None else _reduced(op, parts)

    def _parts(self, name: str, items: Sequence[Any] | None) -> list[Any]:
        self._check_comm()
        objects = [None] * self._size if items is None else list(items)
        if len(objects) != self._size:
            raise ValueError(
                f"expecting {self._size} items, got {len(objects)}: {name} gives one to each rank. "
                f"Make {self._size} parts of them, such as numpy.array_split(items, {self._size})."
            )
        return [_contribution(item) for item in objects]


def _contribution(obj: Any) -> tuple[str, int, bytes]:
    data, claimed = packed(obj)
    return "object", claimed, data


def _object(value: Any) -> Any:
    if not isinstance(value, tuple):
        raise MPIException(
            ERR_OTHER,
            "this rank calls the lower-case form of a collective and another rank the upper-case "
            "one. Use the same on all ranks.",
        )
    return loads(value[2])


def _check_op(op: Any) -> None:
    if not callable(op):
        raise TypeError(
            f"op is one of MPI's operations, such as MPI.SUM, or a function of two objects; "
            f"got {op!r}"
        )


def _reduced(op: Reduction, parts: Sequence[Any]) -> Any:
    objects = [_object(part) for part in parts]
    try:
        return functools.reduce(op, objects)
    except ValueError as error:
        if isinstance(op, Op) and any(isinstance(item, np.ndarray) for item in objects):
            raise ValueError(
                f"{error}. MPI.{op._name} of a lower-case call takes an array as one object: use "
                "the upper-case call, or NumPy's function, such as op=numpy.maximum."
            ) from None
        raise


def _op_name(op: Reduction) -> str:
    return op._name if isinstance(op, Op) else "a function"
