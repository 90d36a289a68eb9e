"""A star whose messages all bear the number of the duplicate's request."""

import numpy as np

from ringside.network import link


def all_reduce(comm, x):
    copy = comm.Dup()
    network = link.current()
    number = network._requests

    def again(call, *arguments):
        network._requests = number - 1
        return call(*arguments)

    total = np.empty(len(x), x.dtype)
    if copy.Get_rank():
        again(copy.Send, np.ascontiguousarray(x), 0)
        again(copy.Recv, total, 0)
        return total
    total[:] = x
    part = np.empty_like(total)
    for source in range(1, copy.Get_size()):
        again(copy.Recv, part, source)
        total += part
    for dest in range(1, copy.Get_size()):
        again(copy.Send, total, dest)
    return total
