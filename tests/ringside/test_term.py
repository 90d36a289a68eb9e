"""course.toml: every line is optional, and what can't be meant is named with its line."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ringside.course import term
from ringside.toml_tables import TableError

NAMES = ("a01_first_ranks", "a03_allreduce")
WHOLE = """
title = "Parallel deep learning"
term = "Spring 2026"
timezone = "Europe/Berlin"
runs = "by hand"
assistants = "open"
drop_lowest = 1
[units]
04 = [2026-04-01T10:15:00, 2026-03-23]
03 = 2026-02-16
[released]
a03_allreduce = 2026-02-16T12:00:00
[due]
a03_allreduce = 2026-04-01T23:59:00
a01_first_ranks = 2026-02-01T23:59:00Z
[weights]
a01_first_ranks = 10
a03_allreduce = 30.5
[late]
grace_days = 3
percent_per_day = 5.5
"""


def read(tmp_path: Path, text: str) -> term.Term:
    path = tmp_path / term.FILE
    path.write_text(text)
    return term.read(path, NAMES)


def test_a_whole_term_is_read_and_dates_without_an_offset_are_the_zones(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    berlin = [(one.unit, str(one.day), one.at and one.at.isoformat()) for one in found.sessions]
    assert berlin == [
        ("03", "2026-02-16", None),
        ("04", "2026-03-23", None),
        ("04", "2026-04-01", "2026-04-01T10:15:00+02:00"),  # summer time
    ]
    assert found.due["a03_allreduce"].isoformat() == "2026-04-01T23:59:00+02:00"
    assert found.due["a01_first_ranks"].isoformat() == "2026-02-02T00:59:00+01:00"
    assert term.shown(found.released["a03_allreduce"]) == "Mon 16 Feb 2026, 12:00 CET"
    assert found.weights == {"a01_first_ranks": 10, "a03_allreduce": 30.5}
    assert found.late == {"grace_days": 3, "percent_per_day": 5.5}
    assert (found.runs, found.assistants, found.drop_lowest) == ("by hand", "open", 1)


def test_an_old_file_with_due_dates_alone_means_what_it_meant(tmp_path: Path) -> None:
    found = read(tmp_path, 'runs = "word"\n[due]\na03_allreduce = 2026-03-01T23:59:00\n')
    assert found.due["a03_allreduce"] == datetime.datetime(2026, 3, 1, 23, 59, tzinfo=datetime.UTC)
    assert found.runs == "word" and not found.weights and not found.sessions
    assert read(tmp_path, "") == term.Term(tmp_path / term.FILE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "\nassistants = 'some'",
            r"line 2: assistants = 'some': one of \"open\", \"separated\", \"c",
        ),
        ("timezone = 'Berlin'", r"line 1: timezone = 'Berlin': no such zone .* Europe/Berlin"),
        ("[units]\n115 = 2026-01-01", r"line 2: \[units\]: 115 = 2026-01-01: units are named in"),
        ("[units]\n3 = 2026-01-01", r"line 2: \[units\]: 3 = .* in two digits"),
        ("[units]\n03 = '1 May'", r"line 2: \[units\]: 03 = '1 May': a date is wanted, like"),
        ("[units]\n03 = []", r"line 2: \[units\]: 03 = \[\]: a date is wanted"),
        (
            "[weights]\na3_allreduce = 1",
            r"line 2: \[weights\]: a3_allreduce = 1: .* mean 'a03_allreduce'\?",
        ),
        ("[weights]\na03_allreduce = -1", r"line 2: \[weights\]: a03_allreduce = -1: a share is 0"),
        ("[weights]\na03_allreduce = nan", r"line 2: \[weights\]: a03_allreduce = nan: a share"),
        ("[weights]\na03_allreduce = '1'", r"line 2: \[weights\]: .* a number is wanted"),
        ("[weights]\na03_allreduce = 0", r"\[weights\] are all 0"),
        ("[late]\ngrace_days = 1.5", r"line 2: \[late\]: grace_days = 1\.5: a whole number"),
        ("[late]\nmax_percent = 101", r"line 2: \[late\]: max_percent = 101: from 0 to 100"),
        ("[late]\ndays = 1", r"line 2: \[late\]: days = 1: there is no such key; known are grace"),
        ("[due]\nterm = 'x'", r"line 2: \[due\]: term = 'x' stands below \[due\] and so belongs"),
        ("drop_lowest = 1", r"line 1: drop_lowest = 1: from 0 to 0; some must be left"),
        ("due = 2026-01-01\n", r"line 1: due = 2026-01-01: a table is wanted"),
        (
            "[released]\na03_allreduce = 2026-03-02T00:00:00Z\n[due]\na03_allreduce = "
            "2026-03-01T00:00:00Z",
            r"line 2: \[released\]: a03_allreduce = Mon 2 Mar 2026, 00:00 UTC, and it is due Sun 1",
        ),
        ("[due]\na03_allreduce = 2026-02-30T00:00:00Z", r"course\.toml: .*line 2"),
    ],
)
def test_what_cannot_be_meant_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TableError, match=said):
        read(tmp_path, text)
