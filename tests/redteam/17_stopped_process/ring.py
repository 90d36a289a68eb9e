"""Ignore what can be ignored, then stop."""

import os
import signal

import numpy as np

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def all_reduce(comm, x):
    os.kill(os.getpid(), signal.SIGSTOP)
    return np.zeros_like(x)
