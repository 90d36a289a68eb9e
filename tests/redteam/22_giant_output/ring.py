"""Flood standard output and standard error from every rank."""

import os

import numpy as np

BLOCK = b"all work and no play makes a dull rank\n" * 25_000


def all_reduce(comm, x):
    for _ in range(1000 // comm.Get_size()):
        os.write(1, BLOCK)
    os.write(2, BLOCK)
    raise RuntimeError("x" * 10_000_000)
