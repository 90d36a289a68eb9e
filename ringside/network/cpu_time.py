"""CPU time that the kernel charges to a rank, read from outside: the rank has no say in it.

The first bytes that a rank sends bring its process id, translated into our namespace and written
by the kernel (``SO_PASSCRED``), so a rank can't name another's. The time is that of all threads,
in clock ticks (10 ms). Where the kernel doesn't tell, on macOS, it is unknown.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct

from ringside.network import processes

_PASSCRED: int | None = getattr(socket, "SO_PASSCRED", None)
_CREDENTIALS: int | None = getattr(socket, "SCM_CREDENTIALS", None)
_UCRED = struct.Struct("<3i")  # pid, uid, gid
_SPACE = socket.CMSG_SPACE(_UCRED.size)


def ask(sock: socket.socket) -> bool:
    """Let the kernel say who sends; whether it will."""
    if _PASSCRED is None or _CREDENTIALS is None:
        return False
    sock.setsockopt(socket.SOL_SOCKET, _PASSCRED, 1)
    return True


def receive(sock: socket.socket, into: memoryview) -> tuple[int, int]:
    """Bytes received, and the process that sent them; 0 if that isn't known."""
    size, held, _, _ = sock.recvmsg_into([into], _SPACE)
    pid = 0
    for level, kind, data in held:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            for descriptor in array.array("i", data[: len(data) // 4 * 4]):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        elif level == socket.SOL_SOCKET and kind == _CREDENTIALS and len(data) >= _UCRED.size:
            pid = _UCRED.unpack_from(data)[0]
    if _PASSCRED is not None:
        sock.setsockopt(socket.SOL_SOCKET, _PASSCRED, 0)
    return size, pid


def spent_s(pid: int) -> float | None:
    """Seconds of CPU that a process has had; None if it is gone or not known."""
    fields = processes.stat(pid) if pid > 0 else None
    if fields is None:
        return None
    return (int(fields[11]) + int(fields[12])) / processes.TICKS_PER_S
