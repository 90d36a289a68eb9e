"""GPTs of 175 billion to a trillion parameters on 1,024 to 16,384 GPUs: traced and replayed.

    python benchmarks/gpt_3072.py                   all of it
    python benchmarks/gpt_3072.py --only 175B       one model: wall time, CPU, memory, a step
    python benchmarks/gpt_3072.py --only 1T
    python benchmarks/gpt_3072.py --only 412B
    python benchmarks/gpt_3072.py --only growth     with ranks, microbatches and layers
    python benchmarks/gpt_3072.py --only megatron   published rows, half of them predicted

One rank of each kind is traced, on fake tensors, and one is replayed for all that are alike: 8 of
1,024, 64 of 3,072 and 16 of 16,384. Replaying all of them would give the same picoseconds
(tests/ringside/scale/test_fold.py compares). "412B" has the size of Llama 3 405B and its layout on
16,384 GPUs (table 4 of "The Llama 3 herd of models", 2024); its layers are GPT's.

`megatron` predicts table 1 of Narayanan et al. 2021 ("Efficient large-scale language model training
on GPU clusters using Megatron-LM"). Two numbers are fitted, on every other row: the rate that a GPU
reaches in matrix products, and the share of the links' peak bandwidth that is reached. The other
rows are predicted. What the table doesn't tell is assumed: one sequence a microbatch, 1F1B without
interleaving (the paper interleaves), all layers recomputed. While there are at least as many
microbatches as stages, a further microbatch adds always the same time to a step, and so does a
further stage like the others. So a row is traced with 4 and 5 microbatches on at most 3 stages, and
on one more, and continued in straight lines; `megatron` checks this on a row of 8 stages.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import threading
import time
import tomllib
from pathlib import Path

import numpy as np
import psutil
from gpt import Config

import ringside
from ringside import Machine, Session
from ringside.scale.fake_ranks import TorchTrace
from ringside.units import format_bytes, format_time

HERE = Path(__file__).resolve().parent
VALIDATION = HERE.parent / "cluster" / "validation"
SELENE = Machine.load("dgx_a100")  # nodes as Megatron-LM ran on
MODELS = {
    "175B": Config(
        num_layers=96, hidden=12288, num_heads=96, pp_size=8, dp_size=16, tp_size=8,
        microbatch_size=1, num_microbatches=64, dtype="bfloat16",
    ),
    "1T": Config(
        num_layers=128, hidden=25600, num_heads=160, pp_size=64, dp_size=6, tp_size=8,
        microbatch_size=1, num_microbatches=64, dtype="bfloat16",
    ),
    "412B": Config(
        num_layers=128, hidden=16384, num_heads=128, vocabulary=128256, sequence=8192, pp_size=16,
        dp_size=128, tp_size=8, microbatch_size=1, num_microbatches=16, dtype="bfloat16",
    ),
}  # fmt: skip
SMALL = dataclasses.replace(MODELS["175B"], num_layers=16, num_microbatches=16, dp_size=2)


class Costs(threading.Thread):
    """Wall and CPU seconds of a block, and its memory: of this process and all below it."""

    def __enter__(self) -> Costs:
        self._ended = threading.Event()
        self.peak = 0
        self.wall, self.cpu = time.perf_counter(), self._cpu_s()
        self.start()
        return self

    def run(self) -> None:
        while not self._ended.wait(0.2):
            self.peak = max(self.peak, self._memory())

    def __exit__(self, *error: object) -> None:
        self.peak = max(self.peak, self._memory())
        self._ended.set()
        self.join()
        self.wall, self.cpu = time.perf_counter() - self.wall, self._cpu_s() - self.cpu

    @staticmethod
    def _processes() -> list[psutil.Process]:
        here = psutil.Process(os.getpid())
        return [here, *here.children(recursive=True)]

    def _cpu_s(self) -> float:
        total = 0.0
        for process in self._processes():
            try:
                times = process.cpu_times()
            except psutil.Error:  # it has ended meanwhile
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def _memory(self) -> int:
        """Bytes; what processes share counts once for each."""
        total = 0
        for process in self._processes():
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        return total

    def __str__(self) -> str:
        return f"{self.wall:.0f} s ({self.cpu:.0f} s of CPU), at most {format_bytes(self.peak)}"


def trace(config: Config, *, witnesses: bool = False) -> TorchTrace:
    """Trace one training step, one rank of each stage."""
    grid = {"pp": config.pp_size, "dp": config.dp_size, "tp": config.tp_size}
    world_size = config.pp_size * config.dp_size * config.tp_size
    with Session(HERE, strict=True) as session:
        return session.trace_torch(
            "gpt:step", world_size, (vars(config),), grid=grid, alike=("dp", "tp"),
            witnesses=witnesses, timeout_s=7200.0,
        )  # fmt: skip


def model(name: str, witnesses: bool) -> None:
    """One of the models."""
    config = MODELS[name]
    print(
        f"{name}: {config.num_parameters() / 1e9:.1f} billion parameters, {config.num_layers} "
        f"layers, {config.pp_size} stages, {config.dp_size} replicas, tensor parallel "
        f"{config.tp_size}; {config.num_microbatches} microbatches a pipeline",
        flush=True,
    )
    with Costs() as tracing:
        traced = trace(config, witnesses=witnesses)
    print(f"  traced in {tracing}: {traced}", flush=True)
    with Costs() as replaying:
        timeline = ringside.replay(traced, SELENE)
    print(f"  replayed in {replaying}; alike along {', '.join(timeline.folded)}")
    print(f"  both in {tracing.wall + replaying.wall:.0f} s")
    peaks = [memory["peak"] for memory in traced.memory]
    print(
        f"  a step on {SELENE.name}: {timeline.makespan_s:.3f} s, computing "
        f"{np.mean(timeline.busy_s) / timeline.makespan_s:.0%} of the time; a rank's memory "
        f"{format_bytes(min(peaks))} to {format_bytes(max(peaks))}",
        flush=True,
    )


def growth() -> None:
    """Time and memory against each of the sizes."""
    print(
        "16 layers, 8 stages, tensor parallel 8, 2 replicas, 16 microbatches, but for one of them"
    )
    print("                    traced, CPU   replayed, CPU     memory   step")
    for name, values in (
        ("dp_size", (2, 8, 32)),
        ("num_microbatches", (8, 16, 32)),
        ("num_layers", (16, 32, 64)),
    ):
        for value in values:
            config = dataclasses.replace(SMALL, **{name: value})
            with Costs() as tracing:
                traced = trace(config)
            with Costs() as replaying:
                timeline = ringside.replay(traced, SELENE)
            ranks = f" {traced.world_size} ranks" if name == "dp_size" else ""
            print(
                f"  {name.removeprefix('num_')} {value:>3}{ranks:<11}"
                f" {tracing.cpu:8.1f} s {replaying.cpu:12.1f} s "
                f"{format_bytes(max(tracing.peak, replaying.peak)):>12} "
                f"{format_time(timeline.makespan_s):>9}",
                flush=True,
            )


# -- Megatron's table 1 ----------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """A row of the table, with traces of few stages and microbatches."""

    config: Config
    published: float  # TFLOP/s a GPU
    traces: dict[tuple[int, int], TorchTrace] = dataclasses.field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """How many."""
        return self.config.pp_size * self.config.dp_size * self.config.tp_size

    def sized(self, stages: int, microbatches: int) -> Config:
        """The row's model with other numbers of these; layers a stage stay."""
        layers = self.config.num_layers // self.config.pp_size * stages
        return dataclasses.replace(
            self.config, pp_size=stages, num_layers=layers, num_microbatches=microbatches
        )

    def take(self) -> None:
        """Trace the few."""
        few = min(self.config.pp_size, 3)
        sizes = [(few, 4), (few, 5), *([(few + 1, 4)] if few < self.config.pp_size else [])]
        self.traces = {size: trace(self.sized(*size)) for size in sizes}

    def step_s(self, machine: Machine, stages: int = 0, microbatches: int = 0) -> float:
        """A step with all stages and microbatches, or so many."""
        stages = stages or self.config.pp_size
        microbatches = microbatches or self.config.num_microbatches
        times = {
            size: ringside.replay(each, machine).makespan_ps for size, each in self.traces.items()
        }
        (few, _), *_ = times
        first = times[few, 4]
        total = first + (microbatches - 4) * (times[few, 5] - first)
        if stages > few:
            total += (stages - few) * (times[few + 1, 4] - first)
        return total / 10**12

    def tflops(self, step_s: float) -> float:
        """By the paper's formula for the FLOPs of a step, with recomputation."""
        c = self.config
        sequences = c.num_microbatches * c.microbatch_size * c.dp_size
        flops = 96 * sequences * c.sequence * c.num_layers * c.hidden**2
        flops *= 1 + c.sequence / (6 * c.hidden) + c.vocabulary / (16 * c.num_layers * c.hidden)
        return flops / step_s / self.gpus / 1e12


def rows() -> list[Row]:
    """The table's ten rows."""
    table = tomllib.loads((VALIDATION / "megatron_2021.toml").read_text())["scaling"]
    found = []
    for row, (heads, tp, pp, batch) in zip(table["rows"], table["layouts"], strict=True):
        _, layers, hidden, gpus, tflops, *_ = row
        dp = gpus // (tp * pp)
        config = Config(
            num_layers=layers, hidden=hidden, num_heads=heads, pp_size=pp, dp_size=dp, tp_size=tp,
            microbatch_size=1, num_microbatches=batch // dp, dtype="bfloat16", recompute=True,
        )  # fmt: skip
        found.append(Row(config, tflops))
    return found


def machine_of(rate: float, share: float) -> Machine:
    """SELENE, of whose peaks a part is reached."""
    return SELENE.with_(
        flop_per_s=rate,
        beta_s_per_byte=SELENE.beta_s_per_byte / share,
        intra_beta_s_per_byte=(SELENE.intra_beta_s_per_byte or 0.0) / share,
    )


def fit(known: list[Row]) -> tuple[float, float]:
    """Rate and share with the least squares of relative errors in TFLOP/s.

    A step is nearly a sum a + b / rate + c / share, whose parts are found anew around each answer.
    """
    rate, share = 200e12, 0.7
    for _ in range(2):
        base = np.array([row.step_s(machine_of(rate, share)) for row in known])
        faster = np.array([row.step_s(machine_of(rate * 1.1, share)) for row in known])
        wider = np.array([row.step_s(machine_of(rate, share * 1.1)) for row in known])
        for_rate = (base - faster) / (1 / rate - 1 / (1.1 * rate))
        for_share = (base - wider) / (1 / share - 1 / (1.1 * share))
        rest = base - for_rate / rate - for_share / share
        wanted = np.array([row.tflops(1.0) / row.published for row in known])  # seconds
        lines = np.stack([for_rate / wanted, for_share / wanted], axis=1)
        (per_rate, per_share), *_ = np.linalg.lstsq(lines, 1 - rest / wanted, rcond=None)
        if per_share < 1:  # no more than the peak: then the rate alone
            per_share = 1.0
            left = 1 - rest / wanted - lines[:, 1]
            per_rate = lines[:, 0] @ left / (lines[:, 0] @ lines[:, 0])
        rate, share = 1 / float(per_rate), 1 / float(per_share)
        print(f"  fitted: {rate / 1e12:.1f} TFLOP/s, {share:.1%} of the links' peak", flush=True)
    return rate, share


def megatron(last: int) -> None:
    """Half of the rows fitted, the others predicted."""
    found = rows()[:last]
    for number, row in enumerate(found, start=1):
        with Costs() as tracing:
            row.take()
        print(f"  row {number}: traced in {tracing}", flush=True)
    checked = next((row for row in found if row.config.pp_size == 8), None)
    if checked is not None:
        whole = ringside.replay(trace(checked.sized(8, 10)), SELENE).makespan_s
        print(
            f"  10 microbatches on 8 stages: {whole:.12f} s; in straight lines: "
            f"{checked.step_s(SELENE, 8, 10):.12f} s",
            flush=True,
        )
    rate, share = fit(found[::2])
    print("  parameters  GPUs   published  predicted  error")
    errors: dict[str, list[float]] = {"fitted": [], "predicted": []}
    for number, row in enumerate(found):
        kind = "predicted" if number % 2 else "fitted"
        tflops = row.tflops(row.step_s(machine_of(rate, share)))
        error = tflops / row.published - 1
        errors[kind].append(abs(error))
        print(
            f"  {row.config.num_parameters() / 1e9:8.1f} B {row.gpus:6} {row.published:9.0f} "
            f"{tflops:11.1f} {error:+8.1%}  {kind}",
            flush=True,
        )
    for kind, values in errors.items():
        if values:
            print(f"  {kind}: mean {np.mean(values):.1%}, largest {max(values):.1%}")
    for table in tomllib.loads((VALIDATION / "unpredicted.toml").read_text())["table"]:
        if "TorchTitan" in table["source"]:
            print(f"  not predicted: {table['source']}: {table['published']} ({table['reason']})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=(*MODELS, "growth", "megatron"))
    parser.add_argument("--witnesses", action="store_true", help="trace two ranks of each kind")
    parser.add_argument("--rows", type=int, default=10, help="of Megatron's table, from the first")
    words = parser.parse_args()
    for name in MODELS:
        if words.only in (None, name):
            model(name, words.witnesses)
    if words.only in (None, "growth"):
        growth()
    if words.only in (None, "megatron"):
        megatron(words.rows)


if __name__ == "__main__":
    main()
