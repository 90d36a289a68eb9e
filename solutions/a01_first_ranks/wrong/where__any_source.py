# fails: test_host_and_local_rank
"""Messages are put down in the order in which they come."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, p, host = comm.Get_rank(), comm.Get_size(), MPI.Get_processor_name()
    if rank > 0:
        comm.send((host, visible), dest=0)
        return None
    parts = [(host, visible)]
    parts += [comm.recv(source=p - k) for k in range(1, p)]
    rows = []
    for r, (name, seen) in enumerate(parts):
        local = [row[1] for row in rows].count(name)
        gpus = seen.split(",") if seen else []
        rows.append((r, name, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*rows[-1]))
    return rows
