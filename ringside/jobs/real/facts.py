"""What one rank knows of itself and of its job: what `ringside.jobs.doctor.findings` judges.

Each rank's facts are a dictionary of JSON values::

    rank, host, local_rank (None: the launcher doesn't say)
    cores           the logical cores that it may use; physical: the core that each is a thread of
    threads         OMP_NUM_THREADS, or None; cpus_per_task: what Slurm was asked for, or None
    gpus            [{"name", "uuid"}] that torch sees; gpu_devices: how many the host shows it
    cuda_visible    CUDA_VISIBLE_DEVICES, or None
    torch           None, or its version; nccl: None, or NCCL's
    python, kit     versions
"""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Mapping, MutableMapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ringside.kit import VERSION

Environment = Mapping[str, str]

_RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "RANK")
_SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")
_LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_GPUS = ("SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_GPUS", "SLURM_GPUS_PER_NODE")


def _number(environment: Environment, *names: str) -> int | None:
    """The first of some variables that holds a whole number."""
    for name in names:
        if re.fullmatch(r"\d+", environment.get(name, "")):
            return int(environment[name])
    return None


def is_step(environment: Environment = os.environ) -> bool:
    """Whether srun started this process; a job's own script is no step."""
    return "SLURM_STEP_ID" in environment and environment.get("SLURM_STEP_ID") not in (
        "4294967291",  # the number of the batch script's own step
        "batch",
    )


def launched_rank(environment: Environment = os.environ) -> int | None:
    """The number that the launcher gave to this process; None: no launcher started it."""
    rank = _number(environment, *_RANK)
    if rank is None and is_step(environment):
        rank = _number(environment, "SLURM_PROCID")
    return rank


def kind(environment: Environment = os.environ) -> str:
    """ "torch" for ranks that torchrun or its variables describe, else "mpi4py"."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return "torch" if all(name in environment for name in names) else "mpi4py"


def launcher(environment: Environment = os.environ) -> str:
    """What started this rank."""
    if "TORCHELASTIC_RUN_ID" in environment:
        return "torchrun"
    if "OMPI_COMM_WORLD_RANK" in environment:
        return "mpirun of Open MPI"
    if "HYDI_CONTROL_FD" in environment or "HYDRA_LAUNCHER" in environment:
        return "mpiexec of MPICH"
    if is_step(environment):
        return "srun"
    return "mpiexec" if "PMI_RANK" in environment else "RANK and WORLD_SIZE"


def before_mpi_is_loaded(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have MPICH's wheel use libfabric under srun, unless the environment already says what to use.

    Over UCX its ranks tell each other 4096 bytes, an address and behind it what lay in memory. A
    piece of it, written in hexadecimal, can be longer than the 1023 bytes that pmi2 of Slurm 22.05
    reads at once, and then MPI_Init fails; it seldom is. An address of libfabric has 16 bytes.
    """
    if launcher(environment) == "srun" and _is_mpich_wheel(environment):
        environment.setdefault("MPIR_CVAR_CH4_NETMOD", "ofi")


def _is_mpich_wheel(environment: Environment) -> bool:
    """Whether mpi4py will load PyPI's MPICH; one without libfabric would crash for being asked."""
    import mpi4py

    # Only an mpi4py that was built for one MPI library has something to tell of its building.
    if "MPI4PY_LIBMPI" in environment or mpi4py.get_config():
        return False
    try:
        return bool(metadata.version("mpich"))
    except metadata.PackageNotFoundError:
        return False


def job(environment: Environment = os.environ, asked: int | None = None) -> dict[str, Any]:
    """What was asked for, as far as the environment tells."""
    step = _number(environment, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    launched = _number(environment, *_SIZE)
    if launched is None and is_step(environment):
        launched = step
    return {
        "job_id": environment.get("SLURM_JOB_ID"),
        "cluster": environment.get("SLURM_CLUSTER_NAME"),
        "launcher": launcher(environment),
        "ranks_asked": asked or launched,
        "nodes_asked": _number(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
        "gpus_asked": next((environment[n] for n in _GPUS if environment.get(n)), None),
    }


def of_rank(rank: int, environment: Environment = os.environ) -> dict[str, Any]:
    """This process's facts."""
    core_ids = cores()
    devices = len([p for p in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", p.name)])
    visible_gpus = environment.get("CUDA_VISIBLE_DEVICES")
    facts: dict[str, Any] = {
        "rank": rank,
        "host": socket.gethostname(),
        "local_rank": _number(environment, *_LOCAL),
        "cores": core_ids,
        "physical": [physical(core) for core in core_ids],
        "threads": _number(environment, "OMP_NUM_THREADS"),
        "cpus_per_task": _number(environment, "SLURM_CPUS_PER_TASK"),
        "gpus": [],
        "gpu_devices": devices,
        "cuda_visible": visible_gpus,
        "torch": None,
        "nccl": None,
        "python": platform.python_version(),
        "kit": VERSION,
    }
    if devices or visible_gpus or kind(environment) == "torch":
        facts |= _of_torch()
    return facts


def cores() -> list[int]:
    """The logical cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def physical(core: int) -> int:
    """The first of the hardware threads that share a core's arithmetic."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        return int(re.split(r"[-,]", path.read_text().strip())[0])
    except (OSError, ValueError):
        return core


def _of_torch() -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        return {}
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [torch.cuda.get_device_properties(number) for number in range(count)]
    nccl: Any = torch.cuda.nccl if count else None
    return {
        "torch": torch.__version__,
        "gpus": [
            {"name": one.name, "uuid": str(getattr(one, "uuid", number))}
            for number, one in enumerate(devices)
        ],
        "nccl": ".".join(map(str, nccl.version())) if nccl else None,
    }
