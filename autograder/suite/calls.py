"""The fixtures ``ranks``, ``mpi`` and ``gloo``: calls into the student's module, counted."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from autograder.suite import whose_fault
from autograder.suite.job import SuiteJob, SuiteRecord
from autograder.suite.plausibility import Tally
from autograder.suite.reality import (
    RanksEnded,
    RealCall,
    RealityError,
    RealityUnavailable,
    RealRanks,
    RealRun,
)
from ringside.checking import Case, Verdict, buffered, one_line, open_request, rendezvous
from ringside.checking.ring_bytes import sent_as_ring
from ringside.errors import DeadlineError
from ringside.session.session import Result, Session
from ringside.timing.machine import Machine
from ringside.units import format_bytes, format_count

T = TypeVar("T")


class Ranks:
    """The fixture ``ranks``: calls into the student's module, within a budget of strikes."""

    def __init__(self, session: Session, record: SuiteRecord, job: SuiteJob) -> None:
        self._session = session
        self._record = record
        self._job = job
        self._limits = job.bounds
        self._struck: list[str] = []  # the calls that did not end
        self._spent_s = 0.0
        self._num_operations = 0
        self._result_bytes = 0
        self._once: dict[str, tuple[Any, set[int], list[whose_fault.Made]]] = {}
        self.world_sizes: set[int] = set()  # that the running test has used
        self.made: list[whose_fault.Made] = []  # its calls
        self.tally = Tally()

    def call(
        self,
        target: str,
        world_size: int,
        args: Any,
        *,
        members: Sequence[int] | None = None,
        machine: Machine | str | None = None,
        seed: int | None = None,
        states_work: bool = False,
    ) -> Result:
        """Call ``module:function`` on every rank; never raises for what student code does.

        ``states_work``: the arguments let supplied layers declare more work than they do, so it
        is not compared with the ranks' CPU time.

        A call that does not end is tried once more with twice the time, since the machine may
        have been busy. If that ends no better, it is a strike, and after the last one later calls
        are not made at all: one hang must not cost its time-out again in every test.
        """
        self.world_sizes.add(world_size)
        if len(self._struck) >= self._limits.strikes:
            raise Verdict(f"not run: an earlier call did not end ({self._struck[0]}).")
        if self._spent_s > self._limits.calls_s:
            raise Verdict(
                f"not run: earlier calls took {self._limits.calls_s:g} s and more in all."
            )
        if self._num_operations > self._limits.calls_operations:
            raise Verdict(
                f"not run: earlier calls made more than {self._limits.calls_operations:,} "
                "operations (sends, receives, waits, polls, work, messages of collectives) in "
                "all."
            )
        if self._result_bytes > self._limits.calls_result_bytes:
            raise Verdict(
                "not run: earlier calls returned more than "
                f"{format_bytes(self._limits.calls_result_bytes)} in all."
            )
        begun = time.monotonic()
        options = {"members": members, "machine": machine, "seed": seed}
        try:
            result = self._call(target, world_size, args, options, states_work)
        finally:
            self._spent_s += time.monotonic() - begun
        self._num_operations += result.num_operations
        self._result_bytes += result.result_bytes
        self.made.append(whose_fault.Made(target, world_size, args, options, result))
        return result

    def _call(
        self, target: str, world_size: int, args: Any, options: dict[str, Any], states_work: bool
    ) -> Result:
        first_s = self._limits.call_timeout_s
        for timeout_s in (first_s, self._limits.call_retry_factor * first_s):
            result = self._session.call(target, world_size, args, timeout_s=timeout_s, **options)
            self.tally.add(result, stated=states_work)
            if not isinstance(result.error, DeadlineError):
                return result
        first = args[0][0] if args and args[0] else None  # supplied callers are told what to call
        named = first if isinstance(first, str) and ":" in first else target
        self._struck.append(f"{named} on {format_count(world_size, 'rank')}")
        return result

    def once(self, name: str, run: Callable[[np.random.Generator], T]) -> T:
        """What ``run(rng)`` gives, made when it is first asked for under this name.

        Several tests may look at one run: its random numbers come from its own name.
        """
        before, self.world_sizes = self.world_sizes, set()
        earlier, self.made = self.made, []
        try:
            if name not in self._once:
                value = run(self._job.rng(name))
                self._once[name] = value, self.world_sizes, self.made
            known: tuple[T, set[int], list[whose_fault.Made]] = self._once[name]
            self.world_sizes, self.made = self.world_sizes | known[1], known[2]
            return known[0]
        finally:
            self.world_sizes = self.world_sizes | before
            self.made = earlier + self.made

    def values_fail(self) -> bool:
        """Whether a test of values has failed so far."""
        return any(t.kind == "values" and t.earned < t.points for t in self._record.tests)

    def record(self, case: Case, result: Result, allowed: dict[str, Any]) -> None:
        """Put what was counted beside what is allowed, and keep the first timeline.

        Library collectives count as a ring's messages.
        """
        entry = {
            "case": str(case),
            "sent_bytes": [round(count) for count in sent_as_ring(result)],
            "sent_messages": [int(count) for count in result.sent_messages()],
            "makespan_s": float(result.makespan_s),
            "allowed": {name: _plain(value) for name, value in allowed.items()},
        }
        self._record.counts.append(entry)
        if self._record.timeline_svg is None:
            self._record.timeline_svg = result.timeline._repr_html_()


def _plain(value: Any) -> Any:
    return [int(each) for each in value] if isinstance(value, list | tuple) else int(value)


class Mpi:
    """The fixtures ``mpi`` and ``gloo``: the same module on real ranks, in one go."""

    def __init__(self, real: RealRanks, ranks: Ranks, reference: Path) -> None:
        self._real = real
        self._ranks = ranks
        self._reference = reference

    def call(self, target: str, world_size: int, args: list[tuple[Any, ...]]) -> RealRun:
        """One call, as ``ranks.call`` takes it: a check of a run can be given either."""
        return self.call_all([(target, world_size, args)])[0]

    def call_all(self, calls: Sequence[tuple[str, int, list[tuple[Any, ...]]]]) -> list[RealRun]:
        """Make the calls one after another on real ranks; one result each.

        What fails on our network is not tried, nor what leaves a request open there: real ranks
        may wait for it for ever. What hangs on real ranks is the machine's
        fault, unless it hangs on our network too where sends wait for their receives. Ranks that
        end without an answer are the machine's fault where the reference's do so too.
        """
        self._rehearse(calls, buffered())

        @functools.cache  # once is enough: the network says the same each time
        def waiting_sends() -> None:
            self._rehearse(calls, rendezvous())

        try:
            return self._real.call_all([RealCall(*call) for call in calls], waiting_sends)
        except RealityUnavailable as reason:
            raise Verdict(f"not run: {one_line(str(reason))}", fraction=1.0) from None
        except RealityError as error:
            waiting_sends()
            if self._ranks.values_fail():  # a wrong module must not hide behind a fault of ours
                said = one_line(str(error))
                raise Verdict(f"wrong on the network, and here: {said}.") from None
            if isinstance(error, RanksEnded) and self._ends_again(calls):
                target = calls[0][0]
                raise Verdict(
                    f"under {self._real.launcher} the ranks of {target} ended, or took more than "
                    "they may, before they had returned a value."
                ) from None
            raise

    def _ends_again(self, calls: Sequence[tuple[str, int, list[tuple[Any, ...]]]]) -> bool:
        """Whether the reference answers where the submission, tried once more, does not."""
        made = [RealCall(*call) for call in calls]
        if any(run.error for run in self._real.of(self._reference).call_all(made)):
            return False
        try:
            self._real.call_all(made)
        except RanksEnded:
            return True
        return False

    def _rehearse(
        self, calls: Sequence[tuple[str, int, list[tuple[Any, ...]]]], machine: Machine
    ) -> None:
        for target, world_size, args in calls:
            result = self._ranks.call(target, world_size, args, machine=machine)
            headline = str(result.error).splitlines()[0] if result.error else open_request(result)
            if headline:
                headline, where = one_line(headline), self._real.launcher
                raise Verdict(f"not run under {where}, since it fails on the network: {headline}")
