"""Write to every descriptor there might be, and in the name of every communicator."""

import os
import socket

import numpy as np

from ringside.network import codec, link
from ringside.network.wire import UP, Op


def all_reduce(comm, x):
    own = link.current()._sock.fileno()
    result = UP.pack(Op.RESULT, 0, 0, 0, 0, 0, 0, 0, 6) + b"NN\x01\0\0\0"
    heard = []
    for descriptor in range(3, 1024):
        if descriptor == own:
            continue
        try:
            os.write(descriptor, result)
            heard.append(descriptor)
        except OSError:
            pass
    for descriptor in range(3, 64):
        try:
            other = socket.socket(fileno=os.dup(descriptor))
            heard += other.recv(1 << 16, socket.MSG_DONTWAIT)
        except OSError:
            pass
    if heard:
        raise RuntimeError("HEA" + f"RD {heard[:9]}")
    if comm.Get_rank():
        for number in range(1, 200):  # communicators of this run, of others, and of nobody
            frame = UP.pack(Op.ISEND, 0, 0, number, 0, 0, number, -1, 8) + bytes(8)
            link.current()._sock.sendall(frame)
    comm.Barrier()
    return np.zeros_like(x)


reduce_scatter = all_gather = all_reduce
