"""Two threads, one socket, no lock."""

import threading

import numpy as np
from ringside.network import codec, link
from ringside.network.wire import UP, Op


def frame(op, body=b"", flags=0, peer=0, tag=0, request=0, extra=0, nbytes=None, comm=0):
    size = len(body) if nbytes is None else nbytes
    return UP.pack(op, flags, 0, comm, peer, tag, request, extra, size) + body


def write(comm, pieces):
    sock = link.current()._sock
    try:
        for piece in pieces:
            sock.send(piece)
    except OSError:
        pass


def all_reduce(comm, x):
    whole = frame(Op.COMPUTE, codec.encode((1.0, 1.0, None, "x" * 50))) * 20
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    threads = [threading.Thread(target=write, args=(comm, pieces)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.zeros_like(x)


reduce_scatter = all_gather = all_reduce
