"""A rank that speaks to the network directly, and badly."""

import struct
import time

import numpy as np
from ringside.network import codec, link
from ringside.network.wire import UP, Op


def frame(op, body=b"", flags=0, peer=0, tag=0, request=0, extra=0, nbytes=None, comm=0):
    size = len(body) if nbytes is None else nbytes
    return UP.pack(op, flags, 0, comm, peer, tag, request, extra, size) + body

FAR = struct.pack("<2I", 5, 5)
ENDLESS = (1 << 8000, 0)

FRAMES = [
    frame(Op.PROBE, peer=99, flags=2),
    frame(Op.TEST, flags=1),
    frame(Op.IRECV, request=5) + frame(Op.TEST, FAR),
    frame(Op.WAIT, b"abc"),
    frame(Op.COLLECTIVE, codec.encode(("reduce_scatter", ("USER", b"abc", ENDLESS))), request=1),
    frame(Op.COLLECTIVE, codec.encode(("barrier", (), "b", (("n", 1 << 8000),))), request=1),
    frame(Op.COLLECTIVE, codec.encode(("create", ((1, 1, 1),))), request=1),
    frame(Op.SITE, codec.encode(("recv", "ring.py", 1 << 8000))) + frame(Op.PROBE, flags=2),
    frame(Op.FAILURE, codec.encode(("E", "m", [("f", 1 << 8000, "w", "t")], ""))),
    frame(Op.RESULT, b"\xff" * 9),
    bytes(range(256)) * 20,
    frame(99),
]


def all_reduce(comm, x):
    """The last rank sends one of the frames; the others wait for it."""
    if comm.Get_rank() == comm.Get_size() - 1:
        number = (len(x) + comm.Get_size()) % len(FRAMES)
        link.current()._sock.sendall(FRAMES[number])
        time.sleep(60)
    comm.Barrier()
    return np.array(x)


reduce_scatter = all_gather = all_reduce
