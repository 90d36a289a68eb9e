# fails: test_few_calls
"""A message for every letter."""

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
        for word in (*mine, None):
            comm.send(word, dest=0)
        return None
    places = [mine]
    for source in range(1, p):
        places.append(tuple([comm.recv(source=source) for _ in range(5)][:4]))
    if comm.Get_rank() == 0:
        for place in places:
            print(line(*place))
    return places
