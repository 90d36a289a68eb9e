"""Attributes: values that a program attaches to a communicator or a datatype, by a key of its own.

What a Dup gets of them is decided by the function given with the key::

    key = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: value)
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ringside.mpi.constants import ERR_KEYVAL, ERR_OTHER, KEYVAL_INVALID
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.unsupported import Handle

Copy = Callable[[Any, int, Any], Any] | bool | None
Delete = Callable[[Any, int, Any], None] | None

_next_key = itertools.count(1)
_keys: dict[int, tuple[type[Any], Copy, Delete]] = {}


class Attributed(Handle):
    """What attributes can be attached to."""

    __slots__ = ()

    _attributes: dict[int, Any]  # shared by all copies of a handle

    @classmethod
    def Create_keyval(
        cls, copy_fn: Copy = None, delete_fn: Delete = None, nopython: bool = False
    ) -> int:
        """Return a new key.

        Args:
            copy_fn: called with object, key and value at a Dup; what it returns is the copy's
                value, NotImplemented for none. True: the same value; None or False: none.
            delete_fn: called with object, key and value when the attribute is deleted.
            nopython: the values are numbers; makes no difference here.
        """
        key = next(_next_key)
        _keys[key] = (_kind(cls), copy_fn, delete_fn)
        return key

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give a key back; returns KEYVAL_INVALID."""
        _of_key(cls, keyval)
        del _keys[keyval]
        return KEYVAL_INVALID

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Attach a value."""
        _of_key(type(self), keyval)
        if keyval in self._attributes:
            self.Delete_attr(keyval)
        self._attributes[keyval] = attrval

    def Get_attr(self, keyval: int) -> Any:
        """Return the value attached by a key, or None."""
        _of_key(type(self), keyval)
        return self._attributes.get(keyval)

    def Delete_attr(self, keyval: int) -> None:
        """Take a value away."""
        _, _, delete_fn = _of_key(type(self), keyval)
        if keyval in self._attributes:
            value = self._attributes.pop(keyval)
            if delete_fn is not None:
                _called(delete_fn, self, keyval, value)


def copy(owner: Any, made: Any) -> None:
    """Give a Dup what the functions of the keys say."""
    made._attributes = {}
    for key, value in list(owner._attributes.items()):
        copy_fn = _keys[key][1] if key in _keys else None
        if callable(copy_fn):
            value = _called(copy_fn, owner, key, value)
        elif not copy_fn:
            continue
        if value is not NotImplemented:
            made._attributes[key] = value


def delete_all(owner: Any) -> None:
    """Take all values away, before the object is given back."""
    for key in reversed(list(owner._attributes)):
        if key in _keys:
            owner.Delete_attr(key)


def _kind(cls: type[Any]) -> type[Any]:
    """Comm for Intracomm, Cartcomm and so on: the class that lists Attributed."""
    return next(base for base in cls.__mro__ if Attributed in base.__bases__)


def _of_key(cls: type[Any], key: int) -> tuple[type[Any], Copy, Delete]:
    entry = _keys.get(key)
    if entry is None or entry[0] is not _kind(cls):
        raise MPIException(
            ERR_KEYVAL, f"{key} is no key that {cls.__name__}.Create_keyval has returned"
        )
    return entry


def _called(function: Callable[..., Any], owner: Any, key: int, value: Any) -> Any:
    try:
        return function(owner, key, value)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(
            ERR_OTHER, f"the function given with the key raised {type(error).__name__}: {error}"
        ) from error
