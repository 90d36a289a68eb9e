"""The rebuild: only solution sources move over; what is odd is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from nbgrader.utils import compute_checksum

from autograder.collect import rebuild
from autograder.collect.quarantine import Rejected
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from tests.autograder.conftest import solved

Notebook = Callable[..., nbformat.NotebookNode]


@pytest.fixture
def redo(plan: Assignment, course: Course) -> Callable[..., rebuild.Rebuilt]:
    def run(submitted: Any, **beside: str) -> rebuild.Rebuilt:
        raw = submitted if isinstance(submitted, bytes) else json.dumps(submitted).encode()
        release = rebuild.release_notebook(plan, course.release(plan.name))
        return rebuild.rebuild(plan, release, raw, beside)

    return run


Redo = Callable[..., rebuild.Rebuilt]


def cell_of(nb: nbformat.NotebookNode, grade_id: str) -> nbformat.NotebookNode:
    (found,) = (c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
    return found


def test_an_untouched_notebook_gives_stubs_and_nothing_to_say(
    redo: Redo, notebook: Notebook
) -> None:
    rebuilt = redo(notebook())
    assert rebuilt.untouched == ("one", "two", "more") and rebuilt.notes == []
    assert rebuilt.modules["one"].endswith("raise NotImplementedError\n")


def test_only_the_source_of_solution_cells_is_taken(redo: Redo, notebook: Notebook) -> None:
    nb = notebook(one=solved("one"))
    for cell in nb.cells:
        cell.metadata["evil"] = True
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "printed"})]
    check = cell_of(nb, "check_one")
    check.source, check.metadata.nbgrader["points"] = "100", 1000.0
    nb.metadata["kernelspec"] = {"name": "evil", "display_name": "evil", "language": "bash"}
    nb.cells.append(nbformat.v4.new_code_cell("import os"))
    rebuilt = redo(nb)
    text = json.dumps(rebuilt.notebook)
    assert "evil" not in text and "printed" not in text and "import os" not in text
    assert cell_of(rebuilt.notebook, "check_one").metadata.nbgrader.points == 30
    assert rebuilt.modules["one"] == solved("one").split("\n", 1)[1]
    assert rebuilt.notes == ["The cell 'check_one' was changed: it was put back."]


def test_of_duplicated_cells_the_last_changed_one_is_taken(redo: Redo, notebook: Notebook) -> None:
    nb = notebook()
    stub = cell_of(nb, "one")
    for text in ("first", "second"):
        copy = nbformat.from_dict(json.loads(json.dumps(stub)))
        copy.source = f"%%module one.py\n{text}"
        nb.cells.insert(1, copy) if text == "second" else nb.cells.insert(0, copy)
    rebuilt = redo(nb)
    assert rebuilt.modules["one"] == "second\n"
    assert "is there 3 times: the last one that was changed" in rebuilt.notes[0]


def test_a_deleted_cell_counts_as_not_done_and_a_cell_without_id_is_found(
    redo: Redo, notebook: Notebook
) -> None:
    nb = notebook(two=solved("two"))
    nb.cells = [
        cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") != "one"
    ]
    del cell_of(nb, "two").metadata["nbgrader"]
    rebuilt = redo(nb)
    assert rebuilt.untouched == ("one", "more")
    assert "two is solved" in rebuilt.modules["two"]
    assert rebuilt.notes == [
        "The cell 'one' is missing: it counts as not done.",
        "The cell 'two' had lost its id: it was found by its first line.",
    ]


def test_flipped_flags_another_type_and_another_file_name_do_not_matter(
    redo: Redo, notebook: Notebook
) -> None:
    nb = notebook(one="%%module ../../ringside/__init__.py\nx = 1", two="y = 2")
    cell_of(nb, "one").metadata.nbgrader.update(solution=False, grade=True, points=9)
    two = cell_of(nb, "two")
    two.cell_type = "markdown"
    rebuilt = redo(nb)
    assert rebuilt.modules["one"] == "x = 1\n" and rebuilt.modules["two"] == "y = 2\n"
    assert cell_of(rebuilt.notebook, "one").source == "%%module one.py\nx = 1"
    assert rebuilt.notes == [
        "The flags of the cell 'one' were changed: they were ignored.",
        "The cell 'one' names another file: it was taken as one.py.",
        "The cell 'two' is no code cell any more: its text was taken as code.",
        "The cell 'two' has lost its first line %%module two.py.",
    ]


def test_deleted_and_duplicated_check_cells_are_put_back(redo: Redo, notebook: Notebook) -> None:
    nb = notebook()
    nb.cells.append(cell_of(nb, "check_two"))
    nb.cells = [
        c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") != "check_one"
    ]
    rebuilt = redo(nb)
    ids = [c.metadata.nbgrader.grade_id for c in rebuilt.notebook.cells if "nbgrader" in c.metadata]
    assert ids.count("check_one") == ids.count("check_two") == 1
    assert rebuilt.notes == [
        "The cell 'check_one' was deleted: it was put back.",
        "The cell 'check_two' is there 2 times: the copies were ignored.",
    ]


COUNTS = (
    "The cell 'one' is as it was released: one.py, which was handed in beside the notebook, counts."
)


def test_a_cell_as_released_gives_way_to_the_file_beside_it(redo: Redo, notebook: Notebook) -> None:
    file = solved("one").split("\n", 1)[1]
    nb = notebook()
    rebuilt = redo(nb, one=file, other="x = 1\n")
    assert rebuilt.modules["one"] == file and rebuilt.untouched == ("two", "more")
    assert rebuilt.notes == [COUNTS] and "other" not in rebuilt.modules
    # The stub of an earlier release, by its checksum; and what is no stub, whatever is claimed.
    cell = cell_of(nb, "one")
    cell.source = "%%writefile one.py\ndef answer():\n    raise NotImplementedError()"
    cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    assert redo(nb, one=file).notes == [COUNTS]
    cell.source += "\n# a line of work"
    rebuilt = redo(nb, one=file)
    assert "a line of work" in rebuilt.modules["one"] and rebuilt.notes == []


def test_a_file_that_is_a_stub_too_is_nobodys_work(redo: Redo, notebook: Notebook) -> None:
    nb = notebook()
    stub = cell_of(nb, "one").source.split("\n", 1)[1]
    rebuilt = redo(nb, one=stub + "\n\n")
    assert rebuilt.untouched == ("one", "two", "more") and rebuilt.notes == []


@pytest.mark.parametrize("editor", ["JupyterLab", "VS Code"])
@pytest.mark.parametrize("at", ["def answer", "    return", '"""Module'])
def test_a_split_cell_is_joined(redo: Redo, notebook: Notebook, editor: str, at: str) -> None:
    nb = notebook(one=solved("one"))
    upper = cell_of(nb, "one")
    lower = nbformat.from_dict(json.loads(json.dumps(upper)))
    above, _, below = upper.source.partition(at)
    # JupyterLab copies the metadata into both parts; VS Code gives the lower one none.
    upper.source, lower.source = above.rstrip("\n"), (at + below)
    if editor == "VS Code":
        lower.metadata = {}
    nb.cells.insert(nb.cells.index(upper) + 1, lower)
    rebuilt = redo(nb)
    assert rebuilt.modules["one"].split() == solved("one").split("\n", 1)[1].split()
    assert rebuilt.notes == ["The cell 'one' was split into 2: they were joined."]
    # A cell of the student's own below is none of it.
    nb.cells[nb.cells.index(upper) + 1] = nbformat.v4.new_code_cell("import one\none.answer()")
    assert not any("split" in note for note in redo(nb).notes)


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"", "not valid JSON"),
        (b'{"cells": [', "line 1"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "no list of cells"),
        (b'{"worksheets": []}', "no list of cells"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"cells": ' + b'[{"source": 1}' + b', {"source": 1}' * 2_000 + b"]}", "2000 cells"),
    ],
)
def test_what_is_no_notebook_is_rejected_with_a_sentence(
    redo: Redo, raw: bytes, match: str
) -> None:
    with pytest.raises(Rejected, match=match):
        redo(raw)


def test_strange_cells_do_not_stop_the_rebuild(redo: Redo) -> None:
    cells = [
        None, 3, {}, {"source": None, "metadata": 4}, {"metadata": {"nbgrader": {"grade_id": []}}},
        {"source": ["%%module one.py\n", 7, "x = '\\ud800'\x00"],
         "cell_type": "code", "metadata": {"nbgrader": {"grade_id": "one", "schema_version": 99}}},
        {"source": "\ud800", "metadata": {"nbgrader": {"grade_id": "two"}}},
    ]  # fmt: skip
    rebuilt = redo({"cells": cells})
    assert rebuilt.modules["one"].startswith("x = '")
    for text in rebuilt.modules.values():
        assert "\x00" not in text
        text.encode("utf-8")


@pytest.mark.parametrize("text", ["plain", "~~~~\n<b>\n~~~~", "a\r\nb", "x " * 200, "", "~" * 9])
def test_a_paragraph_is_fenced_and_comes_out_again(text: str) -> None:
    cell = rebuild.as_plain_text(text)
    fence = cell.split("\n")[0].removesuffix("text")
    assert set(fence) == {"~"} and cell.endswith(f"\n{fence}")
    assert fence not in cell[len(fence) + 4 : -len(fence)]
    shown = rebuild.plain_text(cell)
    assert shown.split() == text.split()
    assert max(map(len, shown.split("\n"))) <= 100
