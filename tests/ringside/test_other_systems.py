"""What other systems bring: their line ends, names without case, file systems without links."""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from ringside.checking import notebook
from ringside.commands import cli
from tests.requirements import lay_requirements
from tests.ringside.course.test_update import AFTER, BEFORE, A, lay, there, update, write_mine

ROOT = Path(__file__).resolve().parents[2]
RING = "def f(comm, x):\n    # a sum, by the library\n    return comm.allreduce(x)\n"
TESTS = """
from dataclasses import dataclass

from ringside.checking.cases import Vectors
from ringside.checking.suite import Suite


@dataclass(frozen=True)
class Sum(Vectors):
    target = "ring:f"


@Suite("ring").test("sum", "values", Sum(3))
def test_the_sum(case, run):
    pass
"""


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_a_module_with_windows_line_ends_is_checked_and_handed_in(
    tmp_path: Path, mark: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my course" / "a00_ring"
    (folder / "checks").mkdir(parents=True)
    cell = {"cell_type": "code", "id": "ring", "metadata": {}, "outputs": [],
            "source": f"%%writefile ring.py\n{RING.rstrip()}"}  # fmt: skip
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "a00_ring.ipynb").write_bytes(
        json.dumps(book, indent=1).replace("\n", "\r\n").encode()
    )
    (folder / "ring.py").write_bytes(mark + RING.replace("\n", "\r\n").encode())
    (folder / "checks" / "test_ring.py").write_bytes(TESTS.replace("\n", "\r\n").encode())
    lay_requirements(folder / "checks", "ring", sum=100)
    assert notebook.differences(folder) == []
    assert cli.main(["check", "--folder", str(folder)]) == 0
    assert "ring: 100 of 100" in capfd.readouterr().out
    changed = RING.replace("a sum", "the sum").replace("\n", "\r\n").encode()
    (folder / "ring.py").write_bytes(mark + changed)
    assert cli.main(["handin", "--zip", "--from-files", "--folder", str(folder)]) == 0
    [handed] = notebook.module_cells(folder / "a00_ring.ipynb")
    assert handed.source == RING.replace("a sum", "the sum").rstrip()


def test_no_two_names_differ_only_in_case_and_all_are_names_on_windows() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = [name for name in listed.stdout.split("\0") if name] or [
        path.relative_to(ROOT).as_posix()
        for folder in ("ringside", "autograder", "assignments", "lectures", "cluster", "docs")
        for path in (ROOT / folder).rglob("*")
    ]
    assert len(names) > 500
    assert len({name.casefold() for name in names}) == len(set(names))
    reserved = re.compile(r'[<>:"\\|?*]|(^|/)(con|prn|aux|nul|com\d|lpt\d)(\.|/|$)|[ .](/|$)', re.I)
    assert not [name for name in names if reserved.search(name)]


def test_an_update_needs_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")  # as on exFAT

    monkeypatch.setattr(os, "link", no_links)
    tree, handout = lay(tmp_path / "tree", BEFORE, "1"), lay(tmp_path / "newer", AFTER, "2")
    write_mine(tree)
    assert update(tree, handout) == 0
    assert there(tree, backup=True)[f"before-update-1/{A}/shards.py"] == "shards of mine\n"
