"""The term's calendar: a page, and a file that calendar programs read."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ringside.course import term
from ringside.course.lectures import __main__ as command
from ringside.course.lectures import term_calendar
from ringside.toml_tables import TableError

ROOT = Path(__file__).resolve().parents[3]
TERM = """
title = "Parallel; deep, learning für alle, ausgeschrieben und viel länger als eine Zeile"
term = "Spring 2026"
timezone = "America/New_York"
assistants = "separated"
drop_lowest = 1
[units]
01 = [2026-02-02T11:00:00, 2026-02-04]
[released]
a01_first_ranks = 2026-02-02T12:00:00
[due]
a01_first_ranks = 2026-03-08T23:59:00
a03_allreduce = 2026-03-31T23:59:00
[weights]
a01_first_ranks = 1
a03_allreduce = 2
[late]
grace_days = 5
grace_days_each = 2
percent_per_day = 10
grace_s = 900
"""


def notebook(path: Path, title: str) -> None:
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": f"# {title}\n\nWords."}
    path.parent.mkdir(parents=True)
    path.write_text(
        json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    notebook(tmp_path / "lectures" / "01_messages.ipynb", "Lecture 1: Messages")
    folder = tmp_path / "assignments" / "a01_first_ranks"
    notebook(folder / "a01_first_ranks.ipynb", "First | ranks")
    (tmp_path / term.FILE).write_text(TERM)
    return tmp_path


def test_the_page_lists_all_dates_in_order_and_says_how_it_counts(tree: Path) -> None:
    found, titles = term.read(tree / term.FILE), term_calendar.titles(tree)
    places = {"01": "lectures/01_messages.ipynb"}
    lines = list(term_calendar.page(found, titles, places))
    rows = [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines if line.startswith("| ")]
    assert rows[1:6] == [
        "| 1 | Mon 2 Feb | 11:00 | [Lecture 01: Messages](lectures/01_messages.ipynb) |",
        "|  |  | 12:00 | a01 handed out: First \\| ranks |",
        "|  | Wed 4 Feb |  | [Lecture 01: Messages (2)](lectures/01_messages.ipynb) |",
        "| 5 | Sun 8 Mar | 23:59 | **a01 due: First \\| ranks** |",
        "| 9 | Tue 31 Mar | 23:59 | **a03 due: a03_allreduce** |",
    ]
    assert "| a03 a03_allreduce | Tue 31 Mar 2026, 23:59 EDT | 66.7 % |" in rows
    text = "\n".join(lines)
    assert "Your lowest assignment will not count." in text
    assert "for the whole course: 5, at most 2 for one assignment. After them, each day" in text
    assert "costs 10 % of the score. Lateness of up to 15 minutes costs nothing." in text
    assert "They may not write or repair what you hand in." in text


def unfolded(text: str) -> list[str]:
    """The lines of iCalendar, as RFC 5545 has them read."""
    assert text.endswith("\r\n") and not re.search(r"[^\r]\n|\r[^\n]", text)
    assert max(len(line.encode()) for line in text.split("\r\n")) <= 75
    return text.replace("\r\n ", "").split("\r\n")[:-1]


def test_the_file_has_an_event_for_each_date_that_keeps_its_name_when_it_moves(tree: Path) -> None:
    stamp = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

    def events(text: str) -> dict[str, dict[str, str]]:
        (tree / term.FILE).write_text(text)
        titles = term_calendar.titles(tree)
        lines = unfolded(term_calendar.icalendar(term.read(tree / term.FILE), titles, stamp))
        assert lines[:2] == ["BEGIN:VCALENDAR", "VERSION:2.0"] and lines[-1] == "END:VCALENDAR"
        assert r"X-WR-CALNAME:Parallel\; deep\, learning für alle" in lines[3]
        parts = "\n".join(lines).split("BEGIN:VEVENT\n")[1:]
        pairs = [dict(line.split(":", 1) for line in each.splitlines()[:-1]) for each in parts]
        assert all(each["DTSTAMP"] == "20260102T000000Z" for each in pairs)
        return {each["UID"]: each for each in pairs}

    before = events(TERM)
    assert [each.get("DTSTART", each.get("DTSTART;VALUE=DATE")) for each in before.values()] == [
        "20260202T160000Z", "20260202T170000Z", "20260204", "20260309T035900Z", "20260401T035900Z",
    ]  # fmt: skip
    after = events(TERM.replace("2026-03-08T23:59", "2026-03-10T23:59"))
    assert before.keys() == after.keys() and before != after


def test_a_unit_before_one_that_it_builds_upon_is_told(tree: Path) -> None:
    assert term_calendar.out_of_order(term.read(tree / term.FILE), ROOT) == []
    units = "03 = [2026-02-09, 2026-02-16]\n01 = [2026-02-10, 2026-02-11]\n09 = 2026-02-12\n"
    (tree / term.FILE).write_text(f"[units]\n{units}77 = 2026-02-13\n")
    stranger, late = term_calendar.out_of_order(term.read(tree / term.FILE), ROOT)
    assert "[units]: there is no unit 77; 00, 01, 02" in stranger
    assert late.endswith(
        "unit 03 begins on 2026-02-09, before unit 01 on 2026-02-10, on which it builds."
    )


def test_the_command_takes_the_course_that_is_named_and_misses_one_that_is_not_there(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RINGSIDE_COURSE", raising=False)
    assert command.the_term(None, tree) is None
    with pytest.raises(TableError, match=r"line 13: \[due\]: a03_allreduce = .* no such key"):
        command.the_term(tree, tree)  # the tree has no such assignment
    notebook(tree / "assignments" / "a03_allreduce" / "a03_allreduce.ipynb", "Five ways")
    assert command.the_term(tree, tree).term == "Spring 2026"  # type: ignore[union-attr]
    monkeypatch.setenv("RINGSIDE_COURSE", str(tree))
    assert command.the_term(None, tree).term == "Spring 2026"  # type: ignore[union-attr]
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path / "assignments"))
    assert command.the_term(None, tree) is None
    (tmp_path / "assignments" / term.FILE).write_text('term = "Fall"')
    assert command.the_term(None, tree) is None
    with pytest.raises(TableError, match=r"course\.toml has no dates: write some below \[units\]"):
        command.the_term(tmp_path / "assignments", tree)
    (tmp_path / "assignments" / term.FILE).unlink()
    with pytest.raises(TableError, match=r"course\.toml is missing: --course names a folder"):
        command.the_term(tmp_path / "assignments", tree)


def test_the_site_gets_the_page_and_the_file_and_the_front_page_leads_there(
    tree: Path, tmp_path: Path
) -> None:
    pytest.importorskip("myst_nb", reason='not installed: see "site" in pyproject.toml')
    pytest.importorskip("sphinx_revealjs", reason='not installed: see "site" in pyproject.toml')
    shutil.rmtree(tree / "assignments")  # whose pages the front page wants to be whole
    (tree / "lectures" / "01_messages.py").write_text("# %% [markdown]\n# # Lecture 1: Messages\n")
    (tmp_path / "course").mkdir()
    text = re.sub(r"(?s)\[released\].*\[late\]", "[late]", TERM).replace("drop_lowest = 1", "")
    (tmp_path / "course" / term.FILE).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "ringside.course.lectures", "site", "--course=course", "--out=out"],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = tmp_path / "out" / "site"
    assert "Lecture 01: Messages (2)" in (made / "calendar.html").read_text()
    assert 'href="lectures/01_messages.html"' in (made / "calendar.html").read_text()
    assert len(unfolded((made / "calendar.ics").read_bytes().decode())) == 5 + 2 * 7
    front = (made / "index.html").read_text()
    assert 'href="calendar.html"' in front and "A calendar for 14 weeks" not in front
