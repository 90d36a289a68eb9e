"""A GPT of 1.7 billion parameters on 512 ranks: traced on fake tensors, replayed on a cluster.

    python benchmarks/gpt_512.py                all figures and pictures, into build/
    python benchmarks/gpt_512.py --only big     the 512 ranks alone

    big      512 ranks (8 stages, 16 replicas, 4-way tensor parallel), one trace for each kind of
             rank; time and memory of tracing and of replaying; gpt_3072.py has larger ones
    every    every rank traced, at 8 to 64 ranks: time is linear in the number of ranks
    curve    the same training at 1 to 16 replicas: speedup against the number of ranks

Sizes are those of the 1.7-billion model of Narayanan et al. 2021 ("Efficient large-scale language
model training on GPU clusters using Megatron-LM"), table 1: 24 layers, hidden size 2304, 24 heads,
sequences of 2048, 51200 words. The peak of memory is that of both processes together, at most.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

from gpt import Config

import ringside
from ringside import Machine, Session
from ringside.draw.figure import axes_or_new, restyle
from ringside.draw.palette import scheme_styles
from ringside.scale.agreement import num_flops
from ringside.scale.fake_ranks import num_transfers
from ringside.timing.timeline import Timeline
from ringside.units import format_bytes, format_time

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


def trace(
    config: Config, *, kinds: bool = True, witnesses: bool = True
) -> ringside.scale.fake_ranks.TorchTrace:
    """Trace one training step, in a process of its own."""
    grid = {"pp": config.pp_size, "dp": config.dp_size, "tp": config.tp_size}
    world_size = config.pp_size * config.dp_size * config.tp_size
    with Session(HERE, strict=True) as session:
        return session.trace_torch(
            "gpt:step", world_size, (vars(config),), grid=grid,
            alike=("dp", "tp") if kinds else (), witnesses=witnesses, timeout_s=3600.0,
        )  # fmt: skip


def computing(timeline: Timeline) -> float:
    """Share of all ranks' time in which they compute."""
    return sum(timeline.busy_s) / timeline.world_size / timeline.makespan_s


def big() -> None:
    """512 ranks."""
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
        f"{computing(timeline):.0%} of the time; "
        f"{sum(num_flops(traced.trace)):.3g} FLOPs; a rank's memory "
        f"{format_bytes(min(peaks))} to {format_bytes(max(peaks))}"
    )


def every() -> None:
    """Every rank traced."""
    print("every rank traced, 4 layers for each of 4 stages, 2 microbatches")
    for dp_size in (1, 2, 4, 8):
        config = Config(pp_size=4, dp_size=dp_size, tp_size=2, num_layers=16, num_microbatches=2)
        with Clock() as tracing:
            traced = trace(config, kinds=False)
        ranks = traced.world_size
        print(f"  {ranks:>3} ranks: {tracing}, {tracing.cpu / ranks:.2f} s of CPU a rank")


def curve(folder: Path) -> None:
    """Speedup against the number of ranks, each replica with its own sequences."""
    replicas = (1, 2, 4, 8, 16)
    ranks, steps_s, shares = [], [], []
    for dp_size in replicas:
        config = Config(pp_size=8, dp_size=dp_size, tp_size=4, num_microbatches=8)
        traced = trace(config, witnesses=False)
        timeline = ringside.replay(traced, MACHINE)
        ranks.append(traced.world_size)
        steps_s.append(timeline.makespan_s)
        shares.append(computing(timeline))
        print(
            f"  {ranks[-1]:>3} ranks, {dp_size:>2} replicas: {format_time(steps_s[-1])} a step, "
            f"computing {shares[-1]:.0%}"
        )
    speedups = [
        dp_size * steps_s[0] / step_s for dp_size, step_s in zip(replicas, steps_s, strict=True)
    ]
    ax = axes_or_new(None, (6.4, 4.4))
    (hue, marker), (grey, _) = scheme_styles(["ring", "ideal"]).values()
    ax.plot(ranks, replicas, color=grey, linestyle=":", label="linear")
    ax.plot(ranks, speedups, color=hue, marker=marker, label="replayed")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(ranks, [str(n) for n in ranks])
    ax.set_yticks(replicas, [str(n) for n in replicas])
    ax.set_xlabel("ranks (8 stages, 4-way tensor parallel, 1 to 16 replicas)")
    ax.set_ylabel(f"sequences per second, against {ranks[0]} ranks")
    ax.set_title(f"GPT of 1.7 billion parameters on {MACHINE}, replayed")
    ax.legend(frameon=False)
    restyle(ax)
    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("svg", "png"):
        ax.figure.savefig(folder / f"gpt_speedup.{ending}", dpi=144)
        print(f"  {folder / f'gpt_speedup.{ending}'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("big", "every", "curve"))
    parser.add_argument("--out", type=Path, default=HERE.parent / "build", help="for pictures")
    words = parser.parse_args()
    if words.only in (None, "big"):
        big()
    if words.only in (None, "every"):
        every()
    if words.only in (None, "curve"):
        print("speedup, 8 microbatches of 2 sequences for each replica")
        curve(words.out)


if __name__ == "__main__":
    main()
