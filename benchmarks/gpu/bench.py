"""How a section measures: the device, the sizes, times as medians, and memory.

A section is a module with ``items(bench)``, which yields names and measurements in the order of
their worth. A measurement is a function without arguments that returns numbers by name; it runs on
its own, so that one which fails takes no other along.

    products    bf16 8192   {"time_s": 1.4e-3, "flop": 1.1e12, ...}
                fp8 8192    {"error": "RuntimeError: ..."}
                fp8 16384   {"skipped": "no time was left"}
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Record = dict[str, Any]
Item = tuple[str, Callable[[], Record]]
Items = Iterator[Item]

CACHE_BYTES = 160 << 20  # three times the largest cache of today's GPUs
BATCH_S = 1e-3  # calls that are shorter are timed together


@dataclass(frozen=True)
class Bench:
    """Where to measure, and whether in small: then for tests, whose times mean nothing."""

    device: torch.device
    small: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether there are streams, events and an allocator that counts."""
        return self.device.type == "cuda"

    def size(self, whole: Any, small: Any) -> Any:
        """One of the two."""
        return small if self.small else whole

    def synchronize(self) -> None:
        """Wait for all that was launched."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def normal(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """Fresh random numbers: a GPU draws less power on zeros, and is faster."""
        return torch.randn(*shape, device=self.device).to(dtype)

    def sets(self, make: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Several inputs, so that a cache never holds the next one."""
        first = make()
        nbytes = sum(part.nbytes for part in first if isinstance(part, torch.Tensor))
        more = 0 if self.small else min(15, math.ceil(CACHE_BYTES / max(nbytes, 1)))
        return [first, *(make() for _ in range(more))]

    def time(
        self,
        call: Callable[..., Any],
        inputs: Sequence[tuple[Any, ...]] = ((),),
        *,
        spend_s: float = 0.3,
    ) -> Record:
        """Return the median time of a call and its range, after a warm-up.

        Args:
            call: what is timed.
            inputs: its arguments, which take turns.
            spend_s: about how long to measure.
        """
        turns = itertools.cycle(inputs)

        def run(times: int) -> None:
            for _ in range(times):
                call(*next(turns))

        run(1 if self.small else 3)
        self.synchronize()
        begin = time.perf_counter()
        run(1)
        self.synchronize()
        guess_s = max(time.perf_counter() - begin, 1e-7)
        together = min(max(math.ceil(BATCH_S / guess_s), 1), 500)
        rounds = 3 if self.small else min(max(int(spend_s / (together * guess_s)), 5), 40)
        taken = self._elapsed(lambda: run(together), rounds)
        times = sorted(elapsed / together for elapsed in taken)
        return {
            "time_s": statistics.median(times),
            "fastest_s": times[0],
            "slowest_s": times[-1],
            "calls": together * rounds,
        }

    def _elapsed(self, run: Callable[[], None], rounds: int) -> list[float]:
        if not self.is_gpu:
            times = []
            for _ in range(rounds):
                begin = time.perf_counter()
                run()
                times.append(time.perf_counter() - begin)
            return times
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
        marks[0].record()
        for mark in marks[1:]:
            run()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]

    def allocated_bytes(self) -> int:
        """Bytes that tensors of the GPU asked for; what the allocator adds isn't counted."""
        return int(torch.cuda.memory_stats()["requested_bytes.all.current"])

    def peak_bytes(self) -> int:
        """The most of it since ``forget_peak``."""
        return int(torch.cuda.memory_stats()["requested_bytes.all.peak"])

    def forget_peak(self) -> None:
        """Begin to look for the peak."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def nothing(reason: str) -> Callable[[], Record]:
    """A measurement that can't be made here."""
    return lambda: {"skipped": reason}
