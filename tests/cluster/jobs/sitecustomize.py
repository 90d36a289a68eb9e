"""Python starts with this where it is first on the path: a grader that does what modules say.

A module's lines are read, never run:

    # waits for NAME     until a file of that name is in the course
    # hangs once         for ever, but not when it is graded again
    # dies once          as a process whose memory is over: killed by signal 9
    # dies on nodes      the same, on every node, but not on the login node
    # an error on nodes  the grader's
    # half               earns half of the points

And a machine that is named in the course's file `no_sandbox` has none.
"""

import os
import signal
import socket
import sys
import time
import types
from pathlib import Path

sys.modules["rfc3987_syntax"] = None  # it takes a second to start, and nobody asks it here

COURSE = Path(os.environ["RINGSIDE_COURSE"])
ON_NODE = socket.gethostname().startswith("node")


def first_time(text):
    """Whether this is the first grading of these words."""
    mark = COURSE / f"once-{hash_of(text)}"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def hash_of(text):
    return sum(k * byte for k, byte in enumerate(text.encode()))


def grade_module(assignment, sources, module, *, secret, sandbox, limits):
    from autograder.grade.suite.result import ModuleResult, TestResult

    text = sources.get(module, "")
    for line in text.splitlines():
        if line.startswith("# waits for "):
            while not (COURSE / line.removeprefix("# waits for ")).exists():
                time.sleep(0.1)
    if "# hangs once" in text and first_time(text):
        time.sleep(600)
    dies = ("# dies on nodes" in text and ON_NODE) or ("# dies once" in text and first_time(text))
    if dies:
        print("about to use too much memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if "# an error on nodes" in text and ON_NODE:
        raise OSError("No space left on device")
    points = 0.0 if not text else 50.0 if "# half" in text else 100.0
    test = TestResult("it is there", "values", 100.0, points, seconds=0.1)
    return ModuleResult(module, [test], sandbox="pretended")


if any("autograder" in word for word in sys.orig_argv):
    grading = types.ModuleType("autograder.grade.grading")
    grading.grade_module = grade_module
    grading.sources_in = grading.staged = grading.run_suite = None
    sys.modules["autograder.grade.grading"] = grading

    without = COURSE / "no_sandbox"
    if without.exists() and socket.gethostname() in without.read_text().split():
        from autograder.sandbox import sandbox

        sandbox._bubblewrap_fails = lambda: "bwrap: No such file"
        sandbox._landlock_fails = lambda: "not in this kernel"
