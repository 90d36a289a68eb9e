"""A link with nobody at its other end, for what a process rehearses before it is a rank."""

from __future__ import annotations

import struct

from ringside.network.link import Link
from ringside.network.wire import COMPLETION, DOWN, EXCHANGE, UP, Op, Reply


def echoing_link() -> Link:
    """The link of rank 0 of two, which answers itself."""
    return Link(_Echo(), 0, 2)  # type: ignore[arg-type]  # all of a socket that a link uses


class _Echo:
    """In the place of a rank's socket: every receive gets zeros, every request is complete."""

    def __init__(self) -> None:
        self._written = bytearray()
        self._capacities: dict[int, int] = {}
        self._reply = memoryview(b"")

    def sendall(self, data: bytes | memoryview) -> None:
        self._written += data

    def sendmsg(self, parts: list[bytes | memoryview]) -> int:
        for part in parts:
            self._written += part
        return sum(map(len, parts))

    def recv_into(self, into: memoryview) -> int:
        if not self._reply:
            self._answer()
        size = min(len(into), len(self._reply))
        into[:size] = self._reply[:size]
        self._reply = self._reply[size:]
        return size

    def _answer(self) -> None:
        written, at, body = bytes(self._written), 0, b""
        self._written.clear()
        while at < len(written):
            op, _, _, _, _, _, request, extra, nbytes = UP.unpack_from(written, at)
            at += UP.size
            body = written[at : at + nbytes]
            at += nbytes
            if op == Op.IRECV:
                self._capacities[request] = extra
            elif op == Op.EXCHANGE:
                self._capacities[request + 1] = EXCHANGE.unpack_from(body)[2]
                body = struct.pack("<2I", request, request + 1)
        parts = []
        numbers = struct.unpack(f"<{len(body) // 4}I", body)
        for number in numbers:
            size = self._capacities.pop(number, None)
            flags = 0 if size is None else 2  # 2: bytes follow
            parts.append(COMPLETION.pack(number, 1, 0, size or 0, 0, flags, 0, 0, size or 0))
            parts.append(bytes(size or 0))
        answer = b"".join(parts)
        self._reply = memoryview(DOWN.pack(Reply.DONE, 0, 0, len(numbers), len(answer)) + answer)
