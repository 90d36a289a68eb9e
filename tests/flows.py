"""How many functions and files of ours a way goes through, as Python's profiler sees it.

    python -m tests.flows                      comm.Send, dist.all_reduce, check, grade: HEAD
    python -m tests.flows --against 635af2cf   the same in that commit, too

Counted are distinct functions of ringside and autograder, without constructors, comprehensions
and the codec, in all processes that are not started in isolation: a rank counts itself.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Runs in every Python that is started with it on PYTHONPATH, and in its forks.
_PROFILER = """
import atexit, os, sys, threading
seen, root = {}, os.environ["FLOW_ROOT"]
def profile(frame, event, arg):
    code = frame.f_code
    # 1: the code of a function, and not the body of a class or a module
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(root):
        seen[code.co_filename[len(root):], code.co_qualname] = True
def save():
    with open(f"{os.environ['FLOW_CALLS']}/{os.getpid()}", "w") as file:
        file.writelines(f"{name}:{function}\\n" for name, function in seen)
def end(status):
    save()
    leave(status)
leave, os._exit = os._exit, end
atexit.register(save)
os.register_at_fork(after_in_child=seen.clear)
threading.setprofile(profile)
sys.setprofile(profile)
"""
# What a rank counts of itself: the second of two equal calls.
_COUNTED = """
import sys
import numpy as np
def counted(call):
    call()
    seen = {}
    def profile(frame, event, arg):
        if event == "call":
            seen[frame.f_code.co_filename, frame.f_code.co_qualname] = True
    sys.setprofile(profile)
    call()
    sys.setprofile(None)
    for name, function in seen:
        if "/ringside/" in name:
            print("ringside/" + name.rsplit("/ringside/", 1)[1] + ":" + function)
def send(comm, x):
    if comm.rank == 0:
        counted(lambda: comm.Send(x, dest=1))
    else:
        comm.Recv(x), comm.Recv(x)
def all_reduce(group, x):
    import torch
    import torch.distributed as dist
    counted(lambda: dist.all_reduce(torch.ones(8)))
"""
_RUN = """
import sys, numpy as np
from ringside import Session
function, front = sys.argv[1:]
with Session(".") as session:
    result = session.call(f"calls:{function}", 2, [(np.ones(8),)] * 2, front_end=front)
    result.raise_for_error().timeline._repr_html_()
    print(result.output[0])
"""


def summary(calls: set[str]) -> str:
    """Functions and files among lines of ``file:function``."""
    ours = {
        call
        for call in calls
        if call.startswith(("ringside/", "autograder/")) and not call.startswith(
            "ringside/network/codec.py"
        ) and "<" not in call and not call.endswith("__init__")
    }  # fmt: skip
    return f"{len(ours):4} functions in {len({call.partition(':')[0] for call in ours}):3} files"


def counts(root: Path) -> dict[str, str]:
    """Each way, and what it goes through in the tree ``root``."""
    solution = root / "solutions" / "a03_allreduce"
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "calls.py").write_text(_COUNTED, encoding="utf-8")
        (folder / "sitecustomize.py").write_text(_PROFILER, encoding="utf-8")
        (folder / "ring").mkdir()
        shutil.copyfile(solution / "ring.py", folder / "ring" / "ring.py")
        run = [sys.executable, "-c", _RUN]
        grade = ["-m", "autograder", "grade", "a03_allreduce", str(folder / "ring")]
        for name, words, place in (
            ("comm.Send", [*run, "send", "mpi"], folder),
            ("dist.all_reduce", [*run, "all_reduce", "torch"], folder),
            ("ringside check ring", [sys.executable, "-m", "ringside", "check", "ring"], solution),
            ("autograder grade", [sys.executable, *grade], folder),
        ):
            with tempfile.TemporaryDirectory() as out:
                environment = {
                    **os.environ,
                    "PYTHONPATH": f"{folder}:{root}",
                    "FLOW_ROOT": f"{root}/",
                    "FLOW_CALLS": out,
                }
                done = subprocess.run(
                    words, cwd=place, env=environment, capture_output=True, text=True, check=False
                )
                if done.returncode not in (0, 1):
                    raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
                seen = {line for path in Path(out).iterdir() for line in path.open()}
            if words[:2] == run[:2]:
                rows[f"{name}, in the rank"] = summary(set(done.stdout.splitlines()))
                name = f"{name}, from the command to the timeline"
            rows[name] = summary({line.strip() for line in seen})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="COMMIT", help="count this commit, too")
    asked = parser.parse_args()
    for commit in filter(None, (asked.against, "HEAD")):
        # In a copy, since grading leaves a secret and results in a course's folder.
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
        archive.check_returncode()
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
                tar.extractall(folder, filter="data")
            rows = counts(Path(folder))
        print(commit, *(f"  {name:52}{text}" for name, text in rows.items()), sep="\n")


if __name__ == "__main__":
    main()
