"""Checks: what may stand where a buffer stands, and what may not."""

from __future__ import annotations

import array

import numpy as np
from mpi4py import MPI
from surface import raises

DTYPES = ["?", "b", "h", "i", "l", "q", "B", "H", "I", "L", "Q", "e", "f", "d", "g", "F", "D", "G"]


def _swap(comm, sent, got):
    """Send round the ring."""
    comm.Sendrecv(sent, (comm.rank + 1) % comm.size, 0, got, (comm.rank - 1) % comm.size, 0)
    return got


def check_arrays_of_every_numeric_dtype(comm):
    for code in DTYPES:
        x = (np.arange(6) + 1).astype(code)
        assert (_swap(comm, x, np.zeros(6, code)) == x).all(), code
        explicit = _swap(comm, [x, x.dtype.char], [np.zeros(6, code), x.dtype.char])[0]
        assert (explicit == x).all(), code


def check_arrays_of_any_shape(comm):
    for shape in [(), (0,), (1,), (3, 4), (2, 3, 2), (0, 3)]:
        x = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape) + 2
        got = _swap(comm, x, np.zeros(shape))
        assert got.shape == shape and (got == x).all()
    assert _swap(comm, np.float64(4.0), np.array(1.0)) == 4


def check_fortran_arrays_go_in_memory_order(comm):
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert (_swap(comm, x, np.zeros(6)) == [0, 3, 1, 4, 2, 5]).all()
    target = np.zeros((2, 3), order="F")
    assert (_swap(comm, x, target) == x).all()


def check_arrays_with_gaps_are_refused(comm):
    grid = np.zeros((4, 4))
    for view in (grid[:, 0], grid[::2], grid[:2, :2], np.arange(6.0)[::-1]):
        with raises(BufferError, ValueError):
            comm.Send(view, comm.rank)
        with raises(BufferError, ValueError):
            comm.Irecv(view, comm.rank)
        with raises(BufferError, ValueError):
            comm.Allreduce(view, np.zeros(view.size))
    comm.Bcast(grid[1], root=0)  # a row is contiguous


def check_read_only_memory_is_not_received_into(comm):
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with raises(BufferError, ValueError):
        comm.Irecv(fixed, comm.rank)
    with raises(BufferError):
        comm.Irecv(b"12345678", comm.rank)
    assert (_swap(comm, fixed, np.ones(3)) == 0).all()
    assert _swap(comm, b"abc", bytearray(3)) == b"abc"


def check_python_buffers(comm):
    assert _swap(comm, bytearray(b"hello"), bytearray(5)) == b"hello"
    sent, got = array.array("d", [1, 2, 3]), array.array("d", [0, 0, 0])
    assert _swap(comm, sent, got) == sent
    target = bytearray(4)
    _swap(comm, memoryview(b"abcdefgh")[2:6], memoryview(target))
    assert target == b"cdef"
    words = memoryview(array.array("i", [7, 8]))
    assert (_swap(comm, words, np.zeros(2, "i")) == [7, 8]).all()


def check_what_is_no_buffer_is_refused(comm):
    for wrong in (None, 3, 2.5, "text", {1: 2}):
        with raises(TypeError):
            comm.Send(wrong, comm.rank)
    with raises(TypeError):
        comm.Send([1, 2, 3], comm.rank)
    for wrong in (np.zeros(2, object), np.array(["ab", "cd"]), np.zeros(2, "f8,i4")):
        with raises(KeyError):
            comm.Send(wrong, comm.rank)
    with raises(BufferError):
        comm.Send(np.zeros(2, np.dtype("f8").newbyteorder()), comm.rank)


def check_specifications_with_count_and_type(comm):
    x = np.arange(8, dtype="i4")
    got = np.full(8, -1, dtype="i4")
    for spec in ([x, MPI.INT], (x, "i"), [x, 8, MPI.INT], [x, 8], [x, (8, 0)], [x, 8, 0, MPI.INT]):
        assert (_swap(comm, spec, got) == x).all()
        got[:] = -1
    _swap(comm, [x, 3, MPI.INT], got)
    assert got.tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
    got[:] = -1
    _swap(comm, [x, (2, 4), MPI.INT], [got, (2, 6), "i4"])
    assert got.tolist() == [-1, -1, -1, -1, -1, -1, 4, 5]
    got[:] = -1
    _swap(comm, [x, 3, 5, MPI.INT], [got, 3, 1, MPI.INT])
    assert got.tolist() == [-1, 5, 6, 7, -1, -1, -1, -1]


def check_bytes_seen_as_another_type(comm):
    x = np.array([1.5, -2.5])
    raw = bytearray(16)
    _swap(comm, [x, MPI.BYTE], raw)
    assert (np.frombuffer(raw) == x).all()
    back = np.zeros(2)
    _swap(comm, [raw, 2, MPI.DOUBLE], [back, MPI.DOUBLE])
    assert (back == x).all()


def check_wrong_specifications_are_refused(comm):
    x = np.zeros(3)
    for wrong in (
        [x, -2, MPI.DOUBLE],
        [x, (1, -2), MPI.DOUBLE],
        [x, (1, 9), MPI.DOUBLE],
        [x],
        [x, 1, 0, MPI.DOUBLE, 5],
        [None, 2, MPI.DOUBLE],
        [np.zeros(3, "i1"), MPI.DOUBLE],
    ):
        with raises(ValueError):
            comm.Send(wrong, comm.rank)
    with raises(KeyError):
        comm.Send([x, "zz"], comm.rank)


def check_none_is_an_empty_buffer_with_a_type(comm):
    _swap(comm, [None, MPI.INT], [None, 0, MPI.INT])
    comm.Allgather([None, 0, MPI.INT], [None, 0, MPI.INT])


def check_senders_and_receivers_may_differ_in_type(comm):
    got = np.zeros(2, "i8")
    _swap(comm, np.array([1.0, 2.0]), got)
    assert (got.view("f8") == [1, 2]).all()
