"""Windows: Put, Get, Accumulate and the epochs that they belong to."""

import numpy as np
from mpi4py import MPI
from surface import raises


def _window(comm, memory):
    return MPI.Win.Create(memory, memory.itemsize, comm=comm)


def check_fences_exchange_halos(comm):
    cells = np.zeros(6)
    cells[1:5] = 10 * comm.rank + np.arange(4)
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    first, last = cells[1:2].copy(), cells[4:5].copy()
    win = _window(comm, cells)
    win.Fence(MPI.MODE_NOPRECEDE)
    win.Put(last, right, 0)
    win.Put(first, left, 5)
    win.Fence(MPI.MODE_NOSUCCEED)
    assert cells[0] == 10 * left + 3 and cells[5] == 10 * right
    win.Free()
    assert not win and win == MPI.WIN_NULL


def check_a_ring_of_puts_moves_all_parts(comm):
    parts = np.full((comm.size, 3), -1, np.int32)
    parts[comm.rank] = comm.rank
    win = _window(comm, parts)
    win.Fence()
    for step in range(comm.size - 1):
        part = (comm.rank - step) % comm.size
        win.Put(parts[part].copy(), (comm.rank + 1) % comm.size, [3 * part, 3, MPI.INT])
        win.Fence()
    assert (parts == np.arange(comm.size)[:, None]).all()
    win.Free()


def check_a_neighbours_array_is_read(comm):
    mine, theirs = np.arange(5.0) + 100 * comm.rank, np.zeros(3)
    win = _window(comm, mine)
    win.Fence()
    win.Get(theirs, (comm.rank + 1) % comm.size, 2)
    win.Fence()
    assert (theirs == 100 * ((comm.rank + 1) % comm.size) + np.arange(2, 5)).all()
    win.Free()


def check_accumulates_of_all_ranks_add_up(comm):
    total = np.zeros(4, np.int64)
    win = _window(comm, total)
    win.Fence()
    for target in range(comm.size):
        win.Accumulate(np.full(2, comm.rank + 1), target, [1, 2, MPI.LONG], op=MPI.SUM)
    win.Fence()
    assert total.tolist() == [0, *[comm.size * (comm.size + 1) // 2] * 2, 0]
    for op, expected in ((MPI.MAX, comm.size), (MPI.MIN, 1)):
        total[:] = 3 if op == MPI.MIN else 0
        win.Fence()
        win.Accumulate(np.array([comm.rank + 1]), 0, op=op)
        win.Fence()
        assert comm.rank or total[0] == (expected if op == MPI.MAX else min(3, expected))
        win.Fence()
    win.Free()


def check_a_passive_counter_gives_each_number_once(comm):
    counter = np.zeros(1 if comm.rank == 0 else 0, np.int64)
    win = _window(comm, counter)
    one, before, numbers = np.ones(1, np.int64), np.zeros(1, np.int64), []
    for _ in range(3):
        win.Lock(0, MPI.LOCK_SHARED)
        win.Fetch_and_op(one, before, 0)
        win.Unlock(0)
        numbers.append(int(before[0]))
    assert numbers == sorted(numbers)
    everybody = [number for part in comm.allgather(numbers) for number in part]
    assert sorted(everybody) == list(range(3 * comm.size))
    comm.Barrier()
    assert comm.rank or counter[0] == 3 * comm.size
    win.Free()


def check_an_exclusive_lock_keeps_read_and_write_together(comm):
    win = MPI.Win.Allocate(8 if comm.rank == 0 else 0, 8, comm=comm)
    if comm.rank == 0:
        np.frombuffer(win.tomemory())[:] = 1.0
    comm.Barrier()
    value = np.zeros(1)
    win.Lock(0)
    win.Get(value, 0)
    win.Flush(0)
    win.Put(value * 2, 0)
    win.Unlock(0)
    comm.Barrier()
    if comm.rank == 0:
        win.Lock(0)
        assert np.frombuffer(win.tomemory())[0] == 2.0**comm.size
        win.Unlock(0)
    win.Free()


def check_compare_and_swap_lets_one_rank_win(comm):
    winner = np.full(1, -1, np.int32)
    win = _window(comm, winner)
    mine, free, before = np.array([comm.rank], "i"), np.array([-1], "i"), np.zeros(1, "i")
    comm.Barrier()
    win.Lock_all()
    win.Compare_and_swap(mine, free, before, 0)
    win.Flush_all()
    win.Unlock_all()
    comm.Barrier()
    winners = [rank for rank, old in enumerate(comm.allgather(int(before[0]))) if old == -1]
    assert len(winners) == 1
    assert comm.bcast(int(winner[0])) == winners[0]
    win.Free()


def check_get_accumulate_returns_what_was_there(comm):
    values = np.arange(3.0)
    win = _window(comm, values)
    before = np.zeros(3)
    win.Lock(comm.rank)
    win.Get_accumulate(np.ones(3), before, comm.rank, op=MPI.REPLACE)
    win.Flush_local(comm.rank)
    win.Unlock(comm.rank)
    assert before.tolist() == [0, 1, 2] and values.tolist() == [1, 1, 1]
    win.Lock(comm.rank)
    win.Get_accumulate(np.zeros(3), before, comm.rank, op=MPI.NO_OP)
    win.Unlock(comm.rank)
    assert before.tolist() == [1, 1, 1] and values.tolist() == [1, 1, 1]
    win.Free()


def check_requests_complete_before_their_epoch_ends(comm):
    memory = np.zeros(2 * comm.size)
    win = _window(comm, memory)
    win.Lock_all()
    target, back = (comm.rank + 1) % comm.size, np.zeros(2)
    win.Rput(np.full(2, comm.rank + 1.0), target, 2 * comm.rank).Wait()
    win.Flush(target)
    request = win.Rget(back, target, 2 * comm.rank)
    MPI.Request.Waitall([request])
    assert back.tolist() == [comm.rank + 1.0] * 2
    win.Raccumulate(np.ones(2), target, 2 * comm.rank).Wait()
    win.Rget_accumulate(np.ones(2), back, target, 2 * comm.rank).Wait()
    assert back.tolist() == [comm.rank + 2.0] * 2
    win.Unlock_all()
    win.Free()


def check_post_start_complete_wait(comm):
    memory = np.zeros(1)
    win = _window(comm, memory)
    world = comm.Get_group()
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    win.Post(world.Incl([before]))
    win.Start(world.Incl([after]))
    win.Put(np.array([comm.rank + 1.0]), after)
    win.Complete()
    win.Wait()
    assert memory[0] == before + 1
    win.Post(world.Incl([before]))
    win.Start(world.Incl([after]))
    win.Complete()
    while not win.Test():
        pass
    win.Free()


def check_a_column_is_put_by_its_datatype(comm):
    matrix = np.zeros((3, 4), np.int32)
    column = MPI.INT.Create_vector(3, 1, 4).Commit()
    win = _window(comm, matrix)
    win.Fence()
    win.Put(np.arange(3, dtype="i") + 1, (comm.rank + 1) % comm.size, [2, 1, column])
    win.Fence()
    expected = np.zeros((3, 4))
    expected[:, 2] = [1, 2, 3]
    assert (matrix == expected).all()
    win.Free()


def check_ranks_may_give_different_sizes_and_units(comm):
    memory = np.zeros(comm.rank + 1)
    win = MPI.Win.Create(memory, 8 if comm.rank % 2 == 0 else 1, comm=comm)
    target = (comm.rank + 1) % comm.size
    win.Fence()
    win.Put(np.array([7.0]), target, target if target % 2 == 0 else 8 * target)
    win.Fence()
    assert memory.tolist() == [0.0] * comm.rank + [7.0]
    win.Free()


def check_what_a_window_says_of_itself(comm):
    memory = np.zeros(6)
    win = MPI.Win.Create(memory, 8, comm=comm)
    assert win.attrs == (MPI.Get_address(memory), 48, 8)
    assert win.Get_attr(MPI.WIN_SIZE) == 48 and win.Get_attr(MPI.WIN_DISP_UNIT) == 8
    assert win.flavor == MPI.WIN_FLAVOR_CREATE and win.model == MPI.WIN_UNIFIED
    assert (win.group_rank, win.group_size) == (comm.rank, comm.size)
    assert win.group.Compare(comm.group) == MPI.IDENT
    win.name = "cells"
    assert win.Get_name() == "cells"
    win.tomemory()[:] = 0
    assert np.frombuffer(win.tomemory()).tolist() == [0.0] * 6 and len(win.tomemory()) == 48
    win.Free()
    other = MPI.Win.Allocate(16, comm=comm)
    assert other.flavor == MPI.WIN_FLAVOR_ALLOCATE and len(other.tomemory()) == 16
    other.Free()


def check_nobody_is_a_target_too(comm):
    win = MPI.Win.Allocate(8, comm=comm)
    win.Fence()
    win.Put(np.ones(1), MPI.PROC_NULL)
    win.Get(np.ones(1), MPI.PROC_NULL)
    win.Rput(None, MPI.PROC_NULL).Wait()
    win.Fence()
    win.Free()


def check_misused_windows_raise_the_errors_of_mpi(comm):
    win = MPI.Win.Allocate(8, comm=comm)
    with raises(error_class=MPI.ERR_RMA_SYNC):
        win.Put(np.ones(1), 0)
    with raises(error_class=MPI.ERR_RANK):
        win.Lock(comm.size)
    with raises(error_class=MPI.ERR_RMA_SYNC):
        win.Unlock(0)
    win.Fence()
    with raises(error_class=MPI.ERR_TYPE):
        win.Accumulate(np.ones(1), 0, [0, 1, MPI.LONG])
    win.Fence(MPI.MODE_NOSUCCEED)
    with raises(ValueError):
        win.Compare_and_swap(np.ones(1), np.ones(2), np.ones(1), 0)
    win.Free()
