"""Checks: the lower-case calls."""

from __future__ import annotations

import operator

import numpy as np
from mpi4py import MPI
from surface import raises

OBJECTS = [
    None, True, 3, -1.5, 2j, "text", b"bytes", (), [1, [2, (3,)]], {"a": {1, 2}}, 10**30, ...,
]  # fmt: skip


def _neighbours(comm):
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


def check_objects_of_many_kinds_go_round_the_ring(comm):
    previous, following = _neighbours(comm)
    for obj in OBJECTS:
        request = comm.isend((comm.rank, obj), dest=following, tag=4)
        assert comm.recv(source=previous, tag=4) == (previous, obj)
        assert request.wait() is None


def check_send_and_ssend_of_objects(comm):
    for name in ("send", "ssend"):
        if comm.rank > 0:
            assert comm.recv(source=comm.rank - 1) == {"from": comm.rank - 1}
        if comm.rank + 1 < comm.size:
            assert getattr(comm, name)({"from": comm.rank}, comm.rank + 1) is None


def check_bsend_and_ibsend_of_objects(comm):
    previous, following = _neighbours(comm)
    MPI.Attach_buffer(bytearray(10_000))
    comm.bsend([1, 2], following, 1)
    assert comm.recv(source=previous, tag=1) == [1, 2]
    request = comm.ibsend("later", following, 2)
    assert comm.recv(source=previous, tag=2) == "later"
    request.wait()
    MPI.Detach_buffer()


def check_arrays_travel_as_objects(comm):
    previous, following = _neighbours(comm)
    x = np.arange(12.0).reshape(3, 4)[:, ::2] * comm.rank
    got = comm.sendrecv(x, following, source=previous)
    assert got.shape == (3, 2) and got.dtype == x.dtype
    assert (got == np.arange(12.0).reshape(3, 4)[:, ::2] * previous).all()


def check_sendrecv_of_objects_fills_the_status(comm):
    previous, following = _neighbours(comm)
    status = MPI.Status()
    got = comm.sendrecv([comm.rank], following, 7, None, previous, 7, status)
    assert got == [previous] and (status.source, status.tag) == (previous, 7)
    assert status.count > 0
    assert comm.sendrecv(1, MPI.PROC_NULL, source=MPI.PROC_NULL) is None


def check_irecv_and_issend_of_objects(comm):
    previous, following = _neighbours(comm)
    request = comm.irecv(source=previous, tag=3)
    sent = comm.issend({"x": comm.rank}, following, 3)
    status = MPI.Status()
    assert request.wait(status) == {"x": previous}
    assert status.source == previous and status.tag == 3
    sent.wait()
    assert request.wait() is None


def check_irecv_takes_a_size_or_a_buffer(comm):
    previous, following = _neighbours(comm)
    large = list(range(50_000))
    receive = comm.irecv(1 << 20, previous, 1)
    send = comm.isend(large, following, 1)
    assert receive.wait() == large
    send.wait()
    receive = comm.irecv(bytearray(1 << 20), previous, 1)
    send = comm.isend(large, following, 1)
    assert receive.wait() == large
    send.wait()
    receive = comm.irecv(source=previous, tag=1)  # 32 KiB by default
    send = comm.isend(large, following, 1)
    with raises(MPI.Exception, error_class=MPI.ERR_TRUNCATE):
        receive.wait()
    send.wait()


def check_requests_give_objects_in_every_way(comm):
    previous, following = _neighbours(comm)
    sends = [comm.isend(i * i, following, i) for i in range(8)]
    receives = [comm.irecv(source=previous, tag=i) for i in range(8)]
    assert MPI.Request.waitall(receives[:2]) == [0, 1]
    place, obj = MPI.Request.waitany(receives[2:3])
    assert (place, obj) == (0, 4)
    places, objects = MPI.Request.waitsome(receives[3:4])
    assert (places, objects) == ([0], [9])
    done = False
    while not done:
        done, obj = receives[4].test()
    assert obj == 16
    done = False
    while not done:
        place, done, obj = MPI.Request.testany(receives[5:6])
    assert (place, obj) == (0, 25)
    done = False
    while not done:
        done, objects = MPI.Request.testall(receives[6:7])
    assert objects == [36]
    places = []
    while not places:
        places, objects = MPI.Request.testsome(receives[7:8])
    assert (places, objects) == ([0], [49])
    assert MPI.Request.waitall(sends) == [None] * 8


def check_open_object_requests_test_false(comm):
    previous, following = _neighbours(comm)
    request = comm.irecv(source=previous, tag=5)
    assert request.test() == (False, None)
    assert MPI.Request.testall([request]) == (False, None)
    assert MPI.Request.testany([request]) == (MPI.UNDEFINED, False, None)
    assert MPI.Request.testsome([request]) == ([], [])
    comm.barrier()
    send = comm.isend("x", following, 5)
    assert request.wait() == "x"
    send.wait()


def check_probe_and_iprobe_of_objects(comm):
    previous, following = _neighbours(comm)
    assert comm.iprobe(previous, 66) is False
    send = comm.isend("found", following, 65)
    status = MPI.Status()
    assert comm.probe(status=status) is True
    assert (status.source, status.tag) == (previous, 65)
    assert comm.iprobe(previous, 65) is True
    assert comm.recv(source=status.source, tag=status.tag) == "found"
    send.wait()
    comm.barrier()


def check_bcast_of_objects_from_each_root(comm):
    for root in range(comm.size):
        obj = {"root": root} if comm.rank == root else None
        got = comm.bcast(obj, root=root)
        assert got == {"root": root}
    assert comm.bcast(None) is None


def check_gather_and_scatter_of_objects(comm):
    for root in range(comm.size):
        gathered = comm.gather((comm.rank, "x" * comm.rank), root=root)
        if comm.rank == root:
            assert gathered == [(r, "x" * r) for r in range(comm.size)]
        else:
            assert gathered is None
        items = [{"for": r} for r in range(comm.size)] if comm.rank == root else None
        assert comm.scatter(items, root=root) == {"for": comm.rank}


def check_allgather_and_alltoall_of_objects(comm):
    assert comm.allgather(comm.rank**2) == [r**2 for r in range(comm.size)]
    got = comm.alltoall([(comm.rank, r) for r in range(comm.size)])
    assert got == [(r, comm.rank) for r in range(comm.size)]


def check_wrong_numbers_of_items_are_refused(comm):
    with raises(ValueError):
        comm.alltoall([0] * (comm.size + 1))
    with raises(ValueError):
        comm.scatter([0] * (comm.size + 1), root=comm.rank)


def check_reduce_and_allreduce_of_objects(comm):
    p, total = comm.size, comm.size * (comm.size - 1) // 2
    assert comm.allreduce(comm.rank) == total
    assert comm.allreduce(comm.rank + 1, op=MPI.PROD) == np.prod(np.arange(p) + 1)
    assert comm.allreduce(comm.rank, MPI.MAX) == p - 1
    assert comm.allreduce(comm.rank, MPI.MIN) == 0
    assert comm.allreduce(comm.rank > 0, MPI.LOR) == (p > 1)
    assert comm.allreduce((comm.rank, comm.rank), MPI.MAXLOC) == (p - 1, p - 1)
    assert comm.allreduce((5, comm.rank), MPI.MINLOC) == (5, 0)
    assert comm.allreduce([comm.rank], op=operator.add) == list(range(p))
    assert comm.allreduce("ab"[comm.rank % 2], op=lambda a, b: a + b) == ("ab" * p)[:p]
    for root in range(p):
        got = comm.reduce(np.array([comm.rank, 1]), op=MPI.SUM, root=root)
        if comm.rank == root:
            assert got.tolist() == [total, p]
        else:
            assert got is None


def check_scan_and_exscan_of_objects(comm):
    r = comm.rank
    assert comm.scan(r) == r * (r + 1) // 2
    assert comm.exscan(r) == (None if r == 0 else r * (r - 1) // 2)
    assert comm.scan([r], op=operator.add) == list(range(r + 1))


def check_a_user_operation_on_objects(comm):
    op = MPI.Op.Create(lambda a, b, datatype: max(a, b, key=abs), commute=True)
    assert comm.allreduce(-comm.rank, op) == -(comm.size - 1)
    assert op(3, -4) == -4
    op.Free()


def check_received_objects_are_copies(comm):
    mine = [comm.rank]
    got = comm.bcast(mine, root=0)
    got.append("changed")
    assert mine == [comm.rank]
    assert comm.allgather(mine) == [[r] for r in range(comm.size)]
