"""Checks: datatypes, basic and derived."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from surface import raises

SIZES = {
    "BYTE": 1, "CHAR": 1, "SHORT": 2, "INT": 4, "LONG": 8, "LONG_LONG": 8, "FLOAT": 4, "DOUBLE": 8,
    "UNSIGNED": 4, "UNSIGNED_CHAR": 1, "C_BOOL": 1, "INT8_T": 1, "INT64_T": 8, "UINT16_T": 2,
    "C_COMPLEX": 8, "C_DOUBLE_COMPLEX": 16, "INTEGER": 4, "REAL": 4, "DOUBLE_PRECISION": 8,
    "FLOAT_INT": 8, "TWOINT": 8, "BOOL": 1, "SINT32_T": 4,
}  # fmt: skip


def _swap(comm, sent, got):
    comm.Sendrecv(sent, (comm.rank + 1) % comm.size, 0, got, (comm.rank - 1) % comm.size, 0)


def check_basic_types_have_size_and_extent(comm):
    for name, size in SIZES.items():
        datatype = getattr(MPI, name)
        assert datatype.Get_size() == size == datatype.size, name
        assert datatype.Get_extent() == (0, size) and datatype.extent == size
        assert datatype.is_predefined is True and bool(datatype)
    assert MPI.DOUBLE.Get_name() == "MPI_DOUBLE" == MPI.DOUBLE.name
    assert MPI.DOUBLE_INT.Get_size() == 12 and MPI.DOUBLE_INT.Get_extent() == (0, 16)
    assert not MPI.DATATYPE_NULL
    with raises(MPI.Exception, error_class=MPI.ERR_TYPE):
        MPI.DATATYPE_NULL.Get_size()


def check_type_codes(comm):
    assert MPI.Datatype.fromcode("d") == MPI.DOUBLE and MPI.DOUBLE.tocode() == "d"
    assert MPI.Datatype.fromcode("i4").size == 4 and MPI.FLOAT.tocode() == "f"
    assert MPI.INT.typestr == "i4" and MPI.DOUBLE.typechar == "d"
    with raises(ValueError):
        MPI.Datatype.fromcode("no")


def check_a_vector_type_sends_a_column(comm):
    grid = np.arange(20.0).reshape(4, 5) + 100 * comm.rank
    column = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
    assert column.Get_size() == 32 and column.Get_extent() == (0, 8 * 16)
    got = np.zeros(4)
    _swap(comm, [grid.reshape(-1)[2:], 1, column], got)
    assert (got == np.arange(20).reshape(4, 5)[:, 2] + 100 * ((comm.rank - 1) % comm.size)).all()
    target = np.zeros((4, 5))
    _swap(comm, [grid, 1, column], [target.reshape(-1)[4:], 1, column])
    assert (target[:, :4] == 0).all()
    assert (
        target[:, 4] == grid[:, 0] - 100 * comm.rank + 100 * ((comm.rank - 1) % comm.size)
    ).all()
    column.Free()
    assert not column


def check_a_subarray_type_sends_a_block(comm):
    grid = np.arange(24, dtype="i4").reshape(4, 6)
    block = MPI.INT.Create_subarray([4, 6], [2, 3], [1, 2]).Commit()
    assert block.Get_size() == 24 and block.Get_extent() == (0, 96)
    got = np.zeros((2, 3), "i4")
    _swap(comm, [grid, 1, block], got)
    assert (got == grid[1:3, 2:5]).all()
    target = np.zeros((4, 6), "i4")
    _swap(comm, got, [target, 1, block])
    assert (target[1:3, 2:5] == got).all() and target.sum() == got.sum()
    block.Free()


def check_contiguous_indexed_and_resized_types(comm):
    x = np.arange(10.0)
    three = MPI.DOUBLE.Create_contiguous(3).Commit()
    got = np.zeros(6)
    _swap(comm, [x, 2, three], got)
    assert (got == np.arange(6)).all()
    picked = MPI.DOUBLE.Create_indexed([2, 1], [1, 6]).Commit()
    got = np.zeros(3)
    _swap(comm, [x, 1, picked], got)
    assert got.tolist() == [1, 2, 6]
    assert picked.Get_extent() == (8, 48) and picked.Get_size() == 24
    block = MPI.DOUBLE.Create_indexed_block(2, [0, 4]).Commit()
    got = np.zeros(4)
    _swap(comm, [x, 1, block], got)
    assert got.tolist() == [0, 1, 4, 5]
    every_other = MPI.DOUBLE.Create_resized(0, 16).Commit()
    got = np.zeros(5)
    _swap(comm, [x, 5, every_other], got)
    assert got.tolist() == [0, 2, 4, 6, 8]
    for datatype in (three, picked, block, every_other):
        datatype.Free()


def check_large_contiguous_types_cost_nothing(comm):
    assert MPI.DOUBLE.Create_contiguous(1 << 28).Get_size() == 8 << 28


def check_a_struct_type_matches_a_record_array(comm):
    layout = np.dtype([("a", "i4"), ("b", "f8")], align=True)
    record = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.INT, MPI.DOUBLE]).Commit()
    assert record.Get_size() == 12 and record.Get_extent() == (0, 16)
    x = np.array([(1, 2.5), (3, 4.5)], dtype=layout)
    got = np.zeros(2, dtype=layout)
    _swap(comm, [x, 2, record], [got, 2, record])
    assert (got == x).all()
    record.Free()


def check_uncommitted_types_are_refused(comm):
    datatype = MPI.DOUBLE.Create_contiguous(2)
    with raises(MPI.Exception, error_class=MPI.ERR_TYPE):
        comm.Send([np.zeros(2), 1, datatype], comm.rank)
    datatype.Free()
    with raises(MPI.Exception, error_class=MPI.ERR_TYPE):
        MPI.DOUBLE.Free()


def check_status_counts_derived_types(comm):
    pair = MPI.DOUBLE.Create_contiguous(2).Commit()
    status = MPI.Status()
    got = np.zeros(6)
    comm.Sendrecv(
        np.zeros(5), (comm.rank + 1) % comm.size, 0, got, (comm.rank - 1) % comm.size, 0, status
    )
    assert status.Get_count(pair) == MPI.UNDEFINED
    assert status.Get_elements(pair) == 5 == status.Get_count(MPI.DOUBLE)
    pair.Free()
