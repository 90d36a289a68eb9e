"""`ringside update`: what the kit changed comes, and no line that a student wrote is lost."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringside import kit
from ringside.commands import cli
from ringside.course.handout import applying, laying, merging, plan
from ringside.course.handout.manifest import NAME, Handout, HandoutError, text_digest
from ringside.output_folder import contents

A = "assignments/a00_ring"
BOOK = f"{A}/a00_ring.ipynb"
STUB = '%%writefile ring.py\ndef f(x):\n    """Give x."""\n    raise NotImplementedError'
NEW_STUB = STUB.replace("Give x.", "Give x again.")
MINE = STUB.replace("raise NotImplementedError", "return x  # mine-1")
BOTH = MINE.replace("Give x.", "Give x again.")


# -- cells ---------------------------------------------------------------------------------------


def code(name: str, source: str, **marks: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "id": name, "metadata": {}, "source": source}
    return {**cell, "outputs": [], "execution_count": None, **(slot(cell, marks) if marks else {})}


def text(name: str, source: str, **marks: Any) -> dict[str, Any]:
    cell = {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    return {**cell, **(slot(cell, marks) if marks else {})}


def slot(cell: dict[str, Any], marks: dict[str, Any]) -> dict[str, Any]:
    """nbgrader's marks of a cell as it is released."""
    grade, solution = marks.get("grade", False), marks.get("solution", True)
    locked = not solution
    parts = [cell["source"], cell["cell_type"], grade, solution, locked, cell["id"]]
    parts += [float(marks["points"])] if grade else []
    digest = hashlib.md5("".join(map(str, parts)).encode()).hexdigest()
    full = {"grade_id": cell["id"], "grade": grade, "solution": solution, "locked": locked}
    points = {"points": marks["points"]} if grade else {}
    return {"metadata": {"nbgrader": {**full, **points, "checksum": digest}}}


def book(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def given_by(content: dict[str, Any]) -> dict[str, str]:
    return {cell["id"]: text_digest(cell["source"]) for cell in content["cells"]}


def sources(content: dict[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in content["cells"]]


OLD = book(
    text("cell-000", "# Title"),
    code("ring", STUB, solution=True),
    code("check_ring", 'check("ring")', grade=True, solution=False, points=5),
    text("cell-001", "Old words."),
    text("report", "*Your text here.*", grade=True, solution=True, points=5),
    code("cell-002", "print(1)"),
)
NEWER = book(
    text("cell-000", "# Title"),
    text("cell-001", "A new hint."),  # ids of plain cells are numbers: they move
    code("ring", NEW_STUB, solution=True),
    code("check_ring", 'check("ring")', grade=True, solution=False, points=5),
    text("cell-002", "New words."),
    text("report", "*Your text here.*", grade=True, solution=True, points=5),
    code("cell-003", "print(1)"),
)


def test_a_notebook_that_nobody_wrote_in_becomes_the_newer_one() -> None:
    merged = merging.merge(OLD, NEWER, given_by(OLD))
    assert merged.content == NEWER and not merged.has_work and not merged.new_stubs
    assert merged.redocumented == {"ring": ["f"]}


def test_what_was_written_stands_in_the_newer_notebooks_cells() -> None:
    mine = copy.deepcopy(OLD)
    mine["cells"][1]["source"] = MINE.splitlines(keepends=True)
    mine["cells"][4]["source"] = "It was the latency."
    for known in (given_by(OLD), None):
        merged = merging.merge(mine, NEWER, known)
        expected = sources(NEWER)
        expected[2], expected[5] = MINE, "It was the latency."
        assert sources(merged.content) == expected
        assert merged.content["cells"][2]["metadata"] == NEWER["cells"][2]["metadata"]
        assert merged.filled == ["ring", "report"]
        assert merged.new_stubs["ring"] in NEW_STUB


def test_changed_and_added_cells_stand_where_they_stood() -> None:
    mine = copy.deepcopy(OLD)
    mine["cells"][5]["source"] = "print(2)  # mine"
    mine["cells"][3]["source"] = "Old words. My words."
    mine["cells"].insert(3, code("mine", "after_the_check = 1"))
    mine["cells"].insert(0, code("cell-003", "before_all = 1"))  # an id that the newer one has too
    merged = merging.merge(mine, NEWER, given_by(OLD))
    assert sources(merged.content) == [
        "before_all = 1", "# Title", "A new hint.", NEW_STUB, 'check("ring")',
        "after_the_check = 1", "Old words. My words.", "New words.", "*Your text here.*",
        "print(2)  # mine",
    ]  # fmt: skip
    assert (merged.edited, merged.followed) == (1, 3)
    ids = [cell["id"] for cell in merged.content["cells"]]
    assert len(set(ids)) == len(ids)


def test_a_module_that_is_there_twice_or_lost_its_marks_or_is_no_longer_asked_for() -> None:
    mine = copy.deepcopy(OLD)
    mine["cells"][1]["source"] = MINE
    twice = copy.deepcopy(mine["cells"][1]) | {"source": MINE.replace("mine-1", "mine-2")}
    mine["cells"].insert(2, twice)
    del mine["cells"][1]["metadata"]["nbgrader"]
    mine["cells"].append(code("gone", "%%writefile gone.py\nmine_3 = 3", solution=True))
    mine["cells"][-1]["source"] += "\nmore = 4"
    merged = merging.merge(mine, NEWER, given_by(OLD))
    assert sources(merged.content)[2:4] == [MINE.replace("mine-1", "mine-2"), MINE]
    assert sources(merged.content)[-1].endswith("mine_3 = 3\nmore = 4")
    assert "nbgrader" not in merged.content["cells"][-1]["metadata"]


@pytest.mark.parametrize("known", [True, False])
def test_a_cell_below_an_older_first_line_fills_the_newer_one(known: bool) -> None:
    newer = copy.deepcopy(OLD)
    newer["cells"][1] = code("ring", STUB.replace("%%writefile", "%%module"), solution=True)
    given = given_by(OLD) if known else None
    merged = merging.merge(OLD, newer, given)
    assert sources(merged.content) == sources(newer) and not merged.has_work
    assert (merged.redocumented, merged.new_stubs) == ({}, {})  # nothing is new in the stub
    mine = copy.deepcopy(OLD)
    mine["cells"][1]["source"] = MINE
    merged = merging.merge(mine, newer, given)
    assert sources(merged.content)[1] == MINE.replace("%%writefile", "%%module")
    assert (merged.filled, merged.redocumented, merged.new_stubs) == (["ring"], {}, {})


def test_the_parts_of_a_split_cell_are_joined() -> None:
    mine = copy.deepcopy(OLD)
    at = MINE.index("    return")
    upper, lower = (copy.deepcopy(mine["cells"][1]) for _ in range(2))
    upper["source"], lower["source"] = MINE[:at].rstrip("\n"), MINE[at:]
    mine["cells"][1:2] = [upper, lower | {"id": "lower"}]
    merged = merging.merge(mine, NEWER, given_by(OLD))
    assert (sources(merged.content)[2], merged.filled) == (MINE, ["ring"])


def test_a_changed_check_cell_is_put_right_and_kept_without_its_marks() -> None:
    mine = copy.deepcopy(OLD)
    mine["cells"][2]["source"] = 'check("ring")\nprint("mine")'
    merged = merging.merge(mine, NEWER, given_by(OLD))
    assert sources(merged.content)[3:5] == ['check("ring")', 'check("ring")\nprint("mine")']
    assert "nbgrader" not in merged.content["cells"][4]["metadata"]


def test_cells_that_may_be_the_kits_or_the_students_are_counted() -> None:
    mine = copy.deepcopy(OLD)
    mine["cells"].append(code("mine", "mine = 1"))
    assert merging.merge(mine, NEWER, None).unsure == 2  # "Old words." and the student's


EDITS = st.sampled_from(["keep", "write", "delete", "double", "unmark", "empty", "retype"])


@st.composite
def notebooks(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], set[str]]:
    """What was handed out, the student's, the newer one, and the lines that the student wrote."""
    numbers = st.integers(0, 4)
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True))

    def cells(version: int) -> list[dict[str, Any]]:
        out = []
        for name in names:
            kind = ord(name) % 3
            said = f"{name} of the kit {draw(st.integers(0, 1)) * version}"
            if kind == 0:
                out.append(code(name, f"%%writefile {name}.py\n{said}", solution=True))
            elif kind == 1:
                out.append(text(f"n{len(out)}-{version}", said))
            else:
                out.append(text(name, said, grade=True, solution=True, points=1))
        return out

    old, new = book(*cells(0)), book(*cells(1))
    new["cells"] = draw(st.permutations(new["cells"]))
    drop = draw(numbers)
    new["cells"] = [c for k, c in enumerate(new["cells"]) if k != drop] or new["cells"]
    mine, written = copy.deepcopy(old), set()
    out: list[dict[str, Any]] = []
    for k, cell in enumerate(mine["cells"]):
        line = f"mine-{k}"
        match draw(EDITS):
            case "write":
                cell["source"] += f"\n{line}"
                written.add(line)
            case "delete":
                continue
            case "double":
                twin = copy.deepcopy(cell) | {"source": cell["source"] + f"\n{line}-twin"}
                written.add(f"{line}-twin")
                out.append(twin)
            case "unmark":
                cell["metadata"] = {}
                cell["source"] += f"\n{line}"
                written.add(line)
            case "empty":
                cell["source"] = ""
            case "retype":
                cell["cell_type"] = "raw"
                cell["source"] += f"\n{line}"
                written.add(line)
        out.append(cell)
        if draw(st.booleans()):
            out.append(code(draw(st.sampled_from(["a", "x", f"y{k}"])), f"own-{k}"))
            written.add(f"own-{k}")
    mine["cells"] = out
    return old, mine, new, written


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(notebooks(), st.booleans())
def test_no_line_is_lost_whatever_was_edited(
    case: tuple[dict[str, Any], dict[str, Any], dict[str, Any], set[str]], known: bool
) -> None:
    old, mine, new, written = case
    before = copy.deepcopy((mine, new))
    merged = merging.merge(mine, new, given_by(old) if known else None)
    assert (mine, new) == before
    there = "\n".join(sources(merged.content)).splitlines()
    if known or not merged.unsure:  # else the whole notebook is kept beside
        assert written <= set(there)
    ids = [cell["id"] for cell in merged.content["cells"]]
    assert len(set(ids)) == len(ids)
    graded = [c["metadata"]["nbgrader"]["grade_id"] for c in merged.content["cells"]
              if "nbgrader" in c["metadata"]]  # fmt: skip
    wanted = [c["metadata"]["nbgrader"]["grade_id"] for c in new["cells"]
              if "nbgrader" in c["metadata"]]  # fmt: skip
    assert graded == wanted
    again = merging.merge(merged.content, new, given_by(new))
    assert written & set(there) <= set("\n".join(sources(again.content)).splitlines())


# -- trees ---------------------------------------------------------------------------------------


def lay(folder: Path, files: dict[str, str | dict[str, Any]], version: str) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    Handout.of(folder, version).write(folder)
    return folder


BEFORE: dict[str, str | dict[str, Any]] = {
    "ringside/kit.py": "VERSION = 1\n", "ringside/gone.py": "old\n", "pyproject.toml": "v1\n",
    f"{A}/checks/test_a.py": "def test_a():\n    pass\n\n\ndef test_b():\n    pass\n",
    f"{A}/shards.py": "shards 1\n", f"{A}/same.py": "same\n", f"{A}/dropped.py": "dropped\n",
    BOOK: OLD, "assignments/a09_left/checks/test_a.py": "left\n", "lectures/00.md": "words\n",
}  # fmt: skip
AFTER: dict[str, str | dict[str, Any]] = {
    "ringside/kit.py": "VERSION = 2\n", "ringside/new/room.py": "new\n", "pyproject.toml": "v2\n",
    f"{A}/checks/test_a.py": "def test_a():\n    return\n\n\ndef test_c():\n    pass\n",
    f"{A}/shards.py": "shards 2\n", f"{A}/same.py": "same\n", f"{A}/added.py": "added\n",
    BOOK: NEWER, "lectures/00.md": "words\n",
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return lay(tmp_path / "tree", BEFORE, "1")


@pytest.fixture
def handout(tmp_path: Path) -> Path:
    return lay(tmp_path / "newer", AFTER, "2")


def update(tree: Path, handout: Path, *more: str) -> int:
    return cli.main(["update", str(handout), "--tree", str(tree), *more])


def there(tree: Path, *, backup: bool = False) -> dict[str, str]:
    """All files of a tree with their content."""
    return {
        path.relative_to(tree).as_posix(): path.read_text()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and (backup or not path.relative_to(tree).parts[0].startswith("before-"))
    }


def write_mine(tree: Path) -> None:
    """A student's day: a module, its cell, a supplied file, files of one's own."""
    content = json.loads((tree / BOOK).read_text())
    content["cells"][1]["source"] = MINE
    content["cells"].append(code("own", "own = 1"))
    (tree / BOOK).write_text(json.dumps(content))
    for name, line in {
        "ring.py": MINE.partition("\n")[2] + "\n", "shards.py": "shards of mine\n",
        "same.py": "same, of mine\n", "dropped.py": "dropped, of mine\n", "notes.txt": "notes\n",
    }.items():  # fmt: skip
        (tree / A / name).write_text(line)
    (tree / A / "guesses.json").write_text("{}")


def test_a_tree_that_nobody_worked_in_becomes_the_newer_one(tree: Path, handout: Path) -> None:
    assert update(tree, handout) == 0
    left = {"assignments/a09_left/checks/test_a.py": "left\n"}  # a unit that is gone stays whole
    assert there(tree) == there(handout) | left
    first = there(tree, backup=True)
    assert first["before-update-1/ringside/gone.py"] == "old\n"
    assert update(tree, handout) == 0
    assert there(tree, backup=True) == first  # a second time changes nothing


def test_what_the_student_wrote_stays_and_both_versions_where_both_wrote(
    tree: Path, handout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mine(tree)
    assert update(tree, handout) == 0
    found, said = there(tree), capsys.readouterr().out
    assert found[f"{A}/shards.py"] == "shards 2\n"
    assert found[f"{A}/shards.py.before-update-1"] == "shards of mine\n"
    assert found[f"{A}/same.py"] == "same, of mine\n"
    assert found[f"{A}/dropped.py"] == "dropped, of mine\n"
    assert found[f"{A}/notes.txt"] == "notes\n" and found[f"{A}/guesses.json"] == "{}"
    assert found[f"{A}/ring.py"] == BOTH.partition("\n")[2] + "\n"
    assert f"{A}/ring.py.as-released" not in found
    assert (tree / "before-update-1" / A / "ring.py").read_text() == MINE.partition("\n")[2] + "\n"
    merged = json.loads(found[BOOK])
    assert BOTH in sources(merged) and "own = 1" in sources(merged)
    assert "A new hint." in sources(merged)
    for words in (
        "from 1 to 2",
        "new tests: test_c; changed tests: test_a; tests that are gone: test_b",
        "a00_ring.ipynb is the newer one, with what you wrote in ring, 1 cell of your own.",
        "ring.py: the kit's newer docstring of f is in yours.",
        "shards.py: you changed it, and so did the kit: yours is shards.py.before-update-1.",
        "dropped.py is no longer handed out; you changed it: it stays.",
        "kept in before-update-1/", "`make install` once more",
    ):  # fmt: skip
        assert words in said, said


def ring_written(tree: Path, cell: str, file: str) -> None:
    content = json.loads((tree / BOOK).read_text())
    content["cells"][1]["source"] = cell
    (tree / BOOK).write_text(json.dumps(content))
    (tree / A / "ring.py").write_bytes(file.encode())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_module_of_somebody_who_writes_in_an_editor_gets_the_newer_docstring(
    tree: Path, handout: Path, end: str
) -> None:
    ring_written(tree, STUB, (MINE.partition("\n")[2] + "\n").replace("\n", end))
    assert update(tree, handout) == 0
    written = (tree / A / "ring.py").read_bytes().decode()
    assert written == (BOTH.partition("\n")[2] + "\n").replace("\n", end)
    assert NEW_STUB in sources(json.loads((tree / BOOK).read_text()))
    assert not (tree / A / "ring.py.as-released").exists()


@pytest.mark.parametrize("in_file", [False, True])
def test_a_docstring_that_both_changed_is_the_students_and_the_newer_stub_lies_beside(
    tree: Path, handout: Path, in_file: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = MINE.replace("Give x.", "Give x, I think.")
    ring_written(tree, STUB if in_file else mine, mine.partition("\n")[2])
    assert update(tree, handout) == 0
    assert (tree / A / "ring.py").read_text() == mine.partition("\n")[2]
    assert (mine in sources(json.loads((tree / BOOK).read_text()))) is not in_file
    assert "Give x again." in (tree / A / "ring.py.as-released").read_text()
    assert "yours is kept, and the newer stub is ring.py.as-released" in capsys.readouterr().out


def test_a_dry_run_says_the_same_and_writes_nothing(
    tree: Path, handout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mine(tree)
    before = there(tree, backup=True)
    assert update(tree, handout, "--dry-run") == 0
    said = capsys.readouterr().out
    assert there(tree, backup=True) == before and "Nothing was written" in said
    update(tree, handout)
    assert capsys.readouterr().out.splitlines()[:8] == said.splitlines()[:8]
    assert update(tree, handout, "--json") == 0
    assert json.loads(capsys.readouterr().out)["written"] == []


def test_deleted_files_come_back_and_renamed_ones_stay(tree: Path, handout: Path) -> None:
    (tree / A / "checks/test_a.py").unlink()
    write_mine(tree)
    (tree / BOOK).rename(tree / A / "my.ipynb")
    mine = (tree / A / "my.ipynb").read_text()
    assert update(tree, handout) == 0
    assert "test_c" in (tree / A / "checks/test_a.py").read_text()
    assert (tree / A / "my.ipynb").read_text() == mine
    assert json.loads((tree / BOOK).read_text()) == NEWER


@pytest.mark.parametrize("damage", ["{", "[]", '{"cells": [1]}', "\x00\xff", ""])
def test_a_damaged_notebook_is_kept_beside(tree: Path, handout: Path, damage: str) -> None:
    write_mine(tree)
    (tree / BOOK).write_text(damage)
    assert update(tree, handout) == 0
    assert (tree / f"{BOOK}.before-update-1").read_text() == damage
    assert json.loads((tree / BOOK).read_text()) == NEWER
    assert "mine-1" in (tree / A / "ring.py").read_text()


def test_a_stub_that_a_cell_wrote_and_nobody_filled_in_is_renewed(
    tree: Path, handout: Path
) -> None:
    (tree / A / "ring.py").write_text(STUB.partition("\n")[2] + "\n")
    assert update(tree, handout) == 0
    assert (tree / A / "ring.py").read_text() == NEW_STUB.partition("\n")[2] + "\n"


def test_other_line_ends_are_no_change(tree: Path, handout: Path) -> None:
    for name in (f"{A}/shards.py", f"{A}/same.py", BOOK):
        path = tree / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert update(tree, handout) == 0
    assert not list(tree.rglob("*.before-update-1"))
    assert (tree / A / "shards.py").read_bytes() == b"shards 2\n"


def test_of_a_tree_without_a_list_all_is_kept_that_may_be_the_students(
    tree: Path, handout: Path
) -> None:
    write_mine(tree)
    (tree / NAME).unlink()
    mine = there(tree)
    assert update(tree, handout) == 0
    now = there(tree, backup=True)
    for name, content in mine.items():  # each file is as it was, there or in the backup
        assert content in (now.get(name), now.get(f"before-update-1/{name}")), name
    assert MINE in sources(json.loads(now[BOOK]))
    assert now[f"{BOOK}.before-update-1"] == mine[BOOK]
    assert (tree / NAME).is_file()


def test_a_handout_comes_as_zip_or_checkout_and_from_inside_the_tree(
    tree: Path, handout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = shutil.make_archive(str(tmp_path / "bundle"), "zip", tmp_path, "newer")
    (handout / ".git").mkdir()
    (handout / ".git" / "HEAD").write_text("ref\n")
    other = tmp_path / "other"
    shutil.copytree(tree, other)
    assert update(other, handout) == 0
    monkeypatch.chdir(tree / A)
    assert cli.main(["update", packed]) == 0
    assert there(tree) == there(other)
    assert not (other / ".git").exists()


def test_what_is_no_handout_or_no_tree_is_refused_with_the_cure(
    tree: Path, handout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = there(tree, backup=True)
    bad = tmp_path / "bad.zip"
    bad.write_bytes(b"PK no zip")
    outside = tmp_path / "outside.zip"
    with zipfile.ZipFile(outside, "w") as archive:
        archive.writestr("./", "")  # an entry without a name is no reason to end in a traceback
        archive.writestr("../slip.txt", "x")
    link = tmp_path / "link.zip"
    with zipfile.ZipFile(link, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc")
    course = tmp_path / "course"
    for name in ("solutions", "autograder", "assignments"):
        (course / name).mkdir(parents=True)
    for words, expected in (
        ((tree, bad), "is no whole zip"),
        ((tree, outside), "leads outside: ../slip.txt"),
        ((tree, link), "leads outside: link"),
        ((tree, tmp_path / "none.zip"), "there is no"),
        ((tree, course), "is no handout"),
        ((tree, tree), "is the tree itself"),
        ((course, handout), "is the course's own repository"),
        ((tmp_path, handout), "lies in no students' tree"),
    ):
        assert update(*words) == 2
        assert expected in capsys.readouterr().err
    (tree / NAME).write_text("{")
    assert update(tree, handout) == 2
    assert "handout.json is damaged" in capsys.readouterr().err
    (tree / NAME).write_text(before[NAME])
    (tree / "ringside" / "new").write_text("my file\n")
    assert update(tree, handout) == 2
    assert "ringside/new is a file of yours" in capsys.readouterr().err
    assert not (tmp_path / "slip.txt").exists()
    (tree / "ringside" / "new").unlink()
    assert there(tree, backup=True) == before


# -- files in every state --------------------------------------------------------------------------

STATES = st.sampled_from(["as given", "changed", "deleted", "never", "own"])
KITS = st.sampled_from(["same", "newer", "gone", "never"])


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(STATES, KITS), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_files_in_every_state_keep_what_the_student_wrote(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[str, str]],
    known: bool,
    stopped: bool,
) -> None:
    place = tmp_path_factory.mktemp("states")
    old: dict[str, str | dict[str, Any]] = {"lectures/x.md": "x\n", f"{A}/y.py": "y\n"}
    new = dict(old)
    mine: dict[str, str | None] = {}
    for k, (state, kits) in enumerate(pairs):
        name = f"{A}/f{k}.py"
        if state not in ("never", "own"):
            old[name] = f"kit {k}\n"
        if kits == "newer" or (kits == "same" and name in old):
            new[name] = f"kit {k}\n" if kits == "same" else f"newer {k}\n"
        if state in ("changed", "own"):
            mine[name] = f"mine {k}\n"
        elif state == "deleted":
            mine[name] = None
    tree, handout = lay(place / "tree", old, "1"), lay(place / "newer", new, "2")
    if not known:
        (tree / NAME).unlink()
    for name, line in mine.items():
        (tree / name).unlink() if line is None else (tree / name).write_text(line)
    before = there(tree)
    if stopped:
        with Failing(after=len(pairs) + 3), _maybe():
            update(tree, handout)
        if there(tree) == before:  # it failed, and nothing is there of it
            assert there(tree, backup=True) == before
    update(tree, handout)
    now = there(tree, backup=True)
    for name, line in mine.items():
        if line is not None:
            assert line in (now.get(name), now.get(f"{name}.before-update-1"),
                            None if known else now.get(f"before-update-1/{name}"))  # fmt: skip
    for name, line in new.items():
        changed_alone = known and mine.get(name) is not None and old.get(name) == line
        assert now[name] == (mine[name] if changed_alone else line)


# -- stopped ---------------------------------------------------------------------------------------


class _maybe:
    """Whatever a stopped update raises."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return isinstance(error, OSError | KeyboardInterrupt)


class Failing:
    """Lets the nth of the calls that write fail, as on a full disk."""

    CALLS = ("replace", "link", "mkdir", "unlink")

    def __init__(self, after: int, error: Callable[[], BaseException] | None = None) -> None:
        self.left = after
        self.error = error or (lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self.patch = pytest.MonkeyPatch()

    def __enter__(self) -> Failing:
        for name in self.CALLS:
            self.patch.setattr(os, name, self._failing(getattr(os, name)))
        self.patch.setattr(Path, "write_bytes", self._failing(Path.write_bytes))
        self.patch.setattr(shutil, "copy2", self._failing(shutil.copy2))
        return self

    def __exit__(self, *_: object) -> None:
        self.patch.undo()

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise self.error()
            return call(*arguments, **options)

        return failing


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_an_update_that_fails_anywhere_changes_nothing(
    tree: Path, handout: Path, error: Callable[[], BaseException] | None
) -> None:
    write_mine(tree)
    steps = plan.make(tree, handout).steps
    before = contents(tree)
    failed = 0
    for after in range(1, 200):
        with Failing(after, error) as failing:
            try:
                applying.apply(tree, steps)
            except (OSError, KeyboardInterrupt):
                failed += 1
                failing.patch.undo()
                assert contents(tree) == before, after
                continue
        if failing.left > 0:
            break  # it came through
        return  # the last calls only tidy up
    assert failed > 20


def test_an_update_that_is_killed_is_undone_by_the_next_one(
    tree: Path, handout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_mine(tree)
    before = contents(tree)
    killed = 0
    for after in range(1, 200):
        child = os.fork()
        if child == 0:
            with Failing(after, lambda: os._exit(9)):  # type: ignore[arg-type, func-returns-value]
                update(tree, handout)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            break
        with applying.locked(tree):
            applying.recover(tree)
        now = {n: d for n, d in contents(tree).items() if not n.startswith("before-update")}
        if now != before:
            assert after > 20  # it was done, and only tidying was left
            break
        for backup in tree.glob("before-update-*"):
            shutil.rmtree(backup)
        killed += 1
    assert killed > 20
    capfd.readouterr()


def test_what_was_changed_after_a_kill_is_left_and_told(
    tree: Path, handout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = os.fork()
    if child == 0:
        put, count = applying._put, iter(range(100))

        def killed(*arguments: Any) -> None:
            put(*arguments)
            if next(count) == 6:
                os._exit(9)

        applying._put = killed
        update(tree, handout)
    os.waitpid(child, 0)
    changed = [name for name, text in there(tree).items()
               if name in BEFORE and text == AFTER.get(name) != BEFORE[name]]  # fmt: skip
    assert changed
    (tree / changed[0]).write_text("written since\n")
    with applying.locked(tree):
        [said] = applying.recover(tree)
    assert f"but for what was changed since: {changed[0]}" in said
    assert (tree / changed[0]).read_text() == "written since\n"
    assert (tree / "before-update-1" / changed[0]).read_text() == BEFORE[changed[0]]
    rest = {n: t for n, t in BEFORE.items() if n != changed[0] and isinstance(t, str)}
    assert rest.items() <= there(tree).items()


def test_two_updates_at_once_are_refused(tree: Path, handout: Path) -> None:
    with applying.locked(tree):
        words = ["-m", "ringside", "update", str(handout), "--tree", str(tree)]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert "another update of" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_changes_nothing(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = lay(small_disk / "tree", BEFORE, "1")
    write_mine(tree)
    handout = lay(tmp_path / "newer", {**AFTER, "lectures/01.md": "x" * 300_000}, "2")
    before = contents(tree)
    assert update(tree, handout) == 2
    assert "No space left" in capsys.readouterr().err
    assert contents(tree) == before
    (handout / "lectures" / "01.md").write_text("shorter")
    assert update(tree, handout) == 0


# -- laid out --------------------------------------------------------------------------------------


def test_a_package_lays_its_tree_out_and_brings_it_up_to_date(
    handout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = lay(tmp_path / "package", BEFORE, "1")
    monkeypatch.setattr(kit, "handout_folder", lambda: brought)
    place = laying.lay(tmp_path / "mine")
    assert there(place).keys() == there(brought).keys()
    with pytest.raises(HandoutError, match="is there already"):
        laying.lay(place)
    write_mine(place)
    monkeypatch.setattr(kit, "handout_folder", lambda: handout)
    assert cli.main(["update", "--tree", str(place)]) == 0
    assert (place / A / "shards.py").read_text() == "shards 2\n"


def test_without_a_package_there_is_nothing_to_lay_out(tmp_path: Path) -> None:
    with pytest.raises(HandoutError, match="used from a tree"):
        laying.lay(tmp_path / "mine")
