"""Buffer specifications: what stands in the buffer's place of an upper-case call.

A plain buffer, or a list or tuple of up to four items::

    array                            all of it
    [array, datatype]                all of it, as entries of that type
    [array, count, datatype]         its first ``count`` entries
    [array, (count, displ), datatype]
    [array, counts, displs, datatype]    blocks, one a rank: the v-forms
    [array, (counts, displs)]            the same

A datatype is a ``Datatype`` or a type code such as ``"d"``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from operator import index
from typing import Any, Final

import numpy as np

from ringside.arrays import Array
from ringside.mpi import dlpack
from ringside.mpi.datatypes import OF_CODE, OF_DTYPE, Datatype
from ringside.network.in_flight import poison
from ringside.network.link import current

_A_LIST = (
    "A list stands for [array, count, datatype]: give numpy.array(x), or use a lower-case call, "
    "which takes any object."
)


class Special:
    """IN_PLACE and BOTTOM: values that stand where a buffer stands."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return self._name != "BOTTOM"


IN_PLACE: Final = Special("IN_PLACE")
BOTTOM: Final = Special("BOTTOM")


def is_in_place(spec: Any) -> bool:
    """Tell whether a collective works in one buffer; mpi4py takes None for IN_PLACE as well."""
    return spec is None or spec is IN_PLACE


class Region:
    """Some entries of a buffer: the bytes of a message, or the place where they go."""

    __slots__ = ("count", "datatype", "nbytes", "view")

    def __init__(self, view: memoryview, count: int, datatype: Datatype) -> None:
        self.view = view  # bytes, from the first entry on
        self.count = count
        self.datatype = datatype
        self.nbytes = count * datatype._size

    def read(self) -> memoryview:
        """Return the data; a view of the buffer where that is possible."""
        if self.datatype.offsets is None:
            return self.view[: self.nbytes]
        return self._flat()[self._picked(self.count)].data

    def write(self, payload: Any, at: int = 0) -> None:
        """Put ``payload`` into the buffer, from byte ``at`` of the data on."""
        if not payload:
            return
        if self.datatype.offsets is None:
            self.view[at : at + len(payload)] = payload
            return
        entries = -(-(at + len(payload)) // max(self.datatype._size, 1))
        offsets = self._picked(entries)[at : at + len(payload)]
        self._flat()[offsets] = np.frombuffer(payload, np.uint8)

    def array(self) -> Array:
        """Return the data as a one-dimensional array of the datatype's own kind."""
        kind = self.datatype.dtype
        if kind is None or (self.datatype.offsets is not None and kind.names is not None):
            return np.frombuffer(self.read(), np.uint8)
        return np.frombuffer(self.read(), kind) if self.nbytes else np.zeros(0, kind)

    def part(self, entry: int, count: int) -> Region:
        """Return ``count`` entries from ``entry`` on."""
        return Region(self.view[entry * self.datatype._extent :], count, self.datatype)

    @property
    def address(self) -> int:
        """Where the first byte of the data lies in memory; 0 where there is none."""
        if not self.nbytes:
            return 0
        first = 0 if self.datatype.offsets is None else int(self.datatype.offsets[0])
        where: int = self._flat().__array_interface__["data"][0]
        return where + first

    def checksum(self) -> int:
        """Return a number that changes when the data does."""
        return zlib.crc32(self.read())

    def poison(self, number: int) -> None:
        """Overwrite the data with what nobody takes for a result; see ``network.in_flight``."""
        word = self._poison(number)
        if self.datatype.offsets is None:
            np.frombuffer(self.view[: self.nbytes], word.dtype).fill(word)
        else:
            self.write(word.tobytes() * (self.nbytes // word.itemsize))

    def is_poison(self, number: int) -> bool:
        """Whether nobody has written into the data since."""
        word = self._poison(number)
        return bool((np.frombuffer(self.read(), word.dtype) == word).all())

    def _poison(self, number: int) -> Any:
        kind = self.datatype.dtype
        return poison(np.dtype(np.uint8) if kind is None else kind, number)

    def _flat(self) -> Array:
        return np.frombuffer(self.view, np.uint8)

    def _picked(self, count: int) -> Array:
        steps = np.arange(count, dtype=np.int64) * self.datatype._extent
        offsets: Array = (steps[:, None] + self.datatype.entry_offsets()).reshape(-1)
        return offsets


_EMPTY = memoryview(bytearray())


def plain_bytes(spec: Any) -> memoryview | None:
    """The bytes of what most calls are given, a contiguous array; None for all else."""
    if type(spec) is not np.ndarray or spec.dtype not in OF_DTYPE:
        return None
    if not spec.size or not spec.flags.c_contiguous:
        return None
    try:
        return spec.data.cast("B")
    except (TypeError, ValueError):  # complex, long double: no such cast
        return spec.reshape(-1).view(np.uint8).data


def region(spec: Any, writable: bool, blocks: int = 1) -> Region:
    """Return what ``spec`` means; with ``blocks`` the count is that of one of them."""
    plain = plain_bytes(spec) if blocks < 2 else None
    if plain is not None and not (writable and plain.readonly):
        return Region(plain, spec.size, OF_DTYPE[spec.dtype])
    buffer, count, displacement, type_spec = _simple(spec)
    view, datatype = byte_view(buffer, writable, type_spec)
    return _counted(buffer, view, count, displacement, datatype, blocks)


def vector(spec: Any, writable: bool, blocks: int) -> tuple[list[Region], Region]:
    """Return the blocks that ``spec`` means, one a rank, and the whole buffer."""
    buffer, counts, displacements, type_spec = _vector(spec)
    view, datatype = byte_view(buffer, writable, type_spec)
    if not datatype and counts is None:
        raise ValueError("message: the extent of DATATYPE_NULL is unknown")
    datatype.check_committed()
    if counts is None:
        total = _entries(len(view), datatype)
        counts = [total // blocks + (total % blocks > i) for i in range(blocks)]
    else:
        counts = items(counts, blocks)
    if displacements is None:
        displacements = [sum(counts[:i]) for i in range(blocks)]
    elif is_integral(displacements):
        displacements = [index(displacements) * i for i in range(blocks)]
    else:
        displacements = items(displacements, blocks)
    whole = Region(view, 0, datatype)
    regions = []
    for count, displacement in zip(counts, displacements, strict=True):
        check_fits(view, displacement, count, datatype)
        regions.append(whole.part(displacement, count) if count else empty(datatype))
    return regions, whole


def empty(datatype: Datatype) -> Region:
    """Return an empty region of that type."""
    return Region(_EMPTY, 0, datatype)


def is_buffer(value: Any) -> bool:
    """Tell whether ``value`` offers its memory."""
    if isinstance(value, (np.ndarray, bytes, bytearray, memoryview)):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    except (BufferError, ValueError):
        return True
    return True


def is_memory(value: Any) -> bool:
    """As is_buffer, and also what offers its memory by DLPack or lies on a GPU."""
    return (
        is_buffer(value)
        or hasattr(value, "__dlpack__")
        or hasattr(value, "__cuda_array_interface__")
    )


def as_datatype(value: Any) -> Datatype:
    """Return the datatype that ``value`` is, or that a type code names."""
    if isinstance(value, Datatype):
        return value
    try:
        return OF_CODE[value]
    except (KeyError, TypeError):
        raise KeyError(f"cannot map {value!r} to MPI datatype") from None


def byte_view(buffer: Any, writable: bool, named: Any) -> tuple[memoryview, Datatype]:
    """Return a buffer's memory as bytes, and the datatype of its entries.

    Raises:
        BufferError: it isn't contiguous, is read-only where it is written to, or byte-swapped.
        KeyError: its entries have no MPI datatype.
    """
    if buffer is None or buffer is BOTTOM:
        return _EMPTY, as_datatype(named)
    if isinstance(buffer, Special):
        raise TypeError(f"message: {buffer} isn't allowed here")
    if not isinstance(buffer, np.ndarray):
        if not is_buffer(buffer) and hasattr(buffer, "__dlpack__"):
            buffer = dlpack.as_array(buffer)
        elif not is_buffer(buffer) and hasattr(buffer, "__cuda_array_interface__"):
            raise dlpack.on_gpu()
        elif not is_buffer(buffer):
            raise TypeError(f"message: expecting a buffer, got {type(buffer).__name__}. {_A_LIST}")
        else:
            buffer = np.asarray(memoryview(buffer))
    if not (buffer.flags.c_contiguous or buffer.flags.f_contiguous):
        raise BufferError(
            "the array is not contiguous: send numpy.ascontiguousarray(x), "
            "receive into a new array and copy."
            if named is None
            else "the array is not contiguous. A datatype picks entries out of a contiguous one: "
            "give the whole array, or its part x.reshape(-1)[n:] from the first entry on."
        )
    if writable and not buffer.flags.writeable:
        raise BufferError(
            "the buffer is read-only: it can't be received into. Of one entry of an array give "
            "x[0:1], not x[0]."
        )
    if not buffer.flags.c_contiguous:
        current().remark(
            "columns" if writable else "order",
            f"buffer at {current().here} is in Fortran order and is sent as it lies, column by "
            "column. For row by row send numpy.ascontiguousarray(x).",
        )
    datatype = _natural(buffer.dtype) if named is None else as_datatype(named)
    if named is not None and _reads_wrong(buffer.dtype, datatype):
        current().remark(
            "kind",
            f"buffer at {current().here} is an array of {buffer.dtype}, and its bytes are taken "
            f"for {datatype.Get_name()}. Leave the datatype out, or give the array's own.",
        )
    flat = buffer.reshape(-1) if buffer.flags.c_contiguous else buffer.T.reshape(-1)
    if not flat.size:
        return _EMPTY, datatype
    return flat.view(np.uint8).data, datatype


def _reads_wrong(kind: np.dtype[Any], datatype: Datatype) -> bool:
    """Whether a datatype reads other numbers than an array has; bytes are for any array."""
    number = datatype.dtype
    if number is None or number == kind or min(number.itemsize, kind.itemsize) == 1:
        return False
    if kind.kind not in "iufc" or number.kind not in "iufc":
        return False
    both = {kind.kind, number.kind}
    same_size = number.itemsize == kind.itemsize and both == {"i", "u"}
    return not (same_size or both == {"f", "c"})


def _natural(kind: np.dtype[Any]) -> Datatype:
    datatype = OF_DTYPE.get(kind)
    if datatype is not None:
        return datatype
    if kind.kind == "S" and kind.itemsize == 1:
        return OF_CODE["S1"]
    if kind.kind == "U" and kind.itemsize == 4:
        return OF_CODE["U1"]
    if kind.kind in "Mm":
        raise BufferError(f"dtype {kind} can't be sent as it is: send x.view(numpy.int64).")
    if not kind.isnative:
        raise BufferError(
            f"format string {kind.str!r} with non-native byte order: send "
            "x.astype(x.dtype.newbyteorder('='))."
        )
    cure = "send x.view(numpy.uint8), or use a lower-case call."
    if kind.hasobject:
        cure = (
            "an array of objects, as rows of unequal length make one, has no numbers to send. "
            "Use a lower-case call."
        )
    raise KeyError(f"cannot map {kind.str!r} to MPI datatype: {cure}")


def _simple(spec: Any) -> tuple[Any, Any, Any, Any]:
    if not isinstance(spec, (list, tuple)):
        if isinstance(spec, Special) or not (is_memory(spec)):
            raise TypeError(f"message: expecting buffer or list/tuple, got {_what_stands(spec)}")
        return spec, None, None, None
    buffer, count, displacement, datatype = _unpacked(spec)
    if isinstance(count, (list, tuple)) and len(spec) < 4:
        count, displacement = count
    return buffer, count, displacement, datatype


def _what_stands(value: Any) -> str:
    """What stands where a buffer should, and what to give in its place."""
    if isinstance(value, Special):
        return (
            f"{value}. MPI.IN_PLACE stands for the send buffer, or the receive buffer of Scatter, "
            "where a rank has the other one: in Reduce, Gather and Scatter at the root alone."
        )
    if value is None:
        return "None. This rank needs an array in this call, such as numpy.empty(n)."
    return (
        f"{type(value).__name__}. Give an array, such as numpy.array([x]), or use a lower-case "
        "call, which takes any object."
    )


def _vector(spec: Any) -> tuple[Any, Any, Any, Any]:
    if not isinstance(spec, (list, tuple)):
        return _simple(spec)
    buffer, counts, displacements, datatype = _unpacked(spec)
    if isinstance(counts, tuple) and len(spec) < 4:
        counts, displacements = counts
    return buffer, counts, displacements, datatype


def _unpacked(spec: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """The items of a specification: buffer, counts, displacements, datatype."""
    count: Any = None
    displacement: Any = None
    datatype: Any = None
    if len(spec) == 2:
        buffer, count = spec
        if isinstance(count, (Datatype, str)):
            count, datatype = None, count
    elif len(spec) == 3:
        buffer, count, datatype = spec
    elif len(spec) == 4:
        buffer, count, displacement, datatype = spec
    else:
        raise ValueError(f"message: expecting 2 to 4 items, got {len(spec)}. {_A_LIST}")
    return buffer, count, displacement, datatype


def _counted(
    buffer: Any, view: memoryview, count: Any, displacement: Any, datatype: Datatype, blocks: int
) -> Region:
    displ = 0 if displacement is None else index(displacement)
    if not datatype and (displ or count is None):
        raise ValueError("message: the extent of DATATYPE_NULL is unknown")
    datatype.check_committed()
    if displ < 0:
        raise ValueError(f"message: negative displacement {displ}")
    offset = displ * datatype._extent
    if not 0 <= offset <= len(view):
        raise ValueError(
            f"message: displacement {displ} out of bounds, "
            f"number of datatype entries {len(view) // datatype._extent}"
        )
    if count is None:
        entries = _entries(len(view) - offset, datatype)
        if blocks > 1 and entries % blocks:
            raise ValueError(
                f"message: cannot infer count, number of entries {entries} "
                f"is not a multiple of required number of blocks {blocks}, one for each rank. "
                "For parts of unequal length use the v-form, such as Scatterv, with counts"
            )
        return Region(view[offset:], entries // max(blocks, 1), datatype)
    number = index(count)
    if number < 0:
        raise ValueError(f"message: negative count {number}")
    if number > 0 and buffer is None:
        raise ValueError(f"message: buffer is None but count is {number}")
    check_fits(view, displ, number * max(blocks, 1), datatype)
    return Region(view[offset:], number, datatype)


def _entries(nbytes: int, datatype: Datatype) -> int:
    if not nbytes:
        return 0
    extent = datatype._extent
    if extent <= 0:
        raise ValueError(
            f"message: cannot infer count, datatype extent {extent} "
            f"(lb:{datatype.lb}, ub:{datatype.ub})"
        )
    if nbytes % extent:
        raise ValueError(
            f"message: cannot infer count, buffer length {nbytes} is not a multiple of "
            f"datatype extent {extent} (lb:{datatype.lb}, ub:{datatype.ub})"
        )
    return nbytes // extent


def check_fits(view: memoryview, displacement: int, count: int, datatype: Datatype) -> None:
    """Real MPI would read or write behind the end; here that is an error."""
    if count == 0 or datatype._size == 0:
        return
    low, span = datatype.Get_true_extent()
    first = displacement * datatype._extent + low
    last = (displacement + count - 1) * datatype._extent + low + span
    if first < 0 or last > len(view):
        what, cure = f"a type that spans {span} bytes", ""
        if datatype.is_predefined:
            what = datatype.Get_name()
            cure = ". Counts and displacements are numbers of entries, not of bytes"
        raise ValueError(
            f"message: {'1 entry' if count == 1 else f'{count} entries'} of {what} from entry "
            f"{displacement} on: {last} bytes, and the buffer has {len(view)}{cure}"
        )


def is_integral(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return hasattr(value, "__index__")


def items(values: Any, number: int) -> list[int]:
    """Return ``number`` counts or displacements; a single one stands for all."""
    if is_integral(values):
        return [index(values)] * number
    try:
        entries = [index(value) for value in values]
    except TypeError as error:
        raise TypeError(
            f"{error}. Counts and displacements are whole numbers: divide with //."
        ) from None
    if len(entries) != number:
        raise ValueError(
            f"expecting {number} items, got {len(entries)}: counts and displacements have one "
            "number for each rank"
        )
    return entries
