"""What the calls of one module may use before they are ended, and what they have used.

    cpu_s     CPU time of the submission's own processes, and of the network that serves them
    sleep_s   time for which all its processes slept, though it was their turn
    clock_s   time on the wall; far more than the two together

The first two are the submission's own, on an idle machine and on a busy one: the kernel counts the
CPU time of each process, and a process that waits for a processor is not asleep. So they cost
points. The clock is for what neither of them sees. What it has ended says nothing of the
submission, and is graded again alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from autograder.course.limits import Limits
from ringside.network.processes import Reading

__all__ = ["Allowance"]

# A share of the CPU time from which on a submission lets others go first, where no control group
# gives each its part. The slowest reference stays below it.
_POLITE_FROM = 0.25


class Allowance:
    """Counts what is used, between two looks ``every_s`` apart.

    Attributes:
        ended: why no further call is made, as what follows "did not end"; None while there is
            something left.
        ended_by_clock: whether only the clock says so.
    """

    every_s = 0.25

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        own_cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.limits = limits
        self.ended: str | None = None
        self.ended_by_clock = False
        self._clock, self._own_cpu = clock, own_cpu
        self._began = self._looked = clock()
        self._read: Callable[[], Reading] = lambda: Reading(0.0, True)
        self._yields: Callable[[], None] = lambda: None
        self._before_s = self._theirs_s = 0.0
        self._ours_s = self._call_began = 0.0
        self._calling = False
        self._slept_s = 0.0

    def watch(self, read: Callable[[], Reading], yields: Callable[[], None] = lambda: None) -> None:
        """Count what these processes use from now on.

        Args:
            read: what they have had so far.
            yields: lets processes of other submissions go before these.
        """
        self._read, self._yields = read, yields
        self._before_s = read().cpu_s

    @property
    def cpu_s(self) -> float:
        """CPU time used up to the last look."""
        now = self._own_cpu() - self._call_began if self._calling else 0.0
        return self._theirs_s + self._ours_s + now

    @property
    def left_s(self) -> float:
        """What is left on the clock."""
        return max(0.0, self._began + self.limits.clock_s - self._clock())

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """A call lasts: what this process does meanwhile, it does for the submission."""
        self._calling, self._call_began = True, self._own_cpu()
        try:
            yield
        finally:
            self._calling = False
            self._ours_s += self._own_cpu() - self._call_began
            # The network looks during calls alone: many short ones would go by without a look.
            if not self.left_s or self._clock() - self._looked >= self.every_s:
                self.awake()
                self.over(False)

    def awake(self) -> bool:
        """Take note of what the processes have used, and tell whether one of them is awake."""
        read = self._read()
        self._looked = self._clock()
        # Once the first process has ended, the kernel tells nothing of it any more.
        self._theirs_s = max(self._theirs_s, read.cpu_s - self._before_s)
        return read.awake

    def over(self, asleep: bool) -> str | None:
        """Why the calls have to end, as what follows "did not end"; None while they may go on.

        Args:
            asleep: whether all processes sleep, and nothing but themselves can wake them. One
                look stands for ``every_s``, however long it was in coming on a busy machine.
        """
        self._slept_s += self.every_s if asleep else 0.0
        if self.cpu_s >= _POLITE_FROM * self.limits.cpu_s:
            self._yields()
        self.ended = self.ended or self._reason()
        return self.ended

    def _reason(self) -> str | None:
        limits = self.limits
        if self.cpu_s >= limits.cpu_s:
            return f"within {limits.cpu_s:g} s of CPU time, which a module's calls have together"
        if self._slept_s >= limits.sleep_s:
            return f"while its ranks slept for {limits.sleep_s:g} s"
        # Last: what the submission has used up costs points, what the clock ends is graded again.
        self.ended_by_clock = not self.left_s
        return f"within {limits.clock_s:g} s" if self.ended_by_clock else None
