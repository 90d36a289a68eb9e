"""Checks: blocking sends and receives of buffers, probes, PROC_NULL, wildcards, errors."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises

SENDS = ["Send", "Ssend", "Bsend", "Rsend"]


def _neighbours(comm):
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


def check_send_and_recv_pass_a_vector_along_a_chain(comm):
    x = np.arange(5.0) + comm.rank
    got = np.full(5, -1.0)
    if comm.rank > 0:
        assert comm.Recv(got, source=comm.rank - 1, tag=3) is None
        assert (got == np.arange(5.0) + comm.rank - 1).all()
    if comm.rank < comm.size - 1:
        assert comm.Send(x, dest=comm.rank + 1, tag=3) is None
    assert (x == np.arange(5.0) + comm.rank).all()


def check_every_blocking_send_mode_delivers(comm):
    if comm.size < 2:
        return
    MPI.Attach_buffer(bytearray(1000 + MPI.BSEND_OVERHEAD))
    for tag, name in enumerate(SENDS):
        if comm.rank == 0:
            go = np.zeros(1)
            if name == "Rsend":  # its receive must be posted already
                comm.Recv(go, source=1, tag=99)
            getattr(comm, name)(np.array([tag, 7]), 1, tag)
        elif comm.rank == 1:
            got = np.zeros(2, dtype=int)
            request = comm.Irecv(got, 0, tag)
            if name == "Rsend":
                comm.Send(np.zeros(1), 0, 99)
            request.Wait()
            assert got.tolist() == [tag, 7]
    MPI.Detach_buffer()


def check_sendrecv_shifts_round_the_ring(comm):
    previous, following = _neighbours(comm)
    got = np.zeros(3, dtype="f4")
    status = MPI.Status()
    sent = np.full(3, comm.rank, dtype="f4")
    result = comm.Sendrecv(sent, following, 5, got, previous, 5, status)
    assert result is None
    assert (got == previous).all()
    assert (status.source, status.tag, status.Get_count(MPI.FLOAT)) == (previous, 5, 3)


def check_sendrecv_replace_shifts_in_one_buffer(comm):
    previous, following = _neighbours(comm)
    x = np.arange(4) + 10 * comm.rank
    comm.Sendrecv_replace(x, dest=following, source=previous)
    assert (x == np.arange(4) + 10 * previous).all()


def check_messages_from_one_sender_keep_their_order(comm):
    previous, following = _neighbours(comm)
    requests = [comm.Isend(np.array([i]), following, tag=1) for i in range(6)]
    for i in range(6):
        got = np.zeros(1, dtype=int)
        comm.Recv(got, previous, tag=1)
        assert got[0] == i
    MPI.Request.Waitall(requests)


def check_tags_select_messages_out_of_order(comm):
    previous, following = _neighbours(comm)
    requests = [comm.Isend(np.array([tag]), following, tag=tag) for tag in (1, 2, 3)]
    for tag in (3, 1, 2):
        got = np.zeros(1, dtype=int)
        comm.Recv(got, previous, tag)
        assert got[0] == tag
    MPI.Request.Waitall(requests)


def check_any_source_and_any_tag_receive_from_everyone(comm):
    if comm.rank:
        comm.Send(np.array([float(comm.rank)]), 0, tag=comm.rank + 10)
        return
    seen = set()
    for _ in range(comm.size - 1):
        got, status = np.zeros(1), MPI.Status()
        comm.Recv(got, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        assert status.Get_source() == got[0] and status.Get_tag() == got[0] + 10
        seen.add(status.source)
    assert seen == set(range(1, comm.size))


def check_defaults_are_any_source_and_any_tag(comm):
    previous, following = _neighbours(comm)
    request = comm.Isend(np.array([comm.rank]), following, 42)
    got, status = np.zeros(1, dtype=int), MPI.Status()
    comm.Recv(got, status=status)
    assert got[0] == previous == status.source and status.tag == 42
    request.Wait()


def check_proc_null_does_nothing(comm):
    got = np.full(3, 7.0)
    status = MPI.Status()
    comm.Send(np.ones(3), MPI.PROC_NULL)
    comm.Recv(got, MPI.PROC_NULL, status=status)
    assert (got == 7).all()
    assert (status.source, status.tag, status.count) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    comm.Sendrecv(np.ones(3), MPI.PROC_NULL, 0, got, MPI.PROC_NULL)
    comm.Sendrecv_replace(got, MPI.PROC_NULL, source=MPI.PROC_NULL)
    comm.Isend(np.ones(3), MPI.PROC_NULL).Wait()
    comm.Irecv(got, MPI.PROC_NULL).Wait(status)
    assert (got == 7).all() and status.source == MPI.PROC_NULL
    assert comm.Iprobe(MPI.PROC_NULL) is True
    assert comm.Probe(MPI.PROC_NULL) is True
    assert comm.recv(source=MPI.PROC_NULL) is None
    comm.send("nobody", MPI.PROC_NULL)


def check_proc_null_ends_an_open_chain(comm):
    up = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    down = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    got = np.full(2, -5.0)
    comm.Sendrecv(np.full(2, float(comm.rank)), up, 0, got, down, 0)
    assert (got == (comm.rank - 1 if comm.rank else -5.0)).all()


def check_a_shorter_message_leaves_the_rest_of_the_buffer(comm):
    previous, following = _neighbours(comm)
    got, status = np.full(6, 9.0), MPI.Status()
    comm.Sendrecv(np.arange(2.0), following, 0, got, previous, 0, status)
    assert got.tolist() == [0, 1, 9, 9, 9, 9]
    assert status.Get_count(MPI.DOUBLE) == 2 and status.count == 16
    later = np.full(6, 9)
    request = comm.Irecv(later, previous)
    comm.Send(np.array([4, 5]), following) if comm.size > 1 else comm.Isend(
        np.array([4, 5]), 0
    ).Wait()
    request.Wait()
    assert later.tolist() == [4, 5, 9, 9, 9, 9]


def check_a_longer_message_is_a_truncation_error(comm):
    previous, following = _neighbours(comm)
    sent = np.arange(5.0)
    request = comm.Isend(sent, following)
    with raises(MPI.Exception, error_class=MPI.ERR_TRUNCATE):
        comm.Recv(np.zeros(2), previous)
    request.Wait()
    receive = comm.Irecv(np.zeros(2), previous)
    request = comm.Isend(sent, following)
    with raises(MPI.Exception, error_class=MPI.ERR_TRUNCATE):
        receive.Wait()
    assert receive == MPI.REQUEST_NULL
    request.Wait()


def check_empty_messages_are_messages(comm):
    previous, following = _neighbours(comm)
    status = MPI.Status()
    got = np.zeros(0)
    comm.Sendrecv(np.zeros(0), following, 8, got, previous, 8, status)
    assert (status.source, status.tag, status.count) == (previous, 8, 0)
    longer = np.full(3, 4.0)
    comm.Sendrecv(np.zeros(0), following, 8, longer, previous, 8, status)
    assert (longer == 4).all() and status.count == 0


def check_probe_tells_length_before_receiving(comm):
    previous, following = _neighbours(comm)
    request = comm.Isend(np.arange(7, dtype="i4"), following, tag=6)
    status = MPI.Status()
    assert comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status) is True
    assert (status.source, status.tag) == (previous, 6)
    assert status.Get_count(MPI.INT) == 7 and status.Get_count(MPI.BYTE) == 28
    got = np.zeros(status.Get_count(MPI.INT), dtype="i4")
    comm.Recv(got, status.source, status.tag)
    assert (got == np.arange(7)).all()
    request.Wait()


def check_iprobe_becomes_true_when_a_message_is_there(comm):
    previous, following = _neighbours(comm)
    assert comm.Iprobe(previous, tag=77) is False
    request = comm.Isend(np.ones(2), following, tag=78)
    status = MPI.Status()
    while not comm.Iprobe(previous, 78, status):
        pass
    assert status.source == previous and status.count == 16
    comm.Recv(np.zeros(2), previous, 78)
    request.Wait()
    comm.Barrier()


def check_bad_ranks_tags_and_roots_are_refused(comm):
    with raises(MPI.Exception, error_class=MPI.ERR_RANK):
        comm.Send(np.ones(1), comm.size)
    with raises(MPI.Exception, error_class=MPI.ERR_RANK):
        comm.Send(np.ones(1), MPI.ANY_SOURCE)
    with raises(MPI.Exception, error_class=MPI.ERR_RANK):
        comm.Irecv(np.ones(1), comm.size + 3)
    with raises(MPI.Exception, error_class=MPI.ERR_TAG):
        comm.Send(np.ones(1), 0, tag=-7)
    with raises(MPI.Exception, error_class=MPI.ERR_TAG):
        comm.Send(np.ones(1), 0, tag=MPI.ANY_TAG)
    with raises(MPI.Exception, error_class=MPI.ERR_TAG):
        comm.Recv(np.ones(1), 0, tag=-7)
    with raises(MPI.Exception, error_class=MPI.ERR_ROOT):
        comm.Bcast(np.ones(1), root=comm.size)
    with raises(MPI.Exception, error_class=MPI.ERR_ROOT):
        comm.Reduce(np.ones(1), np.ones(1), root=-9)
    with raises(TypeError):
        comm.Send(np.ones(1), "0")


def check_numpy_integers_name_ranks(comm):
    previous, following = (np.int64(r) for r in _neighbours(comm))
    got = np.zeros(1)
    comm.Sendrecv(np.array([float(comm.rank)]), following, np.int32(2), got, previous, np.int8(2))
    assert got[0] == previous


def check_sends_to_oneself_arrive(comm):
    got = np.zeros(2)
    request = comm.Irecv(got, comm.rank, 4)
    comm.Send(np.array([1.0, 2.0]), comm.rank, 4)
    request.Wait()
    assert got.tolist() == [1, 2]


def check_bsend_without_a_buffer_is_an_error(comm):
    MPI.Attach_buffer(bytearray(200 + MPI.BSEND_OVERHEAD))
    with raises(MPI.Exception, error_class=MPI.ERR_BUFFER):
        comm.Bsend(np.zeros(1000), comm.rank)
    buffer = MPI.Detach_buffer()
    assert memoryview(buffer).nbytes == 200 + MPI.BSEND_OVERHEAD
