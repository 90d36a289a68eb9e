"""Checks: reductions, predefined and user operations."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises

INTEGERS = "bhilqBHILQ"
FLOATS = "efd"
OPERATIONS = {
    "SUM": (np.add, INTEGERS + FLOATS),
    "PROD": (np.multiply, INTEGERS + FLOATS),
    "MAX": (np.maximum, INTEGERS + FLOATS),
    "MIN": (np.minimum, INTEGERS + FLOATS),
    "BAND": (np.bitwise_and, INTEGERS),
    "BOR": (np.bitwise_or, INTEGERS),
    "BXOR": (np.bitwise_xor, INTEGERS),
    "LAND": (np.logical_and, INTEGERS + "?"),
    "LOR": (np.logical_or, INTEGERS + "?"),
    "LXOR": (np.logical_xor, INTEGERS + "?"),
}


def _values(comm, code="d", n=5):
    """Each rank's vector, all of them known to all."""
    return [((np.arange(n) * (r + 2) + r) % 7 + 1).astype(code) for r in range(comm.size)]


def _prefix(function, values, dtype):
    result = values[0]
    for value in values[1:]:
        result = function(result, value).astype(dtype)
    return result


def check_allreduce_of_every_operation_and_dtype(comm):
    for name, (function, codes) in OPERATIONS.items():
        for code in codes:
            values = _values(comm, code)
            got = np.zeros(5, code)
            assert comm.Allreduce(values[comm.rank], got, op=getattr(MPI, name)) is None
            assert np.allclose(got, _prefix(function, values, code), rtol=1e-2), (name, code)


def check_sum_and_product_of_complex_numbers(comm):
    for code in "FD":
        values = [(np.arange(3) + 1j * (r + 1)).astype(code) for r in range(comm.size)]
        got = np.zeros(3, code)
        comm.Allreduce(values[comm.rank], got)
        assert np.allclose(got, sum(values))
        comm.Allreduce(values[comm.rank], got, MPI.PROD)
        assert np.allclose(got, np.prod(values, axis=0))


def check_sum_of_long_doubles(comm):
    got = np.zeros(2, "g")
    comm.Allreduce(np.array([1, comm.rank], "g"), got)
    assert got.tolist() == [comm.size, comm.size * (comm.size - 1) // 2]


def check_allreduce_in_place(comm):
    x = np.full(4, comm.rank + 1.0)
    comm.Allreduce(MPI.IN_PLACE, x)
    assert (x == comm.size * (comm.size + 1) / 2).all()


def check_allreduce_leaves_the_send_buffer(comm):
    x = np.arange(4) + comm.rank
    got = np.zeros(4, dtype=int)
    comm.Allreduce(x, got)
    assert (x == np.arange(4) + comm.rank).all()
    assert (got == sum(np.arange(4) + r for r in range(comm.size))).all()


def check_allreduce_of_matrices_and_of_nothing(comm):
    x = np.arange(6.0).reshape(2, 3)
    got = np.zeros((2, 3))
    comm.Allreduce([x, MPI.DOUBLE], [got, MPI.DOUBLE], op=MPI.SUM)
    assert (got == comm.size * x).all()
    comm.Allreduce(np.zeros(0), np.zeros(0))


def check_reduce_to_each_root(comm):
    for root in range(comm.size):
        values = _values(comm)
        got = np.full(5, -1.0)
        comm.Reduce(values[comm.rank], got if comm.rank == root else None, MPI.MAX, root)
        if comm.rank == root:
            assert (got == np.max(values, axis=0)).all()
        x = values[comm.rank].copy()
        if comm.rank == root:
            comm.Reduce(MPI.IN_PLACE, x, op=MPI.SUM, root=root)
            assert np.allclose(x, sum(values))
        else:
            comm.Reduce(x, None, op=MPI.SUM, root=root)
            assert (x == values[comm.rank]).all()


def check_reduce_scatter_block(comm):
    p, r = comm.size, comm.rank
    sent = np.arange(2 * p) + r
    got = np.zeros(2, dtype=int)
    comm.Reduce_scatter_block(sent, got)
    total = p * np.arange(2 * p) + p * (p - 1) // 2
    assert (got == total[2 * r : 2 * r + 2]).all()
    comm.Reduce_scatter_block(MPI.IN_PLACE, sent, MPI.SUM)
    assert (sent[:2] == total[2 * r : 2 * r + 2]).all()


def check_reduce_scatter_with_counts(comm):
    p, r = comm.size, comm.rank
    counts = [(s + 1) % 3 for s in range(p)]
    n, low = sum(counts), sum(counts[:r])
    sent = np.arange(float(n)) * (r + 1)
    got = np.full(counts[r], -1.0)
    comm.Reduce_scatter(sent, got, counts)
    total = np.arange(n) * (p * (p + 1) / 2)
    assert (got == total[low : low + counts[r]]).all()
    got[:] = -1
    comm.Reduce_scatter(sent, got, op=MPI.SUM)  # counts are found out
    assert (got == total[low : low + counts[r]]).all()
    comm.Reduce_scatter(MPI.IN_PLACE, sent, recvcounts=counts)
    assert (sent[: counts[r]] == total[low : low + counts[r]]).all()


def check_reduce_scatter_refuses_wrong_counts(comm):
    p = comm.size
    with raises(ValueError):
        comm.Reduce_scatter(np.zeros(p + 1), np.zeros(1), [1] * p)
    with raises(ValueError):
        comm.Reduce_scatter(np.zeros(p), np.zeros(2), [1] * p)
    with raises(ValueError):
        comm.Reduce_scatter(np.zeros(p), np.zeros(1), [1] * (p + 1))


def check_scan_and_exscan(comm):
    values = _values(comm, "l")
    r = comm.rank
    got = np.full(5, -1)
    comm.Scan(values[r], got)
    assert (got == sum(values[: r + 1])).all()
    got = np.full(5, -1)
    comm.Exscan(values[r], got, op=MPI.SUM)
    assert (got == (sum(values[:r]) if r else -1)).all()
    x = values[r].copy()
    comm.Scan(MPI.IN_PLACE, x, MPI.MAX)
    assert (x == np.max(values[: r + 1], axis=0)).all()
    x = values[r].copy()
    comm.Exscan(MPI.IN_PLACE, x)
    assert (x == (sum(values[:r]) if r else values[0])).all()


def check_maxloc_and_minloc(comm):
    pair = np.dtype([("value", "f8"), ("rank", "i4")], align=True)
    mine = np.array([(abs(comm.rank - 1), comm.rank), (4.0, comm.rank)], dtype=pair)
    got = np.zeros(2, dtype=pair)
    comm.Allreduce([mine, 2, MPI.DOUBLE_INT], [got, 2, MPI.DOUBLE_INT], op=MPI.MINLOC)
    assert got["value"].tolist() == [0 if comm.size > 1 else 1, 4]
    assert got["rank"].tolist() == [1 if comm.size > 1 else 0, 0]
    comm.Allreduce([mine, 2, MPI.DOUBLE_INT], [got, 2, MPI.DOUBLE_INT], op=MPI.MAXLOC)
    farthest = max(range(comm.size), key=lambda r: (abs(r - 1), -r))
    assert got["rank"].tolist() == [farthest, 0]
    ints = np.array([[7, comm.rank]], dtype="i4")
    best = np.zeros((1, 2), dtype="i4")
    comm.Allreduce([ints, 1, MPI.INT_INT], [best, 1, MPI.TWOINT], MPI.MAXLOC)
    assert best.tolist() == [[7, 0]]


def check_user_operations_reduce_in_rank_order(comm):
    def compose(a, b, datatype):
        """Chain affine maps: not commutative."""
        assert datatype == MPI.DOUBLE and type(datatype) is MPI.Datatype
        x, y = np.frombuffer(a), np.frombuffer(b)
        x, y = x.reshape(-1, 2), y.reshape(-1, 2)
        y[:, 0], y[:, 1] = x[:, 0] * y[:, 0], x[:, 1] * y[:, 0] + y[:, 1]

    op = MPI.Op.Create(compose, commute=False)
    assert op.Is_commutative() is False and op.is_predefined is False
    mine = np.array([comm.rank + 1.0, 2.0, 1.0, comm.rank])
    expected = []
    for r in range(comm.size):
        value = np.array([r + 1.0, 2.0, 1.0, r])
        if expected:
            compose(expected[-1].copy(), value, MPI.DOUBLE)
        expected.append(value)
    got = np.zeros(4)
    comm.Allreduce(mine, got, op)
    assert np.allclose(got, expected[-1])
    comm.Scan(mine, got, op)
    assert np.allclose(got, expected[comm.rank])
    got[:] = -1
    comm.Reduce(mine, got, op, root=comm.size - 1)
    assert np.allclose(got, expected[-1] if comm.rank == comm.size - 1 else -1)
    op.Free()
    assert op == MPI.OP_NULL and not op


def check_user_operation_in_reduce_scatter(comm):
    def add(a, b, datatype):
        np.frombuffer(b, "i4")[:] += np.frombuffer(a, "i4")

    op = MPI.Op.Create(add, commute=True)
    assert op.Is_commutative() is True
    got = np.zeros(2, "i4")
    comm.Reduce_scatter_block(np.arange(2 * comm.size, dtype="i4"), got, op)
    assert (got == comm.size * (2 * comm.rank + np.arange(2))).all()
    op.Free()


def check_operations_refuse_types_they_are_not_defined_for(comm):
    for op, code in [(MPI.BAND, "d"), (MPI.LAND, "f"), (MPI.MAX, "D"), (MPI.SUM, "?")]:
        with raises(MPI.Exception, error_class=MPI.ERR_OP):
            comm.Allreduce(np.ones(2, code), np.ones(2, code), op)
    with raises(TypeError):
        comm.Allreduce(np.ones(2), np.ones(2), None)
    comm.Barrier()


def check_send_and_receive_sides_must_fit(comm):
    with raises(ValueError):
        comm.Allreduce(np.ones(2, "f4"), np.ones(2, "f8"))
    with raises(ValueError):
        comm.Allreduce(np.ones(2), np.ones(3))
    x = np.ones(3)
    with raises(MPI.Exception, error_class=MPI.ERR_BUFFER):
        comm.Allreduce(x, x)


def check_operations_are_callable(comm):
    assert MPI.SUM(1, 2) == 3 and MPI.PROD(3, 4) == 12 and MPI.MAX(1, 3) == 3
    assert MPI.MIN(1, 3) == 1 and MPI.LAND(2, 3) is True and MPI.LXOR(1, 1) is False
    assert MPI.BAND(6, 3) == 2 and MPI.BOR(6, 3) == 7 and MPI.BXOR(6, 3) == 5
    assert MPI.MAXLOC((1, 2), (3, 4)) == (3, 4) and MPI.MINLOC((1, 5), (1, 4)) == (1, 4)
    assert MPI.REPLACE(1, 2) == 2 and MPI.NO_OP(1, 2) == 1
    assert (MPI.SUM(np.arange(2), np.ones(2)) == [1, 2]).all()
    assert MPI.SUM.Is_commutative() is True and MPI.SUM.is_predefined is True
    assert MPI.Op(MPI.SUM) == MPI.SUM != MPI.PROD and bool(MPI.SUM) and not MPI.OP_NULL


def check_reduce_local(comm):
    a, b = np.arange(3.0), np.ones(3)
    MPI.SUM.Reduce_local(a, b)
    assert b.tolist() == [1, 2, 3] and a.tolist() == [0, 1, 2]
