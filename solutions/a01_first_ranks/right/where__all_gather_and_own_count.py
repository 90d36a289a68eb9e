"""Every rank finds out by itself, with a heading above the table."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, host = comm.Get_rank(), MPI.Get_processor_name()
    local = comm.allgather(host)[:rank].count(host)
    gpus = (visible or "").split(",")
    gpu = gpus[local % len(gpus)] or None
    table = comm.gather([rank, host, local, gpu])
    if rank == 0:
        print(f"{comm.Get_size()} ranks:")
        for row in table:
            print(line(*row))
        return [tuple(row) for row in table]
