"""What a rank holds before a line of a student's runs: the kit, NumPy, and nothing of the tests."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys
import ringside.mpi
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
found = {name.partition(".")[0] for name, file in files.items() if "site-packages" in file}
print(json.dumps(sorted(found)))
"""


def test_ranks_need_the_kit_and_numpy_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    packages = {name for name in json.loads(done.stdout) if not name.startswith("_")}
    assert packages <= {"numpy", "ringside", "autograder"}
