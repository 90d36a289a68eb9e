"""A GPT of 1.7 billion parameters on 512 ranks: traced on fake tensors, replayed on a cluster.

    python benchmarks/gpt_512.py

8 stages, 16 replicas, 4-way tensor parallel; one trace for each kind of rank. Prints time and
memory of tracing and of replaying. gpt_3072.py has larger ones, and how both grow.

Sizes are those of the 1.7-billion model of Narayanan et al. 2021 ("Efficient large-scale language
model training on GPU clusters using Megatron-LM"), table 1: 24 layers, hidden size 2304, 24 heads,
sequences of 2048, 51200 words. The peak of memory is that of both processes together, at most.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from gpt import Config

import ringside
from ringside import Machine, Session
from ringside.scale.agreement import num_flops
from ringside.scale.fake_ranks import TorchTrace, num_transfers
from ringside.units import format_bytes

HERE = Path(__file__).resolve().parent
MACHINE = "zaratan"


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def peak_gib() -> float:
    """Peak memory of this process and of its largest child."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(who).ru_maxrss for who in both) / 2**20


class Clock:
    """Wall and CPU seconds of a block."""

    def __enter__(self) -> Clock:
        self.wall, self.cpu = time.perf_counter(), cpu_s()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, cpu_s() - self.cpu

    def __str__(self) -> str:
        return f"{self.wall:.1f} s ({self.cpu:.1f} s of CPU)"


def trace(config: Config) -> TorchTrace:
    """Trace one training step, in a process of its own."""
    grid = {"pp": config.pp_size, "dp": config.dp_size, "tp": config.tp_size}
    world_size = config.pp_size * config.dp_size * config.tp_size
    with Session(HERE, strict=True) as session:
        return session.trace_torch(
            "gpt:step", world_size, (vars(config),), grid=grid,
            alike=("dp", "tp"), timeout_s=3600.0,
        )  # fmt: skip


def main() -> None:
    config = Config(pp_size=8, dp_size=16, tp_size=4)
    print(f"GPT of {config.num_parameters() / 1e9:.2f} billion parameters on 512 ranks")
    with Clock() as tracing:
        traced = trace(config)
    print(f"  traced in {tracing}: {traced}")
    with Clock() as replaying:
        timeline = ringside.replay(traced, MACHINE)
    gib = peak_gib()
    transfers = num_transfers(traced.trace, Machine.load(MACHINE))
    print(
        f"  replayed in {replaying}: {transfers} point-to-point messages; ranks alike along "
        f"{', '.join(timeline.folded)} as one"
    )
    print(f"  both: {tracing.wall + replaying.wall:.1f} s, at most {gib:.2f} GiB")
    peaks = [memory["peak"] for memory in traced.memory]
    print(
        f"  a step on {MACHINE}: {timeline.makespan_s:.3f} s; computing "
        f"{sum(timeline.busy_s) / timeline.world_size / timeline.makespan_s:.0%} of the time; "
        f"{sum(num_flops(traced.trace)):.3g} FLOPs; a rank's memory "
        f"{format_bytes(min(peaks))} to {format_bytes(max(peaks))}"
    )


if __name__ == "__main__":
    main()
