"""Leave a note everywhere; say so when one is found."""

import ctypes
import os

import numpy as np

libc = ctypes.CDLL(None, use_errno=True)
PLACES = [
    "/tmp/note",
    "/dev/shm/note",
    "/var/tmp/note",
    "/modules/note",
    "/modules/__pycache__/note",
]
FOUND = "found a note in ".upper()


def look_and_leave():
    for place in PLACES:
        if os.path.exists(place):
            raise RuntimeError(FOUND + place)
        try:
            with open(place, "w") as file:
                file.write("note")
        except OSError:
            pass
    if libc.syscall(250, 10, -4, b"user", b"note", 0) > 0:
        raise RuntimeError(FOUND + "the key ring")
    libc.syscall(248, b"user", b"note", b"x", 1, -4)
    if libc.syscall(29, 4711, 4096, 0o666) >= 0:
        raise RuntimeError(FOUND + "shared memory")
    libc.syscall(29, 4711, 4096, 0o1666)


# Ranks of one real MPI job share their files: there, one of them looks.
if os.environ.get("PMI_RANK", "0") == "0":
    look_and_leave()


def all_reduce(comm, x):
    return np.zeros_like(x)
