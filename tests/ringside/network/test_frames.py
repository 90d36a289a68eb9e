"""Frames: what a constructor writes, the network reads back by name; and nobody below calls up."""

from __future__ import annotations

import gc
import inspect
import os
import socket
import struct
import weakref
from typing import Any

import pytest

from ringside.network import collectives, matching, messages, passes, peers, requests
from ringside.network.network import Network
from ringside.network.peers import Peer
from ringside.network.wire import (
    BLOCKING,
    DOWN,
    EXCHANGE,
    UP,
    Frame,
    How,
    Op,
    Reply,
    ReplyFrame,
    exchange_head,
)
from ringside.timing.machine import Machine
from ringside.trace import Mode

BUFFERED = int(Mode.BUFFERED)
# The bytes stay as they are: op, flags, site, communicator, peer, tag, request, extra.
WRITTEN: list[tuple[Frame, tuple[int, ...], bytes]] = [
    (
        Frame.isend(
            site=7, comm=2, dest=3, tag=5, request=11, payload=b"abc", mode=BUFFERED, kind=4
        ),
        (Op.ISEND, BUFFERED | 4 << 4, 7, 2, 3, 5, 11, -1),
        b"abc",
    ),
    (
        Frame.isend(site=7, comm=2, dest=3, tag=5, request=11, payload=b"abc", kind=1, claimed=2),
        (Op.ISEND, 1 << 4, 7, 2, 3, 5, 11, 2),
        b"abc",
    ),
    (
        Frame.irecv(site=7, comm=2, source=-1, tag=5, request=12, capacity=64, kind=4),
        (Op.IRECV, 4 << 4, 7, 2, -1, 5, 12, 64),
        b"",
    ),
    (
        Frame.completion(Op.WAIT, site=7, requests=(11, 12), how=How.SOME),
        (Op.WAIT, How.SOME, 7, 0, 0, 0, 0, 0),
        struct.pack("<2I", 11, 12),
    ),
    (
        Frame.probe(site=7, comm=2, source=3, tag=5, blocking=True),
        (Op.PROBE, BLOCKING, 7, 2, 3, 5, 0, 0),
        b"",
    ),
    (
        Frame.collective(site=7, comm=2, request=13, contribution=b"xy", kind=4),
        (Op.COLLECTIVE, 4 << 4, 7, 2, 0, 0, 13, 0),
        b"xy",
    ),
    (
        Frame.announcement(phase="forward", number=6, num_factors=9),
        (Op.PASS, 0, 0, 0, 0, 0, 6, 9),
        b"forward",
    ),
    (Frame.abort(site=7, code=-4), (Op.ABORT, 0, 7, 0, 0, 0, 0, -4), b""),
]


@pytest.mark.parametrize(("frame", "fields", "body"), WRITTEN)
def test_a_frame_is_written_as_its_header_says(
    frame: Frame, fields: tuple[int, ...], body: bytes
) -> None:
    head = frame.head(len(body))
    assert UP.unpack(head) == (*fields, len(body))
    assert bytes(frame.body) == body
    assert Frame(*UP.unpack(head)[:-1], body) == frame


def test_an_exchange_is_a_send_and_a_receive() -> None:
    head = exchange_head(
        site=7, comm=2, dest=3, sendtag=5, request=11, claimed=None,
        source=1, recvtag=6, capacity=64, kinds=(4, 9), nbytes=3,
    )  # fmt: skip
    *fields, nbytes = UP.unpack_from(head)
    assert nbytes == EXCHANGE.size + 3
    send, receive = Frame(*fields, head[UP.size :] + b"abc").halves()
    assert send == Frame.isend(site=7, comm=2, dest=3, tag=5, request=11, payload=b"abc", kind=4)
    assert receive == Frame.irecv(site=7, comm=2, source=1, tag=6, request=12, capacity=64, kind=9)


def test_a_reply_says_its_size() -> None:
    head = ReplyFrame(Reply.DONE, (b"ab", b"c"), 3, 2).head()
    assert DOWN.unpack(head) == (Reply.DONE, 0, 0, 2, 3)


@pytest.mark.parametrize(
    "part",
    [matching.Mailbox, requests.Requests, messages.Messages, collectives.Collectives,
     passes.Passes, peers.Peers],
)  # fmt: skip
def test_a_part_below_the_network_is_handed_no_function_to_call(part: type[Any]) -> None:
    """What happened is returned: the way of a message goes down and comes back once."""
    for name, method in inspect.getmembers(part, inspect.isfunction):
        for parameter in inspect.signature(method).parameters.values():
            assert "Callable" not in str(parameter.annotation), f"{part.__name__}.{name}"
            assert "Handler" not in str(parameter.annotation), f"{part.__name__}.{name}"
            assert "Answering" not in str(parameter.annotation), f"{part.__name__}.{name}"


def test_what_a_run_held_is_freed_when_it_is_over() -> None:
    """Parts that call upwards hold each other in circles, until the collector comes round."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    read, write = os.pipe()
    os.set_blocking(read, False)
    gc.disable()
    try:
        network = Network([Peer(0, ours, read)], Machine.load("textbook"))
        theirs.sendall(
            Frame.isend(site=0, comm=0, dest=0, tag=0, request=1, payload=b"abc").head(3) + b"abc"
        )
        theirs.shutdown(socket.SHUT_WR)  # the rank's end, with a message that nobody takes
        end = network.call({0: [b"N"]}, None, None)
        assert end.unreceived == ["rank 0 sent 3 bytes with tag 0 to rank 0"]
        held = weakref.ref(network), weakref.ref(network._messages)
        del network, end
        assert [reference() for reference in held] == [None, None]
    finally:
        gc.enable()
        for end_of_socket in (ours, theirs):
            end_of_socket.close()
        os.close(read)
        os.close(write)
