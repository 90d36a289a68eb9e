"""`ringside doctor --cluster`: every rank tells its facts, rank 0 judges them.

Started as ranks (``srun``, ``mpiexec``, ``torchrun``) it examines those; started alone it starts
ranks itself, with the site's launcher inside a Slurm job and with mpiexec elsewhere.
"""

from __future__ import annotations

import datetime
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError
from ringside.jobs.doctor.findings import Examination, judge
from ringside.jobs.doctor.this_machine import Finding
from ringside.jobs.launch.sites import Site, names
from ringside.jobs.real import facts as cluster_facts
from ringside.timing.machine import Machine

SIZES = (8, 2**20, 2**23)
BATCHES = 5
_TIMEOUT_S = 120.0


class DoctorError(RingsideError):
    """Ranks that couldn't be started."""


def machine_of(site: str | None) -> Machine | None:
    """The machine model of a site, or of the site that the job's cluster is named after."""
    name = site or os.environ.get("SLURM_CLUSTER_NAME", "")
    if site is None and name not in names():
        return None
    model = Site.load(name).settings().get("machine")
    return Machine.load(str(model)) if model else None


def examine(site: str | None, asked: int | None) -> list[Finding] | None:
    """Examine the ranks that this process is one of; the findings on the first, else None.

    Raises:
        RingsideError: no such site or machine.
    """
    machine = machine_of(site)
    over = _over_torch if cluster_facts.kind() == "torch" else _over_mpi
    examination = over(asked)
    return None if examination is None else judge(examination, machine)


def _over_mpi(asked: int | None) -> Examination | None:
    cluster_facts.before_mpi_is_loaded()
    from mpi4py import MPI

    from ringside.jobs.calibrate.probe.on_mpi import OverMpi

    ranks, job = OverMpi(MPI.COMM_WORLD), cluster_facts.job(asked=asked)
    library = ranks.about()["library"]
    alone = ranks.size == 1 and job["ranks_asked"] not in (None, 1)
    if alone and cluster_facts.launched_rank() not in (None, 0):
        return None  # they don't know of each other: one of them speaks
    return _examined(ranks, "mpi4py", library, job, measured=not alone)


def _over_torch(asked: int | None) -> Examination | None:
    import torch
    import torch.distributed as dist

    from ringside.jobs.calibrate.probe.on_torch import OverTorch

    job = cluster_facts.job(asked=asked)
    backend, device = "gloo", torch.device("cpu")
    if torch.cuda.is_available():
        local_rank = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
        backend, device = "nccl", torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=_TIMEOUT_S))
        ranks = OverTorch(backend, device)
        return _examined(ranks, backend, ranks.about()["library"], job, measured=True)
    except (RuntimeError, ValueError) as error:  # torch's own, of a network or of a GPU
        rank = cluster_facts.launched_rank() or 0
        if rank:
            return None
        world_size = int(os.environ["WORLD_SIZE"])
        failed = {"error": f"{backend}: {str(error).strip().splitlines()[0]}"}
        facts = [cluster_facts.of_rank(rank)]
        return Examination(job, facts, world_size, backend, f"torch {torch.__version__}", failed)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _examined(
    ranks: Any, transport: str, library: str, job: dict[str, Any], *, measured: bool
) -> Examination | None:
    """Gather and measure; every rank takes part, the first returns what was found."""
    from ringside.jobs.calibrate.probe import measurements

    facts = ranks.gather(cluster_facts.of_rank(ranks.rank))
    all_reduce, links, seen = None, [], []
    if measured:
        seen = ranks.gather(_sees_folder(ranks))
        all_reduce = _tried_all_reduce(ranks)
        for where, pair in measurements.pairs([one["host"] for one in facts]).items():
            link = measurements.link(ranks, where, pair, SIZES, BATCHES, threshold=False)
            links.append(link)
    if ranks.rank:
        return None
    folder = str(Path.cwd())
    return Examination(job, facts, ranks.size, transport, library, all_reduce, links, folder, seen)


def _sees_folder(ranks: Any) -> bool:
    """Whether this rank sees a file that rank 0 writes in the current folder."""
    name = f".ringside-doctor-{os.getpid()}" if ranks.rank == 0 else ""
    try:
        if name:
            Path(name).touch()
    except OSError:
        name = ""  # a folder that can't be written to: nothing can be tried
    name = ranks.gather(name)[0]
    seen = True
    if name:
        deadline = time.monotonic() + 3.0  # file systems of clusters may be late
        while not (seen := Path(name).exists()) and time.monotonic() < deadline:
            time.sleep(0.1)
    # Behind it nobody looks for the file any more, so that rank 0 may remove it.
    ranks.barrier()
    if ranks.rank == 0 and name:
        Path(name).unlink(missing_ok=True)
    return seen


def _tried_all_reduce(ranks: Any) -> dict[str, Any]:
    buffer = ranks.buffer(2**20)
    took = 0.0
    for _ in range(2):  # the first opens connections
        buffer[:] = float(ranks.rank + 1)
        ranks.barrier()
        took = ranks.seconds(lambda: ranks.all_reduce(buffer))
    right = bool((buffer == ranks.size * (ranks.size + 1) / 2).all())
    everybody = ranks.gather((right, took))
    return {
        "right": all(right for right, _ in everybody),
        "nbytes": 2**20,
        "seconds": max(took for _, took in everybody),
    }


def start_ranks(site: str | None, asked: int | None, words: Sequence[str]) -> int:
    """Start ranks that run the same command, and return their exit status.

    Raises:
        DoctorError: no launcher, or the ranks did not end.
    """
    from ringside.jobs.launch.launch import here_environment, mpiexec

    environment = dict(os.environ)
    if "SLURM_JOB_ID" in environment:
        launcher = Site.load(site).settings().get("launcher") if site else None
        command = shlex.split(str(launcher or "srun --mpi=pmi2"))
        if Path(command[0]).name != "srun" or asked:
            command += ["-n", str(asked or environment.get("SLURM_NTASKS", 1))]
    else:
        environment = here_environment()
        asked = asked or 2
        command = [mpiexec(), "-n", str(asked)]
    number = ["--ranks", str(asked)] if asked else []
    command += [sys.executable, "-m", "ringside", "doctor", "--cluster", *words, *number]
    print(f"ringside: {shlex.join(command)}", file=sys.stderr, flush=True)
    try:
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, timeout=3 * _TIMEOUT_S
        ).returncode
    except OSError as error:
        raise DoctorError(f"{command[0]}: {error.strerror}; load the cluster's modules.") from None
    except subprocess.TimeoutExpired:
        raise DoctorError(
            f"the ranks did not end within {3 * _TIMEOUT_S:g} s: {shlex.join(command)}"
        ) from None
