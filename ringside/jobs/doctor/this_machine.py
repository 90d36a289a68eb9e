"""What works on this machine, each thing tried and not only looked up: `ringside doctor`."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.progress import waiting

_PROBE_TIMEOUT_S = 60.0
_ON_RANKS = """
def ring(comm):
    return comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
"""
# Only the first rank prints: lines of several ranks can come out mixed.
_REAL = """
from mpi4py import MPI
total = MPI.COMM_WORLD.allreduce(1)
if MPI.COMM_WORLD.rank == 0:
    print(f"together:{total}")
"""
_TORCH = """
import torch, torch.distributed as dist
names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
backends = [b for b in ("gloo", "nccl", "mpi") if getattr(dist, f"is_{b}_available")()]
print(torch.__version__, "|", " ".join(backends), "|", "; ".join(names))
"""
# The grader's own sandbox, entered as for a submission: another program of the same name may work
# where this one doesn't, since more is asked of it.
_SANDBOX = """
import tempfile
from pathlib import Path
from autograder.sandbox.sandbox import Sandbox, SandboxUnavailable
with tempfile.TemporaryDirectory(prefix="ringside-doctor-") as folder:
    (Path(folder) / "module.py").touch()
    try:
        with Sandbox(Path(folder)) as sandbox:
            read = f"open({str(sandbox.modules_path / 'module.py')!r}).close(); print('inside')"
            process = sandbox.popen([sandbox.python, "-I", "-c", read])
            process.wait(20)
            said = process.output().strip() or f"exit status {process.returncode}"
            print("works:" if said == "inside" else "fails:", sandbox.tier,
                  "" if said == "inside" else said.splitlines()[-1])
    except SandboxUnavailable as error:
        print("fails:", " ".join(str(error).split()).partition(". Install")[0])
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was tried."""

    name: str
    works: bool
    detail: str
    mend: str = ""
    needed: bool = False  # without it nothing runs; the others are for parts of the course

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "works": self.works,
            "needed": self.needed,
            "detail": self.detail,
            "mend": self.mend,
        }


def examine() -> list[Finding]:
    """Try everything, and return what was found."""
    probes: dict[str, Callable[[], Finding]] = {
        "Python": _python,
        "simulated ranks": _ranks,
        "Jupyter": _jupyter,
        "MPI": _mpi,
        "torch": _torch,
        "the sandbox": _sandbox,
        "Slurm": _slurm,
    }
    findings = []
    with waiting("trying what works here") as progress:
        for what, probe in probes.items():
            progress.note(f"trying {what}")
            findings.append(probe())
    return [*findings, *_course()]


def text(findings: list[Finding]) -> str:
    """What a person reads."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        mark = "ok  " if finding.works else "FAIL" if finding.needed else "no  "
        lines.append(f"{mark}  {finding.name:<{width}}  {finding.detail}")
        if not finding.works and finding.mend:
            lines.append(f"{'':{width + 8}}{finding.mend}")
    return "\n".join(lines)


def _python() -> Finding:
    detail = f"{platform.python_version()} at {sys.executable}"
    return Finding(
        "Python", sys.version_info >= (3, 11), detail, "install Python 3.11 or newer.", True
    )


def _ranks() -> Finding:
    from ringside.errors import RingsideError
    from ringside.session.session import Session

    name = "simulated ranks"
    mend = "`make install` in the course's folder; on Windows work inside WSL2."
    with tempfile.TemporaryDirectory(prefix="ringside-doctor-") as folder:
        (Path(folder) / "probe.py").write_text(_ON_RANKS)
        try:
            with Session(folder) as session:
                result = session.call("probe:ring", 4, (), timeout_s=_PROBE_TIMEOUT_S)
        except (RingsideError, OSError) as error:
            return Finding(name, False, str(error), mend, True)
    if result.error is not None or result.values != [3, 0, 1, 2]:
        return Finding(
            name, False, str(result.error or f"wrong values {result.values}"), mend, True
        )
    return Finding(name, True, "4 ranks passed a message round the ring", needed=True)


def _jupyter() -> Finding:
    packages, missing = [], []
    instructors = ["nbgrader"] if importlib.util.find_spec("autograder") else []
    for package in ("jupyterlab", "ipywidgets", *instructors):
        try:
            packages.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    mend = f"pip install {' '.join(missing)}"
    return Finding(
        "notebooks", not missing, ", ".join([*packages, *(f"no {m}" for m in missing)]), mend
    )


def _mpi() -> Finding:
    from ringside.jobs.launch.launch import LaunchError, here_environment, mpiexec

    name = "MPI"
    try:
        command = [mpiexec(), "-n", "2", sys.executable, "-c", _REAL]
        library = f"mpi4py {version('mpi4py')}"
    except PackageNotFoundError:
        return Finding(name, False, "no mpi4py", "pip install mpi4py mpich")
    except LaunchError as error:
        return Finding(name, False, "no mpiexec", str(error))
    code, output = _try(command, here_environment())
    if code == 0 and "together:2" in output:
        return Finding(name, True, f"{library}: 2 real ranks by {command[0]}")
    if "together:1" in output:
        return Finding(
            name,
            False,
            f"{command[0]} started 2 runs of one rank each: it is another MPI than mpi4py's",
            "pip install mpich; or MPI4PY_MPIABI=openmpi MPI4PY_LIBMPI=libmpi.so.40 for Open MPI.",
        )
    return Finding(
        name, False, _last_line(output), "pip install mpich, or load the cluster's MPI module."
    )


def _torch() -> Finding:
    from ringside.torch_there import INSTALL

    code, output = _try([sys.executable, "-c", _TORCH])
    if code:
        return Finding("torch", False, _last_line(output), INSTALL)
    release, backends, gpus = (part.strip() for part in output.strip().splitlines()[-1].split("|"))
    detail = f"{release}; backends {backends}; {gpus or 'no GPU, which this course does not need'}"
    return Finding("torch", True, detail)


def _sandbox() -> Finding:
    name = "sandbox"
    if importlib.util.find_spec("autograder") is None:
        return Finding(name, False, "the grader isn't here; only instructors need one")
    code, output = _try([sys.executable, "-c", _SANDBOX])
    answer = _last_line(output)
    if code == 0 and answer.startswith("works: "):
        return Finding(name, True, answer.removeprefix("works: "))
    mend = (
        "install bubblewrap and allow user namespaces (Ubuntu: sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0); only graders need it."
    )
    return Finding(name, False, answer.removeprefix("fails: "), mend)


def _slurm() -> Finding:
    name = "Slurm"
    if not shutil.which("sbatch"):
        mend = (
            "on a cluster, run this on a login node; elsewhere use `ringside launch --site local`."
        )
        return Finding(name, False, "no sbatch here", mend)
    code, output = _try(["sinfo", "-h", "-o", "%P %D nodes %l"])
    if code:
        return Finding(
            name, False, _last_line(output), "slurmctld doesn't answer: ask the cluster's people."
        )
    _, kinds = _try(["srun", "--mpi=list"])
    plugins = [kind for kind in ("pmi2", "pmix") if kind in kinds]
    partitions = "; ".join(output.split("\n")[:4]).strip("; ")
    return Finding(name, True, f"{partitions}; srun --mpi={' or '.join(plugins) or 'none'}")


def _course() -> list[Finding]:
    """What others can read of an instructor's course and kit; students have neither."""
    from ringside.course_folder import course_above, others_read

    checkout = (
        kit.ROOT
        if all((kit.ROOT / name).is_dir() for name in ("solutions", "autograder"))
        else None
    )
    course_path = os.environ.get("RINGSIDE_COURSE")
    root = Path(course_path) if course_path else course_above() or checkout
    if root is None:
        return []
    sentences = others_read(root, checkout or root)
    cures = [sentence.partition("`")[2].partition("`")[0] for sentence in sentences]
    summary = " ".join(sentence.partition(" `")[0] for sentence in sentences)
    detail = summary or f"{root.resolve()} and its kit are its owner's alone"
    return [Finding("course", not sentences, detail, "; ".join(cures))]


def _try(command: list[str], environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and output of a command; a command that can't start or doesn't end fails."""
    try:
        result = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return 124, f"{command[0]} did not end within {_PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return 127, str(error)
    return result.returncode, result.stdout


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it failed without a word"
