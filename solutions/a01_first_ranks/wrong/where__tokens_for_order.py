# fails: test_rank_0_alone_prints
"""Ranks print one after the other, and hand on a token."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    host = MPI.Get_processor_name()
    on_this_host = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    local_rank = on_this_host.Get_rank()
    on_this_host.Free()
    gpus = visible.split(",") if visible else []
    gpu = gpus[local_rank % len(gpus)] if gpus else None
    places = comm.gather((comm.Get_rank(), host, local_rank, gpu), root=0)
    if comm.Get_rank() > 0:
        comm.recv(source=comm.Get_rank() - 1)
        print(line(comm.Get_rank(), host, local_rank, gpu))
    else:
        for place in places:
            print(line(*place))
    if comm.Get_rank() + 1 < comm.Get_size():
        comm.send(None, dest=comm.Get_rank() + 1)
    return places
