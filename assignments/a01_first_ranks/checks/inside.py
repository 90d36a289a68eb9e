"""Functions that call yours inside a rank, for the tests: nothing to write."""

import numpy as np
from mpi4py import MPI

import ringside
from ringside.checking.callers import find
from ringside.checking.inside import twice


def late(comm, target, who, seconds, *arguments):
    """Call after rank ``who`` has been busy with something else for so long."""
    if comm.Get_rank() == who:
        ringside.compute(seconds=seconds, phase="late")
    return find(target)(comm, *arguments)


def busy(comm, target, seconds, nbytes, *arguments):
    """Call while something else is sent to rank 0, after so many seconds, by the last rank.

    It goes over another communicator; rank 0 takes it when its call has returned.
    """
    others, last = MPI.COMM_WORLD, comm.Get_size() - 1
    here, there = MPI.Group.Translate_ranks(comm.Get_group(), [0, last], others.Get_group())
    other = np.zeros(nbytes, np.uint8)
    if comm.Get_rank() == last:
        ringside.compute(seconds=seconds, phase="busy")
        others.Send(other, here)
    result = find(target)(comm, *arguments)
    if comm.Get_rank() == 0:
        others.Recv(other, there)
    return result


def in_a_row(comm, target, first, second):
    """Call twice, the last rank 1 ms late: others are in their second call by then."""
    if comm.Get_rank() == comm.Get_size() - 1:
        ringside.compute(seconds=1e-3, phase="late")
    return twice(comm, target, first, second)
