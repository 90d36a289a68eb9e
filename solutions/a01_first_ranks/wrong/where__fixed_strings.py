# fails: test_few_bytes
"""Names travel as arrays of four thousand bytes."""

import numpy as np
from mpi4py import MPI
from where_table import line


def where(comm, visible):
    host = MPI.Get_processor_name()
    on_this_host = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    local_rank = on_this_host.Get_rank()
    on_this_host.Free()
    gpus = visible.split(",") if visible else []
    gpu = gpus[local_rank % len(gpus)] if gpus else None
    rank, p = comm.Get_rank(), comm.Get_size()
    text = repr((rank, host, local_rank, gpu)).encode().ljust(4096)
    every = np.empty((p, 4096), np.uint8) if rank == 0 else None
    comm.Gather(np.frombuffer(text, np.uint8), every)
    if rank > 0:
        return None
    places = [eval(bytes(row).decode()) for row in every]
    if comm.Get_rank() == 0:
        for place in places:
            print(line(*place))
    return places
