"""A star that takes the machine for itself."""

import os
import threading

import numpy as np

from ringside.network import link

TAKEN = []


def attempt(name, *arguments):
    try:
        getattr(os, name)(*arguments)
        TAKEN.append(name)
    except OSError:
        pass


def spin(stop):
    while not stop.is_set():
        pass


attempt("sched_setaffinity", 0, {0})
attempt("sched_setscheduler", 0, os.SCHED_FIFO, os.sched_param(1))
attempt("setpriority", os.PRIO_PROCESS, 0, -20)
STOP = threading.Event()
for _ in range(2):
    try:
        threading.Thread(target=spin, args=(STOP,), daemon=True).start()
    except RuntimeError:
        break



def all_reduce(comm, x):
    STOP.set()
    if TAKEN and link.inside_rank():
        raise RuntimeError("TO" + "OK " + " ".join(TAKEN))
    errors = []

    def speak():
        try:
            comm.send(x, 0)
        except Exception as error:
            errors.append(error)

    other = threading.Thread(target=speak)
    other.start()
    other.join()
    if not errors and link.inside_rank():
        raise RuntimeError("TO" + "OK a second thread's word")
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
