"""A newer stub and a student's module made one: the kit's changes come, no line is lost."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringside.course.handout.three_way import ThreeWay, three_way

OLD = '''\
"""Round a ring."""

import numpy as np


def send(comm, x):
    """Send x on.

    Args:
        x: shape ``(n,)``.
    """
    # YOUR CODE HERE
    raise NotImplementedError()


def total(comm, x):
    """Sum x."""
    # YOUR CODE HERE
    raise NotImplementedError()
'''
NEWER = (
    OLD.replace("import numpy as np\n", "import numpy as np\nfrom mpi4py import MPI\n")
    .replace("(comm, x)", "(comm: MPI.Comm, x)")
    .replace("``(n,)``.", "``(n,)``, n from 0.")
    .replace("Sum x.", "Sum x over all ranks.")
)
GAP = "    # YOUR CODE HERE\n    raise NotImplementedError()\n"


def written(stub: str) -> str:
    first = stub.replace(GAP, "    comm.send(x, 1)  # mine\n    return helped(x)\n", 1)
    second = first.replace(GAP, "    return comm.allreduce(x)\n", 1)
    return second + '\n\ndef helped(x):\n    """Sum x."""\n    return np.sum(x)\n'


def test_what_the_kit_changed_comes_and_the_students_code_stays() -> None:
    assert three_way(OLD, written(OLD), NEWER) == ThreeWay(written(NEWER), whole=True)
    assert three_way(OLD, OLD, NEWER) == ThreeWay(NEWER, whole=True)
    solved = NEWER.replace(GAP, "    return comm.allreduce(x)\n")
    assert three_way(OLD, solved, NEWER) == ThreeWay(solved, whole=True)
    assert three_way(OLD, written(OLD), OLD) == ThreeWay(written(OLD), whole=True)


def test_a_docstring_of_which_the_student_changed_one_line_stays_whole() -> None:
    mine = written(OLD).replace("Send x on.", "Send x on, from rank 0.")
    both = three_way(OLD, mine, NEWER)
    assert both is not None and not both.whole
    assert "from rank 0" in both.text and "n from 0" not in both.text
    assert "Sum x over all ranks." in both.text  # the other function's is the kit's


def test_types_come_only_with_what_they_name() -> None:
    own = written(OLD).replace("import numpy as np\n", "import numpy as np\nimport os\n")
    both = three_way(OLD, own, NEWER)
    assert both is not None and both.whole and "from mpi4py import MPI\nimport os\n" in both.text
    lost = three_way(OLD, written(OLD).replace("\nimport numpy as np\n\n\n", "\n"), NEWER)
    assert lost is not None and not lost.whole
    assert "MPI" not in lost.text and "Sum x over all ranks." in lost.text


@pytest.mark.parametrize(
    "mine",
    [
        written(OLD).replace("return helped(x)", "return helped(x"),  # doesn't compile
        "",
    ],
)
def test_nothing_is_merged_into_what_is_no_program(mine: str) -> None:
    both = three_way(OLD, mine, NEWER)
    assert both is None or both.text == mine


def test_an_argument_that_the_kit_renamed_is_not_taken_from_under_the_students_code() -> None:
    newer = OLD.replace("def total(comm, x):", "def total(comm, values):").replace("Sum x.", "Sum.")
    both = three_way(OLD, written(OLD), newer)
    assert both is not None and not both.whole
    assert "def total(comm, x):" in both.text and '"""Sum."""' in both.text


LINES = OLD.splitlines()
OWN = ["    y = 1  # own", "# own", "import os", "", "    '''own'''", "def own():", "    return 2"]


@st.composite
def edited(draw: st.DrawFn, words: list[str]) -> str:
    """The stub with lines that were removed, replaced and put in, not always a program."""
    lines = list(LINES)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(lines) - 1))
        new = draw(st.lists(st.sampled_from(words), max_size=2))
        lines[at : at + draw(st.integers(0, 2))] = new
        lines = lines or [""]
    return "\n".join(lines) + "\n"


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(edited(OWN), edited([line.replace("own", "kits") for line in OWN]))
def test_no_line_of_the_students_is_lost_and_what_compiled_compiles(mine: str, newer: str) -> None:
    both = three_way(OLD, mine, newer)
    if both is None:
        return
    ast.parse(both.text)
    given = Counter(LINES)
    assert Counter(mine.splitlines()) - given <= Counter(both.text.splitlines())
    kept = iter(both.text.splitlines())
    own = [line for line in mine.splitlines() if "own" in line]
    assert all(line in kept for line in own)  # in the order in which they stood
