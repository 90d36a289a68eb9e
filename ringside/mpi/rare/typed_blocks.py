"""Blocks that have a datatype each: Alltoallw, and its specifications.

Displacements count bytes here, not entries::

    [array, counts, displs, datatypes]
    [array, (counts, displs), datatypes]
    [array, datatypes]                       one entry each, all from the beginning
"""

from __future__ import annotations

from typing import Any

from ringside.mpi.buffers import (
    BOTTOM,
    Region,
    as_datatype,
    byte_view,
    check_fits,
    is_in_place,
    items,
)
from ringside.mpi.membership import Membership
from ringside.mpi.preparation import Prepared, exchange
from ringside.mpi.request import Request
from ringside.mpi.unsupported import NotOfferedError


class TypedCollectives(Membership):
    """Alltoallw and Ialltoallw."""

    __slots__ = ()

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Give block r to rank r, for all r; each block has a datatype of its own."""
        alltoall_typed(self, "Alltoallw", sendbuf, recvbuf).run(self)

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begin an Alltoallw."""
        return Request._of(alltoall_typed(self, "Ialltoallw", sendbuf, recvbuf).begin(self))


def alltoall_typed(comm: Membership, name: str, sendbuf: Any, recvbuf: Any) -> Prepared:
    """As ``preparation.alltoall``, on blocks of several datatypes."""
    comm._check_comm()
    blocks = typed_blocks(recvbuf, True, comm._size)
    in_place = is_in_place(sendbuf)
    send_blocks = blocks if in_place else typed_blocks(sendbuf, False, comm._size)
    return exchange(name, send_blocks, blocks, in_place)


def typed_blocks(spec: Any, writable: bool, number: int) -> list[Region]:
    """Return the ``number`` blocks that ``spec`` means."""
    if not isinstance(spec, (list, tuple)) or not 2 <= len(spec) <= 4:
        raise ValueError("message: expecting a list or tuple of 2 to 4 items")
    buffer, types = spec[0], [as_datatype(datatype) for datatype in spec[-1]]
    counts, displacements = (None, None) if len(spec) == 2 else spec[1:3]
    if len(spec) == 3:
        counts, displacements = spec[1]
    if len(types) != number:
        raise ValueError(f"expecting {number} datatypes, got {len(types)}")
    if buffer is BOTTOM:
        if counts is None or displacements is None:
            raise ValueError("message: BOTTOM needs counts and displacements")
        raise NotOfferedError(
            "MPI.BOTTOM with absolute addresses is not offered on Ringside's network; it works "
            "under mpiexec."
        )
    view, _ = byte_view(buffer, writable, "B")
    counts = items(1 if counts is None else counts, number)
    displacements = items(0 if displacements is None else displacements, number)
    regions = []
    for count, displacement, datatype in zip(counts, displacements, types, strict=True):
        datatype.check_committed()
        if displacement < 0:
            raise ValueError(f"message: negative displacement {displacement}")
        check_fits(view[displacement:], 0, count, datatype)
        regions.append(Region(view[displacement:], count, datatype))
    return regions
