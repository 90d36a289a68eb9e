"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import numpy as np
from mpi4py import MPI

import ringside
from ringside.checking import find


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


def again(comm, target, x, *arguments):
    """Call with x and then with 3 x: what the first call gave, as it is after the second."""
    first = find(target)(comm, x, *arguments)
    comm.Barrier()
    find(target)(comm, 3 * x, *arguments)
    return first


def in_a_row(comm, target, x, *arguments):
    """Call twice in a row, the last rank 1 ms late: others are in their second call by then.

    Returns what the first call gave.
    """
    if comm.Get_rank() == comm.Get_size() - 1:
        ringside.compute(seconds=1e-3, phase="late")
    first = find(target)(comm, x, *arguments)
    first = first.copy() if isinstance(first, np.ndarray) else first
    find(target)(comm, 3 * x if isinstance(x, np.ndarray) else x, *arguments)
    return first


def answers(comm, target, calls):
    """Call a function that needs no ranks with each of a list of argument tuples.

    Returns:
        Per call ``(result, what it raised, changed)``; the second is "" if it raised nothing.
    """
    return [_tried(find(target), arguments) for arguments in calls]


def _tried(function, arguments):
    before = [np.array(each) for each in arguments]
    result, raised = None, ""
    try:
        result = function(*arguments)
    except Exception as error:
        raised = type(error).__name__
    changed = any(not np.array_equal(a, b) for a, b in zip(arguments, before, strict=True))
    return result, raised, changed
