# fails: test_messages_may_arrive_in_any_order
"""Host and GPUs come apart, each from whoever comes first."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, p, host = comm.Get_rank(), comm.Get_size(), MPI.Get_processor_name()
    if rank:
        comm.send((rank, host), dest=0, tag=1)
        comm.send(visible, dest=0, tag=2)
        return None
    table = [(0, host, visible)]
    for _ in range(p - 1):
        r, h = comm.recv(source=MPI.ANY_SOURCE, tag=1)
        table.append((r, h, comm.recv(source=MPI.ANY_SOURCE, tag=2)))
    table.sort()
    hosts = [h for _, h, _ in table]
    result = []
    for r, h, seen in table:
        local = hosts[:r].count(h)
        gpus = seen.split(",") if seen else []
        result.append((r, h, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*result[-1]))
    return result
