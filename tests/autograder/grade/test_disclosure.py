"""An exception's text may hold hidden inputs: a page says what the source already says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autograder.course.limits import Limits
from autograder.grade.suite.calls import Ranks
from autograder.grade.suite.disclosure import UNTOLD, Disclosure
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.result import ModuleResult
from autograder.sandbox.allowance import Allowance
from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case
from ringside.errors import Frame, RankError
from ringside.session.session import Session

SOURCE = '''"""A module that tells."""


class Odd(Exception):
    pass


def text(comm, x):
    raise ValueError(f"the input is {x[0]}")


def name(comm, x):
    raise type(f"E{int(x[0])}", (Exception,), {})()


def place(comm, x):
    exec(compile("\\n" * int(x[0]) + "1 / 0", f"{int(x[0])}.py", "exec"))


def function(comm, x):
    code = place.__code__.replace(co_name=f"f{int(x[0])}", co_filename="module.py")
    exec(f"def f{int(x[0])}(): raise Odd\\nf{int(x[0])}()", {"Odd": Odd})


def attribute(comm, x):
    getattr(comm, f"x{int(x[0])}")


def literal(comm, x):
    raise Odd("n must be positive")


def misspelt(comm, x):
    return comn.rank


def outside(comm, x):
    return [][2]


def race(comm, x):
    request = comm.Isend(x, 1 - comm.rank)
    x[:] = 0
    comm.Recv(x.copy(), 1 - comm.rank)
    request.Wait()
'''
HIDDEN = 731265


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "module.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, tuple[str, str]]:
    """What a failed test says of each function: its sentence and the detail."""
    job = SuiteJob("m", str(folder), "", secret="s", module_hash="h", sandbox=False)
    found = {}
    with Session(folder) as session:
        ranks = Ranks(session, ModuleResult("m"), job, Allowance(Limits()))
        for function in ("text", "name", "place", "function", "attribute", "literal", "misspelt",
                         "outside", "race"):  # fmt: skip
            args = [(np.full(3, float(HIDDEN)),)] * 2
            result = ranks.call(f"module:{function}", 2, args)
            with pytest.raises(Verdict) as caught:
                assert_ran(result, Case(2))
            found[function] = caught.value.sentence, caught.value.detail
    return found


@pytest.mark.parametrize("function", ["text", "name", "place", "function", "attribute"])
def test_no_part_of_an_exception_carries_an_input(
    told: dict[str, tuple[str, str]], function: str
) -> None:
    sentence, detail = told[function]
    assert str(HIDDEN) not in sentence + detail
    assert " raised " in sentence and "module.py:" in sentence
    if function == "text":
        assert UNTOLD in " ".join(detail.split())


def test_type_line_and_what_the_source_says_are_told(told: dict[str, tuple[str, str]]) -> None:
    line = SOURCE.splitlines().index('    raise Odd("n must be positive")') + 1
    sentence, detail = told["literal"]
    assert f"raised Odd at module.py:{line}: n must be positive" in sentence
    assert 'raise Odd("n must be positive")' in detail and UNTOLD not in detail
    assert "NameError at module.py:34: name 'comn' is not defined" in told["misspelt"][0]
    assert "IndexError at module.py:38: list index out of range" in told["outside"][0]
    assert "raised BufferRaceError at module.py:45" in told["race"][0]
    assert "A buffer was written to while its message was under way" in " ".join(
        told["race"][1].split()
    )
    assert "raised ValueError at module.py:9." in told["text"][0]
    assert "raised an exception at module.py:13." in told["name"][0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("name 'comm' is not defined", True),
        ("name 'x731265' is not defined", False),
        ("'NoneType' object is not subscriptable", True),
        ("module 'numpy' has no attribute 'e731265'", False),
        ("text() missing 1 required positional argument: 'x'", True),
        ("text() missing 731265 required positional arguments: 'x'", False),
        ("operands could not be broadcast together with shapes (731265,) (3,)", False),
        ("", True),
    ],
)
def test_pythons_sentences_are_told_where_they_name_what_the_source_names(
    folder: Path, text: str, shown: bool
) -> None:
    told = Disclosure(folder).of(RankError(1, "TypeError", text))
    assert (told.message == text) is shown


def test_a_frame_is_a_line_that_is_there_with_the_text_that_is_there(folder: Path) -> None:
    frames = (
        Frame("module.py", 9, "text", "x = 731265"),
        Frame("module.py", 731265, "text", "raise"),
        Frame("731265.py", 1, "text", ""),
        Frame("../module.py", 1, "text", ""),
        Frame("module.py", 9, "f731265", ""),
    )
    told = Disclosure(folder).of(RankError(0, "PermissionError", "", frames, "forged 731265"))
    raised = 'raise ValueError(f"the input is {x[0]}")'
    assert told.frames == (
        Frame("module.py", 9, "text", raised), Frame("module.py", 9, "a call", raised)
    )  # fmt: skip
    assert told.hint == "Ranks may not write files or start programs: return the value instead."


def test_supplied_files_lie_in_folders_and_are_told_as_well(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "model.py").write_text('raise ValueError("no such layer")\n')
    frames = (
        Frame("given/model.py", 1, "<module>", "forged"),
        Frame("model.py", 1, "<module>", ""),
    )
    told = Disclosure(tmp_path).of(RankError(0, "ValueError", "no such layer", frames))
    place = Frame("given/model.py", 1, "<module>", 'raise ValueError("no such layer")')
    assert (told.message, told.frames) == ("no such layer", (place,))


def test_what_python_says_of_the_syntax_is_told_if_python_says_it(tmp_path: Path) -> None:
    (tmp_path / "star.py").write_text("def all_reduce(comm, x)\n    return x\n")
    disclosure = Disclosure(tmp_path)
    told = disclosure.of(RankError(0, "SyntaxError", "expected ':' (star.py, line 1)"))
    assert told.message == "expected ':'"
    forged = disclosure.of(RankError(0, "SyntaxError", "expected 731265 (star.py, line 1)"))
    assert forged.message == ""
