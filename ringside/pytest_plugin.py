"""The pytest fixtures of the public tests: ``ranks``, ``rng`` and ``mpiexec``.

    @pytest.mark.points(20, kind="values", module="ring")
    def test_four_ranks_get_the_sum(ranks, rng):
        case = Case("ring:all_reduce", world_size=4, n=11)
        ...
        result = ranks.call(case.target, 4, case.arguments(vectors))

``ring`` is ``ring.py`` beside the test. With ``--ringside-record FILE`` (``ringside check``
gives it) the tests' points, counts and first timelines are written to a JSON file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringside import launch
from ringside.checking import Case, Verdict
from ringside.machine import Machine
from ringside.ring_bytes import sent_as_ring
from ringside.trace import write_atomically
from ringside.world import Result, Session

CALL_TIMEOUT_S = 20.0


@dataclass
class TestRecord:
    """One test's points; ``message`` is what a student reads."""

    __test__ = False  # for pytest, which looks for classes named Test...

    name: str
    module: str
    kind: str
    points: float
    earned: float = 0.0
    message: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    skipped: bool = False  # not run on this machine; its points don't count


@dataclass
class Record:
    """What the public tests found."""

    tests: list[TestRecord] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    timelines: dict[str, str] = field(default_factory=dict)  # module: SVG of its first run


class Ranks:
    """Calls into modules of one folder, on simulated ranks."""

    def __init__(self, session: Session, record: Record) -> None:
        self._session = session
        self._record = record

    def call(
        self,
        target: str,
        world_size: int,
        args: Any = (),
        *,
        members: Sequence[int] | None = None,
        machine: Machine | str | None = None,
        seed: int | None = None,
    ) -> Result:
        """Call ``module:function`` on every rank; never raises for what student code does."""
        result = self._session.call(
            target,
            world_size,
            args,
            members=members,
            machine=machine,
            seed=seed,
            timeout_s=CALL_TIMEOUT_S,
        )
        module = target.partition(":")[0].removesuffix(".py")
        if world_size > 1 and module not in self._record.timelines and any(result.trace.ops):
            self._record.timelines[module] = result.timeline._repr_html_()
        return result

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--ringside-record FILE`` and ``--ringside-modules NAMES``."""
    group = parser.getgroup("ringside")
    group.addoption("--ringside-record", type=Path, help="write the points to this JSON file")
    group.addoption("--ringside-modules", default="", help="only tests of these modules, by comma")
    group.addoption("--ringside-test", default="", help="only tests of this name")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that carries points."""
    config.addinivalue_line("markers", "points(number, kind, module): what a test is worth")
    config.stash[_RECORD] = Record()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other modules."""
    wanted = {name for name in config.getoption("--ringside-modules").split(",") if name}
    named = config.getoption("--ringside-test").removeprefix("test_")
    left_out = [
        item
        for item in items
        if (wanted and _marked(item).get("module") not in wanted)
        or (named and _named(item.name) != named)
    ]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _named(name: str) -> str:
    """A test's name on the command line: without ``test_`` and the case in brackets."""
    return name.removeprefix("test_").partition("[")[0]


def _marked(item: pytest.Item) -> dict[str, Any]:
    marker = item.get_closest_marker("points")
    return dict(marker.kwargs) if marker else {}


@pytest.fixture(scope="module")
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """Simulated ranks that run the modules beside the test."""
    with Session(request.path.parent) as session:
        yield Ranks(session, request.config.stash[_RECORD])


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers, other ones in each test and the same ones each time."""
    digest = hashlib.sha256(request.node.name.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@pytest.fixture
def mpiexec() -> str:
    """The real launcher of this machine; where there is none, the test is skipped."""
    try:
        return launch.mpiexec()
    except launch.LaunchError:
        pytest.skip("there is no mpiexec on this machine; `ringside doctor` says how to get one")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the points of a test that has some."""
    report = yield
    marker = item.get_closest_marker("points")
    if marker is not None and (call.when == "call" or call.excinfo is not None):
        item.config.stash[_RECORD].tests.append(_note(item, marker, call))
    return report


def _note(item: pytest.Item, marker: pytest.Mark, call: pytest.CallInfo[None]) -> TestRecord:
    test = TestRecord(
        item.name,
        str(marker.kwargs.get("module", "")),
        str(marker.kwargs.get("kind", "")),
        float(marker.args[0]),
        seconds=round(call.duration, 3),
    )
    if call.excinfo is None:
        test.earned = test.points
        return test
    error = call.excinfo.value
    if isinstance(error, pytest.skip.Exception):
        test.points, test.message, test.skipped = 0.0, str(error), True
    elif isinstance(error, Verdict):
        test.earned = round(test.points * min(1.0, max(0.0, error.fraction)), 4)
        test.message = "\n".join(filter(None, [error.sentence, error.detail]))
        test.reproduce = error.reproduce
        if not _holds_the_check(error):  # its own line may show something else
            test.reproduce = f"ringside check {test.module} --test {_named(test.name)}"
    else:
        test.message = f"{type(error).__name__}: {error}"
    return test


def _holds_the_check(error: Verdict) -> bool:
    """Whether a verdict's line makes its check: one of `run --check`, or a sum of drawn vectors."""
    of_vectors = type(error.case) is Case and "--drawn " in error.reproduce
    return of_vectors or "--check " in error.reproduce


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the record where it was asked for."""
    path = session.config.getoption("--ringside-record")
    if path:
        write_atomically(path, json.dumps(asdict(session.config.stash[_RECORD])).encode())
