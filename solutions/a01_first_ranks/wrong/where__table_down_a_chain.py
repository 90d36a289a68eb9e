# fails: test_few_bytes
"""The table grows from rank to rank."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, p, host = comm.Get_rank(), comm.Get_size(), MPI.Get_processor_name()
    table = comm.recv(source=rank + 1) if rank + 1 < p else []
    table = [(rank, host, visible), *table]
    if rank:
        comm.send(table, dest=rank - 1)
        return None
    hosts = [row[1] for row in table]
    result = []
    for r, h, seen in table:
        local = hosts[:r].count(h)
        gpus = seen.split(",") if seen else []
        result.append((r, h, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*result[-1]))
    return result
