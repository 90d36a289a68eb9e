"""The rate of whole layers and whole training steps of a GPT, and what the kit counts of them.

Layers are those of `block.py`, with FlashAttention, without dropout. The step is that of
`benchmarks/gpt.py` on one rank: the program that the kit traces for 3,072 GPUs. Its optimizer is
AdamW with fp32 masters, so that a parameter takes 16 bytes.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import gpt
import torch
from gpt import Config, Layout, Stage
from torch import nn
from torch.profiler import ProfilerActivity, profile

from gpu.bench import Bench, Items, Record, nothing
from gpu.block import Block
from gpu.counted import Operators, meter
from gpu.optimizers import KINDS, Trained

GPT = Config(
    num_layers=12, hidden=2048, num_heads=16, sequence=2048, microbatch_size=4,
    num_microbatches=1, dtype="bfloat16",
)  # fmt: skip
SMALL = dataclasses.replace(
    GPT, num_layers=2, hidden=64, num_heads=4, vocabulary=512, sequence=32, microbatch_size=2
)
ALONE = SimpleNamespace(size=lambda: 1)  # a group of one rank, which no collective is called on


def items(bench: Bench, folder: Path) -> Items:
    """Steps, then layers by size; the trace goes to a folder."""
    for recompute in (False, True):
        yield f"step{', recomputed' * recompute}", partial(step, bench, recompute)
    yield "trace", partial(trace, bench, folder)
    for hidden in bench.size((4096, 2048, 8192, 1024), (64,)):
        yield f"layer {hidden}", partial(layers, bench, hidden)


def compiled_items(bench: Bench) -> Items:
    """A layer as torch.compile makes it; compiling takes its time."""
    yield (
        "layer 4096",
        partial(layers, bench, 4096, compiled=True)
        if bench.is_gpu
        else nothing("compiled on a GPU only"),
    )


def drawn(
    bench: Bench, shape: tuple[int, ...], seed: int, dtype: torch.dtype, scale: float = 0.02
) -> torch.Tensor:
    """A parameter's initial value."""
    return torch.empty(shape, dtype=dtype, device=bench.device).normal_(0.0, scale)


class Training:
    """The GPT, its optimizer and a batch."""

    def __init__(self, bench: Bench, config: Config) -> None:
        group = cast(Any, ALONE)
        layout = Layout(0, 0, 0, group, group, group, None)
        self.config = config
        # Drawn on the device: a CPU takes a minute for so many.
        with patch.object(gpt, "drawn", partial(drawn, bench)):
            self.stage = Stage(config, layout).to(bench.device)
        self.parameters = list(self.stage.parameters())
        shape = (config.microbatch_size, config.sequence + 1)
        tokens = torch.randint(config.vocabulary, shape, device=bench.device)
        self.tokens, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        self.losses: list[torch.Tensor] = []
        weights = [parameter.data for parameter in self.parameters]
        self.trained = Trained(KINDS["bf16 master"], weights, {"fused": True})
        self.trained.gradients = []

    def step(self) -> None:
        """Forward, backward, AdamW."""
        loss = self.stage(self.tokens, self.targets)
        loss.backward()
        self.losses.append(loss.detach())
        self.trained.gradients = [cast(torch.Tensor, p.grad) for p in self.parameters]
        self.trained.step()
        self.trained.gradients = []
        for parameter in self.parameters:
            parameter.grad = None


def step(bench: Bench, recompute: bool) -> Record:
    """Time, memory, and what the kit counts, of a whole step."""
    config = dataclasses.replace(bench.size(GPT, SMALL), recompute=recompute)
    before = bench.allocated_bytes() if bench.is_gpu else 0
    training = Training(bench, config)
    for _ in range(3):
        training.step()
    record: Record = {
        "num_layers": config.num_layers, "hidden": config.hidden, "num_heads": config.num_heads,
        "vocabulary": config.vocabulary, "sequence": config.sequence,
        "batch": config.microbatch_size, "recompute": recompute,
        "parameters": sum(p.numel() for p in training.parameters),
    }  # fmt: skip
    if bench.is_gpu:
        record["kept_bytes"] = bench.allocated_bytes() - before
        bench.forget_peak()
        training.step()
        record["peak_bytes"] = bench.peak_bytes() - before
        record["reserved_bytes"] = torch.cuda.max_memory_reserved()
    record |= bench.time(training.step, spend_s=2.0)
    operators = Operators()
    with meter(operators) as counting:
        counting.memory.given([training.tokens, training.targets])
        kept = [
            *training.parameters, *training.trained.masters,
            *(v for s in training.trained.optimizer.state.values() for v in s.values()),
        ]  # fmt: skip
        counting.memory.given(kept)
        training.step()
    record["counted_flop"] = operators.flop
    record["counted_beside_kept_bytes"] = counting.memory.report()["peak"]
    record["given_bytes"] = sum(t.nbytes for t in kept)
    record["operators"] = operators.rows()
    record["losses"] = [float(loss) for loss in (training.losses[0], training.losses[-1])]
    return record


def trace(bench: Bench, folder: Path) -> Record:
    """One step under torch's profiler: a file for Perfetto, its kernels, its FLOPs."""
    training = Training(bench, bench.size(GPT, SMALL))
    for _ in range(3):
        training.step()
    bench.synchronize()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if bench.is_gpu else [])]
    with profile(activities=activities, with_flops=True) as profiler:
        training.step()
        bench.synchronize()
    path = folder / "gpt_step.trace.json.gz"
    profiler.export_chrome_trace(str(path))
    events = profiler.events() or []
    on_gpu = [
        event for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith(("Optimizer.", "ProfilerStep", "Activity Buffer"))
    ]  # fmt: skip
    busy = sum(e.device_time_total for e in on_gpu) / 1e6
    totals: dict[str, list[float]] = {}
    for event in on_gpu:
        entry = totals.setdefault(event.name[:90], [0.0, 0])
        entry[0] += event.device_time_total / 1e6
        entry[1] += 1
    longest = sorted(totals.items(), key=lambda item: -item[1][0])[:12]
    return {
        "file": path.name,
        "file_bytes": path.stat().st_size,
        "profiler_flop": float(sum(e.flops or 0 for e in profiler.key_averages())),
        "kernels": len(on_gpu),
        "kernels_s": busy,
        "longest": [[name, seconds, number] for name, (seconds, number) in longest],
    }


def layers(bench: Bench, hidden: int, compiled: bool = False) -> Record:
    """Forward, and forward with backward, of four layers."""
    number, sequence = bench.size((4, 2048), (2, 32))
    batch = bench.size(max(2, 4 * 4096 // hidden), 2)
    model = nn.Sequential(*(Block(hidden, hidden // bench.size(128, 16)) for _ in range(number)))
    model = model.to(bench.device, torch.bfloat16)
    x = bench.normal(batch, sequence, hidden).requires_grad_()
    outer = bench.normal(batch, sequence, hidden)
    run: Callable[[torch.Tensor], torch.Tensor] = model
    record: Record = {
        "num_layers": number, "hidden": hidden, "sequence": sequence, "batch": batch,
        "num_heads": model[0].num_heads,
    }  # fmt: skip
    if compiled:
        begin = time.perf_counter()
        run = torch.compile(model)
        run(x).backward(outer)
        bench.synchronize()
        record["compiling_s"] = time.perf_counter() - begin
    else:
        operators = Operators()
        with meter(operators):
            model(x)
        record["counted_flop"] = operators.flop
        with torch.no_grad():
            record["forward_s"] = bench.time(lambda: run(x), spend_s=0.5)["time_s"]
    record["both_s"] = bench.time(lambda: run(x).backward(outer), spend_s=1.0)["time_s"]
    return record
