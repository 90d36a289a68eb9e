"""Faulty programs, as people write them, and the sentence that names the cause."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from ringside.session.session import Result, run


class Fault(NamedTuple):
    """A program, the number of its ranks, and what must be said of it."""

    ranks: int
    program: str
    says: str


MPI = "import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nrank = comm.rank\n"
FAULTS = {
    "one call more in a loop": Fault(
        3,
        """
        for i in range(3 + (rank == 0)):
            comm.allreduce(i)
        """,
        "Rank 0 calls allreduce a 4th time on communicator world, at program.py:7; ranks 1, 2 have "
        "ended after 3.",
    ),
    "a collective that one rank leaves out": Fault(
        2,
        """
        if rank == 0:
            comm.Barrier()
        """,
        "Rank 1 never calls barrier on communicator world.",
    ),
    "one receive more in a loop": Fault(
        2,
        """
        for i in range(3):
            comm.send(i, dest=1) if rank == 0 else comm.recv(source=0)
        if rank == 1:
            comm.recv(source=0)
        """,
        "Rank 1 receives from rank 0, which has sent it 3 messages and returned.",
    ),
    "a buffer sent on while it is filled anew": Fault(
        3,
        """
        job = np.zeros(3)
        for other in (1, 2):
            if rank == 0:
                job[:] = other
                comm.Isend(job, dest=other)
        if rank:
            comm.Recv(job, source=0)
        """,
        "the buffer given to Isend(dest=1, tag=0) was changed before the send was complete.",
    ),
    "a halo that is used before Wait": Fault(
        2,
        """
        halo = np.zeros(4)
        request = comm.Irecv(halo, source=1 - rank)
        comm.Send(np.ones(4), dest=1 - rank)
        inside = 2 * halo
        request.Wait()
        """,
        "the buffer of Irecv(source=1, tag=ANY_TAG) at program.py:7 was read before its data had "
        "come: it is complete at program.py:10",
    ),
    "two dtypes in one collective": Fault(
        2,
        """
        every = np.empty(2 * 3)
        comm.Allgather(np.arange(3), every)
        """,
        "rank 0's Allgather() at program.py:7 sends an array of int64 and takes the bytes that "
        "come for float64.",
    ),
    "no room for all parts": Fault(
        3,
        """
        into = np.empty(4) if rank == 0 else None
        comm.Gather(np.ones(4), into, root=0)
        """,
        "Gather gets a part from each of 3 ranks, and this rank's has 4 entries: make room for 3 "
        "times as many, 12.",
    ),
    "room for more than comes": Fault(
        2,
        """
        into = np.zeros(2 * 8)
        comm.Allgather(np.ones(4), into)
        """,
        "Allgather at program.py:7: rank 0 sends 32 bytes, and their place in the receive buffer "
        "has 64.",
    ),
    "recv that is to fill an array": Fault(
        2,
        """
        x = np.zeros(100)
        comm.send(np.ones(3), dest=1) if rank == 0 else comm.recv(x, source=0)
        """,
        "recv fills no array: it returns what send was given. Recv fills one",
    ),
    "a receive from anybody that takes another one's message": Fault(
        3,
        """
        if rank:
            comm.send(rank, dest=0)
            comm.Send(np.ones(3), dest=0)
        else:
            first = comm.recv(source=1)
            x = np.empty(50)
            comm.Recv(x, source=MPI.ANY_SOURCE)
            comm.Recv(x, source=MPI.ANY_SOURCE)
            comm.recv(source=2)
        """,
        "A receive from anybody takes the first message that fits: is rank 2's meant for another "
        "receive?",
    ),
}


def told(result: Result) -> str:
    """All that a person sees of a run that went wrong."""
    error = " ".join(str(result.error).split()) if result.error is not None else ""
    return "\n".join([error, *result.notes.values(), *result.output])


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_cause_is_named(tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "program.py"
    path.write_text(MPI + textwrap.dedent(fault.program))
    assert fault.says in told(run(str(path), fault.ranks, check=False))
