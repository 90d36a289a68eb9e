"""The fixtures ``ranks``, ``mpi`` and ``gloo``: calls into the student's module, counted."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.grade.suite import whose_fault
from autograder.grade.suite.disclosure import Disclosure
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.reality import (
    RanksDoNotEnd,
    RanksEnded,
    RealCall,
    RealityError,
    RealityUnavailable,
    RealRanks,
)
from autograder.grade.suite.result import ModuleResult
from autograder.sandbox.allowance import Allowance
from ringside.checking import Verdict, buffered, one_line, rendezvous
from ringside.checking.cases import Case
from ringside.checking.real_calls import WAIT_ONCE, RealRun, rehearsed
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Share, Test, drawn
from ringside.draw import timeline_svg
from ringside.errors import DeadlineError
from ringside.factors import Factors
from ringside.failures import Failures
from ringside.network.storage import Stores
from ringside.scale.fake_ranks import TorchTrace
from ringside.session.session import Result, Session
from ringside.timing.machine import Machine
from ringside.units import format_bytes, format_count


class Ranks:
    """The fixture ``ranks``: calls into the student's module, within what it may use.

    Args:
        allowance: what ends a call of the session, and then all that follow.
    """

    def __init__(
        self, session: Session, record: ModuleResult, job: SuiteJob, allowance: Allowance
    ) -> None:
        self._session = session
        self._record = record
        self._job = job
        self._limits = job.bounds
        self._allowance = allowance
        self._endless = ""  # the call that did not end, or the last one before all was used up
        self._num_operations = 0
        self._result_bytes = 0
        self.world_sizes: set[int] = set()  # that the running test has used
        self.made: list[whose_fault.Made] = []  # its calls
        self._called_before = False  # whether there were calls before the running test
        self._called = False
        self.apart = False  # whether each call is made by new ranks
        self.disclosure = Disclosure(Path(job.folder))

    def begin(self) -> None:
        """A test begins."""
        self.world_sizes, self.made = set(), []
        self._called_before = self._called

    def table(self, test: Test) -> list[Share]:
        """The hidden cases of a test; what they draw comes from the course's secret."""
        if not test.hidden:
            raise LookupError(f"{test.name} has no hidden cases: give it some in hidden/cases.py")
        rng = self._job.rng(f"test_{test.name}")
        return [
            dataclasses.replace(
                each,
                cases=tuple(case.with_(seed=int(rng.integers(2**31))) for case in each.cases),
            )
            for each in drawn(test.hidden, rng)
        ]

    @property
    def may_keep_something(self) -> bool:
        """Whether the running test's ranks have made other calls, and no limit of all is met."""
        used_up = self._endless or self._num_operations > self._limits.calls_operations
        used_up = used_up or self._result_bytes > self._limits.calls_result_bytes
        return self._called_before and not used_up

    @contextlib.contextmanager
    def fresh(self) -> Iterator[None]:
        """Each call in here is made by ranks that have made no other; nothing is recorded."""
        self.apart = True
        num_counts = len(self._record.counts)
        self._session.end_ranks()
        try:
            yield
        finally:
            self.apart = False
            del self._record.counts[num_counts:]

    def call(
        self,
        target: str,
        world_size: int,
        args: Any,
        *,
        members: Sequence[int] | None = None,
        machine: Machine | str | None = None,
        seed: int | None = None,
        factors: Factors | None = None,
        failures: Failures | None = None,
        stores: Stores | None = None,
    ) -> Result:
        """Call ``module:function`` on every rank; never raises for what student code does.

        ``factors``: the order of passes is observed; draw new ones for each call, since ranks live
        on.

        A call that does not end uses up what all calls of the module have together, and later
        ones are not made: one hang must not cost its time again in every test.
        """
        self.world_sizes.add(world_size)
        self._called = True
        if self._endless:
            raise Verdict(f"not run: an earlier call did not end ({self._endless}).")
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
        options: dict[str, Any] = {
            "members": members, "machine": machine, "seed": seed, "factors": factors,
            "failures": failures,
        }  # fmt: skip
        before = None if stores is None else stores.copy()
        left_s = self._allowance.left_s
        with self._allowance.calling():
            result = self._session.call(
                target, world_size, args, timeout_s=left_s, last=self.apart, stores=stores,
                **options,
            )  # fmt: skip
        options["stores"] = before  # as they were: who makes the call again needs them
        # Before any check sees it: a sentence of theirs may quote the error.
        result = self.disclosure.of_run(result)
        if self._allowance.ended:
            first = args[0][0] if args and args[0] else None  # what supplied callers shall call
            function = first if isinstance(first, str) and ":" in first else target
            self._endless = f"{function} on {format_count(world_size, 'rank')}"
            self.record_clock(self._allowance.ended_by_clock)
        self._num_operations += result.num_operations
        self._result_bytes += result.result_bytes
        self.made.append(whose_fault.Made(target, world_size, args, options, result))
        return result

    def trace(
        self,
        target: str,
        world_size: int,
        args: tuple[Any, ...],
        *,
        grid: Mapping[str, int] | None = None,
        alike: Sequence[str] | None = (),
    ) -> TorchTrace:
        """Trace ``module:function`` of torch on fake tensors, as ``ringside.trace_torch`` does.

        No hidden input may be among ``args``: a verdict may tell what the trace does.

        Raises:
            RunError, TraceError: it can't be traced.
        """
        if self._endless:
            raise Verdict(f"not run: an earlier call did not end ({self._endless}).")
        left_s = self._allowance.left_s
        with self._allowance.calling():
            try:
                return self._session.trace_torch(
                    target, world_size, args, grid=grid, alike=alike, timeout_s=left_s
                )
            except DeadlineError:
                self._endless = f"a trace of {target} on {format_count(world_size, 'rank')}"
                self.record_clock(self._allowance.ended_by_clock)
                raise

    def record_clock(self, ended_by_clock: bool) -> None:
        """Note whether only the clock has ended a call: then the whole module is graded again."""
        self._record.ended_by_clock |= ended_by_clock

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
            self._record.timeline_svg = timeline_svg(result.timeline)


def _plain(value: Any) -> Any:
    return [int(number) for number in value] if isinstance(value, list | tuple) else int(value)


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
        may wait for it for ever. Where this machine has no real ranks, the results are those of
        simulated ones: a test that looks at values earns its points by them. Real ranks that don't
        end, or end without an answer, are the submission's fault where the reference's answer;
        else it is the machine's.
        """
        rehearsed = self._rehearse(calls, buffered())
        try:
            return [self._ranks.disclosure.of_run(run) for run in self._real_runs(calls)]
        except RealityUnavailable:
            return rehearsed
        except RealityError as error:
            reason = one_line(str(error))
            if self._ranks.values_fail():  # a wrong module must not hide behind a fault of ours
                raise Verdict(f"wrong on the network, and here: {reason}.") from None
            if self._is_the_modules(error, calls):
                raise self._blamed(error, calls[0][0]) from None
            raise

    def _real_runs(self, calls: Sequence[tuple[str, int, list[tuple[Any, ...]]]]) -> list[RealRun]:
        """What real ranks answer. If they don't end soon, and the network doesn't know why, they
        get all their time."""
        real_calls = [RealCall(*call) for call in calls]
        try:
            return self._real.call_all(real_calls, soon=True)
        except RealityUnavailable:
            raise
        except RealityError as error:
            # Perhaps the network knows the reason, where sends wait for their receives.
            self._rehearse(calls, rendezvous())
            if not isinstance(error, RanksDoNotEnd):
                raise
        return self._real.call_all(real_calls)

    def _is_the_modules(
        self, error: RealityError, calls: Sequence[tuple[str, int, list[tuple[Any, ...]]]]
    ) -> bool:
        """Whether the reference answers where the submission does not.

        Ranks that have ended are tried once more, as a machine may end them. Ranks that do not end
        have used up time of their own, which no machine makes them do.
        """
        real_calls = [RealCall(*call) for call in calls]
        try:
            if any(run.error for run in self._real.of(self._reference).call_all(real_calls)):
                return False
        except RealityError:
            return False
        if isinstance(error, RanksDoNotEnd):
            self._ranks.record_clock(error.by_clock)
            return True
        try:
            self._real.call_all(real_calls)
        except RanksEnded:
            return True
        return False

    def _blamed(self, error: RealityError, target: str) -> Verdict:
        launcher = self._real.launcher
        if isinstance(error, RanksDoNotEnd):
            hint = f" {WAIT_ONCE}" if launcher == "gloo" else ""
            sentence = (
                f"under {launcher} the calls of {target} did not end {error.allowed}, though they "
                f"end on the network.{hint}"
            )
        else:
            sentence = (
                f"under {launcher} the ranks of {target} ended, or took more than they may, before "
                "they had returned a value."
            )
        return Verdict(sentence, on_real_ranks=True)

    def _rehearse(
        self, calls: Sequence[tuple[str, int, list[tuple[Any, ...]]]], machine: Machine
    ) -> list[RealRun]:
        runs = []
        for call in calls:
            result = rehearsed(self._ranks, call, machine, self._real.launcher)
            runs.append(RealRun(result.values, None))
        return runs
