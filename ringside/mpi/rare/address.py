"""Addresses in memory, for displacements of ``Datatype.Create_struct``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ringside.mpi.buffers import BOTTOM, byte_view


def Get_address(location: Any) -> int:
    """Return where a buffer begins."""
    if location is None or location is BOTTOM:
        return 0
    view, _ = byte_view(location, False, "B")
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address if len(view) else 0


def Aint_add(base: int, disp: int) -> int:
    """Return an address ``disp`` bytes further."""
    return base + disp


def Aint_diff(addr1: int, addr2: int) -> int:
    """Return the bytes between two addresses."""
    return addr1 - addr2
