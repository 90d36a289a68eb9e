"""Wrong submissions as edits: how they are written, applied, refused and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.commands import cli
from autograder.course import assignment as assignments
from autograder.course import edits
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course

REFERENCE = '''"""A module."""

import numpy as np


def all_reduce(comm, x):
    """Sum it."""
    ### BEGIN SOLUTION
    total = np.array(x)
    # Send before receiving.
    for step in range(3):
        total += step

    return total
    ### END SOLUTION


class Ring:
    def turn(self):
        total = 1
        return total
'''
EDIT = """=== one_step_too_few
The loop ends one step early,
so that a shard is missing.
fails: test_values
earns: 20 to 40
@@ all_reduce
     total = np.array(x)
-    for step in range(3):
+    for step in range(2):
         total += step
"""


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    (tmp_path / "verify").mkdir()
    (tmp_path / "ring.py").write_text(REFERENCE)
    return tmp_path


def read(solution: Path, text: str) -> list[edits.Variant]:
    (solution / "verify" / "ring.diff").write_text(text)
    return edits.variants(solution, ["ring"])


def test_an_edit_changes_its_lines_and_no_others(solution: Path) -> None:
    [wrong] = read(solution, EDIT)
    assert (wrong.module, wrong.name, wrong.fails) == (
        "ring", "ring__one_step_too_few", "test_values"
    )  # fmt: skip
    assert wrong.sentence == "The loop ends one step early, so that a shard is missing."
    assert wrong.source.splitlines() == [
        line.replace("range(3)", "range(2)") for line in edits.bare(REFERENCE)
    ]


def test_what_is_said_about_the_code_may_change(solution: Path) -> None:
    [before] = read(solution, EDIT)
    (solution / "ring.py").write_text(
        REFERENCE.replace("# Send before receiving.", "\n    # First send.").replace(
            "Sum it.", "Sum."
        )
    )
    [after] = edits.variants(solution, ["ring"])
    assert after.source == before.source


def test_an_edit_of_code_that_has_changed_is_an_error_that_names_it(solution: Path) -> None:
    (solution / "verify" / "ring.diff").write_text(EDIT)
    (solution / "ring.py").write_text(REFERENCE.replace("range(3)", "range(4)"))
    with pytest.raises(AssignmentError, match=r"ring\.diff:1: one_step_too_few: .*are not there"):
        edits.variants(solution, ["ring"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EDIT.replace("earns: 20 to 40\n", ""), "says what an instructor would give it"),
        (EDIT.replace("fails: test_values", "right"), "a right one doesn't"),
        (EDIT.replace("fails: test_values\n", ""), "an edit has either 'fails: TEST' or 'right'"),
        (EDIT[: EDIT.index("@@")], "the edit has no change"),
        (EDIT.replace("@@ all_reduce", "@@ reduce"), "has no definition 'reduce'"),
        (EDIT.replace("range(2)", "range(3)"), "the edit changes nothing"),
        (EDIT.replace("range(2):", "range(2)"), "is no Python"),
        (EDIT.replace("+    for", "*    for"), r"begins with ' ', - or \+: '\*    for"),
        ("What follows:\n" + EDIT, r"ring\.diff:1: an edit begins with '=== NAME'"),
        (EDIT + EDIT, "two submissions named 'ring__one_step_too_few'"),
        (EDIT.replace("@@ all_reduce", "@@ replace all_reduce"), "must show none"),
    ],
)
def test_what_is_not_written_well_is_named(solution: Path, text: str, said: str) -> None:
    with pytest.raises(AssignmentError, match=said):
        read(solution, text)


def test_lines_that_stand_twice_need_more_context_or_a_place(solution: Path) -> None:
    twice = "=== a\nTwo.\nfails: test_values\nearns: 1 to 9\n@@\n-{}return total\n+{}return 2\n"
    (solution / "ring.py").write_text(
        REFERENCE + "\n\ndef other():\n    total = 1\n    return total\n"
    )
    with pytest.raises(AssignmentError, match="stand in more than one place"):
        read(solution, twice.format("    ", "    "))
    [wrong] = read(solution, twice.replace("@@", "@@ Ring.turn").format(" " * 8, " " * 8))
    assert "        return 2" in wrong.source.splitlines()


def test_a_definition_may_be_given_anew_and_another_added(solution: Path) -> None:
    text = (
        "=== a\nAnother way.\nfails: test_values\nearns: 1 to 9\n@@ replace all_reduce\n"
        "+def all_reduce(comm, x):\n"
    )
    [wrong] = read(
        solution, text + "+    return helper(x)\n@@ add\n+def helper(x):\n+    return x\n"
    )
    names: dict[str, object] = {}
    exec(wrong.source, names)
    assert names["all_reduce"](None, 7) == 7  # type: ignore[operator]
    assert "Ring" in names


def test_a_blank_line_in_a_string_is_code() -> None:
    assert edits.bare('a = """one\n\n# two"""\n\nb = 1  # three\n') == [
        'a = """one', "", '# two"""', "b = 1"
    ]  # fmt: skip


def test_a_whole_file_says_what_it_fails(solution: Path) -> None:
    (solution / "verify" / "ring__whole.py").write_text(
        '# fails: test_x\n# earns: 1 to 9\n"""All new."""\nx = 1\n'
    )
    [wrong] = edits.variants(solution, ["ring"])
    assert (wrong.name, wrong.fails, wrong.sentence) == ("ring__whole", "test_x", "All new.")
    (solution / "verify" / "ring__whole.py").write_text("x = 1\n")
    with pytest.raises(AssignmentError, match="first line must be '# fails: TEST'"):
        edits.variants(solution, ["ring"])


@pytest.mark.parametrize("name", assignments.known())
def test_every_edit_of_the_course_applies(name: str) -> None:
    solution = Course.here().solution(name)
    modules = [spec.name for spec in assignments.load(name).modules]
    found = edits.variants(solution, modules)
    assert {each.module for each in found} == set(modules)
    assert not edits.of_no_module(solution, modules)
    assert all(each.sentence.endswith((".", "`")) for each in found)


def test_show_prints_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "a03_allreduce", "--show", "star__only_master_gets_the_sum"]) == 0
    shown = capsys.readouterr().out
    assert "fails: test_sum_on_2_4_and_8_ranks" in shown and "--- star.py" in shown
    assert cli.main(["verify", "a03_allreduce", "--show", "star__only_master_get_sum"]) == 2
    assert "star__only_master_gets_the_sum" in capsys.readouterr().err


def test_an_edit_says_what_it_earns_and_whether_it_is_a_mistake(solution: Path) -> None:
    told = EDIT.replace("fails: test_values", "fails: test_values\nhonest: no")
    [plain] = read(solution, EDIT)
    [wrong] = read(solution, told)
    assert (plain.earns, plain.honest) == ((20, 40), True)
    assert (wrong.earns, wrong.honest, wrong.sentence) == ((20, 40), False, plain.sentence)
    with pytest.raises(AssignmentError, match="'earns: 40' is no range of points"):
        read(solution, told.replace("20 to 40", "40"))
    with pytest.raises(AssignmentError, match="'honest: yes' must be 'honest: no'"):
        read(solution, told.replace("honest: no", "honest: yes"))
