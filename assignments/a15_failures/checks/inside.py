"""Functions that call yours inside a rank, for the tests: nothing to write."""

import numpy as np
from given import model
from given.training import next_state
from mpi4py import MPI

from ringside.checking.callers import find

FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED, MPI.ERR_IN_STATUS)  # the last: of a Waitall


def faulty(comm, error, *arguments):
    """Call ``train`` with a model whose first three samples on rank 1 raise an error."""
    right, left = model.of_sample, [3 if comm.Get_rank() == 1 else 0]

    def of_sample(params, sample):
        if left[0]:
            left[0] -= 1
            text = "spoilt sample"
            raise ValueError(text) if error == "ValueError" else _OtherError(MPI.ERR_ARG, text)
        return right(params, sample)

    model.of_sample = of_sample
    try:
        return find("elastic:train")(comm, *arguments)
    finally:
        model.of_sample = right


class _OtherError(MPI.Exception):
    """An error of MPI that tells of no failure."""

    def __init__(self, number, text):
        super().__init__(number)
        self.text = text

    def __str__(self):
        return self.text


def copied(comm, state, first, memory, per_node, num_steps, num_flops, in_place):
    """Train on, with a copy of each step's state, until all is done or somebody dies.

    Args:
        first: the step of ``state``.
        in_place: a step changes the array of the state; else it makes a new one.

    Returns:
        The memory, as ``recover`` is given it.
    """
    start, finish = find("neighbour:start"), find("neighbour:finish")
    state, end = state.copy(), first + num_steps
    try:
        for step in range(first, end):
            handle = start(comm, state, step, memory, per_node)
            later = next_state(state, step, num_flops)
            if in_place:
                state[:] = later
            else:
                state = later
            memory = finish(handle)
            if step + 1 < end:
                comm.Allreduce(np.ones(1), np.empty(1))
    except MPI.Exception as error:
        if error.Get_error_class() not in FAILURES:
            raise
        comm.Revoke()
    return plain(memory)


def plain(memory):
    """A memory whose steps are numbers of Python's, as they travel."""
    if not isinstance(memory, dict):
        return memory
    return {int(step): pair for step, pair in memory.items()}


def recovered(comm, memory, length, per_node, in_place):
    """What ``recover`` returns, after a step has changed the state; "LookupError" if it raises."""
    try:
        step, state, memory = find("neighbour:recover")(comm, memory, length, per_node)
    except LookupError as error:
        if isinstance(error, KeyError | IndexError):  # kinds of it that a slip raises
            raise
        return "LookupError"
    before = state.copy()
    if in_place:
        state[:] = 0
    return int(step), before, plain(memory)


def resumed(comm, memory, length, per_node, *more):
    """Recover and train on; returns the memory."""
    step, state, memory = find("neighbour:recover")(comm, memory, length, per_node)
    step = int(step)
    return copied(comm, next_state(state, step), step + 1, memory, per_node, *more)
