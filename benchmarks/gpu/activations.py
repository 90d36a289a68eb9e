"""Bytes that a layer keeps for its backward: the allocator's, the kit's meter's, the formula's.

The bytes of a layer are those of four layers without those of two, halved: so the input of the
first and what lives between two layers falls out. The peak is that of forward and backward of all
four, without weights and gradients: with full recomputation four inputs and one whole layer.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from gpu.bench import Bench, Items, Record
from gpu.block import ATTENTION, RECOMPUTE, Block, kept_bytes
from gpu.counted import Operators, meter

LAYERS = (2, 4)


def items(bench: Bench) -> Items:
    """Each kind of attention with each kind of recomputation."""
    for sequence in bench.size((2048, 8192), (32,)):
        for attention in ATTENTION:
            for recompute in RECOMPUTE:
                if sequence <= 2048 or attention == "flash":
                    name = f"{attention} {recompute} {sequence}"
                    yield name, partial(layer, bench, attention, recompute, sequence)


def layer(bench: Bench, attention: str, recompute: str, sequence: int) -> Record:
    """What one layer keeps, and the peak of four."""
    hidden, num_heads = bench.size((4096, 32), (64, 4))
    batch = max(1, bench.size(4096, 64) // sequence)
    # On a CPU torch's masks of dropout have other sizes than on a GPU.
    dropout = 0.1 if bench.is_gpu else 0.0
    options = {"attention": attention, "recompute": recompute}
    blocks = [Block(hidden, num_heads, dropout=dropout, **options) for _ in range(max(LAYERS))]
    model = nn.Sequential(*blocks).to(bench.device, torch.bfloat16)
    x = bench.normal(batch, sequence, hidden).requires_grad_()
    record = {
        "sequence": sequence, "batch": batch, "hidden": hidden, "num_heads": num_heads,
        "dropout": dropout, **options,
    }  # fmt: skip
    record["formula_bytes"] = kept_bytes(
        sequence, batch, hidden, num_heads, dropout=dropout > 0, **options
    )
    few, many = (counted_bytes(model[:number], x) for number in LAYERS)
    record["counted_bytes"] = (many - few) / (LAYERS[1] - LAYERS[0])
    if bench.is_gpu:
        model(x).sum().backward()  # libraries take their memory
        model.zero_grad(set_to_none=True)
        few, many = (allocated_bytes(bench, model[:number], x) for number in LAYERS)
        record["allocated_bytes"] = (many - few) / (LAYERS[1] - LAYERS[0])
        record["peak_bytes"] = peak_bytes(bench, model, x)
        record["peak_layers"] = LAYERS[1]
        times = bench.time(lambda: model(x).sum().backward(), spend_s=0.3)
        record["step_s"] = times["time_s"]
    return record


def counted_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """By the kit's meter: activations that live when forward has ended."""
    with meter(Operators()) as counting:
        counting.memory.given([x, *model.parameters()])
        y = model(x)
        loss = y.sum()
    live = counting.memory.report()["live"]["activations"]
    del y, loss
    return int(live)


def allocated_bytes(bench: Bench, model: nn.Module, x: torch.Tensor) -> int:
    """By the GPU's allocator."""
    before = bench.allocated_bytes()
    y = model(x)
    kept = bench.allocated_bytes() - before
    del y
    return kept


def peak_bytes(bench: Bench, model: nn.Module, x: torch.Tensor) -> int:
    """The peak of forward and backward beside weights and gradients, which are there before."""
    for parameter in [x, *model.parameters()]:
        parameter.grad = torch.zeros_like(parameter)
    bench.forget_peak()
    before = bench.allocated_bytes()
    model(x).sum().backward()
    peak = bench.peak_bytes() - before
    model.zero_grad(set_to_none=True)
    x.grad = None
    return peak
