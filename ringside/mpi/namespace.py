"""The module that stands in ``mpi4py.MPI``'s place inside a rank."""

from __future__ import annotations

import types
from typing import Any

from ringside.mpi import (
    bsend_buffer,
    buffers,
    constants,
    datatypes,
    environment,
    exception,
    group,
    message,
    op,
    request,
    unsupported,
)
from ringside.mpi.comm import Comm, Intracomm
from ringside.mpi.pickling import Pickle, pickle
from ringside.mpi.rare import (
    address,
    arranging,
    derived,
    errhandler,
    graphs,
    info,
    topology,
    window,
)
from ringside.mpi.rare.topocomm import Topocomm
from ringside.mpi.rare.topology import Cartcomm
from ringside.mpi.status import Status
from ringside.mpi.unsupported import Handle, missing

_FUNCTIONS: list[Any] = [
    address.Aint_add,
    address.Aint_diff,
    address.Get_address,
    bsend_buffer.Attach_buffer,
    bsend_buffer.Detach_buffer,
    environment.Alloc_mem,
    environment.Finalize,
    environment.Free_mem,
    environment.Get_library_version,
    environment.Get_processor_name,
    environment.Get_version,
    environment.Init,
    environment.Init_thread,
    environment.Is_finalized,
    environment.Is_initialized,
    environment.Is_thread_main,
    environment.Pcontrol,
    environment.Query_thread,
    environment.Wtick,
    environment.Wtime,
    environment.get_vendor,
    exception.Get_error_class,
    exception.Get_error_string,
    topology.Compute_dims,
]
_CLASSES: list[type[Any]] = [
    Cartcomm,
    Comm,
    Intracomm,
    Pickle,
    Status,
    Topocomm,
    derived.Datatype,
    errhandler.Errhandler,
    exception.BufferRaceError,
    exception.Exception,
    graphs.Distgraphcomm,
    graphs.Graphcomm,
    group.Group,
    info.Info,
    message.Message,
    op.Op,
    request.Prequest,
    request.Request,
    window.Win,
]


class Namespace(types.ModuleType):
    """``mpi4py.MPI``; a name that isn't here is named in the error."""

    def __getattr__(self, name: str) -> Any:
        raise missing("MPI", name)


def build() -> Namespace:
    """Return the module with all its names."""
    derived.complete()
    module = Namespace("mpi4py.MPI", __doc__)
    names: dict[str, Any] = {
        name: value
        for name, value in vars(constants).items()
        if type(value) is int and name not in ("FIRST_INTERNAL_TAG", "LARGEST_TAG")
    }
    names |= constants.OTHER_ERRORS | datatypes.PREDEFINED | errhandler.PREDEFINED | op.PREDEFINED
    for item in [*_FUNCTIONS, *_CLASSES]:
        item.__module__ = "mpi4py.MPI"
        names[item.__name__] = item
    names |= {
        "BOTTOM": buffers.BOTTOM,
        "COMM_NULL": environment.COMM_NULL,
        "COMM_SELF": environment.COMM_SELF,
        "COMM_WORLD": environment.COMM_WORLD,
        "GROUP_EMPTY": group.GROUP_EMPTY,
        "GROUP_NULL": group.GROUP_NULL,
        "INFO_ENV": info.INFO_ENV,
        "INFO_NULL": info.INFO_NULL,
        "IN_PLACE": buffers.IN_PLACE,
        "MESSAGE_NO_PROC": message.MESSAGE_NO_PROC,
        "MESSAGE_NULL": message.MESSAGE_NULL,
        "REQUEST_NULL": request.REQUEST_NULL,
        "UNWEIGHTED": arranging.UNWEIGHTED,
        "WEIGHTS_EMPTY": arranging.WEIGHTS_EMPTY,
        "WIN_NULL": window.WIN_NULL,
        "_typedict": dict(datatypes.OF_CODE),
        "pickle": pickle,
    }
    unsupported.constants.update(id(value) for value in names.values() if isinstance(value, Handle))
    vars(module).update(names)
    return module
