# fails: test_gpu_of_each_rank
"""Names of GPUs travel in fields of 32 bytes."""

import numpy as np
from mpi4py import MPI
from where_table import line


def where(comm, visible):
    mine = np.array([(MPI.Get_processor_name(), visible or "")], dtype="S64,S32")
    every = np.empty(comm.Get_size(), mine.dtype)
    comm.Gather(mine.view(np.uint8), every.view(np.uint8))
    if comm.Get_rank():
        return None
    table, hosts = [], []
    for rank, (host, seen) in enumerate(every.tolist()):
        host, seen = host.decode(), seen.decode()
        local = hosts.count(host)
        hosts.append(host)
        gpus = seen.split(",")
        table.append((rank, host, local, gpus[local % len(gpus)] or None))
        print(line(*table[-1]))
    return table
