"""One call of a run on a rank of torch: a script, or a function, its values in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import ringside.network.link
from ringside.network.link import CommInfo
from ringside.pytorch import front, starting, tensors
from ringside.pytorch.counting import Meter


def make_call(
    call: dict[str, Any],
    asked: dict[str, Any],
    info: CommInfo,
    folder: str,
    find: Callable[[], Any],
) -> tuple[dict[str, Any], Any]:
    """Make one call of the run: a script, or a function with tensors in the place of arrays."""
    if "fakes" in call:
        from ringside.pytorch import fake

        return {}, fake.trace_call(call, folder, find())
    meter = Meter(ringside.network.link.current())
    if call["function"] is None:
        front.begin(None)
        starting.begin()
        with meter:
            names = find()()
        left = [item for item in tensors.tensors_in(names) if type(item) is torch.Tensor]
        ringside.network.link.current().in_flight.check([names, tensors.to_arrays(left)])
        starting.end()
        return {"memory": meter.memory.report()}, None
    group = front.begin(info if call["comm"] else None)
    function = find()
    args = [tensors.from_arrays(item) for item in call["args"]]
    kwargs = {name: tensors.from_arrays(item) for name, item in call["kwargs"].items()}
    inputs = tensors.tensors_in([args, kwargs])
    # `asked` is the same call read a second time, into other memory: the inputs share none with it.
    before = tensors.tensors_in(tensors.from_arrays([asked["args"], asked["kwargs"]]))
    meter.memory.given(inputs)
    with meter:
        value = function(*([group, *args] if call["comm"] else args), **kwargs)
    after = tensors.tensors_in([args, kwargs])
    attested = {
        "changed": list(map(id, inputs)) != list(map(id, after))
        or any(
            not np.array_equal(tensors.memory(tensor), tensors.memory(old))
            for tensor, old in zip(inputs, before, strict=True)
        ),
        "memory": meter.memory.report(),
        "aliased": any(_share(item, inputs) for item in tensors.tensors_in(value)),
    }
    return attested, tensors.to_arrays(value)


def _share(tensor: torch.Tensor, others: list[torch.Tensor]) -> bool:
    storage = tensor.untyped_storage().data_ptr()
    return storage != 0 and any(other.untyped_storage().data_ptr() == storage for other in others)
