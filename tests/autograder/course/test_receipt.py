"""Receipts through nbgrader's own exchange: the server's clock, whatever the student says."""

from __future__ import annotations

import datetime
import os
import shutil
import stat
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbgrader.coursedir import CourseDirectory

from autograder.course import nbgrader_steps, receipt
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.gradebook.nbgrader.collect import ReceiptCollect
from tests.autograder.conftest import NAME


def collect(course: Course, exchange: Path) -> None:
    config = nbgrader_steps.configuration(course)
    config.Exchange.root = str(exchange)
    config.ExchangeCollect.check_owner = False
    config.ReceiptCollect.check_owner = False
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = NAME
    course.build.mkdir(exist_ok=True)
    ReceiptCollect(coursedir=coursedir, config=config).start()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_collecting_writes_the_receipt_by_the_servers_clock(
    plan: Assignment, course: Course, notebook: Callable[..., nbformat.NotebookNode], tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    inbound = exchange / "ringside" / "inbound"
    # The student chooses the folder's name, the file's content, and the times that utime sets.
    sent = inbound / f"eve+{NAME}+2001-01-01 00:00:00.000000 UTC+x"
    sent.mkdir(parents=True)
    exchange.chmod(0o777)
    sent.chmod(0o777)  # as nbgrader leaves it
    nbformat.write(notebook(), sent / plan.notebook)
    (sent / "timestamp.txt").write_text("2001-01-01 00:00:00.000000 UTC")
    os.utime(sent, (978_307_200, 978_307_200))
    before = datetime.datetime.now(datetime.UTC)

    collect(course, exchange)

    moment = receipt.received(course, NAME)["eve"]
    assert abs((moment - before).total_seconds()) < 60
    folder = course.submitted("eve", NAME)
    assert (folder / plan.notebook).is_file()
    assert (folder / "timestamp.txt").read_text().startswith(moment.strftime("%Y-%m-%d %H:%M"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lone_archive_is_unpacked_where_nbgrader_looks_for_a_notebook(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    inbound = exchange / "ringside" / "inbound"
    for student in ("ada", "bob"):
        sent = inbound / f"{student}+{NAME}+2001-01-01 00:00:00.000000 UTC+x"
        sent.mkdir(parents=True)
        (sent / "timestamp.txt").write_text("2001-01-01 00:00:00.000000 UTC")
        with zipfile.ZipFile(sent / "mine.zip", "w") as archive:
            archive.writestr(f"mine/{plan.notebook}", "{}")
            archive.writestr("mine/timestamp.txt", "1999-01-01 00:00:00.000000 UTC")
            if student == "bob":
                archive.writestr("../outside.txt", "no")
    exchange.chmod(0o777)
    collect(course, exchange)
    names = {each.name for each in course.submitted("ada", NAME).iterdir()}
    assert names == {"mine.zip", plan.notebook, "timestamp.txt"}
    assert "1999" not in (course.submitted("ada", NAME) / "timestamp.txt").read_text()
    left = {each.name for each in course.submitted("bob", NAME).iterdir()}
    assert left == {"mine.zip", "timestamp.txt"}  # refused as a whole


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_handing_the_same_in_again_with_a_request_is_not_later(
    plan: Assignment, course: Course, notebook: Callable[..., nbformat.NotebookNode], tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    inbound = exchange / "ringside" / "inbound"

    def send(student: str, at: str, **files: str) -> datetime.datetime:
        sent = inbound / f"{student}+{NAME}+2001-01-0{at} 00:00:00.000000 UTC+x{at}"
        sent.mkdir(parents=True)
        nbformat.write(notebook(), sent / plan.notebook)
        for name, text in {"timestamp__txt": f"2001-01-0{at}", **files}.items():
            (sent / name.replace("__", ".")).write_text(text)
        time.sleep(0.02)  # the next one's time is another one
        return datetime.datetime.now(datetime.UTC)

    first = send("same", "1", one__py="old")
    second = send("same", "2", one__py="new")
    send("same", "3", one__py="new", submission_secret__txt="other")
    send("same", "4", one__py="new", regrade__txt="Look at one.")
    send("back", "1", one__py="old")
    third = send("back", "2", one__py="new")
    send("back", "3", one__py="old", regrade__txt="Look at one.")
    exchange.chmod(0o777)
    collect(course, exchange)
    moments = receipt.received(course, NAME)
    assert first < moments["same"] <= second  # of the first with this work
    assert moments["back"] > third  # what was between is another work
    assert (course.submitted("same", NAME) / "regrade.txt").read_text() == "Look at one."
    os.utime(inbound / f"same+{NAME}+2001-01-02 00:00:00.000000 UTC+x2" / "one.py")
    (course.receipts(NAME)).unlink()
    shutil.rmtree(course.submitted("same", NAME))
    collect(course, exchange)  # where a file was written since, the folder is of that moment
    assert second < receipt.received(course, NAME)["same"] <= third
