"""Step times of a small GPT on grids of ranks, replayed: what a12's ``predict.py`` is held to.

    python benchmarks/gpt_steps.py        writes replays.py of a12, public and hidden

Every row is one training step of ``gpt.py`` in 32 bits, traced on fake tensors and replayed on
``MACHINE``. Attention is written out, since torch counts no FLOPs for its fused kernel on a CPU.
A row's ``flop_per_s`` is what one rank reaches with the same model on this machine, as one would
measure it: the FLOPs of the closed form over the replayed time.
"""

from __future__ import annotations

import math
from pathlib import Path

import gpt
import torch
from gpt import Config

import ringside
from ringside import Machine, Session
from ringside.trace import Kind

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "solutions" / "a12_hybrid"
# Each GPU has a quarter of its node's port for itself, and memory so fast that products of
# matrices take most of the time.
MACHINE = "zaratan,gpus_per_nic=1,beta_s_per_byte=3.2e-10,memory_bytes_per_s=4.8e12"
SMALL = (8, 2048, 16, 1024, 51200)
WIDE = (8, 4096, 32, 1024, 51200)
DEEP = (24, 2048, 16, 1024, 12800)
SHIPPED = [  # model, batch, microbatch size, (data, tensor, pipeline)
    (SMALL, 16, 2, (1, 1, 1)),
    (SMALL, 16, 2, (2, 1, 1)),
    (SMALL, 16, 2, (1, 4, 1)),
    (SMALL, 16, 2, (1, 1, 4)),
    (SMALL, 32, 2, (2, 2, 2)),
    (DEEP, 64, 2, (4, 4, 4)),
]
HELD = [
    (SMALL, 16, 2, (4, 1, 1)),
    (DEEP, 32, 2, (8, 2, 1)),
    (WIDE, 16, 1, (1, 2, 1)),
    (DEEP, 16, 2, (1, 8, 1)),
    (DEEP, 16, 2, (1, 1, 2)),
    (DEEP, 32, 2, (1, 1, 4)),
    (WIDE, 32, 2, (2, 1, 8)),
    (DEEP, 64, 2, (2, 2, 4)),
    (WIDE, 64, 2, (4, 4, 2)),
    (DEEP, 128, 2, (8, 4, 4)),
    (DEEP, 256, 4, (16, 4, 8)),
]


class Layer(gpt.Layer):
    """A layer whose attention is two products of matrices and a softmax."""

    def attention(self, x):  # (B, T, C)
        b, t, c = x.shape
        width = c // self.config.num_heads
        y = gpt._Copy.apply(self.norm1(x), self.tp)
        q, k, v = (
            torch.nn.functional.linear(y, w, bias).view(b, t, -1, width).transpose(1, 2)
            for w, bias in zip(self.qkv, self.qkv_bias, strict=True)
        )  # (B, heads/tp, T, C/heads)
        y = (q @ k.transpose(2, 3) / math.sqrt(width)).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(b, t, -1)  # (B, T, C/tp)
        return (
            x + gpt._Reduce.apply(torch.nn.functional.linear(y, self.out), self.tp) + self.out_bias
        )


def step(group, settings):
    """``gpt.step`` with attention written out."""
    gpt.Layer = Layer
    return gpt.step(group, settings)


def replayed(model, batch, microbatch_size, grid):
    """The trace of a step, and its time."""
    layers, hidden, heads, sequence, vocabulary = model
    data, tensor, pipeline = grid
    config = Config(
        num_layers=layers, hidden=hidden, num_heads=heads, sequence=sequence,
        vocabulary=vocabulary, microbatch_size=microbatch_size,
        num_microbatches=batch // (data * microbatch_size),
        pp_size=pipeline, dp_size=data, tp_size=tensor,
    )  # fmt: skip
    axes = {"pp": pipeline, "dp": data, "tp": tensor}
    with Session(HERE, strict=True) as session:
        traced = session.trace_torch(
            "gpt_steps:step", data * tensor * pipeline, (vars(config),), grid=axes,
            alike=("dp", "tp"), witnesses=False,
        )  # fmt: skip
    return traced.trace, ringside.replay(traced.trace, Machine.load(MACHINE)).makespan_s


def flops(model, batch):
    """72 B s l h^2 (1 + s / (6 h) + V / (12 l h)): nothing is recomputed."""
    layers, hidden, _, sequence, vocabulary = model
    share = sequence / (6 * hidden) + vocabulary / (12 * layers * hidden)
    return 72 * batch * sequence * layers * hidden**2 * (1 + share)


def bytes_by_axis(trace, grid):
    """Bytes that a rank of an inner stage sends along tensor, pipeline and data; rings counted."""
    data, tensor, pipeline = grid
    rank = pipeline // 2 * data * tensor
    sent = dict.fromkeys(("tensor", "pipeline", "data"), 0.0)
    for op in trace.ops[rank]:
        if op.kind == Kind.ISEND:
            sent["pipeline"] += op.nbytes
        elif op.kind == Kind.COLLECTIVE and op.detail[0] == "allreduce":
            members = op.detail[3]
            p = len(members)
            axis = "data" if p > 1 and abs(members[1] - members[0]) == tensor else "tensor"
            sent[axis] += 2 * (p - 1) / p * op.nbytes
    return [round(each) for each in sent.values()]


def tables(rows):
    """Text of both tables: times of all grids, and bytes of those that have an inner stage."""
    reached, times, bytes_ = {}, [], []
    for model, batch, microbatch_size, grid in rows:
        if (model, microbatch_size) not in reached:
            alone = 4 * microbatch_size
            _, time_s = replayed(model, alone, microbatch_size, (1, 1, 1))
            reached[model, microbatch_size] = flops(model, alone) / time_s
        trace, time_s = replayed(model, batch, microbatch_size, grid)
        numbers = [*model, batch, microbatch_size, *grid]
        words = ", ".join(map(str, numbers))
        speed = reached[model, microbatch_size]
        times.append(f"    ({words}, {speed:.5g}, {time_s:.6g}),")
        if grid[2] > 2:
            bytes_.append(f"    ({words}, {', '.join(map(str, bytes_by_axis(trace, grid)))}),")
        print(times[-1], flush=True)
    return "\n".join(
        [
            "# layers, hidden, heads, sequence, vocabulary, batch, microbatch size, data, tensor, "
            "pipeline",
            "TIMES = [  # FLOP/s of a GPU, seconds of a step", *times, "]",
            "BYTES = [  # on the axes tensor, pipeline and data", *bytes_, "]", "",
        ]
    )  # fmt: skip


def main() -> None:
    head = (
        '"""Training steps of a small GPT, replayed: made by "python benchmarks/gpt_steps.py"."""'
    )
    for name, rows in (("checks/replays.py", SHIPPED), ("hidden/replays.py", HELD)):
        text = f'{head}\n\nMACHINE = "{MACHINE}"\n{tables(rows)}'
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
