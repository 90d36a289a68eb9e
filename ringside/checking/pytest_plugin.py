"""The pytest fixtures of the public tests: ``ranks``, ``rng``, ``mpi`` and ``gloo``.

    @shows("sum", "values", "ring")
    def test_four_ranks_get_the_sum(ranks, rng):
        result = ranks.call("ring:all_reduce", 4, [(rng.standard_normal(11),) for _ in range(4)])
        ...

``ring`` is ``ring.py`` above the folder of the tests, or beside the test. Most tests take cases in
the place of that (``ringside.checking.suite``). With ``--ringside-record FILE`` (``ringside check``
gives it) the tests' points, counts and first timelines are written to a JSON file. A call has the
time that the grader gives it; when one doesn't end, the module's other tests are not run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringside.checking.assertions import Verdict, noted
from ringside.checking.cases import CHECKS, Case
from ringside.checking.fresh_ranks import FreshRanks, run_again
from ringside.checking.points import MARK, Worth, give_points, worth_of
from ringside.checking.public_tests import CALL_TIMEOUT_S, NOT_BEGUN, TestRecord
from ringside.checking.pytest_process import Teller
from ringside.checking.real_calls import RealCalls, Worlds
from ringside.checking.requirements import Requirements, RequirementsError
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.run_pictures import pictured
from ringside.checking.suite import RealTest, Share, Test, asked, drawn, name_tests, test_of
from ringside.errors import DeadlineError, Interrupted, TargetError
from ringside.factors import Factors
from ringside.failures import Failures
from ringside.files import write_atomically
from ringside.mpi_there import found_mpiexec
from ringside.network.storage import Stores
from ringside.scale.fake_ranks import TorchTrace
from ringside.session.session import FRONT_ENDS, Result, Session
from ringside.timing.machine import Machine


@dataclass
class Record:
    """What the public tests found."""

    tests: list[TestRecord] = field(default_factory=list)
    requirements: dict[str, Requirements] = field(default_factory=dict)  # by module
    counts: list[dict[str, Any]] = field(default_factory=list)
    timelines: dict[str, str] = field(default_factory=dict)  # module: SVG of its first run
    timelines_of: dict[str, str] = field(default_factory=dict)  # module: test whose run it is
    fresh_ranks: defaultdict[str, FreshRanks] = field(
        default_factory=lambda: defaultdict(FreshRanks)
    )


class Running:
    """The test that runs: tells it to who listens, and knows of which modules a call did not end.

    Args:
        tell: takes what is told; see ``ringside.checking.pytest_process``.
    """

    def __init__(self, timeout_s: float, tell: Callable[..., None] = lambda **_: None) -> None:
        self.timeout_s = timeout_s  # of a call
        self.tell = tell
        self._module = ""
        self._hung: set[str] = set()
        self._begun: Counter[str] = Counter()
        self._all: Counter[str] = Counter()

    def did_not_end(self) -> None:
        """A call of the present test took all its time."""
        self._hung.add(self._module)

    def verify_ends(self) -> None:
        """What would hang as well is not begun."""
        if self._module in self._hung:
            raise Verdict(
                f"{NOT_BEGUN} of {self._module}.py did not end. "
                "If it is only slow, allow more: ringside check --timeout 60."
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All tests are known."""
        self._all.update(_module_of(item) for item in session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A test begins."""
        self._module = module = _module_of(item)
        self._begun[module] += 1
        number, of = self._begun[module], self._all[module]
        self.tell(do="begin", module=module, test=item.name, number=number, of=of)
        self.verify_ends()

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The reader stops the tests."""
        still = excinfo.value.still if isinstance(excinfo.value, Interrupted) else ()
        self.tell(do="stopped", still=still)


class Ranks:
    """Calls into modules of one folder, on simulated ranks."""

    def __init__(
        self, session: Session, record: Record, running: Running, worlds: Worlds, case: str = ""
    ) -> None:
        self._session = session
        self.worlds = worlds  # real ones
        self._case = case
        self._record = record
        self._running = running
        self.results: list[Result] = []  # of the running test
        self._num_calls = 0
        self.apart = False  # whether each call is made by new ranks

    @property
    def may_keep_something(self) -> bool:
        """Whether its ranks have made calls before those of the running test."""
        return self._num_calls > len(self.results)

    def table(self, test: Test) -> list[Share]:
        """The public cases of a test, or the one that was asked for."""
        return table_of(test, self._case)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[None]:
        """Each call in here is made by ranks that have made no other; nothing is recorded."""
        record, self._record, self.apart = self._record, Record(), True
        self._session.end_ranks()
        try:
            yield
        finally:
            self._record, self.apart = record, False

    def call(
        self,
        target: str,
        world_size: int,
        args: Any = (),
        *,
        members: Sequence[int] | None = None,
        machine: Machine | str | None = None,
        seed: int | None = None,
        factors: Factors | None = None,
        failures: Failures | None = None,
        stores: Stores | None = None,
    ) -> Result:
        """Call ``module:function`` on every rank; an error of student code is in the result.

        After a call that didn't end, no other of the same module is made: it would hang as well.
        """
        self._running.verify_ends()
        result = self._session.call(
            target,
            world_size,
            args,
            members=members,
            machine=machine,
            seed=seed,
            timeout_s=self._running.timeout_s,
            factors=factors,
            failures=failures,
            stores=stores,
            last=self.apart,
        )
        self.results.append(result)
        self._num_calls += 1
        if isinstance(result.error, DeadlineError):
            self._running.did_not_end()
            return result  # to draw what had no end may take longer than the run
        module = target.partition(":")[0].removesuffix(".py")
        if world_size > 1 and module not in self._record.timelines and any(result.trace.ops):
            self._record.timelines[module] = result.timeline._repr_html_()
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
        """Trace ``module:function`` of torch on fake tensors, as ``ringside.trace_torch`` does."""
        self._running.verify_ends()
        try:
            return self._session.trace_torch(
                target, world_size, args, grid=grid, alike=alike, timeout_s=self._running.timeout_s
            )
        except DeadlineError:
            self._running.did_not_end()
            raise

    def record(self, case: Case, result: Result, allowed: dict[str, Any]) -> None:
        """Put what was counted, collectives as a ring's, beside what is allowed."""
        self._record.counts.append(
            {
                "case": str(case),
                "sent_bytes": [round(count) for count in sent_as_ring(result)],
                "sent_messages": [int(count) for count in result.sent_messages()],
                "makespan_s": float(result.makespan_s),
                "allowed": {name: np.asarray(value).tolist() for name, value in allowed.items()},
            }
        )


_RECORD = pytest.StashKey[Record]()
_RUNNING = pytest.StashKey[Running]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--ringside-record FILE``, ``--ringside-modules NAMES`` and what ``ringside check`` asks."""
    group = parser.getgroup("ringside")
    group.addoption("--ringside-record", type=Path, help="write the points to this JSON file")
    group.addoption("--ringside-modules", default="", help="only tests of these modules, by comma")
    group.addoption("--ringside-test", default="", help="only tests of this name")
    group.addoption("--ringside-case", default="", help="only this case, of the tests that take it")
    group.addoption(
        "--ringside-timeout", type=float, default=CALL_TIMEOUT_S, help="seconds of a call on ranks"
    )
    group.addoption("--ringside-tell", type=int, help="descriptor of a socket: who follows")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that carries points."""
    config.addinivalue_line("markers", MARK)
    config.stash[_RECORD] = Record()
    descriptor = config.getoption("--ringside-tell")
    listener = {} if descriptor is None else {"tell": Teller(descriptor).tell}
    running = Running(config.getoption("--ringside-timeout"), **listener)
    config.stash[_RUNNING] = running
    config.pluginmanager.register(running, "ringside-running")


@pytest.hookimpl(tryfirst=True)  # before `-k` leaves some out, whose weights count
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other modules."""
    modules = {name for name in config.getoption("--ringside-modules").split(",") if name}
    test_name = config.getoption("--ringside-test").removeprefix("test_")
    case = config.getoption("--ringside-case")
    name_tests(items)
    try:
        config.stash[_RECORD].requirements = dict(give_points(items))
    except RequirementsError as error:
        raise pytest.UsageError(str(error)) from None
    left_out = [
        item
        for item in items
        if (modules and _module_of(item) not in modules)
        or (test_name and _named(item.name) != test_name)
        or (case and not _takes(item, case))
    ]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _takes(item: pytest.Item, case: str) -> bool:
    """Whether a test has cases such as this one."""
    test = test_of(item)
    try:
        return test is not None and bool(asked(test, case))
    except TargetError:
        return False


def _named(name: str) -> str:
    """A test's name on the command line: without ``test_`` and the case in brackets."""
    return name.removeprefix("test_").partition("[")[0]


def _module_of(item: pytest.Item) -> str:
    worth = worth_of(item)
    return worth.module if worth else ""


@pytest.fixture(scope="module")
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """Simulated ranks that run the modules beside the test."""
    config, folder = request.config, folder_of(request)
    case = config.getoption("--ringside-case")
    items = [item for item in request.session.items if item.path == request.path]
    # What takes seconds to start gets ready now, while the first tests run.
    of_torch = any(_module_of(item).endswith("_torch") for item in items)
    preload = FRONT_ENDS["torch"] if of_torch and find_spec("torch") else ()
    with (
        contextlib.closing(Worlds(folder, found_mpiexec() or "")) as worlds,
        Session(folder, confined=True, preload=preload) as session,
    ):
        for item in items:
            test = test_of(item)
            if isinstance(test, RealTest):
                for p in sorted({one.p for each in table_of(test, case) for one in each.cases}):
                    worlds.start(test.launcher, p)
        yield Ranks(session, config.stash[_RECORD], config.stash[_RUNNING], worlds, case)


def folder_of(request: pytest.FixtureRequest) -> Path:
    """Where the modules lie: beside the tests, or above a folder `checks`."""
    folder = request.path.parent
    return folder.parent if folder.name == CHECKS else folder


def table_of(test: Test, case: str) -> list[Share]:
    """The public cases of a test, or the one that was asked for."""
    return asked(test, case) if case else drawn(test.public, random_of(test.name))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers, other ones in each test and the same ones each time."""
    return random_of(request.node.name)


def random_of(test: str) -> np.random.Generator:
    """The random numbers of a test."""
    digest = hashlib.sha256(test.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@pytest.fixture
def mpi(ranks: Ranks) -> RealCalls:
    """Calls under the real launcher of this machine; where there is none, the test is skipped."""
    if found_mpiexec() is None:
        pytest.skip("there is no mpiexec on this machine; `ringside doctor` says how to get one")
    return RealCalls("mpiexec", ranks, ranks.worlds)


@pytest.fixture
def gloo(ranks: Ranks) -> RealCalls:
    """Calls on real processes that torch's gloo connects."""
    return RealCalls("gloo", ranks, ranks.worlds)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the points of a test that has some."""
    report = yield
    worth = worth_of(item)
    if worth is not None and (call.when == "call" or call.excinfo is not None):
        test = _note(item, worth, call)
        item.config.stash[_RECORD].tests.append(test)
        item.config.stash[_RUNNING].tell(do="end", full=test.earned >= test.points)
    return report


def _note(item: pytest.Item, worth: Worth, call: pytest.CallInfo[None]) -> TestRecord:
    test = TestRecord(
        item.name,
        worth.module,
        worth.kind,
        worth.requirement,
        worth.points,
        seconds=round(call.duration, 3),
    )
    ranks = getattr(item, "funcargs", {}).get("ranks")
    results: list[Result] = []
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(ranks, Ranks):
        if isinstance(error, Verdict) and ranks.may_keep_something:
            # Now: the fixtures that a second run needs end with the test's teardown.
            error = _decided(item, ranks, test.module, error)
        results, ranks.results = ranks.results, []
    if error is None:
        test.earned = test.points
        return test
    if isinstance(error, pytest.skip.Exception):
        test.points, test.message, test.skipped = 0.0, str(error), True
    elif isinstance(error, Verdict):
        test.earned = round(test.points * min(1.0, max(0.0, error.fraction)), 4)
        detail = noted(error.detail, results) if test.kind == "values" else error.detail
        test.message = "\n".join(filter(None, [error.sentence, detail]))
        test.reproduce = error.reproduce
        _draw(item.config.stash[_RECORD], test, error)
        if test_of(item) is None:
            test.reproduce = f"ringside check {test.module} --test {_named(test.name)}"
    elif isinstance(error, subprocess.TimeoutExpired):
        test.message = f"the real ranks did not end within {error.timeout:g} s."
    else:
        test.message = f"{type(error).__name__}: {error}"
    return test


def _draw(record: Record, test: TestRecord, verdict: Verdict) -> None:
    """The run of the first failed test of order or time, in the place of another one."""
    run = pictured(test.kind, verdict)
    if run is not None and test.module not in record.timelines_of:
        record.timelines[test.module] = run.timeline._repr_html_()
        record.timelines_of[test.module] = test.name


def _decided(item: pytest.Item, ranks: Ranks, module: str, verdict: Verdict) -> Verdict | None:
    """The verdict that counts, where ranks that have made no call may say another."""

    def again() -> None:
        with ranks.fresh():
            run_again(item, random_of(item.name))

    return item.config.stash[_RECORD].fresh_ranks[module].decide(verdict, again)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the record where it was asked for."""
    path = session.config.getoption("--ringside-record")
    if path:
        record = session.config.stash[_RECORD]
        content = {name: getattr(record, name) for name in ("counts", "timelines", "timelines_of")}
        content["tests"] = [asdict(test) for test in record.tests]
        content["requirements"] = {name: asdict(r) for name, r in record.requirements.items()}
        write_atomically(path, json.dumps(content).encode())
