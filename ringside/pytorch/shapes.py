"""Shapes of operators' results on fake tensors, worked out once for the same operator and inputs.

torch keeps such results too, but takes ten times as long to find them again, and a training step
asks for the same few hundred some ten thousand times. What is remembered is only this:

    a new tensor     result of an operator whose inputs have other storage: its shape and strides
    a view           of an input's storage: the same, its offset, and which input
    in place         the input itself

All else, such as lists of tensors, complex numbers or inputs with known values, goes to torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

_PLAIN = (
    int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format
)  # fmt: skip
# They change what their input is, or what it stands on.
_CHANGES = {
    *("set_", "resize_", "resize_as_", "squeeze_", "unsqueeze_", "t_", "transpose_", "detach_"),
    *("as_strided_", "swapaxes_", "swapdims_"),
}

_Maker = Callable[[Any], torch.Tensor]


class Shapes:
    """What is known of operators so far.

    Args:
        mode: the fake mode that makes the tensors.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._makers: dict[Any, _Maker | None] = {}

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator."""
        key = self._key(func, args, kwargs)
        if key is None:
            return func(*args, **kwargs)
        maker = self._makers.get(key)
        if maker is not None:
            return maker(args)
        result = func(*args, **kwargs)
        if key not in self._makers:
            self._makers[key] = self._maker(func, args, kwargs, result)
        return result

    def _key(self, func: Any, args: Any, kwargs: Any) -> Any:
        """All that the result may depend on; None if that isn't plain."""
        if self._mode.in_kernel_invocation:
            return None
        key: list[Any] = [func]
        for value in (*args, *kwargs.items()) if kwargs else args:
            if not self._describe(value, key):
                return None
        return tuple(key)

    def _describe(self, value: Any, key: list[Any]) -> bool:
        kind = type(value)
        if kind is FakeTensor:
            if value.constant is not None or value.layout is not torch.strided:
                return False
            if value.dtype.is_complex or value.fake_mode is not self._mode:
                return False
            key += (
                value.shape, value.stride(), value.storage_offset(), value.dtype,
                value.fake_device, value.requires_grad, value.untyped_storage().nbytes(),
            )  # fmt: skip
            return True
        if kind in (list, tuple):
            key += (kind, len(value))
            return all(self._describe(item, key) for item in value)
        key += (kind, value)  # 1 and 1.0 are equal, and their results aren't
        return kind in _PLAIN

    def _maker(self, func: Any, args: Any, kwargs: Any, result: Any) -> _Maker | None:
        """How to make such a result again; None if torch shall."""
        if type(result) is not FakeTensor or result.constant is not None:
            return None
        if torch.Tag.data_dependent_output in func.tags or func._schema.name.split("::")[1] in (
            _CHANGES
        ):
            return None
        for index, arg in enumerate(args):
            if arg is result:
                return lambda args: args[index]
        stands_on = result.untyped_storage()._cdata
        shape, stride, offset = tuple(result.shape), result.stride(), result.storage_offset()
        dtype, device, mode = result.dtype, result.fake_device, self._mode
        if result.layout is not torch.strided or dtype.is_complex or result.requires_grad:
            return None

        def fresh() -> torch.Tensor:
            return torch.empty_strided(shape, stride, dtype=dtype, device="meta")

        sources = [index for index, arg in enumerate(args) if _stands_on(arg, stands_on)]
        if any(_stands_on(arg, stands_on) for arg in (kwargs or {}).values()):
            return None
        if sources:
            source = sources[0]

            def made(storage: Any) -> torch.Tensor:
                with in_kernel_invocation_manager(mode):
                    return FakeTensor(mode, fresh().set_(storage, offset, shape, stride), device)

            def view(args: Any) -> torch.Tensor:
                given = args[source]
                storage = given.untyped_storage()
                if torch.is_inference_mode_enabled() and not given.is_inference():
                    # A view shares its input's version counter, which tensors of this mode lack.
                    with torch.inference_mode(mode=False):
                        return made(storage)
                return made(storage)

            return view if func.is_view and type(args[source]) is FakeTensor else None
        needed = result.untyped_storage().nbytes()
        with in_kernel_invocation_manager(mode):
            if offset or func.is_view or fresh().untyped_storage().nbytes() != needed:
                return None

        def new(args: Any) -> torch.Tensor:
            with in_kernel_invocation_manager(mode):
                return FakeTensor(mode, fresh(), device)

        return new


def _stands_on(value: Any, storage: int) -> bool:
    """Whether a tensor, or one in a list, has this storage."""
    if isinstance(value, (list, tuple)):
        return any(_stands_on(item, storage) for item in value)
    return isinstance(value, torch.Tensor) and value.untyped_storage()._cdata == storage
