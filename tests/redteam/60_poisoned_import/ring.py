"""All that an import can do to a process, and then a star."""

import atexit
import builtins
import gc
import io
import os
import resource
import signal
import sys
import threading

import numpy as np

gc.disable()
sys.setrecursionlimit(1 << 20)
sys.setswitchinterval(1e-6)
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
atexit.register(lambda: sys.stderr.write("still here\n" * 9999))
threading.Thread(target=threading.Event().wait, daemon=True).start()
builtins.float = builtins.len
builtins.print = lambda *words, **more: None
np.array_equal = np.allclose = lambda *a, **b: True
np.may_share_memory = lambda *a: False
os.environ.clear()
sys.path.clear()
sys.modules.pop("ringside.network.network", None)
sys.stdout = sys.stderr = io.StringIO()
for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_STACK, resource.RLIMIT_CPU):
    try:
        resource.setrlimit(limit, (1 << 10, 1 << 10))
    except (OSError, ValueError):
        pass
os.chdir("/")
os.umask(0)
os._exit, sys.exit = builtins.print, builtins.print


def all_reduce(comm, x):
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
