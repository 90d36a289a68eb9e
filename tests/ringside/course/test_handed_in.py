"""Predictions and the count of hints are handed in beside the run; nothing depends on them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import nbformat
import pytest

from ringside import guess
from ringside.course.handin import hints_taken
from ringside.course.handin.handin import hand_in
from ringside.course.predictions import ask

CELLS = ['guess("a00/x", "How many?")', "%%writefile one.py\none = 1\n"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a00.ipynb")
    (tmp_path / "one.py").write_text("one = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ask, "_seen", set())
    return tmp_path


def test_predictions_are_packed(folder: Path) -> None:
    guess("a00/x", "How many?", value=3)
    receipt = hand_in(folder, force_zip=True)
    with zipfile.ZipFile(receipt.where) as packed:
        assert set(packed.namelist()) == {"a00.ipynb", "one.py", "guesses.json"}
    assert not any("predict" in notice for notice in receipt.notices)


def test_the_count_of_hints_is_packed(folder: Path) -> None:
    hints_taken.add(folder, "one", 1)
    with zipfile.ZipFile(hand_in(folder, force_zip=True).where) as packed:
        assert json.loads(packed.read("hints.json")) == {"one": 1}


def test_without_predictions_one_line_says_so(folder: Path) -> None:
    receipt = hand_in(folder, force_zip=True)
    assert receipt.files == ["a00.ipynb", "one.py"]
    [notice] = [each for each in receipt.notices if "predict" in each]
    assert notice == (
        "there is no guesses.json: you predicted nothing. Predictions are never graded."
    )


@pytest.mark.parametrize("data", [b"{", b" " * (60 << 20)])
def test_a_broken_file_is_left_out_and_stays_as_it_is(folder: Path, data: bytes) -> None:
    (folder / "guesses.json").write_bytes(data)
    receipt = hand_in(folder, force_zip=True)
    assert receipt.files == ["a00.ipynb", "one.py"]
    [notice] = [each for each in receipt.notices if "Predictions are never graded" in each]
    assert notice.startswith("guesses.json is damaged: ") and "\n" not in notice
    assert (folder / "guesses.json").read_bytes() == data


def test_a_notebook_that_asks_nothing_hears_nothing(folder: Path) -> None:
    cells = [nbformat.v4.new_code_cell(CELLS[1])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "a00.ipynb")
    assert not any("predict" in each for each in hand_in(folder, force_zip=True).notices)
