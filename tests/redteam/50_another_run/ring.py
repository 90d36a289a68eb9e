"""Keep what one call had, and use it in the next; a thread speaks in between."""

import threading
import time

import numpy as np

from ringside.network import link
from ringside.network.wire import UP, Op

KEPT = []


def late(sock, number):
    time.sleep(0.002)  # after the result, before the next call
    try:
        sock.sendall(UP.pack(Op.ISEND, 0, 0, number, 0, 0, 1, -1, 8) + bytes(8))
    except OSError:
        pass


def all_reduce(comm, x):
    network = link.current()
    for old in KEPT:
        try:
            old.Send(np.ascontiguousarray(x), 0)
        except Exception:
            pass
    KEPT.append(comm.Dup())
    threading.Thread(target=late, args=(network._sock, KEPT[-1]._id), daemon=True).start()
    return np.zeros_like(x)


reduce_scatter = all_gather = all_reduce
