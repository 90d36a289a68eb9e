"""A right star among files whose names are hard to write down."""

import os
import shutil

from autograder.course.course import Course

NAMES = (
    b"ring.py\xff", "r\u0456ng.py".encode(), "\u202egnir.yp".encode(), b"-rf", b"ring.py ",
    b"<img src=x onerror=alert(1)>", b"=1+1", b"x" * 255, b"\x1b[2Jring.py", b"a\nb.py",
    b"..ring.py", b"__init__.py",
)


def make(target, release, outside):
    target.mkdir()
    shutil.copyfile(Course.here().solution("a03_allreduce") / "star.py", target / "star.py")
    folder = os.fsencode(target)
    for name in NAMES:
        os.symlink(b"/etc/passwd", folder + b"/" + name)  # refused, and so named in a note
