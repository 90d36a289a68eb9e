"""Checks: non-blocking and persistent requests, and all ways to wait for them."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises

EMPTY = (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)


def _neighbours(comm):
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


def _fields(status):
    return status.source, status.tag, status.count


def check_isend_and_irecv_exchange_with_all(comm):
    mine = np.arange(3) + 100 * comm.rank
    got = [np.zeros(3, dtype=int) for _ in range(comm.size)]
    requests = [comm.Irecv(got[r], r, tag=r) for r in range(comm.size)]
    requests += [comm.Isend(mine, r, tag=comm.rank) for r in range(comm.size)]
    statuses = []
    assert MPI.Request.Waitall(requests, statuses) is True
    assert len(statuses) == len(requests)
    for r in range(comm.size):
        assert got[r].tolist() == [100 * r, 100 * r + 1, 100 * r + 2]
        assert _fields(statuses[r]) == (r, r, 24)
    assert all(request == MPI.REQUEST_NULL for request in requests)


def check_every_non_blocking_send_mode_delivers(comm):
    previous, following = _neighbours(comm)
    MPI.Attach_buffer(bytearray(1000 + MPI.BSEND_OVERHEAD))
    for tag, name in enumerate(["Isend", "Issend", "Ibsend", "Irsend"]):
        got = np.zeros(1)
        receive = comm.Irecv(got, previous, tag)
        comm.Barrier()
        sent = np.array([float(tag)])
        send = getattr(comm, name)(sent, following, tag)
        assert send.Wait() is True and receive.Wait() is True
        assert got[0] == tag
    MPI.Detach_buffer()


def check_wait_fills_the_status_and_nulls_the_request(comm):
    previous, following = _neighbours(comm)
    got, status = np.zeros(4), MPI.Status()
    request = comm.Irecv(got, MPI.ANY_SOURCE, MPI.ANY_TAG)
    assert bool(request) and request != MPI.REQUEST_NULL
    send = comm.Isend(np.ones(4), following, 11)
    assert request.Wait(status) is True
    assert _fields(status) == (previous, 11, 32)
    assert not request and request == MPI.REQUEST_NULL
    assert request.Wait(status) is True and _fields(status) == EMPTY
    send.Wait()


def check_test_becomes_true(comm):
    previous, following = _neighbours(comm)
    got = np.zeros(1)
    request = comm.Irecv(got, previous, 5)
    assert request.Test() is False
    comm.Barrier()
    send = comm.Isend(np.array([3.0]), following, 5)
    status = MPI.Status()
    while not request.Test(status):
        pass
    assert got[0] == 3 and _fields(status) == (previous, 5, 8)
    assert request == MPI.REQUEST_NULL and request.Test() is True
    send.Wait()


def check_get_status_leaves_the_request_active(comm):
    previous, following = _neighbours(comm)
    got = np.zeros(1)
    request = comm.Irecv(got, previous, 5)
    send = comm.Isend(np.array([3.0]), following, 5)
    status = MPI.Status()
    while not request.Get_status(status):
        pass
    assert _fields(status) == (previous, 5, 8) and bool(request)
    request.Wait()
    assert got[0] == 3 and not request
    send.Wait()


def check_waitany_names_the_one_that_is_complete(comm):
    previous, following = _neighbours(comm)
    got = [np.zeros(1) for _ in range(3)]
    requests = [comm.Irecv(got[i], previous, tag=i) for i in range(3)]
    for tag in (2, 0, 1):
        send = comm.Isend(np.array([tag + 0.5]), following, tag)
        status = MPI.Status()
        place = MPI.Request.Waitany(requests, status)
        assert place == tag == status.tag and got[tag][0] == tag + 0.5
        assert requests[place] == MPI.REQUEST_NULL
        send.Wait()
        comm.Barrier()
    assert MPI.Request.Waitany(requests) == MPI.UNDEFINED


def check_testany_and_testall_on_open_requests(comm):
    previous, following = _neighbours(comm)
    got = np.zeros((2, 1))
    requests = [comm.Irecv(got[i], previous, tag=i) for i in range(2)]
    assert MPI.Request.Testany(requests) == (MPI.UNDEFINED, False)
    assert MPI.Request.Testall(requests) is False
    assert MPI.Request.Testsome(requests) == []
    comm.Barrier()
    sent = np.array([1.0])
    sends = [comm.Isend(sent, following, tag=i) for i in range(2)]
    statuses = []
    while not MPI.Request.Testall(requests, statuses):
        pass
    assert (got == 1).all() and all(r == MPI.REQUEST_NULL for r in requests)
    assert [s.tag for s in statuses] == [0, 1]
    MPI.Request.Waitall(sends)


def check_waitsome_collects_all_in_the_end(comm):
    previous, following = _neighbours(comm)
    got = np.zeros((4, 2))
    requests = [comm.Irecv(got[i], previous, tag=i) for i in range(4)]
    sent = np.ones(2)
    sends = [comm.Isend(sent, following, tag=i) for i in range(4)]
    seen = []
    while True:
        statuses = []
        places = MPI.Request.Waitsome(requests, statuses)
        if places is None:
            break
        assert [s.tag for s in statuses] == places
        seen += places
    assert sorted(seen) == [0, 1, 2, 3] and (got == 1).all()
    MPI.Request.Waitall(sends)


def check_testsome_collects_all_in_the_end(comm):
    previous, following = _neighbours(comm)
    got = np.zeros((3, 2))
    requests = [comm.Irecv(got[i], previous, tag=i) for i in range(3)]
    sent = np.ones(2)
    sends = [comm.Isend(sent, following, tag=i) for i in range(3)]
    seen = []
    while len(seen) < 3:
        seen += MPI.Request.Testsome(requests)
    assert sorted(seen) == [0, 1, 2] and (got == 1).all()
    MPI.Request.Waitall(sends)


def check_null_requests_are_complete(comm):
    null = [MPI.REQUEST_NULL, MPI.Request()]
    status = MPI.Status()
    status.tag = 5
    assert MPI.REQUEST_NULL.Wait(status) is True and _fields(status) == EMPTY
    assert MPI.REQUEST_NULL.Test() is True
    assert MPI.REQUEST_NULL.wait() is None and MPI.REQUEST_NULL.test() == (True, None)
    assert MPI.Request.Waitall(null) is True and MPI.Request.Waitall([]) is True
    assert MPI.Request.Testall(null) is True
    assert MPI.Request.Waitany(null) == MPI.UNDEFINED == MPI.Request.Waitany([])
    assert MPI.Request.Testany(null) == (MPI.UNDEFINED, True)
    assert MPI.Request.Waitsome(null) is None and MPI.Request.Testsome(null) is None
    assert MPI.Request.waitall(null) == [None, None]
    assert MPI.Request.waitany(null) == (MPI.UNDEFINED, None)
    assert MPI.Request.testany(null) == (MPI.UNDEFINED, True, None)
    assert MPI.Request.testall(null) == (True, [None, None])
    assert MPI.Request.waitsome(null) == (None, None) == MPI.Request.testsome(null)
    with raises(TypeError):
        MPI.Request.Waitall([None])


def check_waitall_reports_truncation_in_the_statuses(comm):
    previous, following = _neighbours(comm)
    good = np.zeros(5)
    requests = [comm.Irecv(np.zeros(2), previous, 1), comm.Irecv(good, previous, 2)]
    sent = np.ones(5)
    sends = [comm.Isend(sent, following, 1), comm.Isend(sent, following, 2)]
    comm.Barrier()
    with raises(MPI.Exception, error_class=MPI.ERR_IN_STATUS):
        MPI.Request.Waitall(requests)
    MPI.Request.Waitall([*requests, *sends])
    assert (good == 1).all()


def check_persistent_requests_start_again_and_again(comm):
    previous, following = _neighbours(comm)
    for name in ("Send_init", "Ssend_init"):
        out, got = np.zeros(3), np.zeros(3)
        requests = [comm.Recv_init(got, previous, 9), getattr(comm, name)(out, following, 9)]
        assert all(isinstance(r, MPI.Prequest) for r in requests)
        assert requests[0].Wait() is True and requests[0].Test() is True  # not started yet
        for step in range(3):
            out[:] = comm.rank + 10 * step
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
            assert (got == previous + 10 * step).all()
            assert all(r != MPI.REQUEST_NULL for r in requests)
        out[:] = -1
        requests[0].Start()
        requests[1].Start()
        with raises(MPI.Exception, error_class=MPI.ERR_REQUEST):
            requests[0].Start()
        assert requests[0].Wait() is True and requests[1].Wait() is True
        assert (got == -1).all()
        for request in requests:
            request.Free()
            assert request == MPI.REQUEST_NULL


def check_persistent_wildcard_and_null_receives(comm):
    previous, following = _neighbours(comm)
    got, status = np.zeros(1), MPI.Status()
    receive = comm.Recv_init(got, MPI.ANY_SOURCE, MPI.ANY_TAG)
    nobody = comm.Recv_init(np.zeros(1), MPI.PROC_NULL)
    send = comm.Send_init(np.array([2.5]), following, 31)
    MPI.Prequest.Startall([receive, nobody, send])
    receive.Wait(status)
    assert got[0] == 2.5 and _fields(status) == (previous, 31, 8)
    assert nobody.Wait() is True
    send.Wait()
    for request in (receive, nobody, send):
        request.Free()


def check_a_copy_of_a_request_waits_for_the_same(comm):
    previous, following = _neighbours(comm)
    got = np.zeros(1)
    request = comm.Irecv(got, previous)
    assert MPI.Request(request) == request
    send = comm.Isend(np.ones(1), following)
    request.Wait()
    send.Wait()
    assert got[0] == 1


def check_a_freed_send_still_arrives(comm):
    previous, following = _neighbours(comm)
    sent = np.array([6.0])
    request = comm.Isend(sent, following, 12)
    got = np.zeros(1)
    receive = comm.Irecv(got, previous, 12)
    request.Free()
    assert request == MPI.REQUEST_NULL
    receive.Wait()
    assert got[0] == 6
    comm.Barrier()
