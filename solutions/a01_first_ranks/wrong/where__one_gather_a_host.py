# fails: test_few_calls
"""One gather for each host."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    host = MPI.Get_processor_name()
    hosts = comm.allgather(host)
    rank = comm.Get_rank()
    gpus = visible.split(",") if visible else []
    table = []
    for name in dict.fromkeys(hosts):
        local = hosts[:rank].count(host)
        mine = (rank, host, local, gpus[local % len(gpus)] if gpus else None)
        part = comm.gather(mine if host == name else None)
        table += [row for row in part or () if row]
    if rank:
        return None
    table.sort()
    for row in table:
        print(line(*row))
    return table
