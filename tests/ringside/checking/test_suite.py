"""Tests that are written once: tables, groups, the questions that every module is asked, lines."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ringside.checking import Verdict, public_tests
from ringside.checking.cases import Case, Vectors
from ringside.checking.suite import Suite, asked, drawn, group, hidden
from ringside.errors import TargetError
from tests.requirements import lay_requirements

MODULE = """
import numpy as np
from mpi4py import MPI

KEPT = {}

def shift(comm, x):
    p, rank = comm.Get_size(), comm.Get_rank()
    result = np.empty_like(x)
    comm.Sendrecv(x, (rank + 1) % p, 0, result, (rank - 1) % p)
    return result

def cost(numbers, p):
    if p < 1:
        raise ValueError("p")
    return sum(numbers) / p
"""

CASES = """
from dataclasses import dataclass
import numpy as np
from ringside.checking.cases import Formula, Vectors

@dataclass(frozen=True)
class Shift(Vectors):
    target = "ring:shift"
    def summands(self, rank):
        return [self.vector((rank - 1) % self.p)]

@dataclass(frozen=True)
class Cost(Formula):
    target = "ring:cost"
    numbers: tuple = (1, 2)
    ranks: int = 1
    def arguments(self):
        return list(self.numbers), self.ranks
    def right(self):
        return sum(self.numbers) / self.ranks

@dataclass(frozen=True)
class Doubled(Cost):
    caller = "checks/inside.py:doubled"
    def right(self):
        return 2 * super().right()
"""

INSIDE = """
from ringside.checking.inside import several

def doubled(comm, target, calls):
    return [(2 * value, *rest) for value, *rest in several(comm, target, calls)]
"""

TESTS = """
from checks.cases import Cost, Doubled, Shift
from ringside.checking import assert_bytes
from ringside.checking.suite import Suite, group

suite = Suite("ring")

@suite.test("values", "values", group("even", Shift(2), Shift(4), weight=3), group("odd", Shift(3)))
def test_values(case, run):
    pass

@suite.test("cost", "values", Cost((1, 2), 2), Cost((3,), 0, raises="ValueError"), Doubled((1, 5)))
def test_cost(case, run):
    pass

@suite.test("bytes", "communication", Shift(3, n=5))
def test_bytes(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.nbytes] * case.p})
    assert_bytes(run, [case.nbytes] * case.p, case)

test_given = suite.given_communicator("given", Shift(3))
test_twice = suite.second_call("twice", Shift(2))
test_kept = suite.inputs_kept("kept", Shift(2))
test_waits = suite.waiting_sends("waits", Shift(3))
test_slow = suite.slow_messages("waits", Shift(3))
"""
REAL = """
test_real = suite.real_ranks("values", Shift(2))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "__init__.py").write_text("")
    (tmp_path / "checks" / "cases.py").write_text(CASES)
    (tmp_path / "checks" / "inside.py").write_text(INSIDE)
    (tmp_path / "checks" / "test_ring.py").write_text(TESTS)
    lay_requirements(tmp_path / "checks", "ring", bytes=10, values=30, cost=10, given=10, twice=10,
                     kept=10, waits=20)  # fmt: skip
    (tmp_path / "ring.py").write_text(MODULE)
    return tmp_path


def failed(folder: Path, before: str, after: str) -> dict[str, dict[str, object]]:
    """The tests that fail where a part of the module is another one."""
    assert before in MODULE
    (folder / "ring.py").write_text(MODULE.replace(before, after))
    tests = public_tests.run(folder, ["ring"]).modules[0].tests
    return {test.name: asdict(test) for test in tests if not test.is_full}


def test_a_right_module_has_all_points(folder: Path) -> None:
    with (folder / "checks" / "test_ring.py").open("a") as tests:
        tests.write(REAL)
    report = public_tests.run(folder)
    (module,) = report.modules
    assert module.earned == module.points == 100
    assert report.counts[0]["case"] == "shift on 3 ranks, n = 5, float64"


WRONG = {  # what is wrong, the tests that fail, and a part of the first one's sentence
    "kept": (
        ("    return result\n", "    kept = KEPT.setdefault(x.size, result)\n"
         "    kept[:] = result\n    return kept\n"),
        {"test_twice"}, r"what the first call returned, after a second one: rank 0's result",
    ),
    "world": (
        ("    comm.Sendrecv(", "    comm = MPI.COMM_WORLD\n    comm.Sendrecv("),
        {"test_given"}, r"wrong on a communicator of its ranks \[\d, \d, \d\]\. There:",
    ),
    "first": (
        ("    comm.Sendrecv(x, (rank + 1) % p, 0, result, (rank - 1) % p)\n",
         "    comm.Send(x, (rank + 1) % p)\n    comm.Recv(result, (rank - 1) % p)\n"),
        {"test_waits", "test_slow"}, r"works only while messages stay below 65536 bytes",
    ),
    "open": (
        ("    comm.Sendrecv(x, (rank + 1) % p, 0, result, (rank - 1) % p)\n",
         "    comm.Isend(x, (rank + 1) % p)\n    comm.Recv(result, (rank - 1) % p)\n"),
        {"test_waits", "test_slow"}, r"no rank hangs, but rank 0 returned before Isend",
    ),
    "input": (
        ("    return result\n", "    x[:] = 0\n    return result\n"),
        {"test_kept"}, r"rank 0 changed its input",
    ),
    "twice as many": (
        ("    return result\n", "    comm.Sendrecv(x, (rank + 1) % p, 0, result, (rank - 1) % p)\n"
         "    return result\n"),
        {"test_bytes"}, r"rank 0 sent 80 bytes; at most 40 are allowed",
    ),
    "odd": (
        ("    return result\n", "    return -result if p % 2 else result\n"),
        {"test_values", "test_bytes", "test_given", "test_waits", "test_slow"},
        r"shift on 3 ranks.* Right in this test: even\.",
    ),
    "changes": (
        ("return sum(numbers)", "return sum(numbers.pop() for _ in numbers[:])"),
        {"test_cost"}, r"cost\(\[1, 2\], 2\) changed an argument",
    ),
    "raises": (
        ("if p < 1:", "if p < 0:"), {"test_cost"},
        r"cost\(\[3\], 0\) raised ZeroDivisionError; it must raise ValueError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_each_question_is_asked_and_its_line_shows_the_same(folder: Path, name: str) -> None:
    edit, names, sentence = WRONG[name]
    found = failed(folder, *edit)
    assert set(found) == names
    if name in ("first", "open"):  # both tests whose sends wait say so
        assert all(re.search(sentence, str(test["message"])) for test in found.values())
    first = next(test for test in found.values() if re.search(sentence, str(test["message"])))
    words = shlex.split(str(first["reproduce"]))
    assert words[:3] == ["ringside", "check", "ring"] and words[5] == "--case"
    line = [sys.executable, "-m", "ringside", *words[1:], "--json"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    (test,) = json.loads(done.stdout)["modules"]["ring"]["tests"]
    told, again = (str(each["message"]).split(" Right in")[0] for each in (first, test))
    assert again == told and test["earned"] == 0


def test_the_line_of_real_ranks_has_the_case_that_fails_on_the_network(folder: Path) -> None:
    with (folder / "checks" / "test_ring.py").open("a") as tests:
        tests.write("test_real = suite.real_ranks('values', Shift(2), Shift(3))\n")
    found = failed(folder, "    return result\n", "    assert p != 3\n    return result\n")
    assert "not run under mpiexec" in str(found["test_real"]["message"])
    assert str(found["test_real"]["reproduce"]).endswith('--test real --case "p=3"')


def test_wrong_values_may_show_bytes_and_no_messages_show_none(folder: Path) -> None:
    tests = folder / "checks" / "test_ring.py"
    tests.write_text(TESTS.replace("Shift(3, n=5))", "Shift(3, n=5), checked=False)"))
    assert "test_bytes" not in failed(folder, "return result", "return 2 * result")
    nothing = failed(folder, "    result = np.empty_like(x)\n", "    return 2 * x\n")
    assert "no rank sent anything" in str(nothing["test_bytes"]["message"])


def test_a_group_keeps_its_share(folder: Path) -> None:
    found = failed(folder, "    return result\n", "    return -result if p % 2 else result\n")
    assert found["test_values"]["earned"] == pytest.approx(22.5)


def test_a_case_can_be_asked_of_all_tests_that_have_such(folder: Path) -> None:
    report = public_tests.run(folder, ["ring"], case="p=5 n=3 dtype=int64")
    assert len(report.modules[0].tests) == 7 and report.passed
    with pytest.raises(public_tests.CheckError, match="no test of ring takes 'p=5 m=3'"):
        public_tests.run(folder, ["ring"], case="p=5 m=3")
    with pytest.raises(public_tests.CheckError, match="no test of ring takes 'p=5'"):
        public_tests.run(folder, ["ring"], "cost", case="p=5")


def test_plain_pytest_runs_them_too(folder: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert "8 passed" in done.stdout, done.stdout


def test_tables_are_drawn_and_what_stands_in_no_group_is_one() -> None:
    table = (Vectors(2), lambda rng: [Vectors(int(rng.integers(3, 5)))] * 2, group("b", Vectors(9)))
    first, second = drawn(table, np.random.default_rng(0))
    assert [case.p for case in first.cases[:1]] == [2] and len(first.cases) == 3
    assert (second.name, second.cases) == ("b", (Vectors(9),))


def test_hidden_cases_are_another_table_of_the_same_test() -> None:
    suite = Suite("ring")

    @suite.test("values", "values", Vectors(2))
    def test_values(case: Case, run: object) -> None:
        raise Verdict("never right")

    test = test_values.suite_test
    hidden(test_values, Vectors(3, n=4))
    test.name = "values"
    tried: list[int] = []

    def call(target: str, world_size: int, args: object, **where: object) -> SimpleNamespace:
        tried.append(world_size)
        return SimpleNamespace(error=None, values=Vectors(3, n=4).right(), factors=None)

    ranks = SimpleNamespace(table=lambda test: drawn(test.hidden, None), call=call)
    with pytest.raises(Verdict, match="never right") as raised:
        test_values(ranks=ranks)
    assert tried == [3]
    assert raised.value.reproduce == 'ringside check ring --test values --case "p=3 n=4"'
    with pytest.raises(TargetError):
        asked(test, "q=3")
