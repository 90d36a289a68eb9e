"""A store of arrays that outlives the ranks, for checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.errors import StoreError
from ringside.network import codec, link
from ringside.store_folder import MAX_NAME, StoreFolder

_DTYPES = frozenset(map(np.dtype, codec.DTYPES))


class Store:
    """Arrays by name that stay when the ranks have ended, as in a file system.

        store = ringside.Store("checkpoints")
        store.put(f"step {step}, rank {rank}", shard)
        store.names()                                        # ["step 8, rank 0", ...]
        store.get("step 8, rank 0", 2, 5)                    # elements 2, 3 and 4

    On simulated ranks the network keeps it. Each call takes the machine's ``store_alpha_s``, and
    ``store_beta_s_per_byte`` for each byte of an array; ranks don't wait for each other. When the
    run is over, the folder holds it. On real ranks, and outside of ranks, each call reads or writes
    the folder itself.

    Args:
        folder: where it lies; it is made when the first array is put there.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = os.path.abspath(folder)

    def __repr__(self) -> str:
        return f"Store({os.path.basename(self._folder)!r})"

    def put(self, name: str, array: Any) -> None:
        """Write an array; it appears whole or not at all, in the place of one of that name.

        Args:
            name: at most 80 characters.
            array: numbers, with at least one axis.

        Raises:
            StoreError: it is no such array, or can't be written.
        """
        _check(name)
        content = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
        if content.dtype not in _DTYPES or not content.ndim:
            raise StoreError(
                f"put({name!r}): an array of numbers with at least one axis is stored, and this "
                f"has dtype {content.dtype} and shape {content.shape}. A number x is stored as [x]."
            )
        if link.inside_rank():
            self._ask("put", name, array=content)
        else:
            StoreFolder(self._folder).put(name, content)

    def get(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Read an array, or its elements ``start`` to ``stop - 1`` along the first axis alone.

        Returns:
            A new array.

        Raises:
            StoreError: there is none of that name, or it has no such elements.
        """
        _check(name)
        first, last = int(start), None if stop is None else int(stop)
        if not link.inside_rank():
            return StoreFolder(self._folder).get(name, first, last)
        array: Array = self._ask("get", name, first, last)
        return array

    def names(self) -> list[str]:
        """Return the names of all arrays, sorted."""
        if not link.inside_rank():
            return StoreFolder(self._folder).names()
        names: list[str] = self._ask("names", "")
        return names

    def remove(self, name: str) -> None:
        """Remove an array.

        Raises:
            StoreError: there is none of that name.
        """
        _check(name)
        if link.inside_rank():
            self._ask("remove", name)
        else:
            StoreFolder(self._folder).remove(name)

    def _ask(
        self,
        what: str,
        name: str,
        start: int = 0,
        stop: int | None = None,
        array: Array | None = None,
    ) -> Any:
        call = what, ((("name", repr(name)),) if name else ())
        return link.current().store(what, (self._folder, name, start, stop, array), call=call)


def _check(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise StoreError(
            f"{name!r}: the name of an array is a text of 1 to {MAX_NAME} printable characters."
        )
