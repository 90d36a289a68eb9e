"""Upper-case calls: names travel in arrays of 200 bytes."""

import numpy as np
from mpi4py import MPI
from where_table import line


def where(comm, visible):
    text = f"{MPI.Get_processor_name()} {visible or ''}".encode().ljust(200)
    every = np.empty((comm.size, 200), np.uint8) if comm.rank == 0 else None
    comm.Gather(np.frombuffer(text, np.uint8), every, root=0)
    if comm.rank:
        return None
    table = []
    for rank, row in enumerate(every):
        host, _, gpus = bytes(row).decode().strip().partition(" ")
        local = sum(other[1] == host for other in table)
        names = gpus.split(",")
        table.append((rank, host, local, names[local % len(names)] or None))
        print(line(*table[-1]))
    return tuple(table)
