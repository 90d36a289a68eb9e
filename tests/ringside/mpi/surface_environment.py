"""Checks: the module itself, its errors, clock and constants."""

from __future__ import annotations

import pickle

import mpi4py
import numpy as np
from mpi4py import MPI
from surface import raises


def check_mpi_is_initialized(comm):
    assert MPI.Is_initialized() is True and MPI.Is_finalized() is False
    assert MPI.Is_thread_main() is True
    assert MPI.THREAD_SINGLE <= MPI.Query_thread() <= MPI.THREAD_MULTIPLE


def check_the_package_has_its_names(comm):
    assert mpi4py.MPI is MPI and MPI.__name__ == "mpi4py.MPI"
    assert isinstance(mpi4py.__version__, str)
    assert hasattr(mpi4py.rc, "thread_level") and hasattr(mpi4py.rc, "initialize")
    assert isinstance(comm, MPI.Intracomm) and isinstance(comm, MPI.Comm)
    assert isinstance(MPI.COMM_WORLD, MPI.Intracomm) and isinstance(MPI.COMM_NULL, MPI.Comm)


def check_versions_and_names(comm):
    version = MPI.Get_version()
    assert len(version) == 2 and version >= (MPI.VERSION, MPI.SUBVERSION) >= (3, 0)
    assert isinstance(MPI.Get_library_version(), str)
    name, numbers = MPI.get_vendor()
    assert isinstance(name, str) and len(numbers) == 3
    assert isinstance(MPI.Get_processor_name(), str) and MPI.Get_processor_name()


def check_the_clock_runs_forward(comm):
    start = MPI.Wtime()
    assert isinstance(start, float) and 0 < MPI.Wtick() < 1
    comm.Barrier()
    comm.allgather(np.zeros(1000))
    assert MPI.Wtime() >= start


def check_constants_are_distinct(comm):
    assert MPI.ANY_SOURCE < 0 and MPI.PROC_NULL < 0 and MPI.UNDEFINED < 0
    assert len({MPI.ANY_SOURCE, MPI.PROC_NULL, MPI.ROOT}) == 3
    assert len({MPI.IDENT, MPI.CONGRUENT, MPI.SIMILAR, MPI.UNEQUAL}) == 4
    assert comm.Get_attr(MPI.TAG_UB) >= 32767
    assert MPI.SUCCESS == 0
    classes = [
        getattr(MPI, n) for n in ("ERR_RANK", "ERR_TAG", "ERR_COMM", "ERR_TRUNCATE", "ERR_OP")
    ]
    assert len(set(classes)) == 5 and MPI.SUCCESS not in classes


def check_exceptions_carry_code_class_and_text(comm):
    try:
        comm.Send(np.zeros(1), comm.size)
    except MPI.Exception as error:
        assert isinstance(error, RuntimeError)
        assert error.Get_error_class() == MPI.ERR_RANK == error.error_class
        assert error.Get_error_code() == int(error) == error.error_code
        assert MPI.Get_error_class(error.Get_error_code()) == MPI.ERR_RANK
        assert "rank" in error.Get_error_string().lower() and str(error) == error.error_string
    else:
        raise AssertionError("no exception")
    made = MPI.Exception(MPI.ERR_TAG)
    assert made.Get_error_class() == MPI.ERR_TAG and made == MPI.ERR_TAG and made != MPI.ERR_RANK
    assert bool(made) and not MPI.Exception() and MPI.Exception() == MPI.SUCCESS
    assert made > 0 and made >= MPI.ERR_TAG and made < 10_000 and made <= MPI.ERR_TAG
    assert repr(made) == f"MPI.Exception({MPI.ERR_TAG})" and hash(made) == hash(MPI.ERR_TAG)
    assert isinstance(MPI.Get_error_string(MPI.ERR_TRUNCATE), str)


def check_status_fields_can_be_set(comm):
    status = MPI.Status()
    assert (status.source, status.tag, status.error) == (MPI.ANY_SOURCE, MPI.ANY_TAG, MPI.SUCCESS)
    assert status.count == 0 and status.cancelled is False and status.Is_cancelled() is False
    status.source, status.tag, status.error = 3, 4, MPI.ERR_RANK
    assert (status.Get_source(), status.Get_tag(), status.Get_error()) == (3, 4, MPI.ERR_RANK)
    status.Set_source(5)
    status.Set_tag(6)
    status.Set_error(0)
    assert (status.source, status.tag, status.error) == (5, 6, 0)
    status.Set_elements(MPI.INT, 7)
    assert status.Get_count(MPI.INT) == 7 == status.Get_elements(MPI.INT)
    assert status.Get_count(MPI.DOUBLE) == MPI.UNDEFINED and status.count == 28
    copy = MPI.Status(status)
    assert copy == status and copy is not status
    copy.tag = 99
    assert copy != status


def check_predefined_handles_are_pickled_by_name(comm):
    for name in ("SUM", "MAXLOC", "COMM_WORLD", "COMM_SELF", "COMM_NULL", "DOUBLE", "REQUEST_NULL"):
        handle = getattr(MPI, name)
        assert pickle.loads(pickle.dumps(handle)) == handle, name
        copy = pickle.loads(pickle.dumps(type(handle)(handle)))
        assert copy == handle, name
    assert comm.bcast(MPI.PROD if comm.rank == 0 else None)(2, 3) == 6
    with raises(ValueError):
        pickle.dumps(comm.Get_group())


def check_handles_are_not_copied_from_other_things(comm):
    for kind in (MPI.Status, MPI.Request, MPI.Group, MPI.Op, MPI.Datatype, MPI.Comm):
        with raises(TypeError):
            kind("something else")


def check_errors_are_exceptions(comm):
    handler = comm.Get_errhandler()
    assert isinstance(handler, MPI.Errhandler)
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    with raises(MPI.Exception):
        comm.Send(np.zeros(1), comm.size)
    handler.Free()


def check_options_can_be_read_and_set(comm):
    mpi4py.rc(threads=mpi4py.rc.threads)
    with raises(TypeError):
        mpi4py.rc(no_such_option=1)
    with raises(TypeError):
        mpi4py.rc.no_such_option = 1


def check_special_values(comm):
    assert repr(MPI.IN_PLACE) == "IN_PLACE" and repr(MPI.BOTTOM) == "BOTTOM"
    assert MPI.IN_PLACE is not None and MPI.COMM_NULL == MPI.Comm() == MPI.Intracomm()


def check_pickling_can_be_used_directly(comm):
    assert MPI.pickle.loads(MPI.pickle.dumps({"a": 1})) == {"a": 1}


def check_memory_can_be_allocated(comm):
    memory = MPI.Alloc_mem(80)
    x = np.frombuffer(memory)
    x[:] = comm.rank
    comm.Bcast(x, root=0)
    assert (x == 0).all() and x.size == 10
    del x
    MPI.Free_mem(memory)


def check_what_does_not_exist_is_an_attribute_error(comm):
    with raises(AttributeError):
        MPI.Snd  # noqa: B018
    with raises(AttributeError):
        comm.Sned  # noqa: B018
    assert not hasattr(MPI.Request, "Waitnone")
