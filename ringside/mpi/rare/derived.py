"""Datatypes made of others: rows, columns, blocks, structures.

What sends and receives has to know where the bytes of an entry lie, and not how a program came to
that layout. So the methods that make types stand here, above, and MPI's own types, which exist by
then, get them from `complete`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from ringside.mpi import datatypes as basic
from ringside.mpi.constants import ERR_ARG, ORDER_C, ORDER_F
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.rare import attributes
from ringside.mpi.rare.attributes import Attributed
from ringside.mpi.type_layout import Offsets

_MOST_BYTES = 1 << 28  # in one entry with gaps, whose every byte is listed


class Datatype(basic.Datatype, Attributed):
    """A datatype as programs see it: with Create_vector, Create_struct and their kin."""

    __slots__ = ()

    def Dup(self) -> Self:
        """Return a copy."""
        datatype = self._derived(
            [0], [1], 1, lb=self._lb, extent=self._extent, committed=self._committed
        )
        attributes.copy(self, datatype)
        return datatype

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Self:
        """Return ``count`` entries in a row."""
        if self.offsets is None and self._lb == 0 and count >= 0:
            self._check()
            size = count * self._size
            kind, basic = self.dtype, self.basic_size
            return type(self)._make("", kind, basic, None, size=size, lb=0, extent=size)
        return self._derived([0], [count], 1)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return ``count`` blocks of entries, ``stride`` entries apart."""
        return self.Create_hvector(count, blocklength, stride * self._extent)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return ``count`` blocks of entries, ``stride`` bytes apart."""
        return self._derived([i * stride for i in range(count)], [blocklength] * count, 1)

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        """Return blocks of these lengths at these displacements, in entries."""
        return self._derived(displacements, blocklengths, self._extent)

    def Create_hindexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        """Return blocks of these lengths at these displacements, in bytes."""
        return self._derived(displacements, blocklengths, 1)

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return blocks of one length at these displacements, in entries."""
        return self._derived(displacements, [blocklength] * len(displacements), self._extent)

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return blocks of one length at these displacements, in bytes."""
        return self._derived(displacements, [blocklength] * len(displacements), 1)

    def Create_subarray(
        self,
        sizes: Sequence[int],
        subsizes: Sequence[int],
        starts: Sequence[int],
        order: int = ORDER_C,
    ) -> Self:
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

    def Create_resized(self, lb: int, extent: int) -> Self:
        """Return the same entries with another extent."""
        return self._derived([0], [1], 1, lb=lb, extent=extent)

    Resized = Create_resized

    @classmethod
    def Create_struct(
        cls,
        blocklengths: Sequence[int],
        displacements: Sequence[int],
        datatypes: Sequence[Datatype],
    ) -> Self:
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
    ) -> Self:
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
        datatype = type(self)._make(
            "",
            self.dtype,
            self.basic_size,
            None if dense else offsets,
            size=len(offsets),
            lb=low,
            extent=whole,
        )
        datatype._committed = committed
        return datatype

    def _release(self) -> None:
        # First: a key's function may still look at the type.
        attributes.delete_all(self)
        super()._release()


def complete() -> None:
    """Make MPI's own types instances of this class.

    The objects themselves change, for copies wouldn't do: a program also gets a type from
    ``fromcode``, or as an argument of its own reduction, and compares their class to this one.
    No slot may be added here, as Python refuses another class to an object of another layout.
    """
    for datatype in basic.PREDEFINED.values():
        datatype.__class__ = Datatype
