"""The calls that belong to no communicator: Init, Finalize, Wtime, versions."""

from __future__ import annotations

from typing import Any

import ringside.network.link
from ringside import kit
from ringside.mpi import bsend_buffer
from ringside.mpi.comm import Comm, Intracomm
from ringside.mpi.constants import ERR_OTHER, SUBVERSION, THREAD_FUNNELED, THREAD_MULTIPLE, VERSION
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.membership import NO_COMM
from ringside.mpi.memory import Memory, memory_of
from ringside.network.link import CommInfo, Link

TICK_S = 1e-12  # the virtual clock counts picoseconds


class _SelfComm(Intracomm):
    """COMM_SELF: made on first use, for most programs never need it."""

    __slots__ = ("_number",)
    _number: int | None

    def __new__(cls, comm: Comm | None = None) -> Any:
        return object.__new__(cls) if comm is None else Intracomm(comm)

    @property
    def _id(self) -> int:
        if self._number is None:
            world = _state.world
            info: CommInfo = self._link.collective(
                world._id, "create_group", ((world._rank,), 0), call=("COMM_SELF", ())
            )
            self._number = info.id
        return self._number

    @_id.setter
    def _id(self, value: int) -> None:
        self._number = value if value > 0 else None

    @classmethod
    def _of(cls, link: Link, info: CommInfo, name: str = "") -> Any:
        return Intracomm._of(link, info, name)  # a copy of COMM_SELF is an ordinary communicator


_SelfComm.__name__ = _SelfComm.__qualname__ = "Intracomm"


class _State:
    """What MPI knows of this process between Init and Finalize."""

    def __init__(self) -> None:
        self.world = Intracomm()
        self.itself: Intracomm = _SelfComm()
        self.finalized = False

    def attach(self, link: Link) -> None:
        """Begin a run on ``link``."""
        info = link.comm_world()
        self.world._set(link, info, "MPI_COMM_WORLD")
        alone = CommInfo(NO_COMM, (info.members[info.rank],), 0)
        self.itself._set(link, alone, "MPI_COMM_SELF")
        self.finalized = False
        bsend_buffer.Detach_buffer()


_state = _State()
COMM_WORLD = _state.world
COMM_SELF = _state.itself
COMM_NULL = Intracomm()
attach = _state.attach


def Init() -> None:
    """Do nothing: MPI is ready when the module is imported."""
    raise MPIException(ERR_OTHER, "MPI is initialized already, by `from mpi4py import MPI`")


def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """As Init."""
    Init()
    return THREAD_FUNNELED


def Finalize() -> None:
    """End the use of MPI."""
    _state.finalized = True
    for comm in (_state.world, _state.itself):
        comm._become_null("MPI.Finalize was called, which ends all communication")


def Is_initialized() -> bool:
    """Tell whether Init was called; importing the module does that."""
    return True


def Is_finalized() -> bool:
    """Tell whether Finalize was called."""
    return _state.finalized


def Query_thread() -> int:
    """Return THREAD_FUNNELED: only the thread that imported the module may call MPI."""
    return THREAD_FUNNELED


def Is_thread_main() -> bool:
    """Tell whether this is the thread that may call MPI."""
    import threading

    return threading.current_thread() is threading.main_thread()


def Wtime() -> float:
    """Return this rank's virtual time in seconds."""
    return ringside.network.link.current().wtime()


def Wtick() -> float:
    """Return the step of Wtime's clock in seconds."""
    return TICK_S


def Get_version() -> tuple[int, int]:
    """Return the version of the MPI standard."""
    return VERSION, SUBVERSION


def Get_library_version() -> str:
    """Return what implements MPI here."""
    return f"Ringside {kit.VERSION}: simulated ranks, virtual time"


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Return what implements MPI here, and its version."""
    major, minor, patch = (int(part) for part in kit.VERSION.split(".")[:3])
    return "Ringside", (major, minor, patch)


def Get_processor_name() -> str:
    """Return the name of the node that this rank is on."""
    return f"node{ringside.network.link.current().node}"


def Pcontrol(level: int) -> None:
    """Do nothing: there is no profiler to control."""


def Alloc_mem(size: int, info: Any = None) -> Memory:
    """Return ``size`` bytes of memory."""
    return memory_of(bytearray(size))


def Free_mem(mem: Memory) -> None:
    """Give memory back."""
    mem.release()
