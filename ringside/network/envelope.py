"""How much of an object message is envelope, and so not counted.

A lower-case call sends a pickle: beside the payload it holds names, types and lengths, up to 1 KiB
of which are free. How many bytes are payload only the sender can say, and it may lie. But an
envelope hardly changes from one message to the next, and payload does: what is new in a message,
which is what remains when it is compressed with the last message as dictionary, can't be more than
the payload and a little::

    claimed 8000   real 8128   new 8060     an array: 8000 are counted
    claimed    0   real 1024   new 1024     payload in disguise: 1024 are counted
"""

from __future__ import annotations

import zlib

from ringside.network.wire import ENVELOPE_BYTES

_ALWAYS_FREE = 64  # bytes of a message, whatever they are
_FREE_ONCE = 2048  # new bytes in all envelopes of one call: names, when they come first
_ALONE = 256  # new bytes in the envelope of a message that has none before it
_LOOKED_AT = 8192  # in longer messages an envelope is too small a part to matter
_FACTOR = 1.125  # numbers in a list take a byte more each than they count


class Envelopes:
    """The object messages of one rank in one call."""

    __slots__ = ("_last", "_room")

    def __init__(self) -> None:
        self._last = b""
        self._room = _FREE_ONCE

    def counted(self, body: bytes, claimed: int) -> int:
        """Bytes that count of a message of which its sender claims so many to be payload."""
        real = len(body)
        if not _is_possible(claimed, real):
            return real
        if real - claimed <= _ALWAYS_FREE or real > _LOOKED_AT:
            return claimed
        excess = _new_bytes(body, self._last) - int(_FACTOR * claimed) - _ALWAYS_FREE
        self._last = body
        if excess <= 0:
            return claimed
        self._room -= excess
        return claimed if self._room >= 0 else real


def counted_alone(body: bytes, claimed: int) -> int:
    """As ``Envelopes.counted``, of a contribution to a collective."""
    real = len(body)
    if not _is_possible(claimed, real):
        return real
    if real - claimed <= _ALONE or real > _LOOKED_AT:
        return claimed
    return claimed if _new_bytes(body, b"") <= _FACTOR * claimed + _ALONE else real


def _is_possible(claimed: int, real: int) -> bool:
    return max(0, real - ENVELOPE_BYTES) <= claimed <= real


def _new_bytes(body: bytes, known: bytes) -> int:
    """Bytes that it takes to tell ``body`` to somebody who knows ``known``."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -13, 6, zlib.Z_DEFAULT_STRATEGY, known)
    return len(packer.compress(body)) + len(packer.flush())
