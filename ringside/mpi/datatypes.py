"""Datatype: how the entries of a buffer are laid out, and how to make new layouts.

A datatype is a list of byte offsets inside one entry, and the entry's extent, the step from one
entry to the next. A dense type has every byte of its extent, in order, and needs no list::

    DOUBLE.Create_vector(3, 1, 4)    x . . .  x . . .  x         size 24, extent 72
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringside.mpi.attributes import Attributed
from ringside.mpi.constants import ERR_ARG, ERR_TYPE, ORDER_C, ORDER_F
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.offered import NotOfferedError, expect
from ringside.mpi.pickling import named
from ringside.network.wire import KIND_OF

Offsets = np.ndarray[Any, np.dtype[np.int64]]

_MOST_BYTES = 1 << 28  # in one entry with gaps, whose every byte is listed


class Datatype(Attributed):
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

    def __init__(self, datatype: Datatype | None = None) -> None:
        expect(datatype, Datatype)
        self._take(datatype if datatype is not None else DATATYPE_NULL)

    def _take(self, other: Datatype) -> None:
        for slot in Datatype.__slots__:
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
    ) -> Datatype:
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

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Datatype):
            return NotImplemented
        if self._predefined or other._predefined:
            return self._name == other._name and self._predefined == other._predefined
        return self is other

    def __bool__(self) -> bool:
        return self._name != "MPI_DATATYPE_NULL"

    def __reduce__(self) -> Any:
        from ringside.mpi.basic_types import PREDEFINED

        for name, datatype in PREDEFINED.items():
            if self._predefined and datatype._name == self._name:
                return named(self, name)
        raise NotOfferedError(
            "pickling a derived Datatype is not offered on Ringside's network; it works under "
            "mpiexec."
        )

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

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Return the datatype of a type code, such as ``d`` or ``f8``."""
        from ringside.mpi.basic_types import OF_CODE

        try:
            return OF_CODE[code]
        except KeyError:
            raise ValueError(f"cannot map type code {code!r} to MPI datatype") from None

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
            raise MPIException(ERR_TYPE, f"call Commit() on {self._name} before you use it")

    # -- making new ones ---------------------------------------------------------------------------

    def Commit(self) -> Datatype:
        """Make the type fit for messages; returns it."""
        self._check()
        self._committed = True
        return self

    def Free(self) -> None:
        """Give the type back."""
        self._check()
        if self._predefined:
            raise MPIException(ERR_TYPE, f"{self._name} is predefined and can't be freed")
        self._delete_attributes()
        self._take(DATATYPE_NULL)
        self._attributes = {}

    def free(self) -> None:
        """Give the type back if it may be."""
        if self._predefined and not self._is_constant():
            self._take(DATATYPE_NULL)
        elif not self._predefined:
            self.Free()

    def Dup(self) -> Datatype:
        """Return a copy."""
        made = self._derived(
            [0], [1], 1, lb=self._lb, extent=self._extent, committed=self._committed
        )
        self._copy_attributes(made)
        return made

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Datatype:
        """Return ``count`` entries in a row."""
        if self.offsets is None and self._lb == 0 and count >= 0:
            self._check()
            size = count * self._size
            kind, basic = self.dtype, self.basic_size
            return type(self)._make("", kind, basic, None, size=size, lb=0, extent=size)
        return self._derived([0], [count], 1)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Datatype:
        """Return ``count`` blocks of entries, ``stride`` entries apart."""
        return self.Create_hvector(count, blocklength, stride * self._extent)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Datatype:
        """Return ``count`` blocks of entries, ``stride`` bytes apart."""
        return self._derived([i * stride for i in range(count)], [blocklength] * count, 1)

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Datatype:
        """Return blocks of these lengths at these displacements, in entries."""
        return self._derived(displacements, blocklengths, self._extent)

    def Create_hindexed(
        self, blocklengths: Sequence[int], displacements: Sequence[int]
    ) -> Datatype:
        """Return blocks of these lengths at these displacements, in bytes."""
        return self._derived(displacements, blocklengths, 1)

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Datatype:
        """Return blocks of one length at these displacements, in entries."""
        return self._derived(displacements, [blocklength] * len(displacements), self._extent)

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Datatype:
        """Return blocks of one length at these displacements, in bytes."""
        return self._derived(displacements, [blocklength] * len(displacements), 1)

    def Create_subarray(
        self,
        sizes: Sequence[int],
        subsizes: Sequence[int],
        starts: Sequence[int],
        order: int = ORDER_C,
    ) -> Datatype:
        """Return the part of an array of shape ``sizes`` that begins at ``starts``."""
        inside = all(
            start >= 0 and part > 0 and start + part <= whole
            for whole, part, start in zip(sizes, subsizes, starts, strict=True)
        )
        if not inside or order not in (ORDER_C, ORDER_F):
            raise MPIException(
                ERR_ARG, f"a part {list(subsizes)} at {list(starts)} isn't inside {list(sizes)}"
            )
        total = int(np.prod(sizes))
        entries = np.arange(total).reshape(tuple(sizes), order="C" if order == ORDER_C else "F")
        part = entries[tuple(slice(s, s + n) for s, n in zip(starts, subsizes, strict=True))]
        return self.Create_indexed_block(1, sorted(part.reshape(-1).tolist())).Create_resized(
            0, total * self._extent
        )

    def Create_resized(self, lb: int, extent: int) -> Datatype:
        """Return the same entries with another extent."""
        return self._derived([0], [1], 1, lb=lb, extent=extent)

    Resized = Create_resized

    @classmethod
    def Create_struct(
        cls,
        blocklengths: Sequence[int],
        displacements: Sequence[int],
        datatypes: Sequence[Datatype],
    ) -> Datatype:
        """Return blocks of several types at these displacements, in bytes."""
        pieces = [
            datatype._blocks([displacement], [length], 1)
            for length, displacement, datatype in zip(
                blocklengths, displacements, datatypes, strict=True
            )
        ]
        offsets = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        alignment = max((d.basic_size for d in datatypes), default=1)
        low = int(offsets.min()) if len(offsets) else 0
        high = int(offsets.max()) + 1 if len(offsets) else 0
        extent = -(-(high - low) // alignment) * alignment
        return cls._make("", None, 1, offsets, size=len(offsets), lb=low, extent=extent)

    def entry_offsets(self) -> Offsets:
        """Return the byte offsets inside one entry."""
        return np.arange(self._size) if self.offsets is None else self.offsets

    def _blocks(self, displacements: Sequence[int], lengths: Sequence[int], unit: int) -> Offsets:
        self._check()
        if min(lengths, default=0) < 0:
            raise MPIException(ERR_ARG, f"negative block length in {list(lengths)}")
        if sum(lengths) * self._size > _MOST_BYTES:
            raise MPIException(ERR_ARG, f"a type of more than {_MOST_BYTES} bytes is not offered")
        firsts = np.asarray(displacements, dtype=np.int64) * unit
        pieces = [
            first + np.arange(length, dtype=np.int64) * self._extent
            for first, length in zip(firsts, lengths, strict=True)
        ]
        starts = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        return (starts[:, None] + self.entry_offsets()).reshape(-1)

    def _derived(
        self,
        displacements: Sequence[int],
        lengths: Sequence[int],
        unit: int,
        *,
        lb: int | None = None,
        extent: int | None = None,
        committed: bool = False,
    ) -> Datatype:
        offsets = self._blocks(displacements, lengths, unit)
        ends = [
            (d * unit + self._lb, d * unit + (n - 1) * self._extent + self._lb + self._extent)
            for d, n in zip(displacements, lengths, strict=True)
            if n > 0
        ]
        low = min((start for start, _ in ends), default=0) if lb is None else lb
        high = max((end for _, end in ends), default=0)
        whole = high - low if extent is None else extent
        dense = low == 0 and len(offsets) == whole and bool((offsets == np.arange(whole)).all())
        made = type(self)._make(
            "",
            self.dtype,
            self.basic_size,
            None if dense else offsets,
            size=len(offsets),
            lb=low,
            extent=whole,
        )
        made._committed = committed
        return made


DATATYPE_NULL = Datatype._make(
    "MPI_DATATYPE_NULL", None, 0, None, size=0, lb=0, extent=0, predefined=True
)
