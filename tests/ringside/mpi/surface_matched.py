"""Checks: matched probes, Isendrecv, and statuses of requests that stay active."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises


def _around(comm):
    return (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size


def check_a_matched_probe_hands_over_the_message(comm):
    before, after = _around(comm)
    request = comm.Isend(np.arange(comm.rank + 1.0), after, 5)
    status = MPI.Status()
    message = comm.Mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    assert (status.source, status.tag) == (before, 5)
    got = np.zeros(status.Get_count(MPI.DOUBLE))
    message.Recv(got, status)
    assert got.tolist() == list(range(before + 1)) and status.source == before
    assert message == MPI.MESSAGE_NULL and not message
    request.Wait()
    with raises():
        message.Recv(got)


def check_a_matched_message_is_out_of_the_way(comm):
    before, after = _around(comm)
    sends = [comm.isend("first", after, 1), comm.isend("second", after, 1)]
    message = comm.mprobe(before, 1)
    assert comm.recv(source=before, tag=1) == "second"
    assert message.recv() == "first"
    MPI.Request.waitall(sends)


def check_improbe_finds_what_has_come(comm):
    before, after = _around(comm)
    assert comm.Improbe(MPI.ANY_SOURCE, 9) is None
    comm.Barrier()
    request = comm.isend({"rank": comm.rank}, after, 9)
    message = None
    while message is None:
        message = comm.improbe(before, 9)
    assert message.irecv().wait() == {"rank": before}
    request.wait()


def check_a_message_from_nobody(comm):
    status = MPI.Status()
    message = comm.Mprobe(MPI.PROC_NULL, 0, status)
    assert message == MPI.MESSAGE_NO_PROC and status.source == MPI.PROC_NULL
    got = np.full(1, 3.0)
    message.Recv(got)
    assert got[0] == 3 and message == MPI.MESSAGE_NULL


def check_a_matched_message_too_long_for_its_buffer(comm):
    request = comm.Isend(np.zeros(4), comm.rank, 2)
    with raises(error_class=MPI.ERR_TRUNCATE):
        comm.Mprobe(comm.rank, 2).Recv(np.zeros(2))
    request.Wait()


def check_isendrecv_does_both(comm):
    before, after = _around(comm)
    mine, got = np.full(3, comm.rank), np.zeros(3, dtype=int)
    comm.Isendrecv(mine, after, 1, got, before, 1).Wait()
    assert (got == before).all()
    comm.Isendrecv_replace(mine, after, 2, before, 2).Wait()
    assert (mine == before).all()
    comm.Isendrecv(None, MPI.PROC_NULL, 0, None, MPI.PROC_NULL, 0).Wait()


def check_isendrecv_among_other_requests(comm):
    before, after = _around(comm)
    got = np.zeros((2, 1))
    mine = np.array([comm.rank + 0.5])
    requests = [
        comm.Isendrecv(mine, after, 1, got[0], before, 1),
        comm.Irecv(got[1], before, 2),
    ]
    place = MPI.Request.Waitany(requests)
    assert place == 0 and got[0] == before + 0.5
    send = comm.Isend(mine, after, 2)
    while not MPI.Request.Testall(requests):
        pass
    assert got[1] == before + 0.5
    send.Wait()


def check_get_status_keeps_what_was_received(comm):
    before, after = _around(comm)
    got = np.zeros(2)
    request = comm.Irecv(got, before, 1)
    send = comm.Isend(np.array([comm.rank, 1.0]), after, 1)
    while not request.Get_status():
        pass
    assert comm.allgather("other messages come") == ["other messages come"] * comm.size
    request.Wait()
    assert got.tolist() == [before, 1]
    send.Wait()


def check_attributes_go_where_the_program_says(comm):
    key = MPI.Comm.Create_keyval(lambda comm, key, value: value + 1)
    silent = MPI.Comm.Create_keyval()
    first = comm.Dup()
    assert first.Get_attr(key) is None
    first.Set_attr(key, 41)
    first.Set_attr(silent, "stays")
    second = first.Dup()
    assert (second.Get_attr(key), second.Get_attr(silent)) == (42, None)
    first.Delete_attr(key)
    assert first.Get_attr(key) is None and second.Get_attr(key) == 42
    second.Free()
    first.Free()
    assert MPI.Comm.Free_keyval(key) == MPI.KEYVAL_INVALID == MPI.Comm.Free_keyval(silent)


def check_idup_and_split_type(comm):
    made, request = comm.Idup()
    request.Wait()
    assert made.Compare(comm) == MPI.CONGRUENT
    made.Free()
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    assert 0 <= node.rank < node.size <= comm.size
    names = node.allgather(MPI.Get_processor_name())
    assert len(set(names)) == 1
    node.Free()
    assert comm.Split_type(MPI.UNDEFINED) == MPI.COMM_NULL


def check_info_is_a_mapping_of_strings(comm):
    info = MPI.Info.Create({"a": "1"})
    info["b"] = "2"
    assert info.Get("a") == "1" and info.Get("c") is None and "b" in info
    assert info.keys() == ["a", "b"] and len(info.Dup()) == 2
    comm.Dup(info).Free()
    info.Free()
    assert info == MPI.INFO_NULL and not info


def check_alltoallw_and_persistent_collectives(comm):
    size = comm.size
    sent = np.arange(size) + 10.0 * comm.rank
    got = np.zeros(size)
    places = list(range(0, 8 * size, 8))
    types = [MPI.DOUBLE] * size
    comm.Alltoallw([sent, [1] * size, places, types], [got, ([1] * size, places), types])
    assert got.tolist() == [10.0 * r + comm.rank for r in range(size)]
    comm.Ialltoallw([sent, types], [got, ([1] * size, places), types]).Wait()
    assert got.tolist() == [10.0 * r for r in range(size)]
    total = np.zeros(size)
    request = comm.Reduce_init(sent, total, MPI.SUM, root=0)
    for _ in range(2):
        total[:] = 0
        request.Start()
        request.Wait()
        if comm.rank == 0:
            assert total.tolist() == [size * r + 10.0 * sum(range(size)) for r in range(size)]
    request.Free()


class _OnlyDLPack:
    """An array that offers its memory as torch's tensors do."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def check_arrays_that_offer_dlpack(comm):
    before, after = _around(comm)
    for code in ("f4", "f8", "i8", "c16", "?"):
        sent, got = np.ones((2, 3), code), np.zeros((2, 3), code)
        comm.Sendrecv(_OnlyDLPack(sent), after, 0, _OnlyDLPack(got), before, 0)
        assert (got == 1).all()
    with raises(BufferError):
        comm.Isend(_OnlyDLPack(np.zeros((4, 4))[:, 0]), after)
