"""Whole programs run unchanged, to the same results as under ``mpiexec`` and ``torchrun``.

Those of others are not in this repository. Packages come from PyPI, by name and version, when the
tests run; clones of repositories lie in the folder that ``RINGSIDE_CLONES`` names. What can't be
had is skipped with the reason. Ours, in ``programs/``, are always here.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ringside.mpi_there import found_mpiexec

HERE = Path(__file__).parent
CLONES = "RINGSIDE_CLONES"
EAGER = ("--machine", "textbook,eager_threshold_bytes=4096")
PRETEND = ("--pretend-cuda",)
TENSORS = "examples/distributed/tensor_parallelism"
SMALL_GPT = (
    "config/train_shakespeare_char.py", "--compile=False", "--eval_iters=1", "--log_interval=1",
    "--block_size=16", "--batch_size=4", "--n_layer=2", "--n_head=2", "--n_embd=16",
    "--max_iters=3", "--gradient_accumulation_steps=4",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A program, how it is run, and what of its output is the result.

    Args:
        result: a pattern of what is compared; all of it in the output, in any order. Under mpiexec
            a line of one rank may begin behind another's.
        options: of ``ringside run``.
    """

    file: str
    result: str
    ranks: int = 3
    words: tuple[str, ...] = ()
    stdin: str = ""
    options: tuple[str, ...] = ()


Find = Callable[[str], Path]
Install = Callable[[tuple[str, ...]], Path]
Way = Callable[[Program, Path, Path | None], list[str]]


def table(*programs: Program) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("program", programs, ids=lambda program: program.file)


OF_MPI4PY = "mpi4py==4.1.2"
OF_MASTER_SLAVE = "mpi-master-slave==0.2.1"
ACCELERATE = ("accelerate==1.15.0", "huggingface_hub==2.4.0", "safetensors==0.8.0", "tqdm==4.70.1")
SCHWIMMBAD = ("schwimmbad==0.4.2", "multiprocess==0.70.19", "dill==0.4.1")
PYLOPS = ("pylops-mpi==0.8.0", "pylops==2.8.0", "pyproximal==0.13.0")


def results(program: Program, printed: str) -> list[str]:
    return sorted(re.findall(program.result, printed, re.MULTILINE))


def ended(command: list[str], program: Program, folder: Path, packages: Path | None) -> str:
    """What a command has printed, both ways; it must end well."""
    paths = {"PYTHONPATH": str(packages)} if packages else {}
    settings = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [*command, *program.words],
        cwd=folder,
        env={**os.environ, **settings, **paths},
        input=program.stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def on_ringside(program: Program, folder: Path, packages: Path | None = None) -> list[str]:
    ranks = ["--ranks", str(program.ranks), "--timeout", "150"]
    command = [sys.executable, "-m", "ringside", "run", *program.options, *ranks, program.file]
    printed = ended([*command, "--"], program, folder, packages)
    return results(program, re.sub(r"^\[\d+\] ", "", printed, flags=re.MULTILINE))


def under_mpiexec(program: Program, folder: Path, packages: Path | None = None) -> list[str]:
    mpiexec = found_mpiexec()
    if mpiexec is None:
        pytest.skip("there is no mpiexec on this machine")
    command = [mpiexec, "-n", str(program.ranks), sys.executable, program.file]
    return results(program, ended(command, program, folder, packages))


def under_torchrun(program: Program, folder: Path, packages: Path | None = None) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*torchrun, f"--nproc-per-node={program.ranks}", program.file]
    for _ in range(2):
        try:
            return results(program, ended(command, program, folder, packages))
        except AssertionError:  # on a loaded machine gloo's own threads sometimes abort a rank
            continue
    return results(program, ended(command, program, folder, packages))


def pip(*words: str) -> None:
    patience = ("--quiet", "--retries", "0", "--timeout", "15", "--no-deps")
    command = [sys.executable, "-m", "pip", words[0], *patience, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        said = (done.stderr.strip() or "no word").splitlines()[-1]
        pytest.skip(f"`pip {' '.join(words)}` brings nothing here: {said}")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Find:
    """A package's source archive from PyPI, unpacked."""

    @functools.cache
    def find(package: str) -> Path:
        folder = tmp_path_factory.mktemp("sources")
        no_build = ("--no-binary", ":all:", "--no-build-isolation")
        pip("download", *no_build, "--dest", str(folder), package)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
        return unpacked

    return find


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """A folder with packages from PyPI, for PYTHONPATH."""

    @functools.cache
    def find(packages: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp("packages")
        pip("install", "--target", str(folder), *packages)
        return folder

    return find


def compare(program: Program, folder: Path, real: Way, packages: Path | None = None) -> None:
    if not (folder / program.file).exists():
        pytest.skip(f"there is no {program.file} in {folder}")
    ours = on_ringside(program, folder, packages)
    assert ours
    assert ours == real(program, folder, packages)


@table(
    Program("heat.py", r"^grid.*|^middle.*", ranks=4),
    Program("sample_sort.py", r"^\d+ keys.*"),
    Program("monte_carlo.py", r"^12 tasks.*"),
    Program("conjugate_gradients.py", r"^\d+ steps.*"),
)
@pytest.mark.mpi
def test_our_programs_for_mpi(program: Program) -> None:
    compare(program, HERE / "programs", under_mpiexec)


@table(
    Program("train_ddp.py", r"^epoch \d: .*", ranks=2),
    Program("pipeline_1f1b.py", r"stage \d: gradients of norm [\d.]+, losses [\d.]+"),
)
@pytest.mark.mpi
@pytest.mark.slow
def test_our_programs_for_torch(program: Program) -> None:
    compare(program, HERE / "programs", under_torchrun)


@table(
    Program("compute-pi/cpi-cco.py", r"pi is approximately.*", stdin="100\n0\n"),
    # Its ranks add their parts as they come, so the last digit is open.
    Program("compute-pi/cpi-rma.py", r"pi is approximately \d\.\d{12}", stdin="100\n0\n"),
    Program("reductions/test_reductions.py", r"Ran \d+ tests|OK"),
    Program("sequential/test_seq.py", r"I am process \d of \d"),
)
@pytest.mark.mpi
def test_demos_of_mpi4py(program: Program, sources: Find) -> None:
    compare(program, sources(OF_MPI4PY) / "demo", under_mpiexec)


@table(
    Program("nxtval/nxtval-mpi3.py", ""),
    Program("nxtval/nxtval-scalable.py", ""),
)
def test_demos_of_mpi4py_that_assert_and_print_nothing(program: Program, sources: Find) -> None:
    on_ringside(program, sources(OF_MPI4PY) / "demo")


def test_a_master_that_relies_on_eager_messages_is_told_so(sources: Find) -> None:
    unpacked = sources(OF_MASTER_SLAVE)
    program = Program("example1.py", r"completed my task \(\d\)")
    with pytest.raises(AssertionError, match="stay below the eager threshold"):
        on_ringside(program, unpacked / "examples", unpacked)
    # Under MPICH it finishes the same ten tasks, and sometimes a rank is killed at the end.
    program = dataclasses.replace(program, options=EAGER)
    assert len(on_ringside(program, unpacked / "examples", unpacked)) == 10


@table(
    Program("test_sync.py", r"\*\*[^*]+\*\*|Num processes: \d", ranks=2),
    Program("test_script.py", r"\*\*[^*]+\*\*|Num processes: \d", ranks=2),
)
@pytest.mark.mpi
@pytest.mark.release
@pytest.mark.slow
def test_programs_that_accelerate_brings(program: Program, installed: Install) -> None:
    packages = installed(ACCELERATE)
    folder = packages / "accelerate" / "test_utils" / "scripts"
    compare(program, folder, under_torchrun, packages)


@table(
    Program("plot_cgls.py", r"^CGLS.*|^Iterations = \d+|^Rank.*|[-\d.]+e[-+]\d+", ranks=2),
    Program("plot_matrixmult.py", r"Process \d is (?:in)?active", ranks=4),
)
@pytest.mark.mpi
@pytest.mark.release
@pytest.mark.slow
def test_examples_of_pylops_mpi(program: Program, installed: Install) -> None:
    packages = installed(PYLOPS)
    compare(program, packages / "examples", under_mpiexec, packages)


@table(Program("schwimmbad/tests/test_mpi.py", r"All tests passed", options=EAGER))
@pytest.mark.mpi
@pytest.mark.slow
def test_clones_for_mpi(program: Program, installed: Install) -> None:
    program, folder = in_a_clone(program)
    compare(program, folder, under_mpiexec, installed(SCHWIMMBAD))


@table(
    Program("examples/distributed/ddp/example.py", r"training completed in rank \d"),
    Program(
        "examples/distributed/ddp-tutorial-series/multigpu_torchrun.py",
        r"^\[GPU\d\] Epoch \d.*",
        words=("2", "3"),
    ),
    Program("examples/distributed/FSDP2/example.py", r"^Running on rank \d", ranks=2),
    Program(f"{TENSORS}/tensor_parallel_example.py", r"Tensor Parallel iter \d completed", 2),
    Program(f"{TENSORS}/sequence_parallel_example.py", r"Sequence Parallel iter \d completed", 2),
    Program("nanoGPT/train.py", r"^iter \d: loss [\d.]+", 2, SMALL_GPT),
)
@pytest.mark.slow
def test_clones_for_gpus(program: Program) -> None:
    """Nothing to compare with: they refuse to run without a GPU a rank."""
    program, folder = in_a_clone(dataclasses.replace(program, options=PRETEND))
    assert on_ringside(program, folder)


def in_a_clone(program: Program) -> tuple[Program, Path]:
    """The program by its last name, and the folder that it runs in."""
    if CLONES not in os.environ:
        pytest.skip(f"{CLONES} names no folder with clones of repositories")
    path = Path(os.environ[CLONES], program.file).resolve()
    return dataclasses.replace(program, file=path.name), path.parent
