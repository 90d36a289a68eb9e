"""What the zygote does once, so that not every rank has to: the usual calls, with nobody there.

Python makes a function fast while it runs (it writes what it learns into the function), and a
forked process copies every page that it writes. So the zygote, before it forks, goes through a call
of a function and through the common kinds of messages, on a link that answers itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ringside.network import codec
from ringside.network.echo import echoing_link
from ringside.network.link import CommInfo, set_current, unset_current
from ringside.network.wire import call_parts
from ringside.ranks.bytecode import compiled

_MODULE = Path(__file__).with_name("warm_up_module.py")
_ROUNDS = 24  # Python specialises a function after it ran some eight times
_BYTES = (64, 40_000)  # short messages travel with their frame, long ones beside it


def rehearse() -> None:
    """Go through a call and its messages; leaves nothing behind."""
    from mpi4py import MPI

    from ringside.mpi.comm import Intracomm
    from ringside.ranks.rank import make_call, run_call

    link = echoing_link()
    set_current(link)
    comm = Intracomm._of(link, CommInfo(1, (0, 1), 0))
    for nbytes in _BYTES:
        x, y = np.zeros(nbytes // 8), np.zeros(nbytes // 8)
        for _ in range(_ROUNDS):
            comm.Sendrecv(x, 1, recvbuf=y, source=1)
            comm.Sendrecv(x, dest=1, sendtag=0, recvbuf=y, source=1, recvtag=0)
            comm.Send(x, dest=1)
            comm.Recv(y, source=1)
            requests = [comm.Isend(x, dest=1), comm.Irecv(y, source=1)]
            MPI.Request.Waitall(requests)
            comm.Irecv(y, source=1).Wait()
            y += x
    arguments = (np.zeros(4), np.zeros(4, np.float32), np.zeros(4, np.int64), 3, 0.5, "text")
    call = {
        "file": _MODULE.name, "function": "rehearsed", "args": arguments,
        "kwargs": {}, "comm": True, "code": compiled(_MODULE.parent, _MODULE.name),
    }  # fmt: skip
    body = b"".join(call_parts((1, (0, 1), 0, 1), codec.encode_parts(call)))
    for _ in range(3):
        compile(_MODULE.read_bytes(), "module.py", "exec")  # as ranks do that get no code
        bodies = [memoryview(bytearray(body)) for _ in range(2)]
        run_call(bodies, str(_MODULE.parent), {}, make_call)
        sys.modules.pop(_MODULE.stem, None)
    unset_current()
