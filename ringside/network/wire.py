"""Frames between a rank and the network: a fixed header, then raw bytes.

rank -> network    op, flags, site, communicator, peer, tag, request, extra, nbytes | body   Frame
network -> rank    kind, flags, count, nbytes | body                                    ReplyFrame

``site`` numbers a pair (call, line of the student's file) that a SITE frame described before. An
EXCHANGE is an ISEND, an IRECV with the next request's number, and a WAIT for both, in one frame.
A CALL with large arguments has no body: they come with it as a sealed file, by descriptor.
A PASS announces what a supplied layer computes next (its phase as text, which one in ``request``,
and in ``extra`` how many factors it needs); the answer are FACTORS, see ``ringside.factors``.
An ACCESS reads or writes another rank's window. While that rank waits for an answer, a SERVE with
the access comes first; its link does it and answers SERVED, see ``ringside.network.windows``.
Both sides are written so that the network never trusts a field: ranks run student code.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

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
    ACCESS = 17
    SERVED = 18
    LOCK = 19
    UNLOCK = 20
    SYNC = 21
    FAILURES = 22
    STORE = 23


class Reply(enum.IntEnum):
    """What the network answers."""

    CALL = 1
    DONE = 2
    EMPTY = 3
    TIME = 4
    FACTORS = 5
    SERVE = 6
    KNOWN = 7
    DIE = 8
    STORED = 9


class How(enum.IntEnum):
    """Which of several requests a wait or test is about."""

    ALL = 0
    ANY = 1
    SOME = 2


class About(enum.IntEnum):
    """What a FAILURES frame asks, or tells, about those of a communicator."""

    GET_FAILED = 0
    ACK_FAILED = 1
    IS_REVOKED = 2
    REVOKE = 3
    TIME_OUT = 4  # how long its rank waits for what happens on it; there is no answer


# Errors of requests, with the numbers that Open MPI gives MPI's classes of them.
TRUNCATED = 15  # its own number on the wire
PROC_FAILED, PROC_FAILED_PENDING, REVOKED = 75, 76, 77
TIMED_OUT = 100  # of torch alone

BLOCKING = 2  # flag of PROBE
EXCLUSIVE = 1  # flag of LOCK
# What an access does, if it isn't a "put": those that may meet others of their kind at the same
# bytes, and those that bring bytes back.
ATOMIC = frozenset({"accumulate", "get_accumulate", "compare_and_swap"})
FETCHES = frozenset({"get", "get_accumulate", "compare_and_swap"})
_ISEND, _IRECV, _EXCHANGE = int(Op.ISEND), int(Op.IRECV), int(Op.EXCHANGE)
LAST, OBSERVED = 1, 2  # of a CALL, in its count: no call comes after it; passes are announced

# What a message is made of, or the buffer of a receive, as its rank says: the upper half of the
# flags. Of an OBJECT, a lower-case message, ``extra`` holds the bytes its sender claims to count.
# Bytes fit whatever takes them, so that they have no kind. The lower half holds the mode of an
# ISEND, and the kind of the receive in an EXCHANGE.
OBJECT = 1
KINDS = ("", "object", *codec.DTYPES)
KIND_OF = {name: kind for kind, name in enumerate(KINDS) if name not in ("", "object", "uint8")}

_EXCHANGE_HEAD = struct.Struct(UP.format + EXCHANGE.format[1:])


class Frame(NamedTuple):
    """What a rank asks of the network.

    A constructor for each kind says what the fields mean, and properties read it back::

        op           flags             peer      extra              body
        ISEND        mode, kind << 4   dest      claimed            payload
        IRECV        kind << 4         source    capacity
        EXCHANGE     both kinds        dest      claimed            the receive's part, payload
        WAIT, TEST   how                                            numbers of requests
        PROBE        BLOCKING          source
        COLLECTIVE   begins, kind << 4                              name, contribution
        PASS                                     number of factors  phase
        ABORT                                    error code
        ACCESS                         target                       what, op, type, runs, data
        LOCK         EXCLUSIVE         target; -1: all
        FAILURES     About                       how many to ack; milliseconds
        STORE                                                       what, where, from, to, array

    What a rank has sent is anything that fits the header: nothing here checks it.
    """

    op: int
    flags: int = 0
    site: int = 0
    comm: int = 0
    peer: int = 0
    tag: int = 0
    request: int = 0
    extra: int = 0
    body: codec.Part = b""

    @classmethod
    def isend(
        cls, *, site: int, comm: int, dest: int, tag: int, request: int, payload: codec.Part,
        mode: int = 0, kind: int = 0, claimed: int | None = None,
    ) -> Frame:  # fmt: skip
        """A send is posted; ``claimed`` is what counts of an object."""
        extra = -1 if claimed is None else claimed
        flags = mode | kind << 4
        return make_frame((_ISEND, flags, site, comm, dest, tag, request, extra, payload))

    @classmethod
    def irecv(
        cls, *, site: int, comm: int, source: int, tag: int, request: int, capacity: int,
        kind: int = 0,
    ) -> Frame:  # fmt: skip
        """A receive is posted; a capacity of -1 takes any number of bytes."""
        return make_frame((_IRECV, kind << 4, site, comm, source, tag, request, capacity, b""))

    @classmethod
    def completion(cls, op: Op, *, site: int, requests: Sequence[int], how: int) -> Frame:
        """A WAIT or a TEST for requests."""
        body = struct.pack(f"<{len(requests)}I", *requests)
        return cls(op, how, site, body=body)

    @classmethod
    def probe(cls, *, site: int, comm: int, source: int, tag: int, blocking: bool) -> Frame:
        """Is there a message?"""
        return cls(Op.PROBE, BLOCKING if blocking else 0, site, comm, source, tag)

    @classmethod
    def collective(
        cls, *, site: int, comm: int, request: int, contribution: bytes, kind: int,
        begins: bool = False,
    ) -> Frame:  # fmt: skip
        """A member joins a collective; it ``begins`` it, where its call is a non-blocking one."""
        flags = kind << 4 | begins
        return cls(Op.COLLECTIVE, flags, site, comm, request=request, body=contribution)

    @classmethod
    def announcement(cls, *, phase: str, number: int, num_factors: int) -> Frame:
        """A supplied layer is about to compute a pass."""
        return cls(Op.PASS, request=number, extra=num_factors, body=phase.encode())

    @classmethod
    def access(
        cls, *, site: int, window: int, target: int, fence: int, request: int, body: bytes
    ) -> Frame:
        """An access to a window is posted; ``fence`` is the epoch between two fences, or -1."""
        return cls(Op.ACCESS, 0, site, window, target, fence, request, body=body)

    @classmethod
    def lock(cls, op: Op, *, site: int, window: int, target: int, exclusive: bool) -> Frame:
        """A LOCK is asked for, or given back by an UNLOCK; a target of -1 stands for all."""
        return cls(op, EXCLUSIVE if exclusive else 0, site, window, target)

    @classmethod
    def failures(cls, about: About, *, site: int, comm: int, number: int) -> Frame:
        """What is known of failures in a communicator, or that it is revoked."""
        return cls(Op.FAILURES, about, site, comm, extra=number)

    @classmethod
    def store(cls, *, site: int, body: bytes) -> Frame:
        """A store is written, read, listed, or something in it removed."""
        return cls(Op.STORE, site=site, body=body)

    @classmethod
    def abort(cls, *, site: int, code: int) -> Frame:
        """MPI_Abort is called."""
        return cls(Op.ABORT, site=site, extra=code)

    @property
    def mode(self) -> int:
        """Of an ISEND."""
        return self.flags & 0xF

    @property
    def kind(self) -> int:
        """Of wire.KINDS: what an ISEND, an IRECV or a COLLECTIVE carries."""
        return self.flags >> 4

    @property
    def blocking(self) -> bool:
        """Whether a PROBE waits for a message."""
        return bool(self.flags & BLOCKING)

    def head(self, nbytes: int) -> bytes:
        """The header, before a body of ``nbytes`` bytes."""
        op, flags, site, comm, peer, tag, request, extra, _ = self
        return UP.pack(op, flags, site, comm, peer, tag, request, extra, nbytes)

    def halves(self) -> tuple[Frame, Frame]:
        """The ISEND and the IRECV that an EXCHANGE stands for.

        Raises:
            struct.error: the body is too short to name a receive.
        """
        _, flags, site, comm, dest, tag, request, claimed, body = self
        source, receive_tag, capacity = EXCHANGE.unpack_from(body)
        payload = body[EXCHANGE.size :]
        kind, other = flags & 0xF0, flags << 4 & 0xF0
        return (
            make_frame((_ISEND, kind, site, comm, dest, tag, request, claimed, payload)),
            make_frame(
                (_IRECV, other, site, comm, source, receive_tag, request + 1, capacity, b"")
            ),
        )


def exchange_head(
    *, site: int, comm: int, dest: int, sendtag: int, request: int, claimed: int | None,
    source: int, recvtag: int, capacity: int, kinds: tuple[int, int], nbytes: int,
) -> bytes:  # fmt: skip
    """The head of an EXCHANGE; its payload of ``nbytes`` bytes comes behind it.

    Args:
        request: of the send; the receive has the next number.
        kinds: of the send and of the receive.
    """
    extra = -1 if claimed is None else claimed
    return _EXCHANGE_HEAD.pack(
        _EXCHANGE, kinds[0] << 4 | kinds[1], site, comm, dest, sendtag, request, extra,
        EXCHANGE.size + nbytes, source, recvtag, capacity,
    )  # fmt: skip


class ReplyFrame(NamedTuple):
    """What the network answers: a ``Reply``, and its body of ``size`` bytes.

    The body is written in parts, since payloads aren't copied, and read as one. ``number`` is
    that of the completions in a DONE; of a CALL it is LAST and OBSERVED, of a SERVE the window, of
    a STORED whether the value is an error's text.
    """

    kind: int
    parts: Sequence[codec.Part]
    size: int
    number: int = 0

    def head(self) -> bytes:
        """The header."""
        kind, _, size, number = self
        return DOWN.pack(kind, 0, 0, number, size)


# From a tuple of all fields. The classes' own constructors take three times as long, and every
# message goes through several frames.
make_frame: Callable[[tuple[Any, ...]], Frame] = partial(tuple.__new__, Frame)
make_reply: Callable[[tuple[Any, ...]], ReplyFrame] = partial(tuple.__new__, ReplyFrame)


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
    about, about_bytes = codec.decode_within(view[start:end], most_bytes)
    rest_bytes = None if most_bytes is None else most_bytes - about_bytes
    value, nbytes = codec.decode_within(view[:start], rest_bytes, copy=False)
    return dict(about), value, about_bytes + nbytes


def shown_tag(tag: int) -> str:
    """A tag in a sentence: those of the front ends are no numbers of the program's.

    >>> shown_tag(5), shown_tag(FIRST_INTERNAL_TAG + 1)
    ('tag 5', 'the tag of a collective among neighbours')
    """
    return f"tag {tag}" if tag < FIRST_INTERNAL_TAG else "the tag of a collective among neighbours"
