"""Results that are remembered are those that torch works out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ringside.pytorch.shapes import Shapes

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "sums": lambda x, y: x + 2 * y + (x + 2.0 * y),
    "products": lambda x, y: [x @ y.t(), x.t() @ y, torch.addmm(x[:, 0], x, y.t())],
    "views": lambda x, y: [x[1:], x[:, 2], x.t(), x.view(-1), x.expand(2, *x.shape), x.detach()],
    "views of views": lambda x, y: (
        x.t()[1:].unsqueeze(0).transpose(0, 1)[..., 1:].as_strided((2,), (3,), 1)
    ),
    "parts": lambda x, y: [*x.chunk(2), *torch.split(y, 1, 1), torch.cat([x, y]), x.unbind()],
    "in place": lambda x, y: [x.clone().add_(y).mul_(3), torch.empty_like(x).zero_()],
    "changes in place": lambda x, y: [x.clone().t_(), x.clone().unsqueeze_(1), x.clone().t_()],
    "into a given one": lambda x, y: [out := torch.empty_like(x), torch.add(x, y, out=out)],
    "kinds of numbers": lambda x, y: [x.double(), x.bfloat16(), x > y, x.long() + 1, x.to(x)],
    "orders": lambda x, y: [x.t().contiguous(), x.t().clone(), torch.empty_like(x.t()), x.mT],
    "reductions": lambda x, y: [x.sum(), x.sum(0), x.mean(-1, keepdim=True), x.amax(1), x.max(0)],
    "new ones": lambda x, y: [x.new_zeros(3), torch.arange(4), torch.ones(2, 3), torch.tensor(3)],
    "complex": lambda x, y: torch.complex(x, y).conj() * 2,
    "numbers alike": lambda x, y: [x.long() * 1, x.long() * 1.0, x.long() * True],
    "softmax": lambda x, y: torch.nn.functional.layer_norm(x.softmax(-1), (x.shape[-1],)),
}


class Remembering(TorchDispatchMode):
    """Every operator by ``Shapes``."""

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__()
        self.shapes = Shapes(mode)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.shapes.call(func, args, kwargs or {})


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in flat(item)]


def told(inputs: tuple[torch.Tensor, ...], results: Any) -> list[Any]:
    """What can be told of results: shapes, kinds, and which of them share their storage."""
    tensors = flat(results)
    assert all(type(tensor) is FakeTensor for tensor in tensors)
    storages = [tensor.untyped_storage()._cdata for tensor in (*inputs, *tensors)]
    return [
        (
            tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype,
            tensor.device, tensor.requires_grad, tensor.is_conj(),
            tensor.untyped_storage().nbytes(), storages.index(tensor.untyped_storage()._cdata),
        )
        for tensor in tensors
    ]  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_remembered_is_what_torch_says(name: str) -> None:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        inputs = tuple(torch.empty(4, 6, requires_grad=name == "products") for _ in range(2))
        expected = told(inputs, PROGRAMS[name](*inputs))
        with Remembering(mode):
            for _ in range(3):  # the second and third time from memory
                assert told(inputs, PROGRAMS[name](*inputs)) == expected


def test_other_shapes_are_other_results() -> None:
    mode = FakeTensorMode()
    with mode, Remembering(mode):
        for rows in (2, 3, 2):
            x = torch.empty(rows, 4)
            assert (x @ x.t()).shape == (rows, rows)
            assert x[1:].shape == (rows - 1, 4)


def test_gradients_are_those_without_memory() -> None:
    mode = FakeTensorMode()
    with mode, Remembering(mode):
        for _ in range(2):
            weight = torch.nn.Parameter(torch.empty(3, 4))
            (torch.empty(5, 4) @ weight.t()).relu().sum().backward()
            assert weight.grad is not None
            assert weight.grad.shape == (3, 4)
