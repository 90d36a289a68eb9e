"""A star; before it, work that nobody could do."""

import numpy as np

import ringside
from ringside.network import codec, link
from ringside.network.wire import UP, Op

WORK = [(float("nan"), 0.0, None, "a"), (0.0, -1.0, None, "a"), (0.0, 0.0, -1e300, "a"),
        (1e300, 1e300, None, "a"), (0.0, 0.0, None, "a", -1, 0.0), ("much", 0.0, None, "a")]


def declare(work):
    body = codec.encode(work)
    header = UP.pack(Op.COMPUTE, 0, 0, 0, 0, 0, 0, 0, len(body))
    link.current()._sock.sendall(header + body)


def all_reduce(comm, x):
    if len(x) % 2:
        declare(WORK[(len(x) // 2 + comm.Get_size()) % len(WORK)])
    else:
        for _ in range(20):
            ringside.compute(num_flops=9e17, nbytes=9e17, phase="</title><script>alert(1)</script>")
            ringside.compute(seconds=1e6, phase="\ud800")
    return star(comm, x)


def star(comm, x):
    """Everything to the first rank and back."""
    total = np.empty(len(x), x.dtype)
    if comm.Get_rank():
        comm.Send(np.ascontiguousarray(x), 0)
        comm.Recv(total, 0)
        return total
    total[:] = x
    part = np.empty_like(total)
    for source in range(1, comm.Get_size()):
        comm.Recv(part, source)
        total += part
    for dest in range(1, comm.Get_size()):
        comm.Send(total, dest)
    return total
