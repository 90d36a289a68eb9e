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
        "the buffer given to Isend(dest=1, tag=0) at program.py:10 was changed before the send was "
        "complete.",
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
    "counts that aren't what others send": Fault(
        2,
        """
        part = np.ones(2 + rank)
        whole = np.empty(4) if rank == 0 else None
        comm.Gatherv(part, [whole, [2, 2]], root=0)
        """,
        "Gatherv: rank 1 sends 24 bytes, the place for them has 16. Each receive count must be "
        "what that rank sends here.",
    ),
    "parts of unequal length without counts": Fault(
        2,
        """
        whole = np.empty(4) if rank == 0 else None
        comm.Gather(np.ones(2 + rank), whole, root=0)
        """,
        "For parts of unequal length use the v-form, such as Gatherv, with receive counts.",
    ),
    "displacements in bytes": Fault(
        2,
        """
        whole = np.empty(4) if rank == 0 else None
        comm.Gatherv(np.ones(2), [whole, (2, 2), (0, 2 * 8), MPI.DOUBLE], root=0)
        """,
        "2 entries of MPI_DOUBLE from entry 16 on: 144 bytes, and the buffer has 32. Counts and "
        "displacements are numbers of entries, not of bytes",
    ),
    "counts by a division with a fraction": Fault(
        2,
        """
        comm.Scatterv([np.ones(4), [4 / 2] * 2], np.empty(2))
        """,
        "Counts and displacements are whole numbers: divide with //.",
    ),
    "fewer counts than ranks": Fault(
        3,
        """
        comm.Scatterv([np.ones(4), [2, 2]], np.empty(2))
        """,
        "expecting 3 items, got 2: counts and displacements have one number for each rank",
    ),
    "a length that ranks don't divide": Fault(
        3,
        """
        comm.Scatter(np.arange(10.0), np.empty(3))
        """,
        "number of entries 10 is not a multiple of required number of blocks 3, one for each rank. "
        "For parts of unequal length use the v-form, such as Scatterv, with counts",
    ),
    "more room than a part of Scatter has": Fault(
        2,
        """
        comm.Scatter(np.arange(4.0), np.zeros(4))
        """,
        "Scatter at program.py:6: the root sends 16 bytes, and their place in the receive buffer "
        "has 32.",
    ),
    "a list of all items to scatter": Fault(
        2,
        """
        comm.scatter(list(range(10)))
        """,
        "expecting 2 items, got 10: scatter gives one to each rank. Make 2 parts of them",
    ),
    "a number in the place of a buffer": Fault(
        2,
        """
        comm.Reduce(1.5, np.empty(1))
        """,
        "expecting buffer or list/tuple, got float. Give an array, such as numpy.array([x])",
    ),
    "a list in the place of a buffer": Fault(
        2,
        """
        comm.Bcast([1.0, 2.0, 3.0])
        """,
        "expecting a buffer, got float. A list stands for [array, count, datatype]",
    ),
    "None where the root needs a buffer": Fault(
        2,
        """
        comm.Reduce(np.ones(3), None)
        """,
        "got None. This rank needs an array in this call, such as numpy.empty(n).",
    ),
    "IN_PLACE on ranks that get nothing": Fault(
        2,
        """
        comm.Reduce(MPI.IN_PLACE, np.ones(3))
        """,
        "in Reduce, Gather and Scatter at the root alone.",
    ),
    "rows of unequal length as an array": Fault(
        2,
        """
        comm.Bcast(np.array([[1, 2], [3]], dtype=object))
        """,
        "an array of objects, as rows of unequal length make one, has no numbers to send. Use a "
        "lower-case call.",
    ),
    "an array of text": Fault(
        2,
        """
        comm.Bcast(np.array(["anna", "bob"]))
        """,
        "cannot map '<U4' to MPI datatype: send x.view(numpy.uint8), or use a lower-case call.",
    ),
    "another byte order": Fault(
        2,
        """
        comm.Bcast(np.zeros(3, ">f8"))
        """,
        "send x.astype(x.dtype.newbyteorder('=')).",
    ),
    "a part of an array with a datatype": Fault(
        2,
        """
        column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()
        comm.Bcast([np.zeros((4, 4))[:, 1:], 1, column])
        """,
        "give the whole array, or its part x.reshape(-1)[n:] from the first entry on.",
    ),
    "a datatype that isn't the array's": Fault(
        2,
        """
        total = np.zeros(3)
        comm.Reduce([np.ones(3), MPI.FLOAT], [total, MPI.FLOAT])
        """,
        "rank 0's buffer at program.py:7 is an array of float64, and its bytes are taken for "
        "MPI_FLOAT.",
    ),
    "bytes that are counted for numbers": Fault(
        2,
        """
        if rank == 0:
            comm.Send(np.ones(5), dest=1)
        else:
            status = MPI.Status()
            comm.Probe(source=0, status=status)
            comm.Recv(np.zeros(status.Get_count()), source=0)
        """,
        "Status.Get_count() counts bytes: give it the datatype, such as MPI.DOUBLE.",
    ),
    "a function of Python's where MPI's operation is meant": Fault(
        2,
        """
        comm.Allreduce(np.ones(2), np.zeros(2), op=max)
        """,
        "Give one of MPI's, such as MPI.MAX, or what MPI.Op.Create makes of a function.",
    ),
    "an operation as text": Fault(
        2,
        """
        comm.allreduce(rank, op="sum")
        """,
        "op is one of MPI's operations, such as MPI.SUM, or a function of two objects; got 'sum'",
    ),
    "the greatest of two arrays": Fault(
        2,
        """
        comm.allreduce(np.arange(3.0), op=MPI.MAX)
        """,
        "MPI.MAX of a lower-case call takes an array as one object: use the upper-case call, or "
        "NumPy's function, such as op=numpy.maximum.",
    ),
    "arguments in another order": Fault(
        2,
        """
        comm.send(1, {"a": 1})
        """,
        "an integer is required, got dict. Name the arguments: dest=, source=, root=, tag=, op=",
    ),
    "a source in the buffer's place": Fault(
        2,
        """
        comm.send("hello", 0) if rank == 1 else comm.recv(1)
        """,
        "The first argument of recv is a buffer: write recv(source=1).",
    ),
    "an upper-case call without its buffer": Fault(
        2,
        """
        whole = comm.Gather(np.ones(2))
        """,
        "Upper-case calls fill an array that they are given",
    ),
    "a result that nothing takes": Fault(
        2,
        """
        params = {"n": 10} if rank == 0 else None
        comm.bcast(params)
        params["n"]
        """,
        "Line 7: bcast returns its result and leaves what it is given as it was. Write `params = "
        "comm.bcast(params, ...)`.",
    ),
    "a result of a call that fills a buffer": Fault(
        2,
        """
        w = np.ones(3)
        w = comm.Bcast(w)
        w.sum()
        """,
        "Line 7: Bcast returns None. It fills the array that it is given: leave out `w =`.",
    ),
    "a result that the root alone has": Fault(
        2,
        """
        total = comm.reduce(rank)
        total / 2
        """,
        "Line 6: reduce returns None at all ranks but the root: use it under `if rank == root:`, "
        "or call allreduce.",
    ),
    "a request in the place of what has come": Fault(
        2,
        """
        comm.isend(rank, dest=1 - rank)
        value = comm.irecv(source=1 - rank)
        value + 1
        """,
        "Line 7: irecv returns a request. What has come is what `value.wait()` returns.",
    ),
    "a function that can't be pickled": Fault(
        2,
        """
        comm.bcast(lambda x: x + 1)
        """,
        "Lower-case calls pickle what they send: a lambda, a function inside of another",
    ),
    "a communicator after Free": Fault(
        2,
        """
        half = comm.Split(rank, 0)
        half.Free()
        half.Barrier()
        """,
        "the communicator is COMM_NULL: it was freed at program.py:7.",
    ),
    "a communicator that a rank isn't in": Fault(
        3,
        """
        grid = comm.Create_cart([2, 1])
        grid.Get_rank()
        """,
        "COMM_NULL: the call at program.py:6 left this rank out.",
    ),
    "a call after Finalize": Fault(
        2,
        """
        MPI.Finalize()
        comm.Barrier()
        """,
        "COMM_NULL: MPI.Finalize was called, which ends all communication.",
    ),
    "a rank of the world in another communicator": Fault(
        4,
        """
        comm.Split(rank % 2, rank).bcast(rank, root=2)
        """,
        "bcast(root=2), but the communicator has the ranks 0 to 1. Its ranks are counted anew, "
        "from 0: they are not those of COMM_WORLD.",
    ),
    "None among requests": Fault(
        2,
        """
        MPI.Request.Waitall([MPI.REQUEST_NULL, None])
        """,
        "item 1 of the list is no request. Leave it out, or put MPI.REQUEST_NULL there.",
    ),
    "a persistent request that nothing starts": Fault(
        2,
        """
        comm.Recv_init(np.zeros(3), source=1 - rank).Wait()
        """,
        "Wait at program.py:6 waits for a persistent request that was never started",
    ),
    "a collective beside a receive": Fault(
        2,
        """
        comm.bcast("x") if rank == 0 else comm.recv(source=0)
        """,
        "Rank 1 receives from rank 0, which is in bcast: a receive takes only what a send sends. "
        "Let rank 1 call bcast too, as all ranks must, or rank 0 send first.",
    ),
    "a collective beside a send that needs its receive": Fault(
        2,
        """
        comm.Rsend(np.ones(3), dest=1) if rank == 0 else None
        comm.Barrier()
        comm.Recv(np.ones(3), source=0) if rank == 1 else None
        """,
        "Rank 0 sends to rank 1, which is in Barrier: only a receive takes what a send sends. "
        "Rsend is for a receive that is posted already.",
    ),
    "a collective, blocking on one rank only": Fault(
        2,
        """
        x, y = np.ones(3), np.zeros(3)
        comm.Allreduce(x, y) if rank == 0 else comm.Iallreduce(x, y).Wait()
        """,
        "rank 1 calls the non-blocking form of allreduce where rank 0 calls the blocking one",
    ),
    "Create on the members alone": Fault(
        3,
        """
        if rank < 2:
            comm.Create(comm.Get_group().Incl([0, 1]))
        """,
        "All its ranks call Create; Create_group is called by the group's members alone.",
    ),
    "a condition that no rank meets": Fault(
        2,
        """
        comm.send("x", dest=1) if comm.Get_rank == 0 else comm.recv(source=0)
        """,
        "All ranks receive at program.py:6, rank 0 from itself. Check the condition that tells the "
        "sender from the receivers.",
    ),
    "one receive from anybody more than is sent": Fault(
        3,
        """
        for _ in range(3):
            comm.recv() if rank == 0 else None
        comm.send(rank, dest=0) if rank else None
        """,
        "Rank 0 has received 2 messages, all that were sent to it, and waits for one more",
    ),
    "a message that a probe has taken": Fault(
        2,
        """
        if rank == 0:
            comm.send("job", dest=1)
        else:
            comm.mprobe(source=0)
            comm.recv(source=0)
        """,
        "Rank 1 receives from rank 0, whose message the probe at program.py:9 has taken",
    ),
    "an end by Abort": Fault(
        2,
        """
        comm.Abort(3) if rank == 1 else comm.Barrier()
        """,
        "MPI_Abort was called at program.py:6 with error code 3",
    ),
    "a window that is one rank's alone": Fault(
        2,
        """
        win = MPI.Win.Create(np.zeros(4))
        win.Lock(0)
        win.Put(np.ones(1), 1 - rank)
        """,
        "The window is this rank's alone: without comm, Create takes COMM_SELF.",
    ),
    "a displacement of numbers in a window of bytes": Fault(
        2,
        """
        win = MPI.Win.Create(np.zeros(4), comm=comm)
        win.Fence()
        win.Put(np.ones(1), 1 - rank, target=2)
        win.Fence()
        """,
        "begins in the midst of a number, at byte 2 of the window: give Create disp_unit=8.",
    ),
    "a pool of workers": Fault(
        2,
        """
        from mpi4py.futures import MPIPoolExecutor
        """,
        "mpi4py.futures is not offered on Ringside's network; it works under mpiexec. Ranks are "
        "the workers here: give each its part by comm.scatter",
    ),
    "processes that a rank spawns": Fault(
        1,
        """
        MPI.COMM_SELF.Spawn("python", maxprocs=2)
        """,
        "Spawn is not offered on Ringside's network; all ranks are started together: ask for more "
        "of them",
    ),
    "a source's wildcard for a tag": Fault(
        1,
        """
        comm.recv(tag=MPI.ANY_SOURCE)
        """,
        "For any tag a receive has MPI.ANY_TAG.",
    ),
    "one rank where more are meant": Fault(
        1,
        """
        comm.send("x", dest=1)
        """,
        "MPI_COMM_WORLD has the ranks 0 alone. Start the program on more ranks.",
    ),
    "a method that isn't called": Fault(
        2,
        """
        10 // comm.Get_size
        """,
        "A method stands where its result should: call it, as in comm.Get_size().",
    ),
    "a send that is waited for": Fault(
        2,
        """
        comm.send("x", dest=1 - rank).wait() if rank == 0 else comm.recv()
        """,
        "Only what isend, irecv and their like return is waited for",
    ),
    "a request in the place of a list": Fault(
        1,
        """
        MPI.Request.Waitall(MPI.Request())
        """,
        "a list of requests is expected, got one: put it into [ ], or call its Wait",
    ),
    "an operation of two arguments": Fault(
        2,
        """
        MPI.Op.Create(lambda a, b: a + b)
        """,
        "Op.Create takes function(inbuf, inoutbuf, datatype), which writes into inoutbuf",
    ),
    "an operation that returns its result": Fault(
        2,
        """
        op = MPI.Op.Create(lambda a, b, datatype: max(a, b))
        comm.Allreduce(np.ones(2), np.zeros(2), op=op)
        """,
        "rank 0's operation at program.py:7 returns something, which isn't used",
    ),
    "an object from nobody": Fault(
        2,
        """
        got = comm.recv(source=MPI.PROC_NULL)
        got + 1
        """,
        "Line 6: recv returns None where None was sent, and from PROC_NULL",
    ),
    "coordinates behind the edge of a grid": Fault(
        2,
        """
        comm.Create_cart([2]).Get_cart_rank([2])
        """,
        "A dimension ends unless it is periodic; Shift gives PROC_NULL there.",
    ),
    "dimensions of a grid left out": Fault(
        4,
        """
        comm.Create_cart([2, 2]).Sub([True])
        """,
        "expecting 2 items, got 1: one for each dimension of the grid",
    ),
    "two groups at once": Fault(
        3,
        """
        comm.Create_group(comm.Get_group().Incl([0, 1] if rank == 0 else [0, 1, 2]))
        """,
        "Rank 0 makes a group of the ranks [0, 1] and rank 1 one of [0, 1, 2].",
    ),
    "two receives into one buffer": Fault(
        3,
        """
        into = np.zeros(2)
        if rank == 0:
            MPI.Request.Waitall([comm.Irecv(into, source=1), comm.Irecv(into, source=2)])
        else:
            comm.Send(np.ones(2), dest=0)
        """,
        "Irecv(source=2, tag=ANY_TAG) at program.py:8 is given the buffer that Irecv(source=1, "
        "tag=ANY_TAG) at program.py:8 still waits for",
    ),
    "one entry of an array to receive into": Fault(
        2,
        """
        x = np.zeros(3)
        comm.Send(x[:1], dest=1) if rank == 0 else comm.Recv(x[0], source=0)
        """,
        "Of one entry of an array give x[0:1], not x[0].",
    ),
    "a transposed array that is received as it is": Fault(
        2,
        """
        a = np.arange(6.0).reshape(2, 3)
        comm.Send(a.T, dest=1) if rank == 0 else comm.Recv(np.empty((3, 2)), source=0)
        """,
        "rank 0's buffer at program.py:7 is in Fortran order and is sent as it lies, column by "
        "column.",
    ),
    "another name of the module": Fault(
        1,
        """
        from mpi4py import mpi
        """,
        "No module named 'mpi4py.mpi': write `from mpi4py import MPI`.",
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


def test_columns_that_are_received_as_columns_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"{MPI}comm.Bcast(np.asfortranarray(np.ones((2, 3))))\n")
    assert not run(str(path), 2).notes


def test_receives_that_share_no_element_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    program = """
        table = np.zeros((3, 2))
        columns = [MPI.DOUBLE.Create_subarray([3, 2], [3, 1], [0, k]).Commit() for k in (0, 1)]
        empty = table[:0]
        if rank == 0:
            into = [[table, columns[0]], [table, columns[1]], empty, empty]
            sources = [1, 2, 1, 2]
            MPI.Request.Waitall([comm.Irecv(*each) for each in zip(into, sources)])
            assert (table == [1, 2]).all()
        else:
            comm.Send(np.full(3, float(rank)), dest=0)
            comm.Send(empty, dest=0)
    """
    path.write_text(MPI + textwrap.dedent(program))
    assert not run(str(path), 3).notes


def test_tensors_without_elements_that_are_received_at_once_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    program = """
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        empty = [torch.empty(0), torch.empty(0)]
        works = [
            dist.irecv(each, 1) if dist.get_rank() == 0 else dist.isend(each, 0) for each in empty
        ]
        for work in works:
            work.wait()
        dist.destroy_process_group()
    """
    path.write_text(textwrap.dedent(program))
    assert not run(str(path), 2).notes
