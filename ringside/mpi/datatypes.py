"""Datatype, and MPI's own datatypes by name, by type code and by NumPy dtype.

Programs see them with more methods: `complete` of ``ringside.mpi.rare.derived`` adds those that
make new types out of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ringside.mpi.constants import ERR_TYPE
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import named
from ringside.mpi.type_layout import TypeLayout
from ringside.mpi.unsupported import NotOfferedError, expect


class Datatype(TypeLayout):
    """How the entries of a buffer are laid out."""

    __slots__ = ()

    def __init__(self, datatype: Datatype | None = None) -> None:
        expect(datatype, Datatype)
        self._take(datatype if datatype is not None else DATATYPE_NULL)

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Datatype):
            return NotImplemented
        if self._predefined or other._predefined:
            return self._name == other._name and self._predefined == other._predefined
        return self is other

    def __bool__(self) -> bool:
        return self._name != "MPI_DATATYPE_NULL"

    def __reduce__(self) -> Any:
        for name, datatype in PREDEFINED.items():
            if self._predefined and datatype._name == self._name:
                return named(self, name)
        raise NotOfferedError(
            "pickling a derived Datatype is not offered on Ringside's network; it works under "
            "mpiexec."
        )

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Return the datatype of a type code, such as ``d`` or ``f8``."""
        try:
            return OF_CODE[code]
        except KeyError:
            raise ValueError(f"cannot map type code {code!r} to MPI datatype") from None

    def Free(self) -> None:
        """Give the type back."""
        self._check()
        if self._predefined:
            raise MPIException(ERR_TYPE, f"{self._name} is predefined and can't be freed")
        self._release()

    def free(self) -> None:
        """Give the type back if it may be."""
        if self._predefined and not self._is_constant():
            self._take(DATATYPE_NULL)
        elif not self._predefined:
            self.Free()

    def _release(self) -> None:
        self._take(DATATYPE_NULL)
        self._attributes = {}  # of our own: what we took are those of DATATYPE_NULL itself


DATATYPE_NULL = Datatype._make(
    "MPI_DATATYPE_NULL", None, 0, None, size=0, lb=0, extent=0, predefined=True
)


def _basic(name: str, dtype: Any) -> Datatype:
    kind = np.dtype(dtype)
    size = kind.itemsize
    return Datatype._make(
        f"MPI_{name}", kind, size, None, size=size, lb=0, extent=size, predefined=True
    )


def _pair(name: str, value: Any) -> Datatype:
    """A value and a C int, as MAXLOC and MINLOC take them."""
    layout = np.dtype([("value", value), ("index", np.intc)], align=True)
    first = np.dtype(value).itemsize
    second = layout.fields["index"][1] if layout.fields is not None else first
    offsets = np.concatenate([np.arange(first), np.arange(second, second + 4)])
    dense = len(offsets) == layout.itemsize
    return Datatype._make(
        f"MPI_{name}", layout, 1, None if dense else offsets,
        size=first + 4, lb=0, extent=layout.itemsize, predefined=True,
    )  # fmt: skip


_BASIC: dict[str, Any] = {
    "BYTE": "u1", "PACKED": "u1", "CHAR": "S1", "WCHAR": "U1",
    "SIGNED_CHAR": "b", "SHORT": "h", "INT": "i", "LONG": "l", "LONG_LONG": "q",
    "UNSIGNED_CHAR": "B", "UNSIGNED_SHORT": "H", "UNSIGNED": "I", "UNSIGNED_LONG": "L",
    "UNSIGNED_LONG_LONG": "Q",
    "FLOAT": "f", "DOUBLE": "d", "LONG_DOUBLE": "g", "C_BOOL": "?",
    "INT8_T": "i1", "INT16_T": "i2", "INT32_T": "i4", "INT64_T": "i8",
    "UINT8_T": "u1", "UINT16_T": "u2", "UINT32_T": "u4", "UINT64_T": "u8", "FLOAT16_T": "e",
    "C_COMPLEX": "F", "C_DOUBLE_COMPLEX": "D", "C_LONG_DOUBLE_COMPLEX": "G",
    "AINT": "p", "OFFSET": "p", "COUNT": "p",
    "INTEGER": "i4", "REAL": "f4", "DOUBLE_PRECISION": "f8", "COMPLEX": "F", "DOUBLE_COMPLEX": "D",
    "LOGICAL": "i4", "CHARACTER": "S1",
    "INTEGER1": "i1", "INTEGER2": "i2", "INTEGER4": "i4", "INTEGER8": "i8",
    "REAL4": "f4", "REAL8": "f8", "REAL16": "g",
    "COMPLEX8": "F", "COMPLEX16": "D", "COMPLEX32": "G",
}  # fmt: skip
_PAIRS = {
    "SHORT_INT": "h", "INT_INT": "i", "LONG_INT": "l",
    "FLOAT_INT": "f", "DOUBLE_INT": "d", "LONG_DOUBLE_INT": "g",
}  # fmt: skip
_ALIASES = {
    "BOOL": "C_BOOL", "CXX_BOOL": "C_BOOL", "SIGNED_SHORT": "SHORT", "SIGNED_INT": "INT",
    "SIGNED_LONG": "LONG", "SIGNED_LONG_LONG": "LONG_LONG", "UNSIGNED_INT": "UNSIGNED",
    "SINT8_T": "INT8_T", "SINT16_T": "INT16_T", "SINT32_T": "INT32_T", "SINT64_T": "INT64_T",
    "FLOAT32_T": "FLOAT", "FLOAT64_T": "DOUBLE", "C_FLOAT_COMPLEX": "C_COMPLEX",
    "CXX_FLOAT_COMPLEX": "C_COMPLEX", "CXX_DOUBLE_COMPLEX": "C_DOUBLE_COMPLEX",
    "CXX_LONG_DOUBLE_COMPLEX": "C_LONG_DOUBLE_COMPLEX", "TWOINT": "INT_INT",
    "F_BOOL": "LOGICAL", "F_INT": "INTEGER", "F_FLOAT": "REAL", "F_DOUBLE": "DOUBLE_PRECISION",
    "F_COMPLEX": "COMPLEX", "F_FLOAT_COMPLEX": "COMPLEX", "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}  # fmt: skip
_UNAVAILABLE = [  # in NumPy or in MPICH
    "BFLOAT16_T", "LOGICAL1", "LOGICAL2", "LOGICAL4", "LOGICAL8", "LOGICAL16",
    "INTEGER16", "REAL2", "COMPLEX4",
]  # fmt: skip
_MPI_NAMES = {"LONG_LONG": "LONG_LONG_INT", "INT_INT": "2INT"}

PREDEFINED: dict[str, Datatype] = {"DATATYPE_NULL": DATATYPE_NULL}
PREDEFINED |= {name: _basic(_MPI_NAMES.get(name, name), dtype) for name, dtype in _BASIC.items()}
PREDEFINED |= {name: _pair(_MPI_NAMES.get(name, name), value) for name, value in _PAIRS.items()}
PREDEFINED |= dict.fromkeys(_UNAVAILABLE, DATATYPE_NULL)
PREDEFINED |= {alias: PREDEFINED[name] for alias, name in _ALIASES.items()}

BYTE = PREDEFINED["BYTE"]
CHAR = PREDEFINED["CHAR"]

_CODES = {
    "?": "C_BOOL", "b": "SIGNED_CHAR", "h": "SHORT", "i": "INT", "l": "LONG", "q": "LONG_LONG",
    "B": "UNSIGNED_CHAR", "H": "UNSIGNED_SHORT", "I": "UNSIGNED", "L": "UNSIGNED_LONG",
    "Q": "UNSIGNED_LONG_LONG", "e": "FLOAT16_T", "f": "FLOAT", "d": "DOUBLE", "g": "LONG_DOUBLE",
    "F": "C_COMPLEX", "D": "C_DOUBLE_COMPLEX", "G": "C_LONG_DOUBLE_COMPLEX",
    "Zf": "C_COMPLEX", "Zd": "C_DOUBLE_COMPLEX", "Zg": "C_LONG_DOUBLE_COMPLEX",
    "i1": "INT8_T", "i2": "INT16_T", "i4": "INT32_T", "i8": "INT64_T",
    "u1": "UINT8_T", "u2": "UINT16_T", "u4": "UINT32_T", "u8": "UINT64_T",
    "f2": "FLOAT16_T", "f4": "FLOAT", "f8": "DOUBLE", "f16": "LONG_DOUBLE",
    "c8": "C_COMPLEX", "c16": "C_DOUBLE_COMPLEX", "c32": "C_LONG_DOUBLE_COMPLEX", "b1": "C_BOOL",
    "n": "COUNT", "N": "UNSIGNED_LONG", "p": "AINT", "P": "UNSIGNED_LONG",
    "c": "CHAR", "a": "CHAR", "S": "CHAR", "S1": "CHAR", "s": "CHAR", "1s": "CHAR",
    "U": "WCHAR", "U1": "WCHAR", "w": "WCHAR", "1w": "WCHAR", "u": "UINT16_T", "1u": "UINT16_T",
}  # fmt: skip
OF_CODE: dict[str, Datatype] = {code: PREDEFINED[name] for code, name in _CODES.items()}


def _of_dtypes() -> dict[np.dtype[Any], Datatype]:
    """NumPy's native numeric dtypes; an array of bytes counts as unsigned characters."""
    result = {np.dtype(code): OF_CODE[code] for code in "?bhqlibHQLIBefdgFDG"}
    result[np.dtype("u1")] = BYTE
    return result


OF_DTYPE: dict[np.dtype[Any], Datatype] = _of_dtypes()
