"""Values as bytes: what may travel between ranks and the network, and nothing else.

A value is one tag byte and its content::

    N none   T true   F false   i int64   I big int   f float   c complex   s text   b bytes
    t tuple  l list   d dict    a array   o registered frozen dataclass

Arrays carry a dtype from an allow-list, their shape, and their raw bytes at a multiple of 64 from
the value's beginning. Nothing is ever executed to read a value, so bytes written by student code
are safe to decode.
"""

from __future__ import annotations

import dataclasses
import struct
import sys
from typing import Any, TypeVar

import numpy as np

from ringside.errors import CodecError
from ringside.units import format_bytes

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
_CODE_OF = {np.dtype(name): code for code, name in enumerate(DTYPES)}
_DTYPE_OF = [np.dtype(name) for name in DTYPES]
ALIGNMENT = 64
_MAX_DEPTH = 24
_MAX_ITEMS = 2_000_000
# What things take in memory beside their bytes: the largest of CPython's small objects is an empty
# dict of 80 bytes, and its place in a list takes 8.
_ITEM_BYTES, _RECORD_BYTES, _ARRAY_BYTES = 88, 400, 512
_MAX_INT_BYTES = 1024  # such a number can still be written out in decimal digits
_MAX_CHOSEN_KEYS = 1000
_PLAIN_KEYS = (str, bytes, int, float, bool, type(None))

_I64 = struct.Struct("<q")
_U32 = struct.Struct("<I")
_F64 = struct.Struct("<d")
_C128 = struct.Struct("<dd")

_registered: dict[str, type[Any]] = {}
T = TypeVar("T")
Part = bytes | memoryview


def register(cls: type[T]) -> type[T]:
    """Let a frozen dataclass travel by value; usable as a decorator.

    Raises:
        CodecError: the class isn't a frozen dataclass.
    """
    params = getattr(cls, "__dataclass_params__", None)
    if params is None or not params.frozen:
        raise CodecError(f"{cls.__name__} must be a frozen dataclass to travel between ranks.")
    _registered[cls.__name__] = cls
    return cls


def encode(value: Any) -> bytes:
    """Return ``value`` as bytes.

    Raises:
        CodecError: the value, or something in it, is of a type that may not travel.
    """
    return b"".join(encode_parts(value))


def encode_parts(value: Any) -> list[Part]:
    """As ``encode``, in parts: the data of contiguous arrays is not copied but viewed.

    Raises:
        CodecError: the value, or something in it, is of a type that may not travel.
    """
    out = _Parts()
    _encode(value, out, 0)
    return out


class TooLargeError(CodecError):
    """Bytes that are a value of more memory than it may take."""


class _Parts(list[Part]):
    """Encoded parts, and their bytes so far."""

    nbytes = 0

    def append(self, part: Part) -> None:
        self.nbytes += len(part)
        super().append(part)


def _encode(value: Any, out: _Parts, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise CodecError(f"a value may be nested {_MAX_DEPTH} deep at most.")
    kind = type(value)
    if value is None:
        out.append(b"N")
    elif kind is bool or kind is np.bool_:
        out.append(b"T" if value else b"F")
    elif kind is int:
        _encode_int(value, out)
    elif kind is float:
        out.append(b"f" + _F64.pack(value))
    elif kind is str:
        _encode_sized(b"s", value.encode("utf-8", "surrogatepass"), out)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = value if isinstance(value, bytes) else bytes(value)
        _encode_sized(b"b", data, out)
    elif isinstance(value, np.ndarray):
        _encode_array(value, out)
    elif isinstance(value, np.generic) and not isinstance(value, str):
        _encode_array(np.asarray(value), out)
    elif kind is complex:
        out.append(b"c" + _C128.pack(value.real, value.imag))
    elif dataclasses.is_dataclass(value) and kind.__name__ in _registered:
        _encode_sized(b"o", kind.__name__.encode(), out)
        _encode(tuple(getattr(value, f.name) for f in dataclasses.fields(value)), out, depth + 1)
    elif isinstance(value, (tuple, list)):
        out.append((b"t" if isinstance(value, tuple) else b"l") + _U32.pack(len(value)))
        for item in value:
            _encode(item, out, depth + 1)
    elif isinstance(value, dict):
        out.append(b"d" + _U32.pack(len(value)))
        for key, item in value.items():
            _encode(key, out, depth + 1)
            _encode(item, out, depth + 1)
    elif isinstance(value, (int, float, str)):  # subclasses, such as IntEnum, travel as their base
        base = int if isinstance(value, int) else float if isinstance(value, float) else str
        _encode(base(value), out, depth)
    else:
        raise CodecError(
            f"a value of type {kind.__module__}.{kind.__qualname__} can't travel between ranks; "
            "use numbers, text, tuples, lists, dicts and numpy arrays."
        )


def _encode_int(value: int, out: _Parts) -> None:
    nbytes = value.bit_length() // 8 + 1
    if -(1 << 63) <= value < 1 << 63:
        out.append(b"i" + _I64.pack(value))
    elif nbytes <= _MAX_INT_BYTES:
        _encode_sized(b"I", value.to_bytes(nbytes, "little", signed=True), out)
    else:
        raise CodecError(
            f"an integer of {nbytes} bytes can't travel; {_MAX_INT_BYTES} at most can."
        )


def _encode_sized(tag: bytes, data: bytes, out: _Parts) -> None:
    out.append(tag + _I64.pack(len(data)))
    out.append(data)


def _encode_array(array: np.ndarray[Any, Any], out: _Parts) -> None:
    dtype = array.dtype.newbyteorder("=")
    code = _CODE_OF.get(dtype)
    if code is None:
        raise CodecError(
            f"an array of dtype {array.dtype} can't travel; one of {', '.join(DTYPES)} can."
        )
    data = np.asarray(array, dtype=dtype)
    data = data if data.flags.c_contiguous else np.ascontiguousarray(data)
    header = struct.pack(f"<cBB{data.ndim}q", b"a", code, data.ndim, *data.shape)
    out.append(header + bytes(-(out.nbytes + len(header)) % ALIGNMENT))
    if data.size:
        out.append(data.reshape(-1).view(np.uint8).data)


def decode(data: bytes | bytearray | memoryview, *, copy: bool = True) -> Any:
    """Return the value that ``data`` holds.

    Args:
        copy: without it arrays lie in ``data`` where that is writable and so aligned that NumPy
            takes it for an array of its own.

    Raises:
        CodecError: the bytes are cut short, too long, or hold something not allowed.
    """
    return decode_within(data, None, copy=copy)[0]


def decode_within(
    data: bytes | bytearray | memoryview, most_bytes: int | None, *, copy: bool = True
) -> tuple[Any, int]:
    """As ``decode``, and the bytes of memory that the value takes, or a little more.

    Args:
        most_bytes: that it may take; None: any number.

    Raises:
        TooLargeError: it takes more.
        CodecError: as ``decode``.
    """
    reader = _Reader(memoryview(data), copy, most_bytes)
    try:
        value = reader.value(0)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise CodecError(f"damaged value: {error}") from None
    if reader.at != len(reader.data):
        raise CodecError(f"damaged value: {len(reader.data) - reader.at} bytes too many")
    return value, reader.nbytes


class _Reader:
    def __init__(self, data: memoryview, copy: bool, most_bytes: int | None) -> None:
        self.data = data
        self.copy = copy or data.readonly
        self.most_bytes = most_bytes
        self.nbytes = _ITEM_BYTES
        self.at = 0
        self.items = 0
        self.chosen_keys = 0

    def grow(self, nbytes: int) -> None:
        """The value takes so many bytes more."""
        self.nbytes += nbytes
        if self.most_bytes is not None and self.nbytes > self.most_bytes:
            raise TooLargeError(f"a value takes more than {format_bytes(self.most_bytes)}.")

    def take(self, count: int) -> memoryview:
        if count < 0 or self.at + count > len(self.data):
            raise CodecError(
                f"damaged value: {count} bytes wanted, {len(self.data) - self.at} left"
            )
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def i64(self) -> int:
        return int(_I64.unpack(self.take(8))[0])

    def count(self) -> int:
        count = int(_U32.unpack(self.take(4))[0])
        self.items += count
        if self.items > _MAX_ITEMS:
            raise CodecError(f"a value may hold {_MAX_ITEMS} items at most.")
        self.grow(_ITEM_BYTES * count)  # before the first of them is made
        return count

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise CodecError(f"a value may be nested {_MAX_DEPTH} deep at most.")
        tag = bytes(self.take(1))
        if tag == b"N":
            return None
        if tag in b"TF":
            return tag == b"T"
        if tag == b"i":
            return self.i64()
        if tag == b"I":
            return self.big_int()
        if tag == b"f":
            return float(_F64.unpack(self.take(8))[0])
        if tag == b"c":
            return complex(*_C128.unpack(self.take(16)))
        if tag == b"s":
            return self.text()
        if tag == b"b":
            length = self.i64()
            self.grow(length)
            return bytes(self.take(length))
        if tag == b"a":
            return self.array()
        if tag == b"t":
            return tuple(self.value(depth + 1) for _ in range(self.count()))
        if tag == b"l":
            return [self.value(depth + 1) for _ in range(self.count())]
        if tag == b"d":
            return self.mapping(depth)
        if tag == b"o":
            return self.record(depth)
        raise CodecError(f"damaged value: unknown tag {tag!r}")

    def big_int(self) -> int:
        nbytes = self.i64()
        if nbytes > _MAX_INT_BYTES:
            raise CodecError(f"damaged value: an integer of {nbytes} bytes")
        self.grow(2 * nbytes)
        return int.from_bytes(self.take(nbytes), "little", signed=True)

    def text(self) -> str:
        data = self.take(self.i64())
        self.grow(len(data))
        text = bytes(data).decode("utf-8", "surrogatepass")
        self.grow(sys.getsizeof(text) - len(data))  # one wide letter makes all of them wide
        return text

    def mapping(self, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        count = self.count()
        self.grow(2 * _ITEM_BYTES * count)  # the keys, and the table
        for _ in range(count):
            key = self.value(depth + 1)
            self.check_key(key)
            try:
                result[key] = self.value(depth + 1)
            except TypeError:
                raise CodecError("damaged value: a dict key that can't be hashed") from None
        return result

    def check_key(self, key: Any) -> None:
        """Refuse many keys whose hashes the sender can choose alike: each would meet all others."""
        plain = type(key) in _PLAIN_KEYS and not (type(key) is int and abs(key) >> 64)
        self.chosen_keys += not plain
        if self.chosen_keys > _MAX_CHOSEN_KEYS:
            raise CodecError(f"a dict may have {_MAX_CHOSEN_KEYS} keys of such types at most.")

    def record(self, depth: int) -> Any:
        name = bytes(self.take(self.i64())).decode()
        cls = _registered.get(name)
        if cls is None:
            raise CodecError(f"a {name} may not travel: it isn't registered on this side.")
        self.grow(_RECORD_BYTES)
        fields = self.value(depth + 1)
        names = [f.name for f in dataclasses.fields(cls)]
        if not isinstance(fields, tuple) or len(fields) != len(names):
            raise CodecError(f"damaged value: a {name} has the fields {', '.join(names)}")
        record = object.__new__(cls)  # no student or constructor code runs while decoding
        for field_name, item in zip(names, fields, strict=True):
            object.__setattr__(record, field_name, item)
        return record

    def array(self) -> np.ndarray[Any, Any]:
        code, ndim = self.take(2)
        if code >= len(_DTYPE_OF) or ndim > 8:
            raise CodecError("damaged value: unknown dtype or too many dimensions")
        dtype = _DTYPE_OF[code]
        shape = tuple(self.i64() for _ in range(ndim))
        size = 1
        for extent in shape:
            if extent < 0:
                raise CodecError("damaged value: a negative extent")
            size *= extent
        self.take(-self.at % ALIGNMENT)
        array = np.frombuffer(self.take(size * dtype.itemsize), dtype=dtype).reshape(shape)
        copied = self.copy or not array.flags.aligned
        self.grow(_ARRAY_BYTES + (array.nbytes if copied else 0))
        return array.copy() if copied else array
