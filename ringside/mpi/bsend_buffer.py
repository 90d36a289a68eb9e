"""The buffer for buffered sends: Bsend works only while one is attached that is large enough."""

from __future__ import annotations

from typing import Any

from ringside.mpi.buffers import byte_view
from ringside.mpi.constants import BSEND_OVERHEAD, ERR_BUFFER
from ringside.mpi.datatypes import BYTE
from ringside.mpi.exception import Exception as MPIException
from ringside.network.link import Call, format_call

_attached: list[Any] = []


def Attach_buffer(buf: Any) -> None:
    """Give a buffer to buffered sends."""
    if _attached:
        raise MPIException(
            ERR_BUFFER, "a buffer is attached already; call MPI.Detach_buffer() first"
        )
    if buf is not None:
        byte_view(buf, True, BYTE)
        _attached.append(buf)


def Detach_buffer() -> Any:
    """Take the buffer back and return it."""
    return _attached.pop() if _attached else None


def check_attached(nbytes: int, call: Call) -> None:
    """Refuse a buffered send that real MPI would refuse."""
    capacity = len(byte_view(_attached[0], True, BYTE)[0]) if _attached else 0
    if nbytes + BSEND_OVERHEAD > capacity:
        raise MPIException(
            ERR_BUFFER,
            f"{format_call(call)} needs {nbytes + BSEND_OVERHEAD} bytes, the attached buffer has "
            f"{capacity}. Give MPI.Attach_buffer a bytearray with MPI.BSEND_OVERHEAD bytes more "
            "than each message has.",
        )
