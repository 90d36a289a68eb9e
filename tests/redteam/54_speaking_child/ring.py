"""Every way to a second process; the child answers with somebody else's voice."""

import ctypes
import multiprocessing
import os
import subprocess
import sys

import numpy as np

CHILDREN = []


def attempt(start):
    try:
        if start() == 0 and os.getpid() != PARENT:
            from ringside.network import link

            link.current()._sock.sendall(bytes(64))
            os._exit(0)
        CHILDREN.append(start.__name__)
    except (OSError, ValueError, RuntimeError):
        pass


def fork():
    return os.fork()


def clone():
    child = ctypes.CDLL(None, use_errno=True).syscall(56, 17, 0, 0, 0, 0)  # SIGCHLD
    if child < 0:
        raise OSError
    return child


def spawn():
    return os.posix_spawn(sys.executable, ["python", "-c", "pass"], {})


def run():
    return subprocess.Popen(["/bin/true"]).pid


def process():
    worker = multiprocessing.get_context("fork").Process(target=print)
    worker.start()
    return worker.pid


PARENT = os.getpid()


def all_reduce(comm, x):
    for start in (fork, clone, spawn, run, process):
        attempt(start)
    if CHILDREN:
        raise RuntimeError("A CHI" + f"LD SPOKE: {CHILDREN}")
    return np.zeros_like(x)


reduce_scatter = all_gather = all_reduce
