"""The kit's own tests that want a GPU, as a subprocess with an end."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from gpu.bench import Record

ROOT = Path(__file__).resolve().parents[2]
FILES = ("tests/ringside/pytorch/test_torch_gpu.py", "tests/autograder/grade/test_measured.py")


def run(limit_s: float) -> Record:
    """Run them; how many passed, failed and were skipped, and the last lines."""
    # Without the project's conftest and options: the machine may lack what other tests want.
    # And without plugins that happen to be there: their warnings are errors here.
    words = ["-m", "gpu", "--noconftest", "-p", "no:cacheprovider", "-W", "default"]
    words += ["-q", "-rfEs", "--tb=short"]
    if importlib.util.find_spec("xdist"):
        words += ["-p", "xdist", "-n", str(min(6, max(1, (os.cpu_count() or 2) // 2)))]
    command = [sys.executable, "-m", "pytest", *words, *FILES]
    begin = time.perf_counter()
    # A session of its own: what it started ends with it.
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit_s)
        ended = True
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        ended = False
    counts = {
        word: number for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", output)
    }
    return {
        "command": " ".join(["python", *command[1:]]),
        "ended": ended,
        "seconds": time.perf_counter() - begin,
        **{word: int(counts.get(word, 0)) for word in ("passed", "failed")},
        # Not "error" and "skipped": an item with these is one that wasn't measured.
        "errors": int(counts.get("error", 0)),
        "left_out": int(counts.get("skipped", 0)),
        "last_lines": output.splitlines()[-60:],
    }
