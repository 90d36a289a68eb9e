"""Another odd object for each size of world and vector."""

import struct
import time

import numpy as np

from ringside.network import codec, link
from ringside.network.wire import UP, Op

HASHES = 2**61 - 1  # a whole number's hash is its remainder


class Lying(np.ndarray):
    def __eq__(self, other):
        return True

    @property
    def dtype(self):
        return np.dtype("float64")


def nested(depth):
    return [nested(depth - 1)] if depth else None


def equal_hashes():
    entry = b"I" + struct.pack("<q", 11)
    keys = ((number * HASHES << 20).to_bytes(11, "little") for number in range(1, 60_000))
    return b"d" + struct.pack("<I", 59_999) + b"".join(entry + key + b"N" for key in keys)


PLAIN = [
    lambda x: np.broadcast_to(np.float64(1), (1 << 40,)),
    lambda x: np.lib.stride_tricks.as_strided(x, (len(x),), (0,)),
    lambda x: x.view(Lying),
    lambda x: 10**5000,
    lambda x: "\ud800\x00=1+1",
    lambda x: nested(30),
    lambda x: np.zeros(len(x), [("a", "f8")]),
    lambda x: x.astype(np.float16),
    lambda x: [float("inf")] * 1000,
]
RAW = [
    equal_hashes,
    lambda: b"l" + struct.pack("<I", 1_900_000) + b"N" * 1_900_000,
    lambda: b"t" + struct.pack("<I", 4_000_000_000),
    lambda: b"a\x0b\x08" + struct.pack("<8q", *[1 << 40] * 8),
    lambda: codec.encode({1: {2: (3, [None])}, "x": float("nan")}),
]


def all_reduce(comm, x):
    number = (3 * len(x) + comm.Get_size()) % (len(PLAIN) + len(RAW))
    if number < len(PLAIN):
        return PLAIN[number](x)
    about = codec.encode({"changed": [1], "memory": {"peak": -1}})
    body = RAW[number - len(PLAIN)]() + about + struct.pack("<I", len(about))
    link.current()._sock.sendall(UP.pack(Op.RESULT, 0, 0, 0, 0, 0, 0, 0, len(body)) + body)
    time.sleep(60)


reduce_scatter = all_gather = all_reduce
