"""The tutorial's `--own`: an attendee's decode_torch writes what the whole model writes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FOLDERS = ROOT / "lectures" / "tutorial", ROOT / "solutions" / "a13_inference"


def test_decode_torch_writes_what_the_whole_model_writes() -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3")
    program = (*torchrun, str(HERE / "programs" / "writing.py"), *map(str, FOLDERS))
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    agreed = re.findall(r"(\d+) bytes agree", done.stdout)
    assert len(agreed) == 3
    assert all(int(count) > 3 for count in agreed)
