"""Lines that reproduce: typed, they say the sentence that the test said."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.author.verify import reproduce
from autograder.digests import EXCEPTIONS
from ringside.checking import (
    Case,
    Verdict,
    assert_bytes,
    assert_inputs_kept,
    assert_makespan,
    assert_messages,
    assert_moved,
    assert_own_messages,
    assert_pairs,
    assert_peers,
    assert_requests_complete,
    assert_sum,
    buffered,
    contrasted,
    long_wire,
    on_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.inputs import parse_options
from ringside.commands import cli
from ringside.session.session import Result, Session
from tests.autograder.conftest import KIT

MODULE = """
import numpy as np
from mpi4py import MPI


def all_reduce(comm, x):
    total, part = x.copy(), x.copy()
    for step in range(1, comm.size):
        there, back = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.Sendrecv(x, there, recvbuf=part, source=back)
        total += part
    return total


def raises(comm, x):
    if comm.rank == 1:
        raise ValueError("no more")


def changes(comm, x):
    total = all_reduce(comm, x)
    x[:] = 0
    return total


def library(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def never_waits(comm, x):
    total = all_reduce(comm, x)
    comm.Isend(x, (comm.rank + 1) % comm.size)
    comm.Recv(np.empty_like(x), (comm.rank - 1) % comm.size)
    return total


def world(comm, x):
    return library(MPI.COMM_WORLD if comm.rank == 0 else comm, x)


def head_on(comm, x):
    comm.Send(x, (comm.rank + 1) % comm.size)
    comm.Recv(np.empty_like(x), (comm.rank - 1) % comm.size)
    return all_reduce(comm, x)
"""

WRONG = "import sums\n\n\ndef all_reduce(comm, x):\n    return sums.all_reduce(comm, x) / 3\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lines")
    (place / "sums.py").write_text(MODULE)
    (place / "thirds.py").write_text(WRONG)
    return place


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with Session(folder) as started:
        yield started


def summed(session: Session, case: Case, **where: Any) -> Result:
    """The run of a case, its sum checked: what the tests of an assignment do."""
    vectors = case.vectors(np.random.default_rng(5))
    world_size = where.pop("world_size", case.world_size)
    where.setdefault("machine", buffered())
    result = session.call(case.target, world_size, case.arguments(vectors), **where)
    assert_sum(result, vectors, case)
    return result


def on_others(session: Session, case: Case) -> None:
    def run(**there: Any) -> Result:
        return summed(session, case, **there)

    on_members(run, [4, 0, 2], 5, case)


CHECKS: list[tuple[str, Callable[[Session, Case], object]]] = [
    ("thirds:all_reduce", summed),
    ("sums:raises", summed),
    ("thirds:all_reduce", lambda s, c: summed(s, c, seed=2, members=[3, 0, 1], world_size=4)),
    ("sums:all_reduce", lambda s, c: assert_bytes(summed(s, c), [10**4, 24, 24], c)),
    ("sums:all_reduce", lambda s, c: assert_messages(summed(s, c), [9, 9, 1], c)),
    ("sums:all_reduce", lambda s, c: assert_moved(summed(s, c), 24.0, c, "one vector")),
    ("sums:all_reduce", lambda s, c: assert_pairs(summed(s, c), np.full((3, 3), 8), c)),
    (
        "sums:all_reduce",
        lambda s, c: assert_peers(summed(s, c), [{1, 2}, {0}, {0, 1}], c, "by 0"),
    ),
    ("sums:all_reduce", lambda s, c: assert_makespan(summed(s, c, machine=long_wire()), 1e-9, c)),
    ("sums:changes", lambda s, c: assert_inputs_kept(summed(s, c), c)),
    ("sums:library", lambda s, c: assert_own_messages(summed(s, c), c)),
    ("sums:never_waits", lambda s, c: assert_requests_complete(summed(s, c), c)),
    ("sums:world", on_others),
    ("sums:head_on", lambda s, c: with_waiting_sends(lambda **there: summed(s, c, **there), c)),
    ("sums:head_on", lambda s, c: summed(s, c, machine=rendezvous())),
]


@pytest.mark.parametrize(("target", "check"), CHECKS)
def test_a_typed_line_says_the_tests_sentence(
    target: str,
    check: Callable[[Session, Case], object],
    session: Session,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Verdict) as met:
        check(session, Case(target, 3, 5))
    monkeypatch.chdir(folder)
    assert cli.main(shlex.split(met.value.reproduce)[1:]) == 1
    assert met.value.sentence in capsys.readouterr().out


def test_a_check_that_is_not_known_is_named_with_those_that_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert cli.main(["run", "sums.py:all_reduce", "--ranks", "2", "--check", "speed=3"]) == 2
    assert (
        "there is no check 'speed'; there are: bytes, factors, inputs," in capsys.readouterr().err
    )


def test_a_check_that_can_not_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ring.py").write_text(MODULE)
    target = f"{tmp_path / 'ring.py'}:all_reduce"
    for check in ("bytes=x", "bytes=9:3", "moved=1"):
        assert cli.main(["run", target, "--ranks", "2", "--check", check]) == 2
        assert f"ringside: --check {check} can't be made" in capsys.readouterr().err
    assert cli.main(["run", target.rpartition(":")[0], "--ranks", "2", "--check", "own"]) == 2
    assert "--check looks at the run of a function" in capsys.readouterr().err


def test_a_comparison_keeps_the_numbers_and_the_hang_that_it_is_about() -> None:
    case = Case("ring:all_reduce", 2, 4)

    def run(**there: Any) -> None:
        case.drawn[:] = [len(there)]
        if there:
            raise case.fail("wrong.")

    with pytest.raises(Verdict) as caught:
        contrasted(run, {"members": [2, 1], "world_size": 3}, case, "There:")
    assert "--drawn 2" in caught.value.reproduce

    def hangs(**there: Any) -> None:
        raise Verdict("rank 1 did not end." if there else "not run: an earlier call did not end.")

    with pytest.raises(Verdict, match=r"^rank 1 did not end\.$"):
        contrasted(hangs, {"members": [2, 1], "world_size": 3}, case, "There:")


def test_drawn_vectors_are_the_tests_own() -> None:
    case = Case("sums:all_reduce", 3, 5, "float32")
    vectors = case.vectors(np.random.default_rng(5))
    words = case.reproduce.partition(" -- ")[2].split()
    again = case.vectors_of(parse_options(words).drawn[0])
    assert all(np.array_equal(a, b) for a, b in zip(vectors, again, strict=True))


def test_a_supplied_function_stands_in_the_line_with_what_it_calls() -> None:
    case = Case("ring:all_reduce", 3, 7).called_by("callers:strided --stride 2")
    line = "ringside run callers.py:strided --ranks 3 -- --target ring:all_reduce --stride 2 --n 7"
    assert case.reproduce == line
    assert str(case) == "all_reduce on 3 ranks, n = 7, float64"


@pytest.mark.parametrize(
    ("line", "output", "status", "outcome"),
    [
        ("ringside run", "x: rank 3 sent 880 bytes; at most\n 192 are allowed.", 1, "same"),
        ("ringside run", "x: rank 0 sent 8 bytes; at most 1 are allowed.", 1, "numbers"),
        ("ringside run", "y on 2: rank 0 sent 8 bytes; at most 1 are allowed.", 1, "fault"),
        ("ringside run", "x: rank 3 raised ValueError", 1, "fails"),
        ("ringside run", "values: right", 0, "silent"),
        ("ringside run", "no such file", 2, "broken"),
        ("", "", 0, "no line"),
    ],
)
def test_what_a_line_shows_is_judged(line: str, output: str, status: int, outcome: str) -> None:
    sentence = "x: rank 3 sent 880 bytes; at most 192 are allowed. The star sends 9."
    assert reproduce.judge(sentence, line, output, status) == outcome


def test_a_printed_value_is_what_the_sentence_is_about() -> None:
    sentence, line = "ring_s(64, 2) is 2.128e-06 s; it must be 2.016e-06 s.", 'python -c "..."'
    assert reproduce.judge(sentence, line, "2.1280000000000003e-06", 0) == "value"
    assert reproduce.judge(sentence, line, "2.016e-06", 0) == "silent"


def test_a_test_whose_points_another_one_holds_back_has_no_line_to_type() -> None:
    failed = {"earned": 0.0, "points": 5.0, "skipped": False, "message": "rank 0 has 1, not 2."}
    held = failed | {"earned": 0.5, "message": "right, but it hardly counts while test_a fails."}
    assert reproduce.fails(failed)
    assert not any(map(reproduce.fails, (held, failed | {"skipped": True})))


def test_an_exception_is_needed_or_must_go() -> None:
    typed = [
        reproduce.Typed("a03", "ring", "hidden", test, "", "line", "", outcome)
        for test, outcome in (("one", "silent"), ("two", "silent"), ("three", "same"))
    ]
    exceptions = {"a03/ring/hidden/two": "why", "a03/ring/hidden/three": "why"}
    first, second = reproduce.faults(typed, exceptions)
    assert first.startswith("a03/ring/hidden/one: silent") and "no exception" in first
    assert second.startswith("a03/ring/hidden/three: shown")


def test_every_exception_is_of_a_test_and_has_a_reason() -> None:
    files = sorted((KIT / "solutions").glob(f"*/{EXCEPTIONS}"))
    exceptions: dict[str, str] = {}
    for file in files:
        exceptions |= reproduce.exceptions_of(file.parent)
    old_form = list((KIT / "solutions").glob("*/test_public.py"))
    assert bool(exceptions) == bool(old_form)  # tests that are written once need none
    for name, reason in exceptions.items():
        unit, module, suite, test = name.split("/")
        suites = {
            "hidden": KIT / "solutions" / unit / "hidden" / f"test_{module}.py",
            "public": KIT / "solutions" / unit / "test_public.py",
        }
        assert test.partition("[")[0] in suites[suite].read_text(), name
        assert reason.strip(), name
