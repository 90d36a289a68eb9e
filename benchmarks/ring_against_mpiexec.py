"""The same ring all-reduce on the network and under mpiexec: 64 ranks, 1 MB, whole runs.

    python benchmarks/ring_against_mpiexec.py

Runs in turn, A B C A B C ..., starting and ending of all ranks included; of the network's runs, the
first also starts the process that the ranks of all of them are forked from. The third is a further
call on ranks that are there already, as tests and grading make them: mpiexec has no such call.
Prints each wall time and the ratios; the file is the reference's ring.py every time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np

import ringside

REFERENCE = Path(__file__).resolve().parent.parent / "solutions" / "a03_allreduce"
DRIVER = """
import sys
import numpy as np
from mpi4py import MPI
from ring import all_reduce
comm = MPI.COMM_WORLD
x = np.full(int(sys.argv[1]), float(comm.rank))
total = all_reduce(comm, x)
assert (total == sum(range(comm.size))).all(), total
"""


def on_the_network(folder: Path, ranks: int, n: int) -> float:
    """Seconds of one whole run on simulated ranks."""
    args = [(np.full(n, float(rank)),) for rank in range(ranks)]
    begin = time.perf_counter()
    result = ringside.run(str(folder / "ring.py:all_reduce"), ranks, args)
    seconds = time.perf_counter() - begin
    assert all((value == sum(range(ranks))).all() for value in result.values)
    return seconds


def once_more(session: ringside.Session, ranks: int, n: int) -> float:
    """Seconds of a further call on the ranks of a session."""
    args = [(np.full(n, float(rank)),) for rank in range(ranks)]
    begin = time.perf_counter()
    result = session.call("ring.py:all_reduce", ranks, args)
    seconds = time.perf_counter() - begin
    assert all((value == sum(range(ranks))).all() for value in result.values)
    return seconds


def under_mpiexec(folder: Path, ranks: int, n: int) -> float:
    """Seconds of one whole run under mpiexec."""
    mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts")) or "mpiexec"
    argv = [mpiexec, "-n", str(ranks), sys.executable, str(folder / "driver.py"), str(n)]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    begin = time.perf_counter()
    subprocess.run(argv, check=True, cwd=folder, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=2**20)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    n = options.bytes // 8
    whole, further = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(REFERENCE / "ring.py", folder)
        shutil.copytree(REFERENCE / "given", folder / "given")
        (folder / "driver.py").write_text(DRIVER)
        with ringside.Session(folder) as session:
            once_more(session, options.ranks, n)
            for _ in range(options.pairs):
                ours = on_the_network(folder, options.ranks, n)
                theirs = under_mpiexec(folder, options.ranks, n)
                again = once_more(session, options.ranks, n)
                whole.append(theirs / ours)
                further.append(theirs / again)
                print(
                    f"network {ours:6.2f} s   mpiexec {theirs:6.2f} s   ratio {whole[-1]:5.1f}   "
                    f"a further call {again:6.2f} s   ratio {further[-1]:5.1f}"
                )
    for name, ratios in (("whole runs", whole), ("further calls", further)):
        print(f"{name}: median ratio {statistics.median(ratios):.1f}, least {min(ratios):.1f}")


if __name__ == "__main__":
    main()
