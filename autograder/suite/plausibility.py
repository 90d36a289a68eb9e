"""Does the work that ranks declare fit the CPU time that they had? What doesn't is flagged.

FLOPs come from inside a rank, so a rank can lie about them; the kernel's CPU time it can't change.
Two lies are coarse enough to be told from noise at the sizes of a suite, over all its calls on one
number of ranks:

    more FLOPs than any core makes        declared > 16 * this machine's matrix product * CPU time
    one rank works, all declare alike     its CPU time >= 0.5 s and >= 4 * the others' median,
                                          its FLOPs within 50 % of the others' median

What it can't see: a lie of less than that, work that ranks take from each other in milliseconds,
a rank that burns CPU time to look busy, and what supplied layers are told to declare
(``stated``). So it accuses nobody: a person reads the module.

A flag is a sentence for the instructor. It never changes a score, and students don't see it.
"""

from __future__ import annotations

import functools
import statistics
import time
from dataclasses import dataclass, field

import numpy as np

from ringside.session.session import Result

PEAK_FACTOR = 16.0  # bfloat16 on a matrix unit, against float32 in vector registers
LEAST_PEAK = 2e9  # FLOP per second of one core: below it nothing needs to be measured
SLACK_S = 0.05  # of CPU time: ticks of 10 ms, and work before the first reading
BUSY_S, BUSY_FACTOR, ALIKE = 0.5, 4.0, 0.5


@dataclass
class Work:
    """What the ranks of all calls on one number of ranks declared, and what they had."""

    num_flops: list[float]
    cpu_s: list[float]


@dataclass
class Tally:
    """The work of one module's calls."""

    by_size: dict[int, Work] = field(default_factory=dict)

    def add(self, result: Result, *, stated: bool = False) -> None:
        """Count a call; one whose CPU time is not known says nothing.

        Args:
            stated: the suite has supplied layers declare more than they do.
        """
        size = result.world_size
        work = self.by_size.setdefault(size, Work([0.0] * size, [0.0] * size))
        for rank, (num_flops, cpu_s) in enumerate(
            zip(result.num_flops(), result.cpu_s, strict=True)
        ):
            if cpu_s is not None:
                work.cpu_s[rank] += cpu_s
                work.num_flops[rank] += 0.0 if stated else num_flops

    def flags(self) -> list[str]:
        """Sentences on what doesn't fit, one of a kind: that of most ranks, and where else."""
        told = []
        for rule in (_too_fast, _on_one_rank):
            found = [
                (size, sentence)
                for size, work in sorted(self.by_size.items())
                if (sentence := rule(size, work))
            ]
            if found:
                others = ", ".join(str(size) for size, _ in found[:-1])
                told.append(found[-1][1] + (f" It is so on {others} too." if others else ""))
        return told


def _too_fast(size: int, work: Work) -> str:
    for rank, (num_flops, cpu_s) in enumerate(zip(work.num_flops, work.cpu_s, strict=True)):
        could = PEAK_FACTOR * (cpu_s + SLACK_S)
        if num_flops > could * LEAST_PEAK and num_flops > could * peak_flop_per_s():
            return (
                f"On {size} {'rank' if size == 1 else 'ranks'}, rank {rank} declared "
                f"{num_flops:.3g} floating-point operations in {cpu_s:.2f} s of CPU time; this "
                f"machine makes {peak_flop_per_s():.2g} a second. Read how the module declares "
                "its work."
            )
    return ""


def _on_one_rank(size: int, work: Work) -> str:
    if size < 3:  # of two, either may be the one that is wrong
        return ""
    for rank in range(size):
        others = [r for r in range(size) if r != rank]
        usual_s = statistics.median(work.cpu_s[r] for r in others)
        usual = statistics.median(work.num_flops[r] for r in others)
        alike = usual > 0 and abs(work.num_flops[rank] - usual) <= ALIKE * usual
        if alike and work.cpu_s[rank] >= max(BUSY_S, BUSY_FACTOR * usual_s):
            return (
                f"On {size} ranks, rank {rank} had {work.cpu_s[rank]:.2f} s of CPU time and the "
                f"others {usual_s:.2f} s, but all declare about as much work. Read whether one "
                "rank works for all."
            )
    return ""


@functools.cache
def peak_flop_per_s() -> float:
    """What one core of this machine makes in a matrix product of float32, by its CPU time."""
    n = 384
    a = np.ones((n, n), dtype=np.float32)
    best = 0.0
    for _ in range(6):
        begin = time.process_time()
        a @ a
        a @ a
        best = max(best, 4 * n**3 / max(time.process_time() - begin, 1e-6))
    return best
