"""Arguments that `ringside run` makes for a function from its parameters and the options."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from ringside.checking import examples, inputs
from ringside.checking.inputs import Options, arguments_of_rank, parse_options, vector
from ringside.errors import TargetError

SOLUTIONS = Path(__file__).parents[3] / "solutions"
WITH_EXAMPLES = sorted(path.parent.name for path in SOLUTIONS.glob("*/examples.py"))


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


def test_a_function_that_calls_twice_gets_two_vectors(tmp_path):
    path = tmp_path / "callers.py"
    path.write_text("def twice(group, first, second):\n    pass\n")
    first, second = arguments_of_rank(path, "twice", 2, 1, Options(n=9, dtype="int64"))
    assert first.tolist() == vector(9, "int64", rank=1).tolist()
    assert (second.shape, second.dtype) == (first.shape, first.dtype)
    assert (first != second).any()


EXAMPLES = """
OPTIONS = {}
INSTEAD = {"step_torch.py:train_step": "callers_torch.py:train_step -- --n 4"}

def arguments(function, world_size, rank, options):
    return (1, 2) if function == "train_step" else None
"""


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        (
            "step_torch.py",
            "group, model, optimizer",
            r"train_step\(group, model, optimizer\) takes objects .* "
            "`ringside run callers_torch.py:train_step -- --n 4`",
        ),
        (
            "step.py",
            "comm, x",
            r"step.py: train_step\(comm, x\) can.t take the 2 values that",
        ),
    ],
)
def test_a_function_that_examples_do_not_fit_is_refused(tmp_path, name, parameters, says):
    (tmp_path / "examples.py").write_text(EXAMPLES)
    (tmp_path / name).write_text(f"def train_step({parameters}):\n    pass\n")
    with pytest.raises(TargetError, match=says):
        arguments_of_rank(tmp_path / name, "train_step", 2, 0, Options())


def test_a_default_may_stay_where_examples_give_less(tmp_path):
    (tmp_path / "examples.py").write_text(EXAMPLES)
    path = tmp_path / "step.py"
    path.write_text("def train_step(comm, params, velocity, momentum=0.9):\n    pass\n")
    assert arguments_of_rank(path, "train_step", 2, 0, Options()) == (1, 2)


def test_examples_that_need_a_module_of_the_reader_name_it(tmp_path):
    (tmp_path / "examples.py").write_text("import schedule\n")
    (tmp_path / "stage.py").write_text("def run(comm):\n    pass\n")
    with pytest.raises(TargetError, match=r"examples.py needs schedule.py, which isn't here yet"):
        arguments_of_rank(tmp_path / "stage.py", "run", 2, 0, Options())


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_what_is_to_be_run_instead_exists_and_gets_its_arguments(name):
    place = SOLUTIONS / name / "examples.py"
    for target, line in getattr(examples.beside(place), "INSTEAD", {}).items():
        file, _, function = target.partition(":")
        with pytest.raises(TargetError, match="makes them on each rank"):
            arguments_of_rank(place.parent / file, function, 2, 0, Options())
        (other, *words) = (word for word in shlex.split(line) if word != "--")
        file, _, function = other.partition(":")
        assert arguments_of_rank(place.parent / file, function, 2, 0, parse_options(words))


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


def test_a_dict_matches_by_its_values() -> None:
    wanted = {"params": [np.ones(2)], "norm": 1.0}
    assert inputs.matches({"params": [np.ones(2) + 1e-14], "norm": 1.0}, wanted)
    assert not inputs.matches({"params": [np.zeros(2)], "norm": 1.0}, wanted)
    assert not inputs.matches({"params": [np.ones(2)]}, wanted)
