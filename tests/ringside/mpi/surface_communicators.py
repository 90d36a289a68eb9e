"""Checks: communicators, groups, grids."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises


def _sum(comm):
    return comm.allreduce(comm.rank)


def check_rank_and_size(comm):
    assert comm.Get_rank() == comm.rank and comm.Get_size() == comm.size
    assert 0 <= comm.rank < comm.size
    assert sorted(comm.allgather(comm.rank)) == list(range(comm.size))
    assert comm.Is_inter() is False and comm.Is_intra() is True
    assert comm.is_inter is False and comm.is_intra is True


def check_dup_keeps_messages_apart(comm):
    other = comm.Dup()
    assert other != comm and other.Compare(comm) == MPI.CONGRUENT
    assert (other.rank, other.size) == (comm.rank, comm.size)
    previous, following = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    sends = [comm.isend("first", following), other.isend("second", following)]
    assert other.recv(source=previous) == "second"
    assert comm.recv(source=previous) == "first"
    MPI.Request.waitall(sends)
    other.Free()
    assert other == MPI.COMM_NULL and not other


def check_split_into_even_and_odd(comm):
    part = comm.Split(color=comm.rank % 2, key=comm.rank)
    assert part.size == len(range(comm.rank % 2, comm.size, 2))
    assert part.rank == comm.rank // 2
    got = np.zeros(1)
    part.Allreduce(np.array([float(comm.rank)]), got)
    assert got[0] == sum(range(comm.rank % 2, comm.size, 2))
    part.Free()


def check_split_orders_by_key(comm):
    turned = comm.Split(color=7, key=-comm.rank)
    assert turned.rank == comm.size - 1 - comm.rank
    assert turned.allgather(comm.rank) == list(reversed(range(comm.size)))
    assert turned.Compare(comm) == (MPI.SIMILAR if comm.size > 1 else MPI.CONGRUENT)
    assert turned.bcast(comm.rank, root=0) == comm.size - 1
    turned.Free()
    same = comm.Split()
    assert same.rank == comm.rank and same.Compare(comm) == MPI.CONGRUENT
    same.Free()


def check_split_with_undefined_gives_null(comm):
    part = comm.Split(MPI.UNDEFINED if comm.rank == 0 else 1, comm.rank)
    if comm.rank == 0:
        assert part == MPI.COMM_NULL and not part
    else:
        assert part.size == comm.size - 1 and part.rank == comm.rank - 1
        part.Free()


def check_messages_in_a_part_use_its_ranks(comm):
    part = comm.Split(comm.rank % 2, -comm.rank)
    got, status = np.zeros(1), MPI.Status()
    sent = np.array([float(part.rank)])
    part.Sendrecv(sent, (part.rank + 1) % part.size, 0, got, (part.rank - 1) % part.size, 0, status)
    assert got[0] == (part.rank - 1) % part.size == status.source
    part.Free()


def check_nested_splits(comm):
    first = comm.Split(comm.rank // 2, comm.rank)
    second = first.Split(first.rank, 0)
    assert second.size == 1 and second.allgather(comm.rank) == [comm.rank]
    second.Free()
    first.Free()


def check_null_communicators_refuse_calls(comm):
    null = MPI.COMM_NULL
    assert not null and null.Get_name() == "MPI_COMM_NULL"
    for call in (null.Get_rank, null.Get_size, null.Barrier, null.Dup, null.Free, null.Get_group):
        with raises(MPI.Exception, error_class=MPI.ERR_COMM):
            call()
    with raises(MPI.Exception, error_class=MPI.ERR_COMM):
        null.Send([None, 0, MPI.BYTE], 0)
    with raises(MPI.Exception, error_class=MPI.ERR_COMM):
        null.bcast(1)
    freed = comm.Dup()
    freed.Free()
    with raises(MPI.Exception, error_class=MPI.ERR_COMM):
        freed.Get_rank()
    with raises(MPI.Exception, error_class=MPI.ERR_COMM):
        freed.Free()


def check_create_from_a_group(comm):
    group = comm.Get_group()
    evens = group.Incl(range(0, comm.size, 2))
    part = comm.Create(evens)
    if comm.rank % 2 == 0:
        assert part.size == evens.size and part.rank == comm.rank // 2
        assert _sum(part) == part.size * (part.size - 1) // 2
        part.Free()
    else:
        assert part == MPI.COMM_NULL
    assert comm.Create(MPI.GROUP_EMPTY) == MPI.COMM_NULL
    evens.Free()
    group.Free()
    assert not group and group == MPI.GROUP_NULL


def check_create_group_is_called_by_members_alone(comm):
    group = comm.Get_group()
    for leave in range(comm.size):
        if comm.size == 1 or comm.rank == leave:
            continue
        members = group.Excl([leave])
        part = comm.Create_group(members, tag=leave)
        assert part.size == comm.size - 1
        assert part.allgather(comm.rank) == [r for r in range(comm.size) if r != leave]
        part.Free()
    comm.Barrier()


def check_groups_are_sets_with_order(comm):
    group = comm.Get_group()
    p = comm.size
    assert (group.Get_size(), group.Get_rank()) == (p, comm.rank) == (group.size, group.rank)
    low, high = group.Incl(range(p // 2 + 1)), group.Incl(range(p // 2, p))
    assert MPI.Group.Union(low, high).Compare(group) == MPI.IDENT
    assert MPI.Group.Intersection(low, high).size == 1
    assert MPI.Group.Difference(group, low).size == p - p // 2 - 1
    turned = group.Incl(list(reversed(range(p))))
    assert group.Compare(turned) == (MPI.SIMILAR if p > 1 else MPI.IDENT)
    assert turned.Get_rank() == p - 1 - comm.rank
    assert group.Compare(MPI.GROUP_EMPTY) == MPI.UNEQUAL
    assert group.Excl([0]).size == p - 1
    assert group.Excl(range(p)).Compare(MPI.GROUP_EMPTY) == MPI.IDENT
    assert group.Range_incl([(0, p - 1, 2)]).size == (p + 1) // 2
    assert group.Range_excl([(0, p - 1, 2)]).size == p // 2
    assert group.Range_incl([(p - 1, 0, -1)]).Compare(turned) == MPI.IDENT
    assert group.Dup().Compare(group) == MPI.IDENT
    assert MPI.GROUP_EMPTY.size == 0 and MPI.GROUP_EMPTY.rank == MPI.UNDEFINED


def check_groups_translate_ranks(comm):
    group = comm.Get_group()
    p = comm.size
    turned = group.Incl(list(reversed(range(p))))
    assert group.Translate_ranks(range(p), turned) == list(reversed(range(p)))
    assert group.Translate_ranks([0, p - 1], turned) == [p - 1, 0]
    assert group.Translate_ranks([0], MPI.GROUP_EMPTY) == [MPI.UNDEFINED]
    assert group.Translate_ranks([MPI.PROC_NULL], turned) == [MPI.PROC_NULL]
    with raises(MPI.Exception, error_class=MPI.ERR_RANK):
        group.Translate_ranks([p], turned)
    with raises(MPI.Exception, error_class=MPI.ERR_RANK):
        group.Incl([p])


def check_a_part_knows_its_world_ranks(comm):
    part = comm.Split(comm.rank % 2, comm.rank)
    places = part.group.Translate_ranks(range(part.size), comm.group)
    assert places == list(range(comm.rank % 2, comm.size, 2))
    part.Free()


def check_compare_tells_kinds_of_likeness(comm):
    assert comm.Compare(comm) == MPI.IDENT
    alone = comm.Split(comm.rank)
    assert alone.Compare(MPI.COMM_SELF) == MPI.CONGRUENT
    assert comm.Compare(alone) == (MPI.UNEQUAL if comm.size > 1 else MPI.CONGRUENT)
    alone.Free()
    assert MPI.Intracomm(comm) == comm
    assert (MPI.COMM_NULL == None) is False  # noqa: E711
    with raises(TypeError):
        hash(comm)


def check_names_of_communicators(comm):
    assert MPI.COMM_WORLD.Get_name() == "MPI_COMM_WORLD" == MPI.COMM_WORLD.name
    assert MPI.COMM_SELF.Get_name() == "MPI_COMM_SELF"
    other = comm.Dup()
    assert other.name == ""
    other.Set_name("mine")
    assert other.Get_name() == "mine"
    other.name = "yours"
    assert other.name == "yours"
    other.Free()


def check_comm_self_is_a_communicator_of_one(comm):
    alone = MPI.COMM_SELF
    assert alone.size == 1 and alone.rank == 0
    assert alone.allreduce(5) == 5 and alone.bcast("x") == "x" and alone.allgather(1) == [1]
    got = np.zeros(2)
    alone.Allreduce(np.ones(2), got)
    assert (got == 1).all()
    alone.Sendrecv(np.array([1.0, 2.0]), 0, 0, got, 0, 0)
    assert got.tolist() == [1, 2]
    alone.Barrier()
    other = alone.Dup()
    assert other.Compare(alone) == MPI.CONGRUENT
    other.Free()


def check_a_grid_has_row_major_ranks(comm):
    dims = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims, periods=[False, True])
    assert isinstance(grid, MPI.Cartcomm) and grid.Get_topology() == MPI.CART
    assert grid.Get_dim() == 2 == grid.ndim == grid.dim
    row, column = divmod(grid.rank, dims[1])
    assert grid.Get_coords(grid.rank) == [row, column] == grid.coords
    assert grid.Get_topo() == (dims, [0, 1], [row, column]) == grid.topo
    assert grid.dims == dims and grid.periods == [0, 1]
    for rank in range(grid.size):
        assert grid.Get_cart_rank(grid.Get_coords(rank)) == rank
    assert grid.Get_cart_rank([row, column + dims[1]]) == grid.rank
    assert comm.Get_topology() == MPI.UNDEFINED and grid.is_topo is True
    with raises(MPI.Exception, error_class=MPI.ERR_RANK):
        grid.Get_coords(grid.size)
    with raises(ValueError):
        grid.Get_cart_rank([0])
    grid.Free()


def check_shift_names_neighbours(comm):
    for periodic in (False, True):
        line = comm.Create_cart([comm.size], [periodic])
        for disp in (1, -1, 2):
            source, dest = line.Shift(0, disp)
            for rank, steps in ((source, -disp), (dest, disp)):
                place = line.rank + steps
                inside = 0 <= place < line.size
                expected = place % line.size if inside or periodic else MPI.PROC_NULL
                assert rank == expected, (periodic, disp)
        source, dest = line.Shift(0, 1)
        got = np.full(1, -1.0)
        line.Sendrecv(np.array([float(line.rank)]), dest, 0, got, source, 0)
        assert got[0] == (source if source != MPI.PROC_NULL else -1)
        line.Free()


def check_sub_grids_are_rows_and_columns(comm):
    dims = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims)
    row, column = grid.coords
    rows, columns = grid.Sub([False, True]), grid.Sub([True, False])
    assert (rows.size, columns.size) == (dims[1], dims[0])
    assert (rows.rank, columns.rank) == (column, row)
    assert rows.dims == [dims[1]] and rows.coords == [column]
    assert rows.allreduce(row) == row * dims[1]
    assert isinstance(rows, MPI.Cartcomm) and isinstance(grid.Dup(), MPI.Cartcomm)
    for part in (rows, columns, grid):
        part.Free()


def check_ranks_left_over_are_not_in_the_grid(comm):
    grid = comm.Create_cart([max(comm.size - 1, 1)])
    if comm.rank == comm.size - 1 and comm.size > 1:
        assert grid == MPI.COMM_NULL
    else:
        assert grid.size == max(comm.size - 1, 1)
        grid.Free()
    with raises(MPI.Exception):
        comm.Create_cart([comm.size + 1])


def check_compute_dims_are_balanced(comm):
    assert MPI.Compute_dims(12, 2) == [4, 3] and MPI.Compute_dims(12, 3) == [3, 2, 2]
    assert MPI.Compute_dims(16, 2) == [4, 4] and MPI.Compute_dims(7, 2) == [7, 1]
    assert MPI.Compute_dims(12, [0, 3]) == [4, 3] and MPI.Compute_dims(8, [2, 0, 0]) == [2, 2, 2]
    assert MPI.Compute_dims(6, 1) == [6] and MPI.Compute_dims(1, 3) == [1, 1, 1]
    assert MPI.Compute_dims(64, 3) == [4, 4, 4] and MPI.Compute_dims(60, 3) == [5, 4, 3]
    with raises(MPI.Exception, error_class=MPI.ERR_DIMS):
        MPI.Compute_dims(12, [5, 0])
