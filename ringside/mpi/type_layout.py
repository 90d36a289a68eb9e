"""Layout: what every datatype is made of, how the entries of a buffer lie.

A datatype is a list of byte offsets inside one entry, and the entry's extent, the step from one
entry to the next. A dense type has every byte of its extent, in order, and needs no list::

    DOUBLE.Create_vector(3, 1, 4)    x . . .  x . . .  x         size 24, extent 72
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ringside.mpi.constants import ERR_TYPE
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.unsupported import Handle
from ringside.network.wire import KIND_OF

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class TypeLayout(Handle):
    """How the entries of a buffer are laid out."""

    __slots__ = (
        "_attributes",
        "_committed",
        "_extent",
        "_lb",
        "_name",
        "_predefined",
        "_size",
        "basic_size",
        "dtype",
        "kind",
        "offsets",
    )

    # For the methods of rare/: only one of a class's bases can have slots.
    _attributes: dict[int, Any]
    _committed: bool
    _extent: int
    _lb: int
    _name: str
    _predefined: bool
    _size: int
    basic_size: int  # bytes of one number
    dtype: np.dtype[Any] | None  # NumPy's, of that number
    kind: int  # of wire.KINDS
    offsets: Offsets | None

    def _take(self, other: TypeLayout) -> None:
        for slot in TypeLayout.__slots__:
            setattr(self, slot, getattr(other, slot))

    @classmethod
    def _make(
        cls,
        name: str,
        dtype: np.dtype[Any] | None,
        basic_size: int,
        offsets: Offsets | None,
        *,
        size: int,
        lb: int,
        extent: int,
        predefined: bool = False,
    ) -> Self:
        """Build a datatype; ``offsets`` None: all ``size`` bytes of the extent, in order."""
        self = object.__new__(cls)
        self._name = name
        self._predefined = predefined
        self._committed = predefined
        self.dtype = dtype
        self.kind = 0 if dtype is None else KIND_OF.get(dtype.name, 0)
        self.basic_size = basic_size
        self.offsets = offsets
        self._size = size
        self._lb = lb
        self._extent = extent
        self._attributes = {}
        return self

    # -- what it is --------------------------------------------------------------------------------

    def Get_size(self) -> int:
        """Return the bytes of data in one entry."""
        self._check()
        return self._size

    def Get_extent(self) -> tuple[int, int]:
        """Return the lower bound and the extent of one entry in bytes."""
        self._check()
        return self._lb, self._extent

    def Get_true_extent(self) -> tuple[int, int]:
        """Return the lower bound and the extent without gaps at the ends."""
        if self.offsets is None or not len(self.offsets):
            return 0, self._size
        low = int(self.offsets.min())
        return low, int(self.offsets.max()) + 1 - low

    def Get_name(self) -> str:
        """Return the name."""
        return self._name

    def Set_name(self, name: str) -> None:
        """Set the name."""
        self._name = name

    def tocode(self) -> str:
        """Return the type code, such as ``d``.

        Raises:
            ValueError: the type isn't a basic one.
        """
        if self.dtype is None or self.dtype.names is not None:
            raise ValueError(f"cannot map {self._name} to a type code")
        return self.dtype.char

    @property
    def size(self) -> int:
        """The bytes of data in one entry."""
        return self.Get_size()

    @property
    def extent(self) -> int:
        """The step from one entry to the next in bytes."""
        return self.Get_extent()[1]

    @property
    def lb(self) -> int:
        """The lower bound in bytes."""
        return self._lb

    @property
    def ub(self) -> int:
        """The upper bound in bytes."""
        return self._lb + self._extent

    @property
    def true_lb(self) -> int:
        """The lower bound without a gap at the beginning."""
        return self.Get_true_extent()[0]

    @property
    def true_extent(self) -> int:
        """The extent without gaps at the ends."""
        return self.Get_true_extent()[1]

    @property
    def true_ub(self) -> int:
        """The upper bound without a gap at the end."""
        return sum(self.Get_true_extent())

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @name.setter
    def name(self, value: str) -> None:
        self.Set_name(value)

    @property
    def typestr(self) -> str:
        """NumPy's type string, such as ``f8``."""
        return self.dtype.str[1:] if self.dtype is not None else f"V{self._extent}"

    @property
    def typechar(self) -> str:
        """NumPy's type character, such as ``d``."""
        return self.dtype.char if self.dtype is not None else "V"

    @property
    def is_predefined(self) -> bool:
        """Whether it is one of MPI's own."""
        return self._predefined

    @property
    def is_named(self) -> bool:
        """Whether it is one of MPI's own."""
        return self._predefined

    def _check(self) -> None:
        if not self:
            raise MPIException(ERR_TYPE, "the datatype is DATATYPE_NULL")

    def check_committed(self) -> None:
        """Refuse a type that may not be used in a message yet."""
        self._check()
        if not self._committed:
            raise MPIException(
                ERR_TYPE, f"call Commit() on {self._name or 'the type'} before you use it"
            )

    def Commit(self) -> Self:
        """Make the type fit for messages; returns it."""
        self._check()
        self._committed = True
        return self

    def entry_offsets(self) -> Offsets:
        """Return the byte offsets inside one entry."""
        return np.arange(self._size) if self.offsets is None else self.offsets
