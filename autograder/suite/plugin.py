"""The pytest plugin that runs a hidden suite over one submission and writes down the points.

pytest runs trusted and outside; student modules run in the sandboxed ranks of one ``Session``.

    python -m pytest -p autograder.suite.plugin --job JOB.json solutions/a03_allreduce/test_ring.py

``JOB.json`` (``Job``) says where the modules lie and where the record goes. The record is
written at the end, whole or not at all; without it, whatever the exit status, nothing is graded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.sandbox.sandbox import Sandbox
from autograder.sandbox.warm_sandbox import Host, WarmSandbox, known
from autograder.suite import whose_fault
from autograder.suite.plausibility import Tally
from autograder.suite.reality import (
    Call,
    RanksEnded,
    RealityError,
    RealityUnavailable,
    RealRanks,
    RealRun,
)
from ringside.checking import (
    Case,
    Verdict,
    buffered,
    cut,
    noted,
    one_line,
    open_request,
    rendezvous,
)
from ringside.checking.ring_bytes import sent_as_ring
from ringside.errors import DeadlineError
from ringside.files import write_atomically
from ringside.session.session import Result, Session
from ringside.timing.machine import Machine
from ringside.units import format_count

VALUES_ONLY = ("values", "reality")  # what graders look at that compare results alone
KINDS = ("values", "communication", "schedule", "memory", "safety", "speed", "reality")
MESSAGE_LIMIT, DETAIL_LIMIT = 600, 4000
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What one run of the suite is about."""

    module: str
    folder: str  # the student's modules and the supplied ones
    record: str  # where the record is written
    secret: str
    module_hash: str
    sandbox: bool
    limits: dict[str, Any] = field(default_factory=dict)  # where they aren't the kit's
    about: str = ""  # a test: run only what tells whether it fails, and any test of values does
    hosts: Sequence[str] = ()  # warm ones that may be used, for simulated ranks and real ones

    @property
    def bounds(self) -> Limits:
        """What this module may use."""
        return Limits(**self.limits).for_module(self.module)

    def rng(self, name: str) -> np.random.Generator:
        """Random numbers of a test, or of a run that tests share."""
        words = "\0".join((self.secret, name, self.module_hash))
        digest = hashlib.sha256(words.encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@dataclass
class TestRecord:
    """One test's result; ``message`` holds author's sentences only."""

    __test__ = False  # for pytest, which looks for classes named Test...

    name: str
    kind: str
    points: float
    earned: float = 0.0
    message: str = ""
    detail: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    world_sizes: list[int] = field(default_factory=list)  # of its runs


@dataclass
class Record:
    """What the suite found about one module."""

    module: str
    tests: list[TestRecord] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    timeline_svg: str | None = None
    sandbox: str = "none"
    flags: list[str] = field(default_factory=list)
    error: str | None = None  # a fault of ours: then nothing counts


class Ranks:
    """The fixture ``ranks``: calls into the student's module, within a budget of strikes."""

    def __init__(self, session: Session, record: Record, job: Job) -> None:
        self._session = session
        self._record = record
        self._job = job
        self._limits = job.bounds
        self._struck: list[str] = []  # the calls that did not end
        self._spent_s = 0.0
        self._num_operations = 0
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
                "operations (sends, receives, waits, polls, work) in all."
            )
        begun = time.monotonic()
        options = {"members": members, "machine": machine, "seed": seed}
        try:
            result = self._call(target, world_size, args, options, states_work)
        finally:
            self._spent_s += time.monotonic() - begun
        self._num_operations += sum(map(len, result.recording.ops))
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
        first = args[0][0] if args and args[0] else None  # supplied trials are told what to call
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
            return self._real.call_all([Call(*call) for call in calls], waiting_sends)
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
        made = [Call(*call) for call in calls]
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


_RECORDER = pytest.StashKey["Recorder"]()


@pytest.fixture(scope="session")
def ranks(pytestconfig: pytest.Config) -> Iterator[Ranks]:
    """Calls into the submission on simulated ranks, sandboxed unless submissions are trusted."""
    recorder = pytestconfig.stash[_RECORDER]
    folder = Path(recorder.job.folder)
    with contextlib.ExitStack() as stack:
        if recorder.job.sandbox:
            limits = recorder.job.bounds
            host = _host(recorder.job, 0)
            place = stack.enter_context(
                Sandbox(folder, limits=limits)
                if host is None
                else WarmSandbox(host, folder, limits=limits)
            )
            recorder.record.sandbox = place.tier
            session = Session(
                folder,
                launcher=place.popen,  # type: ignore[arg-type]
                folder_inside=str(place.modules_path),
                kit_inside=str(place.kit_path),
                strict=True,
            )
        else:
            recorder.record.sandbox = "none (submissions trusted)"
            session = Session(folder)
        stack.enter_context(session)
        recorder.ranks = Ranks(session, recorder.record, recorder.job)
        yield recorder.ranks


@pytest.fixture(scope="session")
def mpi(pytestconfig: pytest.Config, ranks: Ranks) -> Mpi:
    """Calls into the submission under a real ``mpiexec``."""
    job = pytestconfig.stash[_RECORDER].job
    host = _host(job, 1)
    real = RealRanks(Path(job.folder), sandbox=job.sandbox, host=host, limits=job.bounds)
    return Mpi(real, ranks, _reference(pytestconfig))


@pytest.fixture(scope="session")
def gloo(pytestconfig: pytest.Config, ranks: Ranks) -> Mpi:
    """Calls into the submission on torch.distributed's own gloo."""
    job = pytestconfig.stash[_RECORDER].job
    host = _host(job, 1)
    real = RealRanks(
        Path(job.folder), sandbox=job.sandbox, launcher="gloo", host=host, limits=job.bounds
    )
    return Mpi(real, ranks, _reference(pytestconfig))


def _reference(config: pytest.Config) -> Path:
    """The solution of the assignment whose suite this is."""
    return Course.here().solution(Path(config.args[0]).parent.name)


def _host(job: Job, number: int) -> Host | None:
    """The warm host for simulated ranks (0) or real ones (1), where one is to be used."""
    return known.get(job.hosts[number]) if job.hosts else None


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers from the course's secret, the test and the module: same on regrade."""
    return request.config.stash[_RECORDER].job.rng(request.node.name)


def _kind(item: pytest.Item) -> str:
    """What a test's points are for."""
    marker = item.get_closest_marker("points")
    return str(marker.kwargs.get("kind")) if marker is not None else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--job FILE``."""
    parser.addoption("--job", required=False, help="JSON file that describes the submission")


def pytest_configure(config: pytest.Config) -> None:
    """Read the job, and register the marker that carries points."""
    config.addinivalue_line("markers", "points(number, kind, module): what a test is worth")
    path = config.getoption("--job")
    if path:
        job = Job(**json.loads(Path(path).read_text(encoding="utf-8")))
        config.stash[_RECORDER] = Recorder(job)
        config.pluginmanager.register(config.stash[_RECORDER], "ringside-recorder")


class Recorder:
    """Takes the points of one run."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.record = Record(job.module)
        self.ranks: Ranks | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Verification of a wrong module: the test it must fail first, then those of values."""
        if not self.job.about:
            return
        kinds = {item.name: _kind(item) for item in items}
        kinds[self.job.about] = "asked"
        order = ("asked", "values", "reality")
        chosen = [item for item in items if kinds[item.name] in order]
        items[:] = sorted(chosen, key=lambda item: order.index(kinds[item.name]))

    def pytest_runtest_logfinish(self) -> None:
        """A test has ended; in verification, enough may be known."""
        failed = [test.kind for test in self.record.tests if test.earned < test.points]
        if self.job.about and any(kind in VALUES_ONLY for kind in failed):
            self._session.shouldstop = "a test of values fails: the others would say no more"

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Tests are about to be collected."""
        self._session = session

    def pytest_runtest_call(self) -> None:
        """A test begins, its fixtures made."""
        if self.ranks is not None:
            self.ranks.world_sizes, self.ranks.made = set(), []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        """Take points and sentence; any error that is no verdict is ours."""
        report = yield
        if call.when == "call":
            self._note(item, call)
        elif call.excinfo is not None:
            self._fault(item.name, call.excinfo)
        return report

    def _note(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        marker = item.get_closest_marker("points")
        kind = _kind(item)
        if marker is None or kind not in KINDS:
            self.record.error = f"{item.name} has no points marker with a known kind"
            return
        test = TestRecord(item.name, kind, float(marker.args[0]))
        test.seconds = round(call.duration, 3)
        test.world_sizes = sorted(self.ranks.world_sizes) if self.ranks is not None else []
        if call.excinfo is None:
            test.earned = test.points
        elif isinstance(call.excinfo.value, Verdict):
            verdict = call.excinfo.value
            test.earned = round(test.points * min(1.0, max(0.0, verdict.fraction)), 4)
            test.message = cut(verdict.sentence, MESSAGE_LIMIT)
            made = self.ranks.made if self.ranks is not None and kind == "values" else []
            detail = noted(verdict.detail, [each.result for each in made])
            test.detail = cut(detail, DETAIL_LIMIT)
            test.reproduce = cut(verdict.reproduce, MESSAGE_LIMIT)
        elif target := self._misshapen(item):
            test.message = f"what came back from {target} has not the form that it must have."
            self.record.flags.append(
                f"{item.name} could not read what {target} gave back, where the reference's can "
                "be read: see whether the module puts something in the place of supplied files."
            )
        else:
            test.message = "the grader failed here; this is no fault of the submission."
            self._fault(item.name, call.excinfo)
        self.record.tests.append(test)

    def _misshapen(self, item: pytest.Item) -> str:
        """The target whose answer a test could not read, if that is the submission's fault."""
        if self.ranks is None or not self.ranks.made:
            return ""
        try:
            reference = Course.here().solution(item.path.parent.name)
            return whose_fault.misshapen(self.ranks.made, reference)
        except Exception:  # then it is ours
            return ""

    def _fault(self, name: str, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        lines = traceback.format_exception_only(excinfo.type, excinfo.value)
        place = excinfo.traceback[-1]
        self.record.error = (
            f"{name}: {''.join(lines).strip()[:400]} ({place.path}:{place.lineno + 1})"
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A suite that can't be read is a fault of ours."""
        if report.failed:
            self.record.error = f"the suite cannot be read: {str(report.longrepr)[-600:]}"

    def pytest_sessionfinish(self) -> None:
        """Write the record, whole."""
        if self.ranks is not None:
            self.record.flags += self.ranks.tally.flags()
        content = json.dumps(asdict(self.record), allow_nan=False)
        write_atomically(Path(self.job.record), content.encode())
