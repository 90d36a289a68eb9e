"""Arguments that `ringside run` makes for a function from its parameters and the options."""

from pathlib import Path

import numpy as np
import pytest

from ringside.checking import inputs
from ringside.checking.inputs import Options, arguments_of_rank


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (Options(), []),
        (Options(n=3), [3]),
        (Options(seed=9), [16, 9]),
        (Options(n=3, dtype="int64"), [3, 0, "int64"]),
        (Options(others={"chunks": 4}), [16, 0, "float64", 4]),
    ],
)
def test_a_parameter_with_a_default_is_given_when_it_was_asked_for(tmp_path, options, given):
    path = tmp_path / "it.py"
    path.write_text("def f(comm, x, n=5, seed=7, dtype='float32', chunks=1):\n    pass\n")
    x, *rest = arguments_of_rank(path, "f", 2, 0, options)
    assert len(x) == options.n and x.dtype == options.dtype
    assert rest == given


def test_a_default_that_is_not_asked_for_stays_before_one_that_is(tmp_path):
    path = tmp_path / "it.py"
    path.write_text("def f(comm, words, chunks=1, names=('a', None), steps=1, x=3): pass\n")
    asked = {"words": "F0 B0", "steps": 2}
    given = arguments_of_rank(path, "f", 2, 0, Options(others=asked))
    assert given == ("F0 B0", 1, ("a", None), 2)


@pytest.mark.parametrize(
    ("text", "defines"),
    [
        ("'''What it is.'''\nimport os\nSIZE = 3\ndef f(comm):\n    print(comm)\n", True),
        ("from mpi4py import MPI\nclass A:\n    pass\n", True),
        ("comm = COMM.Dup()\n", False),
        ("def f(comm):\n    pass\nf(None)\n", False),
        ("def f(comm):\n    pass\nif __name__ == '__main__':\n    f(None)\n", False),
        ("total: int = work()\n", False),
        ("", True),
    ],
)
def test_a_script_that_only_defines_does_nothing(tmp_path: Path, text: str, defines: bool) -> None:
    (tmp_path / "script.py").write_text(text)
    assert inputs.only_defines(tmp_path / "script.py") == defines


def test_what_a_case_says_is_right_may_round(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "cases.py").write_text(CASES)
    path = tmp_path / "ring.py"
    path.write_text("def total(comm, x):\n    pass\n")
    case = inputs.case_of(path, "total", 3, Options(n=4))
    assert case is not None
    right = case.right()[1]
    assert inputs.is_right(right * (1 + 1e-15), "total", 3, 1, Options(n=4), path)
    assert inputs.is_right(right * 1.001, "total", 3, 1, Options(n=4), path) is False
    assert inputs.is_right(None, "unknown", 3, 1, Options(), path) is None


CASES = """
from dataclasses import dataclass
from ringside.checking.cases import Vectors

@dataclass(frozen=True)
class Total(Vectors):
    target = "ring:total"
"""


def test_a_dict_matches_by_its_values() -> None:
    wanted = {"params": [np.ones(2)], "norm": 1.0}
    assert inputs.matches({"params": [np.ones(2) + 1e-14], "norm": 1.0}, wanted)
    assert not inputs.matches({"params": [np.zeros(2)], "norm": 1.0}, wanted)
    assert not inputs.matches({"params": [np.ones(2)]}, wanted)
