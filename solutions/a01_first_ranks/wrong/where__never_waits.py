# fails: test_what_is_started_ends
"""A send that nobody waits for."""

from mpi4py import MPI
from where_table import line


def where(comm, visible):
    host = MPI.Get_processor_name()
    on_this_host = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    local_rank = on_this_host.Get_rank()
    on_this_host.Free()
    gpus = visible.split(",") if visible else []
    gpu = gpus[local_rank % len(gpus)] if gpus else None
    rank, p = comm.Get_rank(), comm.Get_size()
    mine = (rank, host, local_rank, gpu)
    if rank > 0:
        comm.isend(mine, dest=0)
        return None
    places = [mine] + [comm.recv(source=source) for source in range(1, p)]
    if comm.Get_rank() == 0:
        for place in places:
            print(line(*place))
    return places
