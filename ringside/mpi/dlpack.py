"""Arrays that offer their memory by DLPack alone, as torch tensors do.

The capsule is looked into and left unconsumed, so its memory lives as long as we hold it; see
DLPack's specification, https://dmlc.github.io/dlpack/latest/c_api.html.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.mpi.unsupported import NotOfferedError

_CPU = (1, 3, 11)  # kDLCPU, and host memory that CUDA or ROCm has pinned
_READ_ONLY = 1
_FLOAT = 2
_KINDS = {0: "i", 1: "u", _FLOAT: "f", 5: "c", 6: "b"}  # other kinds travel as bytes


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)


def as_array(obj: Any) -> Array:
    """Return a flat array on the memory of ``obj``, which has ``__dlpack__``.

    Raises:
        BufferError: the memory isn't contiguous, or what is offered can't be read.
        NotOfferedError: it lies on a GPU.
    """
    device_type, device_id = obj.__dlpack_device__()
    if not isinstance(device_type, int) or not isinstance(device_id, int):
        raise TypeError("dlpack: expecting a pair of numbers as device")
    if device_type not in _CPU:
        raise on_gpu()
    try:
        capsule = obj.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before DLPack 1.0
        capsule = obj.__dlpack__()
    tensor, writable = _tensor(capsule)
    kind, size = _entries(tensor)
    address = (tensor.data or 0) + tensor.byte_offset
    if not size:
        return np.zeros(0, kind)
    memory: Any = (ctypes.c_ubyte * (size * kind.itemsize)).from_address(address)
    memory.capsule = capsule
    array: Array = np.frombuffer(memory, kind)
    array.flags.writeable = writable
    return array


def on_gpu() -> NotOfferedError:
    """Return the error for memory of a GPU."""
    return NotOfferedError(
        "an array on a GPU is not offered on Ringside's network, whose ranks compute on the CPU: "
        "send x.cpu()."
    )


def _tensor(capsule: Any) -> tuple[_Tensor, bool]:
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise BufferError(f"dlpack: version {versioned.major} is unknown")
        return versioned.tensor, not versioned.flags & _READ_ONLY
    if _is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_pointer(capsule, b"dltensor")), True
    raise BufferError("dlpack: there is no tensor in the capsule, or it was used already")


def _entries(tensor: _Tensor) -> tuple[np.dtype[Any], int]:
    """The type and number of entries; what has no type in NumPy is bytes."""
    nbytes, size = tensor.bits * tensor.lanes // 8, _size(tensor)
    pairs = tensor.code == _FLOAT and tensor.lanes == 2
    kind = "c" if pairs else _KINDS.get(tensor.code)
    if kind is not None and (pairs or tensor.lanes == 1):
        with contextlib.suppress(TypeError):
            return np.dtype(f"{kind}{nbytes}"), size
    return np.dtype(np.uint8), size * nbytes


def _size(tensor: _Tensor) -> int:
    """The number of entries; they must lie side by side, in C's or in Fortran's order."""
    if tensor.ndim < 0 or (tensor.ndim and not tensor.shape):
        raise BufferError(f"dlpack: a tensor of {tensor.ndim} dimensions has no shape")
    shape = [int(tensor.shape[i]) for i in range(tensor.ndim)]
    if any(extent < 0 for extent in shape):
        raise BufferError(f"dlpack: negative extent in {shape}")
    size = int(np.prod(shape, dtype=np.int64))
    if tensor.strides and size:
        strides = [int(tensor.strides[i]) for i in range(tensor.ndim)]
        axes = [i for i in range(tensor.ndim) if shape[i] != 1]
        if not (_dense(shape, strides, axes[::-1]) or _dense(shape, strides, axes)):
            raise BufferError(
                "the tensor is not contiguous: send x.contiguous(), receive into a new one and copy"
            )
    return size


def _dense(shape: list[int], strides: list[int], axes: list[int]) -> bool:
    """Whether the axes, fastest first, follow each other without gaps."""
    step = 1
    for axis in axes:
        if strides[axis] != step:
            return False
        step *= shape[axis]
    return True
