"""Reduction operations: MPI's own, and those made from a function of the student's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.mpi.buffers import Region, region
from ringside.mpi.constants import ERR_OP
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import named
from ringside.mpi.unsupported import Handle, expect
from ringside.network.link import current

Function = Callable[..., Any]


def _located(better: Callable[[Any, Any], bool]) -> Function:
    """Of two pairs (value, place) the better value; the lower place if they are equal."""

    def choose(x: Any, y: Any) -> Any:
        (u, i), (v, j) = x, y
        if better(u, v):
            return u, i
        if better(v, u):
            return v, j
        return (v, j) if j < i else (u, i)

    return choose


_ON_OBJECTS: dict[str, Function] = {
    "MAX": lambda x, y: y if y > x else x,
    "MIN": lambda x, y: y if y < x else x,
    "SUM": lambda x, y: x + y,
    "PROD": lambda x, y: x * y,
    "LAND": lambda x, y: bool(x) & bool(y),
    "BAND": lambda x, y: x & y,
    "LOR": lambda x, y: bool(x) | bool(y),
    "BOR": lambda x, y: x | y,
    "LXOR": lambda x, y: bool(x) ^ bool(y),
    "BXOR": lambda x, y: x ^ y,
    "MAXLOC": _located(lambda a, b: bool(a > b)),
    "MINLOC": _located(lambda a, b: bool(a < b)),
    "REPLACE": lambda x, y: y,
    "NO_OP": lambda x, y: x,
}
_ON_ARRAYS: dict[str, Function] = {
    "MAX": np.maximum,
    "MIN": np.minimum,
    "SUM": np.add,
    "PROD": np.multiply,
    "LAND": np.logical_and,
    "BAND": np.bitwise_and,
    "LOR": np.logical_or,
    "BOR": np.bitwise_or,
    "LXOR": np.logical_xor,
    "BXOR": np.bitwise_xor,
}
# Kinds of NumPy dtypes that MPI lets each operation work on.
_KINDS = {
    "SUM": "iufc", "PROD": "iufc", "MAX": "iuf", "MIN": "iuf",
    "LAND": "iub", "LOR": "iub", "LXOR": "iub", "BAND": "iu", "BOR": "iu", "BXOR": "iu",
}  # fmt: skip


class Op(Handle):
    """A reduction operation."""

    __slots__ = ("_commutes", "_function", "_key", "_name")

    _commutes: bool
    _function: Function | None
    _key: object  # operations made by one Create are equal
    _name: str

    def __init__(self, op: Op | None = None) -> None:
        expect(op, Op)
        self._key = op._key if op is not None else None
        self._name = op._name if op is not None else "NULL"
        self._function = op._function if op is not None else None
        self._commutes = op._commutes if op is not None else False

    @classmethod
    def _make(cls, name: str, function: Function | None, commutes: bool) -> Op:
        self = object.__new__(cls)
        self._name = name
        self._function = function
        self._key = object() if function is not None else None
        self._commutes = commutes
        return self

    @classmethod
    def Create(cls, function: Function, commute: bool = False) -> Op:
        """Make an operation of ``function(inbuf, inoutbuf, datatype)``."""
        if not callable(function):
            raise AttributeError(f"{type(function).__name__!r} object has no attribute '__call__'")
        _check_arguments(function)
        return cls._make("USER", function, bool(commute))

    def __call__(self, x: Any, y: Any, /) -> Any:
        if self._function is not None:
            return self._function(x, y, None)
        if self._name not in _ON_OBJECTS:
            raise ValueError("cannot call user-defined operation")
        return _ON_OBJECTS[self._name](x, y)

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Op):
            return NotImplemented
        return self._name == other._name and self._key is other._key

    def __bool__(self) -> bool:
        return self._name != "NULL"

    def __reduce__(self) -> Any:
        if self._name == "USER":
            return type(self).Create, (self._function, self._commutes)
        return named(self, "OP_NULL" if self._name == "NULL" else self._name)

    def Free(self) -> None:
        """Give the operation back."""
        if self._name != "USER":
            raise MPIException(ERR_OP, "only operations made by Op.Create can be freed")
        self._name, self._function, self._key = "NULL", None, None

    def free(self) -> None:
        """Give the operation back if it may be."""
        if self._name == "USER":
            self.Free()
        elif not self._is_constant():
            self._name, self._function, self._key = "NULL", None, None

    def Is_commutative(self) -> bool:
        """Tell whether the order of the operands doesn't matter."""
        return self._commutes

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """Compute ``inoutbuf = inbuf op inoutbuf`` here."""
        left, right = region(inbuf, False), region(inoutbuf, True)
        if left.datatype != right.datatype:
            raise ValueError("mismatch in inbuf and inoutbuf MPI datatypes")
        if left.count != right.count:
            raise ValueError(
                f"mismatch in inbuf count {left.count} and inoutbuf count {right.count}"
            )
        self.check(right)
        right.write(self.combine(bytes(left.read()), bytes(right.read()), right))

    @property
    def is_commutative(self) -> bool:
        """Whether the order of the operands doesn't matter."""
        return self._commutes

    @property
    def is_predefined(self) -> bool:
        """Whether it is one of MPI's own."""
        return self._name != "USER"

    # -- what collectives need ---------------------------------------------------------------------

    def check(self, data: Region) -> None:
        """Refuse an operation that isn't defined for the data's type."""
        if not self:
            raise MPIException(ERR_OP, "the operation is OP_NULL")
        data.datatype.check_committed()
        kind = data.datatype.dtype
        if self._name == "USER":
            return
        if self._name in _KINDS:
            basic = data.datatype.offsets is None and kind is not None
            if basic and kind is not None and (kind.kind in _KINDS[self._name] or kind.kind == "S"):
                return
        elif self._name in ("MAXLOC", "MINLOC") and kind is not None and kind.names:
            return
        raise MPIException(
            ERR_OP,
            f"{self._name} is not defined for {data.datatype.Get_name() or 'a derived type'}",
        )

    def wire_name(self, data: Array) -> str:
        """The network's name of it; USER where the members themselves must reduce."""
        if self._name in _KINDS and data.dtype.kind in "iufcb" and data.dtype.itemsize <= 8:
            return self._name
        if self._name in ("SUM", "PROD") and data.dtype == np.complex128:
            return self._name
        return "USER"

    def fold(self, parts: list[Any], like: Region) -> bytes:
        """Reduce contributions in rank order."""
        result = bytes(parts[0])
        for part in parts[1:]:
            result = self.combine(result, bytes(part), like)
        return result

    def combine(self, left: bytes, right: bytes, like: Region) -> bytes:
        """Return ``left op right``, both laid out as the entries of ``like``."""
        kind = like.datatype.dtype
        if self._name == "USER":
            if self._function is None:
                raise MPIException(ERR_OP, "the operation was freed")
            into = bytearray(right)
            if self._function(left, into, like.datatype) is not None:
                current().remark(
                    "unused",
                    f"operation at {current().place} returns something, which isn't used: what "
                    "Op.Create is given writes into its second argument, inoutbuf[:] = ...",
                )
            return bytes(into)
        if kind is not None and kind.names:
            return self._combine_pairs(left, right, kind, like.datatype.size)
        a, b = (
            np.frombuffer(x, "u1" if kind is None or kind.kind == "S" else kind)
            for x in (left, right)
        )
        with np.errstate(all="ignore"):
            return bytes(
                np.asarray(_ON_ARRAYS[self._name](a, b)).astype(a.dtype, copy=False).tobytes()
            )

    def _combine_pairs(self, left: bytes, right: bytes, kind: np.dtype[Any], size: int) -> bytes:
        packed = np.dtype([(name, kind[name]) for name in kind.names or ()])
        a, b = np.frombuffer(left, packed), np.frombuffer(right, packed)
        maximum = self._name == "MAXLOC"
        better = b["value"] > a["value"] if maximum else b["value"] < a["value"]
        tie = (a["value"] == b["value"]) & (b["index"] < a["index"])
        return np.where(better | tie, b, a).tobytes()


def _check_arguments(function: Function) -> None:
    try:
        inspect.signature(function).bind(b"", b"", None)
    except TypeError as error:
        raise TypeError(
            f"{error}. Op.Create takes function(inbuf, inoutbuf, datatype), which writes into "
            "inoutbuf; a function of two objects is the op of a lower-case call as it is."
        ) from None
    except ValueError:  # of a built-in function: it isn't known
        return


OP_NULL = Op()
PREDEFINED: dict[str, Op] = {
    name: Op._make(name, None, name not in ("REPLACE", "NO_OP")) for name in _ON_OBJECTS
} | {"OP_NULL": OP_NULL}
SUM = PREDEFINED["SUM"]
