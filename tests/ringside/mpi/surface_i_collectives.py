"""Checks: the I-forms of collectives, and the persistent ones."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI


def check_ibarrier_and_ibcast(comm):
    request = comm.Ibarrier()
    assert isinstance(request, MPI.Request) and request.Wait() is True
    for root in range(comm.size):
        x = np.full(3, float(comm.rank))
        comm.Ibcast(x, root).Wait()
        assert (x == root).all()


def check_igather_iscatter_iallgather_ialltoall(comm):
    p, r = comm.size, comm.rank
    got = np.zeros(p) if r == 0 else None
    comm.Igather(np.array([float(r)]), got, root=0).Wait()
    assert r or (got == np.arange(p)).all()
    mine = np.zeros(2)
    data = np.arange(2.0 * p) if r == p - 1 else None
    comm.Iscatter(data, mine, root=p - 1).Wait()
    assert mine.tolist() == [2 * r, 2 * r + 1]
    both = np.zeros((p, 2))
    comm.Iallgather(mine, both).Wait()
    assert (both.reshape(-1) == np.arange(2 * p)).all()
    turned = np.zeros(p)
    sent = np.arange(float(p)) + 10 * r
    comm.Ialltoall(sent, turned).Wait()
    assert (turned == 10 * np.arange(p) + r).all()


def check_v_forms_without_blocking(comm):
    p, r = comm.size, comm.rank
    counts = list(range(1, p + 1))
    n, low = sum(counts), sum(counts[:r])
    mine = np.full(r + 1, r)
    expected = np.repeat(np.arange(p), counts)
    got = np.zeros(n, dtype=int)
    comm.Igatherv(mine, [got, counts] if r == 0 else None, 0).Wait()
    assert r or (got == expected).all()
    back = np.zeros(r + 1, dtype=int)
    comm.Iscatterv([expected.copy(), counts] if r == 0 else None, back, 0).Wait()
    assert (back == r).all()
    everything = np.zeros(n, dtype=int)
    comm.Iallgatherv(mine, [everything, counts]).Wait()
    assert (everything == expected).all()
    sent, turned = np.full(p, r), np.zeros(p, dtype=int)
    comm.Ialltoallv([sent, [1] * p], [turned, [1] * p]).Wait()
    assert (turned == np.arange(p)).all()
    assert (everything[low : low + r + 1] == r).all()


def check_reductions_without_blocking(comm):
    p, r = comm.size, comm.rank
    x, total = np.full(3, r + 1.0), p * (p + 1) / 2
    got = np.zeros(3)
    comm.Iallreduce(x, got).Wait()
    assert (got == total).all()
    got = np.zeros(3) if r == 0 else None
    comm.Ireduce(x, got, MPI.SUM, 0).Wait()
    assert r or (got == total).all()
    got = np.zeros(3)
    comm.Iscan(x, got).Wait()
    assert (got == (r + 1) * (r + 2) / 2).all()
    got = np.full(3, -1.0)
    comm.Iexscan(x, got).Wait()
    assert (got == (r * (r + 1) / 2 if r else -1)).all()
    got = np.zeros(2)
    sent = np.ones(2 * p)
    comm.Ireduce_scatter_block(sent, got).Wait()
    assert (got == p).all()
    comm.Ireduce_scatter(sent, got, [2] * p).Wait()
    assert (got == p).all()


def check_i_collectives_in_place(comm):
    x = np.full(3, comm.rank)
    comm.Iallreduce(MPI.IN_PLACE, x, MPI.MAX).Wait()
    assert (x == comm.size - 1).all()
    y = np.zeros(comm.size)
    y[comm.rank] = comm.rank
    comm.Iallgather(MPI.IN_PLACE, y).Wait()
    assert (y == np.arange(comm.size)).all()


def check_i_collectives_overlap_each_other_and_messages(comm):
    p, r = comm.size, comm.rank
    inputs = [np.full(4, float(i + r)) for i in range(3)]
    outputs = [np.zeros(4) for _ in range(3)]
    requests = [comm.Iallreduce(inputs[i], outputs[i]) for i in range(3)]
    got, sent = np.zeros(1), np.array([float(r)])
    requests.append(comm.Irecv(got, (r - 1) % p))
    requests.append(comm.Isend(sent, (r + 1) % p))
    requests.append(comm.Ibarrier())
    MPI.Request.Waitall(requests)
    for i in range(3):
        assert (outputs[i] == i * p + p * (p - 1) / 2).all()
    assert got[0] == (r - 1) % p


def check_i_collectives_complete_by_test(comm):
    got = np.zeros(1)
    sent = np.array([1.0])
    request = comm.Iallreduce(sent, got)
    while not request.Test():
        pass
    assert got[0] == comm.size


def check_persistent_collectives(comm):
    x, got = np.zeros(2), np.zeros(2)
    request = comm.Allreduce_init(x, got)
    for step in range(3):
        x[:] = step + comm.rank
        request.Start()
        request.Wait()
        assert (got == sum(step + r for r in range(comm.size))).all()
    request.Free()
    buffer = np.zeros(1)
    requests = [comm.Barrier_init(), comm.Bcast_init(buffer, 0)]
    buffer[0] = 5 if comm.rank == 0 else 0
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall(requests)
    assert buffer[0] == 5
    for request in requests:
        request.Free()
