"""Start a daemon in every way that Python and the kernel know."""

import ctypes
import multiprocessing
import os
import subprocess

import numpy as np


def stay():
    while True:
        try:
            with open("@OUTSIDE@/daemon_was_here", "a") as file:
                file.write("still here")
        except OSError:
            pass


def attempt(function):
    try:
        return function()
    except BaseException:
        return None


def all_reduce(comm, x):
    if attempt(os.fork) == 0:
        attempt(os.setsid)
        stay()
    attempt(lambda: multiprocessing.get_context("fork").Process(target=stay).start())
    attempt(lambda: subprocess.Popen(["sleep", "1000"], start_new_session=True))
    attempt(lambda: os.posix_spawn("/usr/bin/sleep", ["sleep", "1000"], {}))
    if ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) == 0:
        stay()
    return np.zeros_like(x)
