"""What the network adds to mpi4py's surface; each function runs on ranks."""

from __future__ import annotations

import mpi4py
import numpy as np
from mpi4py import MPI


def _text(call):
    """The message of the exception that ``call`` raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def race_isend(comm):
    x = np.zeros(4)
    request = comm.Isend(x, (comm.rank + 1) % comm.size, tag=2)
    x[1] = 5
    comm.Recv(np.zeros(4), tag=2)
    return _text(request.Wait)


def race_in_waitall(comm):
    x, got = np.zeros(4), np.zeros(4)
    requests = [comm.Irecv(got, tag=2), comm.Isend(x, (comm.rank + 1) % comm.size, tag=2)]
    x[0] = 1
    return _text(lambda: MPI.Request.Waitall(requests)), got.tolist()


def race_persistent(comm):
    x, got = np.zeros(4), np.zeros(4)
    send = comm.Send_init(x, (comm.rank + 1) % comm.size)
    send.Start()
    x[0] = 1
    comm.Recv(got)
    first = _text(send.Wait)
    send.Start()  # the buffer as it is now is what counts
    comm.Recv(got)
    return first, _text(send.Wait), got.tolist()


def race_iallreduce(comm):
    x, got = np.ones(3), np.zeros(3)
    request = comm.Iallreduce(x, got)
    x += 1
    return _text(request.Wait)


def no_race_when_the_buffer_is_put_back(comm):
    x = np.arange(3.0)
    request = comm.Isend(x, (comm.rank + 1) % comm.size)
    y = x.copy()
    y += 1
    comm.Recv(np.zeros(3))
    return _text(request.Wait)


def poison(comm):
    """Receive buffers right after the post, by dtype; then after the message."""
    seen = {}
    for code in ("f4", "f8", "c16", "i2", "i8", "u1", "?"):
        x = np.zeros(3, code)
        request = comm.Irecv(x, (comm.rank - 1) % comm.size)
        seen[code] = str(x)  # as text: numbers made of poison don't leave a rank
        sent = np.ones(3, code)
        comm.Isend(sent, (comm.rank + 1) % comm.size).Wait()
        request.Wait()
        assert (x == 1).all()
    return seen


def poison_collectives(comm):
    got, gathered, data = np.zeros(2), np.zeros((comm.size, 2)), np.zeros(2)
    ones = np.ones(2)
    requests = [comm.Iallreduce(ones, got), comm.Iallgather(ones, gathered), comm.Ibcast(data, 0)]
    early = str(got), str(gathered), str(data)
    MPI.Request.Waitall(requests)
    return early, (got, gathered, data)


def written_early(comm):
    """A receive's buffer, and one in place, changed before their data come."""
    halo = np.zeros(3)
    receive = comm.Irecv(halo, 1 - comm.rank)
    comm.Send(np.ones(3), 1 - comm.rank)
    halo[1] = 5
    first = _text(receive.Wait)
    total = np.ones(2)
    request = comm.Iallreduce(MPI.IN_PLACE, total)
    total *= 2
    return first, _text(request.Wait)


def read_early(comm, dtype, compute):
    """A result that is computed from a halo before its ``Wait``."""
    halo, mine = np.zeros(8, dtype), np.arange(1, 9).astype(dtype)
    request = comm.Irecv(halo, 1 - comm.rank)
    send = comm.Isend(mine, 1 - comm.rank)
    steps = {
        "sum": lambda: float((mine + halo).sum()),
        "product": lambda: np.outer(mine, halo) @ mine,
        "in a dict": lambda: {"a": [-halo / 3, 3]},
        "narrowed": lambda: halo.astype(np.float32) * 2,
        "own": lambda: mine * np.nan,
    }
    value = steps[compute]()
    MPI.Request.Waitall([request, send])
    return value


def one_buffer_for_many(comm):
    """As benchmarks of bandwidth do: what comes is not looked at."""
    into, mine = np.zeros(4), np.ones(4)
    receives = [comm.Irecv(into, 1 - comm.rank) for _ in range(5)]
    MPI.Request.Waitall([*receives, *(comm.Isend(mine, 1 - comm.rank) for _ in range(5))])
    return into


class Subclass(MPI.Intracomm):
    def __new__(cls, comm=None):
        return super().__new__(cls, comm)

    def twice(self, x):
        return 2 * self.allreduce(x)


def subclassed(comm):
    return Subclass(comm).twice(comm.rank + 1)


def bytes_into_memory(comm):
    memory = MPI.Alloc_mem(4)
    memory[:] = b"abcd"
    memory[1:3] = 0
    return bytes(memory)


def printed_early(comm):
    halo = np.zeros(2)
    request = comm.Irecv(halo, 1 - comm.rank)
    comm.Send(np.ones(2), 1 - comm.rank)
    print("total", halo.sum())
    request.Wait()


def no_poison_in_blocking_calls_and_null_receives(comm):
    x = np.full(2, 3.0)
    comm.Irecv(x, MPI.PROC_NULL)
    return x


def not_offered(comm):
    grid = comm.Create_cart([comm.size])
    return {
        "MPI.File": _text(lambda: MPI.File),
        "MPI.Win.Allocate_shared": _text(lambda: MPI.Win.Allocate_shared(8)),
        "MPI.Comm.Create_intercomm": _text(lambda: comm.Create_intercomm),
        "MPI.Comm.Get_parent": _text(lambda: comm.Get_parent),
        "MPI.Request.Cancel": _text(lambda: MPI.Request.Cancel),
        "MPI.Comm.Psend_init": _text(lambda: grid.Psend_init),
        "MPI.ERRORS_ARE_FATAL": _text(lambda: comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)),
        "mpi4py.util": _text(lambda: __import__("mpi4py.util.pkl5")),
        "mpi4py.futures": _text(lambda: mpi4py.futures),
    }


def misspelt(comm):
    return _text(lambda: comm.Snd), _text(lambda: MPI.COMM_WRLD), _text(lambda: mpi4py.MPY)


def minus_one(comm):
    return (
        _text(lambda: comm.Send(np.zeros(1), -1)),
        _text(lambda: comm.Recv(np.zeros(1), comm.size)),
    )


def truncated(comm):
    sent = np.zeros(10)
    request = comm.Isend(sent, comm.rank, tag=3)
    message = _text(lambda: comm.Recv(np.zeros(5), comm.rank, 3))
    request.Wait()
    return message


def too_short_a_buffer(comm):
    return _text(lambda: comm.Send([np.zeros(3), 4, MPI.DOUBLE], 0))


def bcast_of_unequal_lengths(comm):
    x = np.zeros(3 if comm.rank == 0 else 2)
    y = np.zeros(3 if comm.rank == 0 else 4)
    return _text(lambda: comm.Bcast(x)), _text(lambda: comm.Bcast(y))


def mixed_cases(comm):
    if comm.rank == 0:
        comm.bcast([1, 2])
        return None
    return _text(lambda: comm.Bcast(np.zeros(4)))


def clock(comm):
    start = MPI.Wtime()
    comm.Sendrecv(np.zeros(1000), (comm.rank + 1) % comm.size, recvbuf=np.zeros(1000))
    return start, MPI.Wtime(), MPI.Wtick()


def counted_objects(comm):
    """Lower-case messages count their arrays, not pickle's envelope."""
    x = np.zeros(1000)
    if comm.rank == 0:
        comm.send(x, 1)
        comm.send((3, x), 1)
        comm.send([1.0] * 500, 1)
    elif comm.rank == 1:
        for _ in range(3):
            comm.recv(source=0)


def spare_world(comm):
    """The communicator given isn't COMM_WORLD when there are spare ranks."""
    return comm == MPI.COMM_WORLD, comm.rank, comm.size, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def finalize(comm):
    MPI.Finalize()
    return MPI.Is_finalized(), _text(lambda: MPI.COMM_WORLD.Get_rank())


def is_fresh(comm):
    return MPI.Is_finalized(), MPI.COMM_WORLD.rank == comm.rank, MPI.COMM_SELF.allgather(1)


def without_partner(comm):
    comm.Ssend(np.zeros(1), (comm.rank + 1) % comm.size, tag=4)


def halo(comm):
    """One exchange along a line of ranks: two messages a rank, one at its ends."""
    line = comm.Create_cart([comm.size])
    got = np.full((2, 4), -1.0)
    line.Neighbor_alltoall(np.full((2, 4), float(comm.rank)), got)
    return got[:, 0].tolist()


def missing_neighbour(comm):
    line = comm.Create_cart([comm.size])
    if comm.rank == 0:
        line.Neighbor_alltoall(np.zeros(2), np.zeros(2))


class _OnGPU:
    """What an array on a GPU looks like from outside."""

    def __init__(self):
        self.__cuda_array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (0, False)}


def on_a_gpu(comm):
    return _text(lambda: comm.Send(_OnGPU(), 0))


def constants_stay(comm):
    """free() of a constant changes nothing; of a copy it does."""
    for name in ("GROUP_EMPTY", "INFO_ENV", "DOUBLE", "SUM", "COMM_WORLD", "MESSAGE_NO_PROC"):
        constant = getattr(MPI, name)
        copy = type(constant)(constant)
        copy.free()
        constant.free()
        assert constant and not copy, name
    return True


def cancel(comm):
    request = comm.Irecv(np.zeros(1), comm.rank)
    return _text(lambda: request.Cancel())


def node(comm):
    """Our node's name, our place among its ranks, and their number."""
    neighbours = comm.Split_type(MPI.COMM_TYPE_SHARED)
    return MPI.Get_processor_name(), neighbours.rank, neighbours.size
