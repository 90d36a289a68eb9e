"""The pytest plugin that runs a hidden suite over one submission and writes down the points.

pytest runs trusted and outside; student modules run in the sandboxed ranks of one ``Session``.

    python -m pytest -p autograder.grade.suite.plugin --job JOB.json SUITE/test_ring.py

``JOB.json`` (``SuiteJob``) says where the modules lie and where the record goes. The record is
written at the end, whole or not at all; without it, whatever the exit status, nothing is graded.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.grade.real_ranks.hash_order import may_depend_on_hashes
from autograder.grade.suite import whose_fault
from autograder.grade.suite.calls import Mpi, Ranks
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.reality import RealRanks
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.sandbox.allowance import Allowance
from autograder.sandbox.sandbox import Sandbox
from autograder.sandbox.warm_sandbox import WarmNursery, WarmSandbox, known
from ringside.checking import Verdict, cut, noted
from ringside.checking.fresh_ranks import FreshRanks, arguments_of, run_again
from ringside.checking.points import MARK, give_points, worth_of
from ringside.checking.requirements import RequirementsError
from ringside.checking.run_pictures import pictured
from ringside.checking.suite import name_tests
from ringside.draw import timeline_svg
from ringside.files import write_atomically
from ringside.network.bounds import Limits as NetworkLimits
from ringside.network.processes import of_tree
from ringside.session.session import Session

KINDS = ("values", "communication", "schedule", "memory", "safety", "speed", "reality")
MESSAGE_LIMIT, DETAIL_LIMIT = 600, 4000
_RECORDER = pytest.StashKey["Recorder"]()


@pytest.fixture(scope="session")
def ranks(pytestconfig: pytest.Config) -> Iterator[Ranks]:
    """Calls into the submission on simulated ranks, sandboxed unless submissions are trusted."""
    recorder = pytestconfig.stash[_RECORDER]
    job, record = recorder.job, recorder.record
    folder, limits = Path(job.folder), job.bounds
    allowance = Allowance(limits)
    with contextlib.ExitStack() as stack:
        if job.sandbox:
            nursery = _nursery(job, 0)
            sandbox = stack.enter_context(
                Sandbox(folder, limits=limits, proc=False)
                if nursery is None
                else WarmSandbox(nursery, folder, limits=limits, proc=False)
            )
            record.sandbox = sandbox.tier
            session = Session(
                folder,
                launcher=sandbox.popen,  # type: ignore[arg-type]
                folder_inside=str(sandbox.modules_path),
                kit_inside=str(sandbox.kit_path),
                strict=True,
                limits=network_limits(limits),
                patience=allowance,
            )
        else:
            record.sandbox = "none (submissions trusted)"
            session = Session(
                folder,
                confined=True,
                at_home=False,
                limits=network_limits(limits),
                patience=allowance,
                debug_rank=job.debug_rank,
            )
        # After its sandbox, so that it is ended before the sandbox is.
        stack.enter_context(session)
        if job.sandbox:
            # Counting begins here: what starting took is not the submission's.
            allowance.watch(sandbox.reading, sandbox.lower_priority)
        else:
            allowance.watch(lambda: of_tree(session.process))
        recorder.ranks = Ranks(session, record, job, allowance)
        yield recorder.ranks


def network_limits(limits: Limits) -> NetworkLimits:
    """What ranks may make this process hold, in proportion to what they may use themselves.

    It is eight times and more what any reference needs: 33,000 operations in a call and 11 MB.
    """
    held_bytes = limits.memory_bytes // 8
    return NetworkLimits(
        operations=limits.calls_operations // 2,
        frame_bytes=held_bytes,
        held_bytes=held_bytes,
        result_bytes=limits.result_bytes,
        decoded_bytes=limits.result_bytes // 2,
        site_bytes=limits.result_bytes // 4,
    )


@pytest.fixture(scope="session")
def mpi(pytestconfig: pytest.Config, ranks: Ranks) -> Mpi:
    """Calls into the submission under a real ``mpiexec``."""
    job = pytestconfig.stash[_RECORDER].job
    nursery = _nursery(job, 1)
    real = RealRanks(
        Path(job.folder),
        sandbox=job.sandbox,
        nursery=nursery,
        limits=job.bounds,
        own_hashes=_own_hashes(job),
    )
    return Mpi(real, ranks, _reference(Path(pytestconfig.args[0])))


@pytest.fixture(scope="session")
def gloo(pytestconfig: pytest.Config, ranks: Ranks) -> Mpi:
    """Calls into the submission on torch.distributed's own gloo."""
    job = pytestconfig.stash[_RECORDER].job
    nursery = _nursery(job, 1)
    real = RealRanks(
        Path(job.folder),
        sandbox=job.sandbox,
        launcher="gloo",
        nursery=nursery,
        limits=job.bounds,
        own_hashes=_own_hashes(job),
    )
    return Mpi(real, ranks, _reference(Path(pytestconfig.args[0])))


def _own_hashes(job: SuiteJob) -> bool:
    """Whether the ranks of this module must not share the seed of their hashes."""
    source = (Path(job.folder) / f"{job.module}.py").read_text(encoding="utf-8", errors="replace")
    return may_depend_on_hashes(source)


def _reference(suite: Path) -> Path:
    """The folder of the solution, from a suite's file: ``solutions/NAME/checks/test_MODULE.py``."""
    return Course.here().solution(suite.parents[1].name)


def _nursery(job: SuiteJob, number: int) -> WarmNursery | None:
    """The warm nursery for simulated ranks (0) or real ones (1), where one is to be used."""
    return known.get(job.nurseries[number]) if job.nurseries else None


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers from the course's secret, the test and the module: same on regrade."""
    return request.config.stash[_RECORDER].job.rng(request.node.name)


def _text_of(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """An exception for the instructor: what, and where it was raised."""
    lines = traceback.format_exception_only(excinfo.type, excinfo.value)
    frame = excinfo.traceback[-1]
    return f"{''.join(lines).strip()[:400]} ({frame.path}:{frame.lineno + 1})"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--job FILE``."""
    parser.addoption("--job", required=False, help="JSON file that describes the submission")


def pytest_configure(config: pytest.Config) -> None:
    """Read the job, and register the mark of tests."""
    config.addinivalue_line("markers", MARK)
    path = config.getoption("--job")
    if path:
        job = SuiteJob(**json.loads(Path(path).read_text(encoding="utf-8")))
        config.stash[_RECORDER] = Recorder(job)
        config.pluginmanager.register(config.stash[_RECORDER], "ringside-recorder")
        read_hidden_cases(Path(config.args[0]))


def read_hidden_cases(suite: Path) -> None:
    """Give the tests of a file in ``checks/`` their hidden cases."""
    unit = suite.parents[1]
    sys.path.append(str(unit))  # tests and cases import `checks` and `given`
    if (unit / "hidden" / "cases.py").is_file():
        importlib.import_module("hidden.cases")


class Recorder:
    """Takes the points of one run."""

    def __init__(self, job: SuiteJob) -> None:
        self.job = job
        self.record = ModuleResult(job.module, sandbox="none")
        self.ranks: Ranks | None = None
        self.fresh_ranks = FreshRanks()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give the tests their names and points; of a sample's wrong module run the one asked."""
        name_tests(items)
        try:
            self.record.requirements = give_points(items).get(self.record.module)
        except RequirementsError as error:
            self.record.error = str(error)
        if self.job.about:
            items[:] = [item for item in items if item.name == self.job.about]
            if not items:
                self.record.error = f"the suite has no test {self.job.about!r}"

    def pytest_runtest_call(self) -> None:
        """A test begins, its fixtures made."""
        if self.ranks is not None:
            self.ranks.begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        """Take points and sentence; any error before a call of the submission is ours."""
        report = yield
        if call.when == "call":
            self._note(item, call)
        elif call.excinfo is not None:
            self._fault(item.name, call.excinfo)
        return report

    def _note(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        worth = worth_of(item)
        if worth is None or worth.kind not in KINDS:
            self.record.error = f"{item.name} has no mark `shows` with a known kind"
            return
        kind = worth.kind
        test = TestResult(item.name, kind, worth.points, requirement=worth.requirement)
        test.seconds = round(call.duration, 3)
        test.world_sizes = sorted(self.ranks.world_sizes) if self.ranks is not None else []
        error = call.excinfo.value if call.excinfo is not None else None
        verdict = self._decided(item, error) if isinstance(error, Verdict) else None
        if call.excinfo is None or (isinstance(error, Verdict) and verdict is None):
            test.earned = test.points
        elif verdict is not None:
            test.earned = round(test.points * min(1.0, max(0.0, verdict.fraction)), 4)
            test.message = cut(verdict.sentence, MESSAGE_LIMIT)
            calls = self.ranks.made if self.ranks is not None and kind == "values" else []
            detail = noted(verdict.detail, [call.result for call in calls])
            test.detail = cut(detail, DETAIL_LIMIT)
            test.reproduce = cut(verdict.reproduce, DETAIL_LIMIT)
            self._draw(test, verdict)
        # No verdict, but an exception: whose fault it is, in this order (`whose_fault`).
        elif target := self._misshapen(item):
            test.message = f"what came back from {target} has not the form that it must have."
            self.record.flags.append(
                f"{item.name} could not read what {target} gave back, where the reference's can "
                "be read: see whether the module puts something in the place of supplied files."
            )
        elif self._data_has_come() and not whose_fault.of_the_machine(call.excinfo.value):
            test.message = (
                "the grader could not judge what came back here, so this test earns nothing. "
                "Your instructor is told, and can see why."
            )
            self.record.flags.append(
                f"{item.name} ended in an error of the grader's own, after the submission's data "
                f"had come in: {_text_of(call.excinfo)}. The test earned nothing; see whether the "
                "module provokes it, and report it if not."
            )
        else:
            test.message = "the grader failed here; this is no fault of the submission."
            self._fault(item.name, call.excinfo)
        self.record.tests.append(test)

    def _draw(self, test: TestResult, verdict: Verdict) -> None:
        """The run of the first failed test of order or time, in the place of another one."""
        run = pictured(test.kind, verdict)
        if run is not None and not self.record.timeline_of:
            self.record.timeline_svg = timeline_svg(run.timeline)
            self.record.timeline_of = test.name

    def _decided(self, item: pytest.Item, verdict: Verdict) -> Verdict | None:
        """The verdict that counts, where ranks that have made no call may say another."""
        ranks = self.ranks
        if ranks is None or "ranks" not in arguments_of(item) or not ranks.may_keep_something:
            return verdict

        def again() -> None:
            with ranks.fresh():
                run_again(item, self.job.rng(item.name))

        return self.fresh_ranks.decide(verdict, again)

    def _data_has_come(self) -> bool:
        """Whether the running test has made a call of the submission."""
        return self.ranks is not None and bool(self.ranks.made)

    def _misshapen(self, item: pytest.Item) -> str:
        """The target whose answer a test could not read, if that is the submission's fault."""
        if self.ranks is None or not self.ranks.made:
            return ""
        try:
            reference = _reference(item.path)
            return whose_fault.misshapen(self.ranks.made, reference)
        except Exception:  # then it is ours
            return ""

    def _fault(self, name: str, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.record.error = f"{name}: {_text_of(excinfo)}"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A suite that can't be read is a fault of ours."""
        if report.failed:
            self.record.error = f"the suite cannot be read: {str(report.longrepr)[-600:]}"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the record, whole."""
        if self.record.ended_by_clock:
            self.record.flags.append(
                f"It was ended by the clock ({self.job.bounds.clock_s:g} s), alone on this "
                "machine too: if other programs kept the machine busy, grade it again."
            )
        ran, all_of_them = len(self.record.tests), session.testscollected
        # What has not run would be stored as a zero.
        if not self.record.error and (not ran or ran < all_of_them):
            self.record.error = (
                f"{ran} of the {all_of_them} tests of {self.record.module}'s suite have run"
            )
        content = json.dumps(asdict(self.record), allow_nan=False)
        write_atomically(Path(self.job.record), content.encode())
