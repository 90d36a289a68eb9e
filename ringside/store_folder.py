"""Arrays by name in a folder, each in a file that appears whole or not at all.

The array "step 8/piece 2" is the file ``step%208%2Fpiece%202.npy``, as numpy.save writes it.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from ringside.arrays import Array
from ringside.errors import StoreError
from ringside.files import write_atomically

MAX_NAME = 80  # characters of a name: as a file's, each of its bytes may take three
_SUFFIX = ".npy"


class StoreFolder:
    """The arrays in one folder, which is made when the first is put there."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def names(self) -> list[str]:
        """The names of all arrays, sorted."""
        try:
            files = [file for file in self._path.iterdir() if file.suffix == _SUFFIX]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"the store {self._path} can't be read: {error.strerror}.") from None
        return sorted(unquote(file.stem) for file in files if not file.name.startswith("."))

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, read from their files where they are used."""
        return {name: self._array(name) for name in self.names()}

    def put(self, name: str, array: Array) -> None:
        """Write an array, in the place of another one of its name if there is one."""
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        try:
            write_atomically(self._file(name), content.getvalue(), synced=True)
        except OSError as error:
            raise StoreError(
                f"{name!r} can't be put into {self._path}: {error.strerror}."
            ) from None

    def get(self, name: str, start: int, stop: int | None) -> Array:
        """Read a part of an array."""
        if not self._file(name).is_file():
            raise absent(name, self.names())
        return np.array(part_of(self._array(name), name, start, stop))

    def remove(self, name: str) -> None:
        """Remove an array."""
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            raise absent(name, self.names()) from None

    def _file(self, name: str) -> Path:
        return self._path / f"{quote(name, safe='')}{_SUFFIX}"

    def _array(self, name: str) -> Array:
        file = self._file(name)
        try:
            array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise StoreError(f"{file} can't be read: {error}. Remove it.") from None
        return array


def part_of(array: Array, name: str, start: int, stop: int | None) -> Array:
    """Elements of an array along its first axis.

    Raises:
        StoreError: it has none there.
    """
    end = len(array) if stop is None else stop
    if not 0 <= start <= end <= len(array):
        raise StoreError(
            f"get({name!r}, {start}, {end}): the array has {len(array)} elements, so that "
            f"0 <= start <= stop <= {len(array)} must hold."
        )
    return array[start:end]


def absent(name: str, names: Collection[str]) -> StoreError:
    """The error where no array has a name."""
    few = ", ".join(repr(other) for other in sorted(names)[:4])
    held = f"it holds {few}{', ...' if len(names) > 4 else ''}" if names else "it is empty"
    return StoreError(f"the store has no array {name!r}; {held}.")
