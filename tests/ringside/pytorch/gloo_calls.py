"""Make calls on real ranks of gloo, each on forks of its own, of one process that knows torch.

python gloo_calls.py PROGRAM.py FOLDER CALLS.json        calls: function -> number of ranks

Prints JSON: of each function what became of each rank, ``["value", ...]``, ``["error", text]`` or
``["died"]``: it crashed, or did nothing for so long that it was ended.
"""

from __future__ import annotations

import datetime
import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

PATIENCE = datetime.timedelta(seconds=2)
MOST_S = 6.0


def be_rank(program: dict[str, Any], call: str, rank: int, size: int, meeting: Path) -> list[Any]:
    """A rank of gloo; returns what became of it."""
    common = {"rank": rank, "world_size": size, "timeout": PATIENCE}
    program["INIT"].update(common, init_method=f"file://{meeting}-again")
    try:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", **common)
        return ["value", program[call](dist.group.WORLD)]
    except Exception as error:
        return ["error", f"{type(error).__name__}: {error}"]


def outcomes(program: dict[str, Any], call: str, size: int, folder: Path) -> list[list[Any]]:
    """What became of all ranks of a call."""
    paths = [folder / f"{call}-{rank}" for rank in range(size)]
    children = []
    for rank in range(size):
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            became = be_rank(program, call, rank, size, folder / f"meeting-{call}")
            paths[rank].write_text(json.dumps(became))
            # Whoever leaves at once closes connections that others are still making.
            until = time.monotonic() + 1.25 * PATIENCE.total_seconds()
            while time.monotonic() < until and not all(path.exists() for path in paths):
                time.sleep(0.005)
            os._exit(0)  # a thread of gloo's may wait for others
        children.append(child)
    until = time.monotonic() + MOST_S
    while children and time.monotonic() < until:
        children = [child for child in children if not os.waitpid(child, os.WNOHANG)[0]]
        time.sleep(0.005)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return [json.loads(path.read_text()) if path.exists() else ["died"] for path in paths]


def main() -> None:
    """Make all calls."""
    program = runpy.run_path(sys.argv[1])
    folder = Path(sys.argv[2])
    calls = json.loads(Path(sys.argv[3]).read_text())
    print(json.dumps({call: outcomes(program, call, calls[call], folder) for call in calls}))


if __name__ == "__main__":
    main()
