"""Checks: collectives that move data."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises


def check_barrier_returns_none(comm):
    assert comm.Barrier() is None
    assert comm.barrier() is None


def check_bcast_from_each_root(comm):
    for root in range(comm.size):
        x = np.arange(6.0).reshape(2, 3) * (1 if comm.rank == root else -1)
        assert comm.Bcast(x, root=root) is None
        assert (x == np.arange(6.0).reshape(2, 3)).all()
        text = bytearray(b"root" if comm.rank == root else b"....")
        comm.Bcast([text, MPI.CHAR], root)
        assert text == b"root"
    empty = np.zeros(0)
    comm.Bcast(empty)


def check_bcast_of_part_of_a_buffer(comm):
    x = np.full(5, float(comm.rank))
    comm.Bcast([x, 2, MPI.DOUBLE], root=0)
    assert x.tolist() == [0, 0, comm.rank, comm.rank, comm.rank]


def check_gather_in_rank_order(comm):
    for root in range(comm.size):
        got = np.full((comm.size, 2), -1) if comm.rank == root else None
        comm.Gather(np.array([comm.rank, 10 * comm.rank]), got, root=root)
        if comm.rank == root:
            assert got.tolist() == [[r, 10 * r] for r in range(comm.size)]


def check_gather_in_place(comm):
    if comm.rank == 0:
        got = np.full(comm.size, -1.0)
        got[0] = 5
        comm.Gather(MPI.IN_PLACE, got, root=0)
        assert got.tolist() == [5, *range(1, comm.size)]
    else:
        comm.Gather(np.array([float(comm.rank)]), None, root=0)


def check_scatter_in_rank_order(comm):
    for root in range(comm.size):
        data = np.arange(3 * comm.size).reshape(comm.size, 3) if comm.rank == root else None
        got = np.zeros(3, dtype=int)
        comm.Scatter(data, got, root=root)
        assert (got == np.arange(3) + 3 * comm.rank).all()
        if comm.rank == root:
            comm.Scatter(data, MPI.IN_PLACE, root=root)
            assert (data == np.arange(3 * comm.size).reshape(comm.size, 3)).all()
        else:
            comm.Scatter(None, got, root=root)
            assert (got == np.arange(3) + 3 * comm.rank).all()


def check_allgather_in_rank_order(comm):
    got = np.zeros((comm.size, 3))
    comm.Allgather(np.full(3, float(comm.rank)), got)
    assert (got == np.arange(comm.size)[:, None]).all()
    mine = np.zeros(comm.size, dtype="f4")
    mine[comm.rank] = comm.rank + 0.5
    comm.Allgather(MPI.IN_PLACE, mine)
    assert (mine == np.arange(comm.size) + 0.5).all()


def check_alltoall_transposes(comm):
    sent = 100 * comm.rank + np.arange(2 * comm.size)
    got = np.zeros(2 * comm.size, dtype=int)
    comm.Alltoall(sent, got)
    expected = [100 * r + 2 * comm.rank + i for r in range(comm.size) for i in range(2)]
    assert got.tolist() == expected
    comm.Alltoall(MPI.IN_PLACE, sent)
    assert sent.tolist() == expected


def check_gatherv_of_rank_many_items(comm):
    p = comm.size
    counts = [r + 1 for r in range(p)]
    total = sum(counts)
    for root in range(p):
        mine = np.full(comm.rank + 1, float(comm.rank))
        got = np.full(total, -1.0)
        comm.Gatherv(mine, [got, counts] if comm.rank == root else None, root)
        expected = np.repeat(np.arange(p), counts)
        if comm.rank == root:
            assert (got == expected).all()
        displs = [total - sum(counts[: r + 1]) for r in range(p)]  # blocks from the end on
        got = np.full(total, -1.0)
        comm.Gatherv(mine, [got, counts, displs, MPI.DOUBLE] if comm.rank == root else None, root)
        if comm.rank == root:
            for r in range(p):
                assert (got[displs[r] : displs[r] + counts[r]] == r).all()


def check_gatherv_leaves_gaps_alone(comm):
    p = comm.size
    got = np.full(3 * p, -1)
    spec = [got, ([2] * p, [3 * r for r in range(p)]), MPI.LONG] if comm.rank == 0 else None
    comm.Gatherv(np.array([comm.rank, comm.rank]), spec, root=0)
    if comm.rank == 0:
        assert got.reshape(p, 3).tolist() == [[r, r, -1] for r in range(p)]


def check_scatterv_of_uneven_blocks(comm):
    p = comm.size
    counts = [(r + 1) % 3 for r in range(p)]
    displs = [sum(counts[:r]) for r in range(p)]
    for root in range(p):
        data = np.arange(float(sum(counts)))
        spec = [data, counts, displs, MPI.DOUBLE] if comm.rank == root else None
        got = np.full(counts[comm.rank], -1.0)
        comm.Scatterv(spec, got, root=root)
        low = displs[comm.rank]
        assert (got == np.arange(low, low + counts[comm.rank])).all()
        spec = [data, (counts, displs)] if comm.rank == root else None
        got[:] = -1
        comm.Scatterv(spec, [got, MPI.DOUBLE], root)
        assert (got == np.arange(low, low + counts[comm.rank])).all()


def check_v_forms_split_a_plain_buffer_like_array_split(comm):
    n = 2 * comm.size + 1
    data = np.arange(float(n)) if comm.rank == 0 else None
    parts = np.array_split(np.arange(float(n)), comm.size)
    got = np.zeros(parts[comm.rank].size)
    comm.Scatterv(data, got, root=0)
    assert (got == parts[comm.rank]).all()
    back = np.zeros(n)
    comm.Allgatherv(got, back)
    assert (back == np.arange(n)).all()


def check_allgatherv_of_uneven_blocks(comm):
    p = comm.size
    counts = [r % 3 for r in range(p)]
    got = np.full(sum(counts), -1)
    comm.Allgatherv(np.full(counts[comm.rank], comm.rank), [got, counts])
    assert (got == np.repeat(np.arange(p), counts)).all()
    again = np.full(sum(counts), -1)
    low = sum(counts[: comm.rank])
    again[low : low + counts[comm.rank]] = comm.rank
    comm.Allgatherv(MPI.IN_PLACE, [again, (counts, None)])
    assert (again == got).all()


def check_alltoallv_of_uneven_blocks(comm):
    p, r = comm.size, comm.rank
    scounts = [(r + s) % 3 for s in range(p)]
    sent = np.concatenate([np.full(scounts[s], 10 * r + s) for s in range(p)])
    rcounts = [(s + r) % 3 for s in range(p)]
    got = np.full(sum(rcounts), -1)
    sdispls = [sum(scounts[:s]) for s in range(p)]
    rdispls = [sum(rcounts[:s]) for s in range(p)]
    comm.Alltoallv([sent, (scounts, sdispls), MPI.LONG], [got, (rcounts, rdispls), MPI.LONG])
    assert (got == np.concatenate([np.full(rcounts[s], 10 * s + r) for s in range(p)])).all()
    got[:] = -1
    comm.Alltoallv([sent, scounts], [got, rcounts])
    assert (got == np.concatenate([np.full(rcounts[s], 10 * s + r) for s in range(p)])).all()


def check_wrong_block_counts_are_refused(comm):
    p = comm.size
    if p > 1:
        with raises(ValueError):
            comm.Allgather(np.zeros(1), np.zeros(p + 1))
        with raises(ValueError):
            comm.Alltoall(np.zeros(p + 1), np.zeros(p))
    with raises(ValueError):
        comm.Allgatherv(np.zeros(1), [np.zeros(p), [1] * (p + 1)])
    comm.Barrier()


def check_collectives_on_many_dtypes(comm):
    for code in "?bhilBHILefdFDg":
        got = np.zeros(comm.size, code)
        comm.Allgather(np.array([comm.rank]).astype(code), got)
        assert (got == np.arange(comm.size).astype(code)).all(), code


def check_consecutive_collectives_do_not_mix(comm):
    for i in range(10):
        x = np.array([i * (comm.rank == i % comm.size)])
        comm.Bcast(x, root=i % comm.size)
        assert x[0] == i
        got = np.zeros(comm.size, dtype=int)
        comm.Allgather(np.array([i + comm.rank]), got)
        assert (got == i + np.arange(comm.size)).all()


def check_point_to_point_and_collectives_do_not_mix(comm):
    p, r = comm.size, comm.rank
    got = np.zeros(1)
    receive = comm.Irecv(got, MPI.ANY_SOURCE, MPI.ANY_TAG)
    x = np.array([float(r)])
    comm.Bcast(x, root=0)
    comm.Barrier()
    sent = np.array([7.0])
    send = comm.Isend(sent, (r + 1) % p)
    receive.Wait()
    send.Wait()
    assert got[0] == 7 and x[0] == 0


def check_none_stands_for_in_place(comm):
    p, r = comm.size, comm.rank
    got = np.where(np.arange(p) == r, r + 1.0, 0)
    comm.Allgather(None, got)
    assert (got == np.arange(p) + 1).all()
    total = np.full(2, r + 1.0)
    comm.Allreduce(None, total)
    assert (total == p * (p + 1) / 2).all()
    if r == 0:
        comm.Scatter(np.arange(float(p)), None, root=0)
    else:
        comm.Scatter(None, got[:1], root=0)
        assert got[0] == r
