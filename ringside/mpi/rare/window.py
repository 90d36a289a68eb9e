"""Win: memory of each rank that the others read and write; what it is, and how it is made."""

from __future__ import annotations

from typing import Any, Self

from ringside.mpi.constants import (
    OTHER_ERRORS,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from ringside.mpi.environment import COMM_SELF
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.group import Group
from ringside.mpi.membership import Membership, as_int
from ringside.mpi.memory import Memory, memory_of
from ringside.mpi.pickling import named
from ringside.mpi.rare import attributes
from ringside.mpi.rare.accesses import Window
from ringside.mpi.rare.address import Get_address
from ringside.mpi.rare.epoch_calls import EpochCalls
from ringside.mpi.rare.epochs import Epochs
from ringside.mpi.rare.exposed import Exposed
from ringside.mpi.rare.settings import Settings
from ringside.mpi.unsupported import expect
from ringside.network.link import Call, CommInfo


class Win(EpochCalls, Settings):
    """A window."""

    __slots__ = ()

    def __init__(self, win: Win | None = None) -> None:
        expect(win, Win)
        self._window = win._window if win is not None else None
        self._name = win._name if win is not None else "MPI_WIN_NULL"
        self._attributes = win._attributes if win is not None else {}

    @classmethod
    def Create(
        cls, memory: Any, disp_unit: int = 1, info: Any = None, comm: Membership = COMM_SELF
    ) -> Self:
        """Let the ranks of ``comm`` access this rank's ``memory``, and this rank theirs."""
        return cls._made(memory, disp_unit, comm, WIN_FLAVOR_CREATE)

    @classmethod
    def Allocate(
        cls, size: int, disp_unit: int = 1, info: Any = None, comm: Membership = COMM_SELF
    ) -> Self:
        """As Create, of ``size`` new bytes; ``tomemory`` gives them."""
        size = as_int(size)
        if size < 0:
            raise MPIException(OTHER_ERRORS["ERR_SIZE"], f"Allocate(size={size})")
        return cls._made(bytearray(size), disp_unit, comm, WIN_FLAVOR_ALLOCATE)

    @classmethod
    def _made(cls, memory: Any, disp_unit: int, comm: Membership, flavor: int) -> Self:
        name = "Create" if flavor == WIN_FLAVOR_CREATE else "Allocate"
        unit = as_int(disp_unit)
        if unit <= 0:
            raise MPIException(OTHER_ERRORS["ERR_DISP"], f"Win.{name}(disp_unit={unit})")
        exposed = Exposed(memory)
        call: Call = (f"Win.{name}", (("size", len(exposed.view)), ("disp_unit", unit)))
        info, sizes, units = comm._join("win", (len(exposed.view), unit), call)
        link, made = comm._link, CommInfo(*info[1:])
        # Before this rank waits again, which is when others' accesses come.
        link.windows[made.id] = exposed
        self = cls()
        self._name = ""
        self._window = Window(
            link, made.id, made.members, made.rank, sizes, units, exposed, flavor, Epochs(), {},
            [],
        )  # fmt: skip
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Win):
            return NotImplemented
        return self._window is other._window

    def __bool__(self) -> bool:
        return self._window is not None

    def __reduce__(self) -> Any:
        if self._window is None:
            return named(self, "WIN_NULL")
        raise ValueError("cannot pickle a window")

    def Free(self) -> None:
        """Give the window back; waits for all its ranks."""
        window, call = self._opened(), ("Win.Free", ())
        window.epochs.free(call)
        window.complete(None, call)
        attributes.delete_all(self)
        window.link.collective(window.number, "win_free", (), call=call, shown="Win.Free")
        del window.link.windows[window.number]
        window.link.free(window.number, call=call)
        self._window, self._name = None, "MPI_WIN_NULL"

    def free(self) -> None:
        """Give the window back if there is one."""
        if self._window is not None:
            self.Free()

    # -- what it is --------------------------------------------------------------------------------

    def tomemory(self) -> Memory:
        """Return this rank's memory."""
        return memory_of(self._opened().exposed.view)

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Where this rank's memory begins, its bytes, and the step of displacements."""
        window = self._opened()
        return (
            Get_address(window.exposed.base), window.sizes[window.rank], window.units[window.rank]
        )  # fmt: skip

    @property
    def flavor(self) -> int:
        """WIN_FLAVOR_CREATE or WIN_FLAVOR_ALLOCATE."""
        return self._opened().flavor

    @property
    def model(self) -> int:
        """WIN_UNIFIED: what others write is in the memory once the access is complete."""
        self._opened()
        return WIN_UNIFIED

    def Get_attr(self, keyval: int) -> Any:
        """Return a predefined attribute, such as WIN_SIZE, or one of the program's own."""
        base, size, unit = self.attrs
        predefined = {
            WIN_BASE: base,
            WIN_SIZE: size,
            WIN_DISP_UNIT: unit,
            WIN_CREATE_FLAVOR: self.flavor,
            WIN_MODEL: self.model,
        }
        return predefined[keyval] if keyval in predefined else super().Get_attr(keyval)

    def Get_group(self) -> Group:
        """Return the group of its ranks."""
        window = self._opened()
        return Group._make(window.members, window.members[window.rank])

    @property
    def group(self) -> Group:
        """The group of its ranks."""
        return self.Get_group()

    @property
    def group_size(self) -> int:
        """The number of its ranks."""
        return len(self._opened().members)

    @property
    def group_rank(self) -> int:
        """Our rank in it."""
        return self._opened().rank

    def Get_name(self) -> str:
        """Return the name."""
        return self._name

    def Set_name(self, name: str) -> None:
        """Set the name."""
        self._opened()
        self._name = name

    @property
    def name(self) -> str:
        """The name."""
        return self.Get_name()

    @name.setter
    def name(self, value: str) -> None:
        self.Set_name(value)

    def _check_there(self) -> None:
        self._opened()


WIN_NULL = Win()
