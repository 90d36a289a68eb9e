"""Bytes a parameter that training keeps, and what a step of AdamW needs and takes.

weights  gradients  master  moments
   4         4         -       8       16   fp32
   2         2         4       8       16   bf16, as the ZeRO paper counts
   2         4         4       8       18   bf16 with fp32 gradients, as Megatron-LM keeps them
   2         2         -       4        8   bf16 alone: its steps are too small to be added
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from gpu.bench import Bench, Items, Record


@dataclass(frozen=True)
class Kind:
    """The types that are kept; ``master``: whether fp32 weights are, beside the others."""

    weights: torch.dtype
    gradients: torch.dtype
    master: bool

    def formula_bytes(self) -> int:
        """Bytes a parameter."""
        moments = 2 * (4 if self.master else self.weights.itemsize)
        return self.weights.itemsize + self.gradients.itemsize + 4 * self.master + moments


KINDS = {
    "fp32": Kind(torch.float32, torch.float32, master=False),
    "bf16 master": Kind(torch.bfloat16, torch.bfloat16, master=True),
    "bf16 master, fp32 gradients": Kind(torch.bfloat16, torch.float32, master=True),
    "bf16": Kind(torch.bfloat16, torch.bfloat16, master=False),
}
WAYS = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}


class Trained:
    """Weights with gradients, masters and AdamW's moments; a step, and the bytes of each."""

    def __init__(self, kind: Kind, weights: list[torch.Tensor], options: dict[str, bool]) -> None:
        self.kind, self.weights = kind, weights
        self.gradients = [torch.randn_like(w, dtype=kind.gradients) for w in weights]
        self.masters = [w.float() for w in weights] if kind.master else []
        self.optimizer = torch.optim.AdamW(self.masters or weights, lr=1e-4, **options)

    def step(self) -> None:
        """Update the optimizer's tensors, and round masters into the weights."""
        for updated, gradient in zip(self.masters or self.weights, self.gradients, strict=True):
            updated.grad = gradient.to(updated.dtype)  # a copy for the step where types differ
        self.optimizer.step()
        for updated in self.masters or self.weights:
            updated.grad = None
        if self.masters:
            torch._foreach_copy_(self.weights, self.masters)

    def nbytes(self) -> dict[str, int]:
        """By kind; the moments' are those of a parameter's size, counters stand for themselves."""
        state = [value for s in self.optimizer.state.values() for value in s.values()]
        kept = {
            "weights": self.weights, "gradients": self.gradients, "masters": self.masters,
            "moments": [value for value in state if value.dim()],
            "counters": [value for value in state if not value.dim()],
        }  # fmt: skip
        return {name: sum(t.nbytes for t in tensors) for name, tensors in kept.items()}


def items(bench: Bench) -> Items:
    """Each kind, fused; then the other ways of one step."""
    for name in KINDS:
        yield f"{name}, fused", partial(kept, bench, name, "fused")
    for way in ("foreach", "loop"):
        for name in ("fp32", "bf16 master"):
            yield f"{name}, {way}", partial(kept, bench, name, way)


def kept(bench: Bench, name: str, way: str) -> Record:
    """Bytes a parameter after a step, the peak during a step, its time."""
    kind = KINDS[name]
    rows, matrices = bench.size((4096, 16), (32, 4))
    before = bench.allocated_bytes() if bench.is_gpu else 0
    weights = [bench.normal(rows, rows, dtype=kind.weights) for _ in range(matrices)]
    trained = Trained(kind, weights, WAYS[way])
    trained.step()
    parameters = matrices * rows * rows
    nbytes = trained.nbytes()
    counters = nbytes.pop("counters")
    record: Record = {
        "parameters": parameters,
        "formula_bytes": kind.formula_bytes(),
        "kept_bytes": sum(nbytes.values()) / parameters,
        "counters_bytes": counters,
        **{f"{part}_bytes": value / parameters for part, value in nbytes.items()},
    }
    if bench.is_gpu:
        record["allocated_bytes"] = (bench.allocated_bytes() - before) / parameters
        bench.forget_peak()
        trained.step()
        record["peak_bytes"] = (bench.peak_bytes() - before) / parameters
    record |= {"step_s": bench.time(trained.step)["time_s"]}
    return record
