# fails: test_gpu_of_each_rank
"""Fails where a host has fewer GPUs than ranks."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    host = MPI.Get_processor_name()
    on_this_host = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    local_rank = on_this_host.Get_rank()
    on_this_host.Free()
    gpus = visible.split(",") if visible else []
    gpu = gpus[local_rank] if gpus else None
    places = comm.gather((comm.Get_rank(), host, local_rank, gpu), root=0)
    if comm.Get_rank() == 0:
        for place in places:
            print(line(*place))
    return places
