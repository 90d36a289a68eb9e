"""Asking for a regrade: the text is handed in with the files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import nbformat
import pytest

from ringside.commands import cli
from ringside.course.handin.handin import MOST_REQUEST_BYTES


def test_the_text_is_packed_kept_and_capped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = nbformat.v4.new_code_cell("%%writefile one.py\none = 1\n")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "a00.ipynb")
    (tmp_path / "one.py").write_text("one = 1\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["handin", "--zip"]) == 0
    archive = tmp_path / f"{tmp_path.name}.zip"
    with zipfile.ZipFile(archive) as packed:
        assert "regrade.txt" not in packed.namelist()
    asking = ["handin", "--zip", "--regrade", " one: the bound allows é. "]
    assert cli.main([*asking, "--dry-run"]) == 0
    assert "regrade.txt" in capsys.readouterr().out and not (tmp_path / "regrade.txt").exists()
    assert cli.main(asking) == 0
    with zipfile.ZipFile(archive) as packed:
        assert packed.read("regrade.txt").decode() == "one: the bound allows é.\n"
    capsys.readouterr()
    assert cli.main(["handin", "--zip", "--regrade", "é" * MOST_REQUEST_BYTES]) == 2
    assert "the request has 8001 bytes, at most 4000 are read" in capsys.readouterr().err
    assert (tmp_path / "regrade.txt").read_text() == "one: the bound allows é.\n"
