"""Info: pairs of strings that give hints; here none of them changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ringside.mpi.constants import ERR_ARG, ERR_INFO_NOKEY
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import named
from ringside.mpi.unsupported import Handle, expect

Items = Mapping[str, str] | Iterable[tuple[str, str]]


class Info(Handle):
    """Hints, as strings by name."""

    __slots__ = ("_name", "_pairs")

    _name: str  # of a predefined one
    _pairs: dict[str, str] | None  # shared by all copies of a handle; None: INFO_NULL

    def __init__(self, info: Info | None = None) -> None:
        expect(info, Info)
        self._pairs = info._pairs if info is not None else None
        self._name = info._name if info is not None else ""

    @classmethod
    def Create(cls, items: Items | None = None) -> Info:
        """Return a new info with these pairs."""
        self = cls()
        self._pairs = {}
        if items is not None:
            self.update(items)
        return self

    @classmethod
    def Create_env(cls, args: Sequence[str] | str | None = None) -> Info:
        """Return what the program was started with: nothing is known of it here."""
        return cls.Create()

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Info):
            return NotImplemented
        return self._pairs is other._pairs

    def __bool__(self) -> bool:
        return self._pairs is not None

    def __reduce__(self) -> Any:
        if self._pairs is None:
            return named(self, "INFO_NULL")
        if self._name:
            return named(self, self._name)
        return type(self).Create, (dict(self._pairs),)

    def _all(self) -> dict[str, str]:
        if self._pairs is None:
            raise MPIException(ERR_ARG, "the info is INFO_NULL")
        return self._pairs

    # -- MPI's own calls ---------------------------------------------------------------------------

    def Get(self, key: str) -> str | None:
        """Return a value, or None."""
        return self._all().get(key)

    def Set(self, key: str, value: str) -> None:
        """Set a value."""
        self._all()[str(key)] = str(value)

    def Delete(self, key: str) -> None:
        """Remove a pair."""
        if key not in self._all():
            raise MPIException(ERR_INFO_NOKEY, f"there is no key {key!r}")
        del self._all()[key]

    def Get_nkeys(self) -> int:
        """Return the number of pairs."""
        return len(self._all())

    def Get_nthkey(self, n: int) -> str:
        """Return a key by its place."""
        if not 0 <= n < len(self._all()):
            raise MPIException(ERR_ARG, f"key {n} of {len(self._all())}")
        return list(self._all())[n]

    def Dup(self) -> Info:
        """Return a copy."""
        return Info.Create(self._all())

    def Free(self) -> None:
        """Give the info back."""
        self._all()
        self._pairs = None

    def free(self) -> None:
        """Give the info back if there is one."""
        if not self._is_constant():
            self._pairs = None

    # -- as a mapping ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pairs or ())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: str) -> bool:
        return key in (self._pairs or ())

    def __getitem__(self, key: str) -> str:
        return (self._pairs or {})[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._writable()[str(key)] = str(value)

    def __delitem__(self, key: str) -> None:
        del self._writable()[key]

    def _writable(self) -> dict[str, str]:
        if self._pairs is None:
            raise KeyError("the info is INFO_NULL")
        return self._pairs

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return a value, or the default."""
        return (self._pairs or {}).get(key, default)

    def keys(self) -> list[str]:
        """Return the keys."""
        return list(self._pairs or ())

    def values(self) -> list[str]:
        """Return the values."""
        return list((self._pairs or {}).values())

    def items(self) -> list[tuple[str, str]]:
        """Return the pairs."""
        return list((self._pairs or {}).items())

    def update(self, items: Items = (), **kwds: str) -> None:
        """Set several values."""
        pairs = self._writable()
        for key, value in dict(items, **kwds).items():
            pairs[str(key)] = str(value)

    def pop(self, key: str, *default: str | None) -> str | None:
        """Remove a pair and return its value."""
        return (self._pairs if self._pairs is not None else {}).pop(key, *default)

    def popitem(self) -> tuple[str, str]:
        """Remove the last pair and return it."""
        return (self._pairs if self._pairs is not None else {}).popitem()

    def copy(self) -> Info:
        """Return a copy."""
        return Info() if self._pairs is None else self.Dup()

    def clear(self) -> None:
        """Remove all pairs."""
        if self._pairs is not None:
            self._pairs.clear()


INFO_NULL = Info()
INFO_ENV = Info.Create_env()
INFO_ENV._name = "INFO_ENV"
