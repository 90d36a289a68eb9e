"""Programs for test_windows.py: windows on the network, with what the network adds to mpi4py."""

import random
import time

import numpy as np
from mpi4py import MPI

import ringside


def _window(comm, nbytes=80, unit=8):
    return MPI.Win.Allocate(nbytes, unit, comm=comm)


def _text(function):
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def everything(comm):
    """Rank 0 makes one access of each kind to rank 1, and rank 1 no call."""
    win = _window(comm)
    one, got = np.ones(1), np.zeros(4)
    if comm.rank == 0:
        win.Lock(1)
        win.Put(np.ones(3), 1)
        win.Accumulate(np.ones(2), 1)
        win.Get(got, 1)
        win.Get_accumulate(np.ones(4), got.copy(), 1)
        win.Fetch_and_op(one, got[:1].copy(), 1)
        win.Compare_and_swap(one, one, got[1:2].copy(), 1)
        win.Unlock(1)
    win.Free()


def times(comm, n):
    """How long an access of ``n`` numbers takes by each call, from posting to its completion."""
    win = _window(comm, 8 * n)
    if comm.rank == 1:
        ringside.compute(seconds=1.0)  # meanwhile rank 1 takes no part
    result = {}
    if comm.rank == 0:
        buffer, other = np.ones(n), np.ones(n)
        win.Lock(1)
        for name, access in {
            "Put": lambda: win.Put(buffer, 1),
            "Accumulate": lambda: win.Accumulate(buffer, 1),
            "Get": lambda: win.Get(buffer, 1),
            "Get_accumulate": lambda: win.Get_accumulate(buffer, other, 1),
        }.items():
            start = MPI.Wtime()
            access()
            posted = MPI.Wtime()
            win.Flush(1)
            result[name] = posted - start, MPI.Wtime() - start
        win.Unlock(1)
    win.Free()
    return result


def one_put(comm, n):
    win = _window(comm, 8 * n)
    win.Fence()
    if comm.rank == 0:
        win.Put(np.ones(n), 1)
    win.Fence()


def two_fences(comm):
    win = _window(comm)
    win.Fence()
    win.Fence()


def locked(comm, n, lock_type):
    """When each rank has put its part and given the lock of rank 0 back."""
    win = _window(comm, 8 * n * comm.size)
    comm.Barrier()
    start = MPI.Wtime()
    win.Lock(0, lock_type)
    win.Put(np.ones(n), 0, n * comm.rank)
    win.Unlock(0)
    taken_s = MPI.Wtime() - start
    win.Free()
    return taken_s


def first_come(comm):
    """The later a rank's number, the sooner it asks for the lock."""
    win = _window(comm, 8)
    before = np.zeros(1)
    ringside.compute(seconds=1e-3 * (comm.size - comm.rank))
    win.Lock(0)
    win.Get(before, 0)
    win.Flush(0)
    win.Put(before + 1, 0)
    win.Unlock(0)
    win.Free()
    return before[0]


def counter(comm, seed):
    """A counter that all raise, after real waits that differ from run to run."""
    win = _window(comm, 8)
    one, before, got = np.ones(1), np.zeros(1), []
    for _ in range(4):
        time.sleep(random.Random(seed + comm.rank).random() / 200)
        ringside.compute(seconds=1e-6 * (comm.rank + 1))
        win.Lock(0, MPI.LOCK_SHARED)
        win.Fetch_and_op(one, before, 0)
        win.Unlock(0)
        got.append(before[0])
    win.Free()
    return got


def wait_for_a_flag(comm):
    """Rank 1 looks until rank 0's Put is there."""
    win, looks = _window(comm), 0
    memory = np.frombuffer(win.tomemory())
    win.Lock_all()
    if comm.rank == 0:
        ringside.compute(seconds=1.0)
        win.Put(np.ones(1), 1)
        win.Flush(1)
    while comm.rank == 1 and memory[0] == 0:
        win.Sync()
        looks += 1
    win.Unlock_all()
    win.Free()
    return looks


def wait_for_no_one(comm):
    win = _window(comm)
    memory = np.frombuffer(win.tomemory())
    win.Lock_all()
    while comm.rank == 1 and memory[0] == 0:
        win.Sync()
    win.Unlock_all()
    win.Free()


RACES = {
    "two puts": lambda win, rank: win.Put(np.full(2, float(rank)), 0, rank),
    "put and get": lambda win, rank: [win.Put, win.Get][rank % 2](np.full(2, 1.0), 0),
    "put and accumulate": lambda win, rank: [win.Put, win.Accumulate][rank % 2](np.ones(2), 0, 3),
    "apart": lambda win, rank: win.Put(np.full(2, float(rank)), 0, 2 * rank),
    "equal puts": lambda win, rank: win.Put(np.ones(2), 0),
    "gets": lambda win, rank: win.Get(np.ones(2), 0),
    "accumulates": lambda win, rank: win.Accumulate(np.ones(2), 0),
}


def between_fences(comm, name):
    win = _window(comm)
    win.Fence()
    if comm.rank:
        RACES[name](win, comm.rank)
    win.Fence()
    win.Free()


def with_locks(comm, name, lock_type):
    win = _window(comm)
    if comm.rank:
        win.Lock(0, lock_type)
        RACES[name](win, comm.rank)
        win.Unlock(0)
    win.Free()


def one_after_the_other(comm):
    """Two ranks put to the same bytes under Lock_all, and a message says when the first is done."""
    win = _window(comm)
    win.Lock_all()
    if comm.rank == 1:
        win.Put(np.full(2, 1.0), 0)
        win.Flush(0)
        comm.send(None, 2)
    elif comm.rank == 2:
        comm.recv(source=1)
        win.Put(np.full(2, 2.0), 0)
        win.Flush(0)
    win.Unlock_all()
    comm.Barrier()
    return np.frombuffer(win.tomemory())[:2].tolist()


def columns(comm):
    """Ranks put columns that lie between one another's; the last two ranks the same one."""
    win = _window(comm, 8 * 12)
    column = MPI.DOUBLE.Create_vector(3, 1, 4).Commit()
    win.Fence()
    win.Put(np.full(3, float(comm.rank)), 0, [min(comm.rank, 2), 1, column])
    win.Fence()
    return np.frombuffer(win.tomemory()).tolist()


def changed_buffer(comm):
    win, x = _window(comm), np.ones(2)
    win.Fence()
    win.Put(x, 0)
    x[0] = 5
    error = _text(win.Fence)
    win.Lock(0)
    win.Put(x, 0)
    x[0] = 6
    errors = error, _text(lambda: win.Unlock(0))
    comm.Barrier()
    win.Lock(0)  # which nobody holds any more
    win.Unlock(0)
    return errors


def poisoned(comm):
    win, x = _window(comm), np.zeros(2)
    win.Fence()
    win.Get(x, 0)
    early = str(x)  # as text: numbers made of poison don't leave a rank
    win.Fence()
    return early, x


def misused(comm):
    win = _window(comm)
    x = np.ones(2)
    errors = {
        "no epoch": _text(lambda: win.Put(x, 0)),
        "flush": _text(lambda: win.Flush(0)),
        "unlock": _text(lambda: win.Unlock(0)),
        "complete": _text(win.Complete),
        "wait": _text(win.Wait),
    }
    win.Lock(0)
    errors["other rank"] = _text(lambda: win.Get(x, 1))
    errors["beyond"] = _text(lambda: win.Put(x, 0, 9))
    errors["before"] = _text(lambda: win.Get(x, 0, -1))
    errors["sizes"] = _text(lambda: win.Put(x, 0, [0, 3]))
    errors["own operation"] = _text(
        lambda: win.Accumulate(x, 0, op=MPI.Op.Create(lambda a, b, t: None))
    )
    errors["lock again"] = _text(lambda: win.Lock(0))
    errors["fence in a lock"] = _text(win.Fence)
    errors["free in a lock"] = _text(win.Free)
    win.Unlock(0)
    comm.Barrier()
    win.Fence()
    win.Put(x, comm.rank)
    errors["lock before a fence"] = _text(lambda: win.Lock(0))
    win.Fence()
    win.Free()
    errors["freed"] = _text(lambda: win.Put(x, 0))
    return errors


def not_all_fence(comm):
    win = _window(comm)
    win.Fence()
    if comm.rank:
        win.Fence()


def not_all_free(comm):
    win = _window(comm)
    if comm.rank != 1:
        win.Free()


def fence_and_free(comm):
    win = _window(comm)
    if comm.rank == 1:
        win.Fence()
    else:
        win.Free()


def lock_kept(comm):
    win = _window(comm)
    if comm.rank == 0:
        win.Lock(1)
        comm.recv(source=1)
    else:
        comm.recv(source=0) if comm.rank > 1 else None
        win.Lock(1)
        comm.send(None, 0)


def start_alone(comm):
    win = _window(comm)
    others = comm.Get_group().Excl([comm.rank])
    if comm.rank != 2:
        win.Post(others)
    win.Start(others)
    win.Complete()


def post_alone(comm):
    win = _window(comm)
    everybody = comm.Get_group()
    win.Post(everybody)
    if comm.rank != 2:
        win.Start(everybody)
        win.Complete()
    win.Wait()


def returned_too_early(comm):
    win = _window(comm)
    if comm.rank == 0:
        ringside.compute(seconds=1.0)
        win.Lock(1)
        win.Put(np.ones(1), 1)
        win.Unlock(1)


def not_shared(comm):
    return _text(lambda: MPI.Win.Allocate_shared(8, 1, comm=comm))
