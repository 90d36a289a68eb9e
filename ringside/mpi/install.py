"""Putting our mpi4py in the place of the real one, in this process."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

import ringside.network.link
from ringside.mpi.comm import Intracomm
from ringside.mpi.environment import COMM_WORLD, attach
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.namespace import build
from ringside.network.link import CommInfo

_VERSION = "4.1.2"  # the mpi4py whose behaviour is followed


class _Rc:
    """``mpi4py.rc``: options that are read when MPI starts; none of them changes anything here."""

    initialize = True
    threads = True
    thread_level = "multiple"
    finalize: bool | None = None
    fast_reduce = True
    recv_mprobe = True
    irecv_bufsz = 32768
    errors = "exception"

    def __init__(self, **options: Any) -> None:
        self(**options)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise TypeError(f"object has no attribute {name!r}")
        super().__setattr__(name, value)

    def __call__(self, **options: Any) -> None:
        for name in options:
            if not hasattr(self, name):
                raise TypeError(f"unexpected argument {name!r}")
        for name, value in options.items():
            setattr(self, name, value)


_INSTEAD = {
    "futures": "Ranks are the workers here: give each its part by comm.scatter, or let rank 0 send "
    "tasks to whoever asks for one.",
    "util": "Lower-case calls send objects of any size here, as pkl5 does; a structured array goes "
    "as x.view(numpy.uint8).",
}


_PARTS = frozenset({
    "bench", "futures", "get_config", "get_include", "profile", "run", "typing", "util",
})  # fmt: skip


def _not_offered(name: str) -> ImportError:
    """What using a part of mpi4py raises that isn't here."""
    if name.split(".")[1] not in _PARTS:
        # A ModuleNotFoundError would be replaced by the sentence of `from ... import`.
        return ImportError(f"No module named {name!r}: write `from mpi4py import MPI`.", name=name)
    cure = _INSTEAD.get(name.split(".")[1], "`from mpi4py import MPI` is offered.")
    return ImportError(
        f"{name} is not offered on Ringside's network; it works under mpiexec. {cure}", name=name
    )


class _NoSubmodules(importlib.abc.MetaPathFinder):
    """Says which part of mpi4py is missing, instead of finding the real package's."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.startswith("mpi4py."):
            raise _not_offered(fullname)
        return None


class _Package(types.ModuleType):
    """``mpi4py`` itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _PARTS:
            raise _not_offered(f"mpi4py.{name}")
        raise AttributeError(f"module 'mpi4py' has no attribute {name!r}")


_installed: list[types.ModuleType] = []


def install() -> None:
    """Make ``from mpi4py import MPI`` give our module, on this process's link."""
    if not _installed:
        package = _Package("mpi4py", "mpi4py, on Ringside's network")
        package.__path__ = []
        vars(package).update(__version__=_VERSION, __author__="Ringside", rc=_Rc(), MPI=build())
        _installed.append(package)
        sys.meta_path.insert(0, _NoSubmodules())
    sys.modules["mpi4py"] = _installed[0]
    sys.modules["mpi4py.MPI"] = _installed[0].MPI
    if ringside.network.link.inside_rank():
        link = ringside.network.link.current()
        link.failed = MPIException
        attach(link)


def communicator(info: CommInfo) -> Intracomm:
    """Begin a call of a student's function: return the communicator that it is given."""
    link = ringside.network.link.current()
    attach(link)
    if info.id == COMM_WORLD._id:
        return COMM_WORLD
    comm: Intracomm = Intracomm._of(link, info)
    return comm
