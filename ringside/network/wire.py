"""Frames between a rank and the network: a fixed header, then raw bytes.

rank -> network    op, flags, site, communicator, peer, tag, request, extra, nbytes | body
network -> rank    kind, flags, count, nbytes | body

``site`` numbers a pair (call, line of the student's file) that a SITE frame described before. An
EXCHANGE is an ISEND, an IRECV with the next request's number, and a WAIT for both, in one frame.
A CALL with large arguments has no body: they come with it as a sealed file, by descriptor.
A PASS announces what a supplied layer computes next (its phase as text, which one in ``request``,
and in ``extra`` how many factors it needs); the answer are FACTORS, see ``ringside.factors``.
Both sides are written so that the network never trusts a field: ranks run student code.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any

from ringside.network import codec

UP = struct.Struct("<BBHiiiIqQ4x")  # arrays behind it lie so that NumPy takes them as they are
DOWN = struct.Struct("<BBHIQ")
COMPLETION = struct.Struct(
    "<IiiqBBHIQ"
)  # request, source, tag, counted, error, overflow, -, -, nbytes

EXCHANGE = struct.Struct("<iiq")  # of an EXCHANGE, before its payload: source, tag and capacity

RESULT = struct.Struct("<I")  # at a RESULT's end: how long the part before it is

CALL = struct.Struct("<II")  # of a CALL: where the communicator ends, where the call begins

ENVELOPE_BYTES = 1024  # of a lower-case message, not counted: names, types and lengths

ANY_SOURCE = -1
ANY_TAG = -1

FIRST_INTERNAL_TAG = 1 << 29  # tags from here on are the front ends' own: no wildcard takes them


class Op(enum.IntEnum):
    """What a rank asks of the network."""

    SITE = 1
    ISEND = 2
    IRECV = 3
    WAIT = 4
    TEST = 5
    PROBE = 6
    COLLECTIVE = 7
    COMPUTE = 8
    WTIME = 9
    ABORT = 10
    RESULT = 11
    FAILURE = 12
    FREE = 14
    EXCHANGE = 15
    PASS = 16


class Reply(enum.IntEnum):
    """What the network answers."""

    CALL = 1
    DONE = 2
    EMPTY = 3
    TIME = 4
    FACTORS = 5


class How(enum.IntEnum):
    """Which of several requests a wait or test is about."""

    ALL = 0
    ANY = 1
    SOME = 2


BLOCKING = 2  # flag of PROBE
LAST, OBSERVED = 1, 2  # of a CALL, in its count: no call comes after it; passes are announced

# What a message is made of, or the buffer of a receive, as its rank says: the upper half of the
# flags. Of an OBJECT, a lower-case message, ``extra`` holds the bytes its sender claims to count.
# Bytes fit whatever takes them, so that they have no kind. The lower half holds the mode of an
# ISEND, and the kind of the receive in an EXCHANGE.
OBJECT = 1
KINDS = ("", "object", *codec.DTYPES)
KIND_OF = {name: kind for kind, name in enumerate(KINDS) if name not in ("", "object", "uint8")}


def counted_of_object(nbytes: int, claimed: int) -> int:
    """Bytes that count of a lower-case message, of which its sender claims so many to be payload.

    What is payload only the sender can say, and it may lie: so at most an envelope of a message is
    free. A message that carries nothing else has its tag, its length and its time to tell as much,
    and like them it costs a message.
    """
    return claimed if max(0, nbytes - ENVELOPE_BYTES) <= claimed <= nbytes else nbytes


def call_parts(comm: tuple[Any, ...], call: Sequence[codec.Part]) -> list[codec.Part]:
    """The body of a CALL: the communicator, then the call as the codec wrote it, aligned.

    After the communicator's number, members and our place comes how many ranks share a node.
    """
    info = codec.encode(comm)
    end = CALL.size + len(info)
    start = end + -end % codec.ALIGNMENT
    return [CALL.pack(end, start) + info + bytes(start - end), *call]


def split_call(body: memoryview) -> tuple[memoryview, memoryview]:
    """The communicator of a CALL, and the call, both as the codec wrote them."""
    end, start = CALL.unpack_from(body)
    return body[CALL.size : end], body[start:]


def result_parts(attested: dict[str, Any], value: Any) -> list[codec.Part]:
    """The body of a RESULT: the value, what the rank says about it, and how long that is."""
    about = codec.encode(attested)
    return [*codec.encode_parts(value), about + RESULT.pack(len(about))]


def split_result(
    body: codec.Part, most_bytes: int | None = None
) -> tuple[dict[str, Any], Any, int]:
    """What a rank says about its result, the value, and the memory that both take.

    The value's arrays may lie in ``body``; then they take none.

    Args:
        most_bytes: see ``codec.decode_within``.

    Raises:
        CodecError, struct.error, TypeError, ValueError: the body is damaged.
    """
    view = memoryview(body)
    end = len(view) - RESULT.size
    (length,) = RESULT.unpack_from(view[max(end, 0) :])
    start = max(end - length, 0)
    about, taken = codec.decode_within(view[start:end], most_bytes)
    left = None if most_bytes is None else most_bytes - taken
    value, nbytes = codec.decode_within(view[:start], left, copy=False)
    return dict(about), value, taken + nbytes
