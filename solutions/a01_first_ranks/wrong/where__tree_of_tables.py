# fails: test_few_calls
"""A message to every power of two: five on 17 ranks."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, p, host = comm.Get_rank(), comm.Get_size(), MPI.Get_processor_name()
    table = {rank: (host, visible)}
    step = 1
    while step < p:
        request = comm.isend(table, dest=(rank - step) % p)
        more = comm.recv(source=(rank + step) % p)
        request.wait()
        table = {**more, **table}
        step *= 2
    if rank:
        return None
    result = []
    for r in range(p):
        h, seen = table[r]
        local = sum(table[q][0] == h for q in range(r))
        gpus = seen.split(",") if seen else []
        result.append((r, h, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*result[-1]))
    return result
