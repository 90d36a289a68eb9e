# fails: test_ranks_of_a_host_need_not_be_neighbours
"""Counts from the first rank of the host, as if they stood together."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, host = comm.Get_rank(), MPI.Get_processor_name()
    parts = comm.gather((host, visible))
    if rank > 0:
        return None
    rows = []
    for r, (name, seen) in enumerate(parts):
        local = rows[-1][2] + 1 if rows and rows[-1][1] == name else 0
        gpus = seen.split(",") if seen else []
        rows.append((r, name, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*rows[-1]))
    return rows
