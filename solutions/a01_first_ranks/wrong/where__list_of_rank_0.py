# fails: test_gpu_of_each_rank
"""Rank 0's GPUs are taken for everybody's."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    hosts = comm.gather(MPI.Get_processor_name())
    if comm.Get_rank() > 0:
        return None
    gpus = visible.split(",") if visible else []
    rows = []
    for rank, host in enumerate(hosts):
        local = hosts[:rank].count(host)
        rows.append((rank, host, local, gpus[local % len(gpus)] if gpus else None))
        print(line(*rows[-1]))
    return rows
