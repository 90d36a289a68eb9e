"""No cell of our CSV files is a formula, whatever a student is called, whoever opens it how."""

from __future__ import annotations

import csv
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autograder.safe_csv import safe_cell, write_csv

# By the manuals of Excel and LibreOffice, and what their importers take off in front.
STARTERS = "=+-@|%\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
UNSEEN = " \t\r\n\v\f\x01\x1c\x85\xa0\u2003\u200b\u200e\u2028\u202e\u2060\u3000\ufeff\x00"
SEPARATORS = ",;\t"
FORMULAS = ("=1+1", '=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "@SUM(1)", "-2+3", "%0A=1")
TEXT = st.text(st.sampled_from(STARTERS + UNSEEN + SEPARATORS + "\"'a1|") | st.characters())


def is_formula(cell: str) -> bool:
    """What a cautious reader of a spreadsheet would say."""
    for one in cell:
        if not (one.isspace() or unicodedata.category(one) in ("Cc", "Cf")):
            return one in STARTERS
    return False


def read(path: Path, separator: str) -> list[str]:
    """All cells, as a program with this separator finds them; quotes as csv has them."""
    with path.open(newline="", encoding="utf-8") as stream:
        return [cell for row in csv.reader(stream, delimiter=separator) for cell in row]


@given(TEXT)
@settings(max_examples=300, deadline=None)
@example("\ufeff=1")
@example("\u3000\uff1d1")
@example("'=1")
@example("\x00=1")
def test_no_text_makes_a_formula(text: str) -> None:
    safe = str(safe_cell(text))
    assert not is_formula(safe)
    for separator in ";\t":
        assert not any(map(is_formula, safe.split(separator)))
    assert not any(map(is_formula, safe.splitlines()))
    # Nothing is lost, and only quotes are added.
    assert safe.replace("'", "") == text.replace("\x00", "").replace("'", "")


@given(st.text(st.characters(categories=["L", "N"]), min_size=1), st.integers(), st.floats())
@settings(max_examples=100, deadline=None)
def test_names_and_numbers_stay_as_they_are(name: str, whole: int, number: float) -> None:
    assert safe_cell(name) == name
    assert safe_cell(whole) is whole
    assert safe_cell(number) is number


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("before", ["", " ", "\t", "\n", "\r\n", "\ufeff", "a;", "a\t", "a\n", '"'])
def test_a_file_read_back_has_the_same_cells_and_no_formula(
    tmp_path: Path, formula: str, before: str
) -> None:
    words = before + formula
    path = tmp_path / "grades.csv"
    write_csv(path, ("student", "name", "score"), [{"student": words, "name": words, "score": -1}])
    assert read(path, ",") == ["student", "name", "score", *[str(safe_cell(words))] * 2, "-1"]
    for separator in SEPARATORS:
        cells = [cell for cell in read(path, separator) if cell != "-1"]
        assert not any(map(is_formula, cells)), (separator, cells)
