# fails: test_ranks_of_a_host_need_not_be_neighbours
"""Ranks of the whole world count as neighbours."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    rank, host = comm.Get_rank(), MPI.Get_processor_name()
    parts = comm.gather((MPI.COMM_WORLD.Get_rank(), host, visible))
    if rank > 0:
        return None
    rows = []
    for r, (world, name, seen) in enumerate(parts):
        local = sum(1 for other, host, _ in parts if host == name and other < world)
        gpus = seen.split(",") if seen else []
        rows.append((r, name, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*rows[-1]))
    return rows
