"""What is shown while a class is graded: how far, how fast, how long."""

import io
import os
import pty
import re

from autograder.grade import progress
from autograder.grade.progress import Pace


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_stored_modules_say_nothing_of_the_pace():
    clock = Clock()
    pace = Pace(clock)
    pace.note(300, 700)
    assert pace.per_minute is None and pace.left_s is None
    assert str(pace) == "300/700 modules · 300 were stored"
    clock.now += 120
    pace.note(400, 700)
    assert pace.per_minute == 50.0
    assert pace.left_s == 360.0
    assert str(pace) == "400/700 modules · 300 were stored · 50 a minute · about 6 min left"
    pace.note(700, 700)
    assert pace.left_s == 0.0
    assert "left" not in str(pace)


def lines_of(total, stored, seconds_each):
    clock, stream = Clock(), io.StringIO()
    with progress.shown(stream, clock) as note:
        note(stored, total)
        for done in range(stored + 1, total + 1):
            clock.now += seconds_each
            note(done, total)
    return stream.getvalue().splitlines()


def test_a_log_gets_a_line_every_half_a_minute_for_a_large_class():
    assert lines_of(60, 0, 2.0) == [
        "grading: 15/60 modules · 30 a minute · about 2 min left",
        "grading: 30/60 modules · 30 a minute · about 60 s left",
        "grading: 45/60 modules · 30 a minute · about 30 s left",
    ]
    assert lines_of(60, 41, 20.0) == []  # few are left
    assert lines_of(60, 0, 0.1) == []  # soon done
    assert "about 1.9 h left" in lines_of(700, 0, 10.0)[0]


def test_a_terminal_gets_a_line_that_changes_and_goes():
    ours, theirs = pty.openpty()
    clock = Clock()
    with open(theirs, "w") as stream:
        with progress.shown(stream, clock) as note:
            note(0, 30)
            clock.now += 60
            note(10, 30)
        stream.write("the end")
        stream.flush()
        shown = ""
        while not shown.endswith("the end"):  # a terminal passes it on in pieces
            shown += os.read(ours, 1 << 16).decode()
    os.close(ours)
    shown = shown.removesuffix("the end")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "10/30 modules · 10 a minute · about 2 min left" in plain
    assert shown.rstrip().endswith("\x1b[2K")  # the line is gone
