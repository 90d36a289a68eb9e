"""The trained GPT through the reader's own `decode_torch.py`, the module of assignment 13.

    gpt.py                                     model.py of the assignment
    blocks.0.attention.query.weight, (d, d)    0.Wq, transposed: there a row of activations stands
    blocks.0.up.weight, (4 d, d)               0.W1, transposed      on the left of a weight
    embedding, position, norm, head            words, positions, gamma and beta, head

The assignment's `part_of` cuts the arrays, and `decode_torch` does the rest: its own heads,
its own cache, two all-reduces a block, and two numbers a text for the next byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import GPT, VOCABULARY, Size
from torch import Tensor

LAYERS = {
    "q": "attention.query", "k": "attention.key", "v": "attention.value", "o": "attention.out",
    "1": "up", "2": "down",
}  # fmt: skip


def named(model: GPT) -> dict[str, Tensor]:
    """The weights of the whole model by the assignment's names."""
    state = {name: weight.detach().cpu() for name, weight in model.state_dict().items()}
    found = {
        "words": state["embedding.weight"], "positions": state["position.weight"],
        "gamma": state["norm.weight"], "beta": state["norm.bias"], "head": state["head.weight"],
    }  # fmt: skip
    for k in range(len(model.blocks)):
        for there, here in LAYERS.items():
            found[f"{k}.W{there}"] = state[f"blocks.{k}.{here}.weight"].T
            found[f"{k}.b{there}"] = state[f"blocks.{k}.{here}.bias"]
        for there in "12":
            found[f"{k}.gamma{there}"] = state[f"blocks.{k}.norm{there}.weight"]
            found[f"{k}.beta{there}"] = state[f"blocks.{k}.norm{there}.bias"]
    return found


def writer(
    folder: Path, model: GPT, size: Size, samples: int, device: torch.device
) -> tuple[Callable[[Tensor], Tensor], int]:
    """From new bytes (B, T) to the next one (B, 1), by the module in a folder; and its bytes."""
    sys.path.insert(0, str(folder.resolve()))
    decode, cases, numpy_model, parts = (
        import_module(name)
        for name in (
            "decode_torch",
            "checks.cases_decode",
            "given.model",
            "given.model_torch",
        )
    )
    heads = {"heads": size.num_heads, "kv_heads": size.num_heads}
    sizes = numpy_model.Sizes(
        vocabulary=VOCABULARY, d=size.width, layers=size.num_layers, longest=size.context, **heads
    )
    whole = {name: weight.numpy() for name, weight in named(model).items()}
    arrays = cases.part_of(whole, sizes, dist.get_world_size(), dist.get_rank())
    part = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    kv_heads = part["0.bk"].numel() // sizes.head_dim
    cache = parts.Cache(sizes, samples, kv_heads, like=part["head"])
    group = dist.group.WORLD

    def next_byte(new: Tensor) -> Tensor:
        counts = [new.shape[1]] * samples
        hidden = decode.forward(group, new.flatten(), counts, cache, part, sizes)
        word: Tensor = decode.greedy(group, hidden, part, sizes)
        return word[:, None]

    return next_byte, sum(weight.numel() * weight.element_size() for weight in part.values())
