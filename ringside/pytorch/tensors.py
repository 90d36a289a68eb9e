"""Tensors as memory: what goes on the wire, and where it comes back to.

Memory is read and written in place, past autograd and past dispatch modes, as a communication
library does; of a tensor that isn't contiguous, element by element. bfloat16 travels as its 16
bits; the network widens it to float32 to reduce it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from ringside.arrays import Array
from ringside.network import in_flight
from ringside.pytorch.phantom import Phantom

_NUMPY = {
    torch.bool: np.bool_,
    torch.uint8: np.uint8,
    torch.uint16: np.uint16,
    torch.uint32: np.uint32,
    torch.uint64: np.uint64,
    torch.int8: np.int8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.float16: np.float16,
    torch.bfloat16: np.uint16,
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.complex64: np.complex64,
    torch.complex128: np.complex128,
}
# Without bfloat16: an array of uint16 holds whole numbers.
_IN_NUMPY = {  # floats whose NaN has room for a number
    dtype: np.dtype(kind) for dtype, kind in _NUMPY.items() if np.dtype(kind).kind in "fc"
}
_TORCH = {np.dtype(kind): dtype for dtype, kind in _NUMPY.items() if dtype != torch.bfloat16}
_EIGHT_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_NAMES = [*_NUMPY, *(getattr(torch, name) for name in _EIGHT_BITS if hasattr(torch, name))]
# Codes are places in this list. They agree, since one zygote forks all ranks.
CODE_OF = {dtype: code for code, dtype in enumerate(_NAMES)}
NAME_OF = [str(dtype).removeprefix("torch.") for dtype in _NAMES]


def check(tensor: Any) -> torch.Tensor:
    """Return the tensor if it can be sent or received into.

    Raises:
        TypeError: it is no tensor.
        ValueError: it isn't dense and on the CPU, or of a dtype that has no name on the wire.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    if tensor.is_sparse or tensor.layout != torch.strided:
        raise ValueError("this call takes dense tensors only; all_reduce takes sparse ones too.")
    if tensor.device.type != "cpu":
        raise ValueError(
            f"a tensor on {tensor.device} can't be sent: on Ringside's network tensors are on the "
            "CPU. Create them there, or take the device from the machine: "
            "torch.device('cuda' if torch.cuda.is_available() else 'cpu')."
        )
    if tensor.dtype not in CODE_OF:
        raise ValueError(f"tensors of dtype {tensor.dtype} can't be sent.")
    return tensor


def check_contiguous(tensor: torch.Tensor, shown: str, *, written: bool) -> None:
    """Refuse a tensor that libraries refuse in this call, or whose elements they mix up.

    Args:
        shown: the call.
        written: the call writes into the tensor, so a copy alone would lose the result.

    Raises:
        ValueError: its elements don't lie one after another in the order of their indices.
    """
    if not tensor.is_contiguous():
        raise _not_contiguous(tensor, shown, written=written)


def check_no_gaps(tensor: torch.Tensor, shown: str, *, written: bool) -> None:
    """As ``check_contiguous``, but allow any order of the indices, as in channels_last."""
    if not tensor.is_contiguous() and not _is_dense(tensor):
        raise _not_contiguous(tensor, shown, written=written)


def _not_contiguous(tensor: torch.Tensor, shown: str, *, written: bool) -> ValueError:
    cure = "pass tensor.contiguous()"
    if written:
        cure = "pass copy = tensor.contiguous(), and call tensor.copy_(copy) after it"
    return ValueError(
        f"{shown}: Tensors must be contiguous, and this one of shape {tuple(tensor.shape)} has "
        f"strides {tuple(tensor.stride())}: {cure}."
    )


def layout(tensor: torch.Tensor) -> str | tuple[int, ...]:
    """The order of a tensor's elements in memory, which libraries believe to be alike on ranks."""
    return "contiguous" if tensor.is_contiguous() else tuple(tensor.stride())


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a stretch of memory in some order, as in channels_last."""
    extents = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    expected = 1
    for stride, extent in extents:
        if extent == 1:
            continue
        if stride != expected:
            return False
        expected *= extent
    return True


def memory(tensor: torch.Tensor) -> Any:
    """The bytes of its elements in the order of their indices: uint8, shape (nbytes,).

    Shared with the tensor if it is contiguous, else a copy; of a fake tensor, a phantom.
    """
    nbytes = tensor.numel() * tensor.element_size()
    if isinstance(tensor, FakeTensor):
        return Phantom(nbytes)
    if not nbytes:
        return np.empty(0, np.uint8)
    if tensor.is_contiguous():
        return _bytes_at(tensor, nbytes)
    return np.ascontiguousarray(_bytes_of_elements(tensor)).reshape(-1)


def write(tensor: torch.Tensor, data: Any) -> None:
    """Fill a tensor with bytes in the order of its indices, or with one byte for all of them."""
    if tensor.is_contiguous() or isinstance(tensor, FakeTensor):
        memory(tensor)[:] = data
        return
    into = _bytes_of_elements(tensor)
    into[...] = data if isinstance(data, int) else data.reshape(into.shape)


def _bytes_at(tensor: torch.Tensor, nbytes: int) -> Array:
    """The bytes from a tensor's first element on, shared with it."""
    # Not tensor.numpy(): it refuses bfloat16 and what requires a gradient.
    shared: Any = (ctypes.c_char * nbytes).from_address(tensor.data_ptr())
    shared.owner = tensor  # lives as long as the array does
    array: Array = np.frombuffer(shared, np.uint8)
    return array


def _bytes_of_elements(tensor: torch.Tensor) -> Array:
    """The bytes of each element of a tensor that isn't empty: shape (*shape, itemsize), shared."""
    itemsize = tensor.element_size()
    strides = [stride * itemsize for stride in tensor.stride()]
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, strides, strict=True))
    return np.lib.stride_tricks.as_strided(
        _bytes_at(tensor, last + itemsize), (*tensor.shape, itemsize), (*strides, 1)
    )


def storage(tensor: torch.Tensor) -> int:
    """Which storage it is: equal numbers share memory."""
    untyped = tensor.untyped_storage()
    fake = isinstance(tensor, FakeTensor)  # has no address
    return int(untyped._cdata if fake else untyped.data_ptr())


def address(tensor: torch.Tensor) -> int:
    """Where the tensor's first element lies, among all tensors of the rank; 0 if it has none."""
    if not tensor.numel():
        return 0
    return storage(tensor) + int(tensor.storage_offset()) * tensor.element_size()


def elements(tensor: torch.Tensor) -> Array:
    """The tensor's elements in NumPy's nearest dtype, shape (numel,), shared as ``memory`` is."""
    array: Array = memory(tensor).view(_NUMPY.get(tensor.dtype, np.uint8))
    return array


def poison(tensor: torch.Tensor, number: int) -> None:
    """Fill a buffer that is waiting for data: NaN with the call's number, -1, or True."""
    if isinstance(tensor, FakeTensor):
        return
    word = _poison(tensor, number)
    words = tensor.numel() * tensor.element_size() // word.itemsize
    write(tensor, np.full(words, word).view(np.uint8))


def is_poison(tensor: torch.Tensor, number: int) -> bool:
    """Whether nobody has written into the buffer since."""
    word = _poison(tensor, number)
    data = memory(tensor)
    return isinstance(data, Phantom) or bool((data.view(word.dtype) == word).all())


def _poison(tensor: torch.Tensor, number: int) -> Any:
    if tensor.dtype in _IN_NUMPY:
        return in_flight.poison(_IN_NUMPY[tensor.dtype], number)
    return np.uint8(1 if tensor.dtype == torch.bool else 0xFF)


def dtype_name(tensor: torch.Tensor) -> str:
    """``float32``, without ``torch.``."""
    return str(tensor.dtype).removeprefix("torch.")


def from_arrays(value: Any) -> Any:
    """Return ``value`` with arrays made tensors, in tuples, lists and dicts too."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value) if value.dtype in _TORCH else value
    if isinstance(value, (tuple, list)):
        return type(value)(from_arrays(item) for item in value)
    if isinstance(value, dict):
        return {key: from_arrays(item) for key, item in value.items()}
    return value


def to_arrays(value: Any) -> Any:
    """Return ``value`` with tensors made arrays; bfloat16 and 8-bit floats become float32."""
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        full = getattr(plain, "full_tensor", None)  # of a DTensor
        if full is not None:
            raise TypeError("a DTensor can't be returned: return its .to_local() or full_tensor().")
        if plain.dtype not in _NUMPY or plain.dtype == torch.bfloat16:
            plain = plain.float()
        return plain.resolve_conj().resolve_neg().contiguous().numpy()
    if isinstance(value, (tuple, list)):
        items = [to_arrays(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: to_arrays(item) for key, item in value.items()}
    if isinstance(value, torch.Size):
        return tuple(value)
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a value, those in tuples, lists and dicts too."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
