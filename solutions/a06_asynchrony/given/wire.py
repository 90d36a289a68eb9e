"""What travels between server and workers.

    tag    from      to        elements (float64)
    PULL   worker    rank 0    none: the worker asks for the weights
    STATE  rank 0    worker    version, weights[0], ..., weights[n - 1]
    PUSH   worker    rank 0    version, gradient[0], ..., gradient[n - 1]
    END    worker    rank 0    none: this worker's last message

``send`` and ``receive`` write and read these messages. You may also write your own calls, as long
as what travels is the same.
"""

import numpy as np
from mpi4py import MPI

PULL, STATE, PUSH, END = 1, 2, 3, 4


def send(
    comm: MPI.Comm, dest: int, tag: int, version: int | None = None, array: np.ndarray | None = None
) -> None:
    """Send a message; without a version it has no elements. It waits for its receive."""
    body = np.empty(0) if version is None else np.concatenate(([float(version)], array))
    comm.Send(body, dest=dest, tag=tag)


def receive(comm: MPI.Comm, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> tuple:
    """Wait for the next message from ``source`` with ``tag``, by default from anybody.

    Returns:
        ``(source, tag, version, array)``; the last two are None where the message is empty.
    """
    status = MPI.Status()
    comm.Probe(source, tag, status)
    source, tag = status.Get_source(), status.Get_tag()
    body = np.empty(status.Get_count(MPI.DOUBLE))
    comm.Recv(body, source, tag)
    if not body.size:
        return source, tag, None, None
    return source, tag, int(body[0]), body[1:]
