"""Split by the place of the host's name; an exclusive scan counts."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    host = MPI.Get_processor_name()
    hosts = comm.allgather(host)
    node = comm.Split(hosts.index(host), comm.Get_rank())
    local = node.exscan(1) or 0
    gpus = visible.split(",") if visible else []
    gpu = gpus[local % len(gpus)] if gpus else None
    table = comm.gather((comm.Get_rank(), host, local, gpu), root=0)
    node.Free()
    for row in table or ():
        print(line(*row))
    return table
