"""Install the kit into this Python's environment; say before gigabytes come, and how far it is.

    python install.py [EXTRAS]               such as torch,dev,site: extras of pyproject.toml
    TORCH_INDEX=WHERE python install.py torch

TORCH_INDEX is where PyTorch comes from: the address of an index, or a folder with its wheel. The
usual build for Linux brings CUDA's libraries, several GB, of no use without a GPU; the index that
pytorch.org names for CPUs has a build of some 200 MB. All else comes from where pip looks anyway.

Versions are those of constraints.txt, which the tests were run with. `CONSTRAINTS=` (empty) takes
what the ranges of pyproject.toml allow; `CONSTRAINTS=FILE` takes another list.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input")
CLEAR = "\r\x1b[K"  # what stands in a terminal's line
LARGE_MB = 50.0  # a download of this size is worth a line of its own
# pip says so once for each package and place where a machine's configuration lets it look in vain.
NOISE = re.compile(r"WARNING: Location '.*' is ignored")
WARNING = (
    "There is no GPU here (no nvidia-smi), and TORCH_INDEX is not set: unless pip is set up for "
    "another source, PyTorch brings several GB of CUDA's libraries. To avoid that press Ctrl-C, "
    "and give TORCH_INDEX the address of the CPU index that pytorch.org names, or a folder with "
    "such a wheel: `make install TORCH_INDEX=...`."
)


def main(words: Sequence[str]) -> int:
    """Install; gives pip's exit status."""
    extras = [extra for word in words for extra in word.split(",") if extra]
    wanted = torch_requirement() if "torch" in extras and not has_torch() else ""
    index = os.environ.get("TORCH_INDEX", "")
    if wanted and not index and brings_cuda():
        print(WARNING, flush=True)
    steps = []
    if wanted and index:
        steps.append((f"PyTorch, from {index}", [*where(index), "--no-deps", *pins(), wanted]))
    kit = f"{HERE}[{','.join(extras)}]" if extras else str(HERE)
    steps.append((f"the kit and what it needs, into {sys.prefix}", [*pins(), "-e", kit]))
    for number, (what, arguments) in enumerate(steps, 1):
        print(f"Step {number} of {len(steps)}: {what}.", flush=True)
        if status := pip(arguments):
            return status
    return 0


def pins() -> list[str]:
    """pip's option for the versions to take; none where CONSTRAINTS is set and empty."""
    path = os.environ.get("CONSTRAINTS", str(HERE / "constraints.txt"))
    return ["--constraint", path] if path else []


def torch_requirement() -> str:
    """PyTorch and its range of versions, as pyproject.toml has it."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (requirement,) = project["optional-dependencies"]["torch"]
    return str(requirement)


def has_torch() -> bool:
    """Whether some PyTorch is installed: pip itself sees whether it is new enough."""
    try:
        return bool(importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return False


def brings_cuda() -> bool:
    """Whether the usual build of PyTorch has CUDA's libraries that no GPU here could use."""
    return platform.system() == "Linux" and shutil.which("nvidia-smi") is None


def where(index: str) -> list[str]:
    """pip's options for the index or folder that PyTorch comes from, and nothing else."""
    if re.match(r"[a-z+]+://", index):
        return ["--index-url", index]
    return ["--no-index", "--find-links", str(Path(index).expanduser().resolve())]


def pip(arguments: Sequence[str]) -> int:
    """Run `pip install`; show what it is at, and what it says when it fails."""
    environment = dict(os.environ)
    if "--no-index" in arguments:  # else the folders that pip is set up with would count too
        environment.pop("PIP_FIND_LINKS", None)
        environment["PIP_CONFIG_FILE"] = os.devnull
    with subprocess.Popen(
        [*PIP, "--progress-bar", "off", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        said: list[str] = []
        complaints = threading.Thread(target=complain, args=(process.stderr,))
        complaints.start()
        show(process.stdout, said)
        complaints.join()
    if process.returncode:
        print("pip's last lines:", *said[-5:], sep="\n  ", file=sys.stderr)
    return process.returncode


def complain(lines: Iterable[str]) -> None:
    """Pass on what pip complains of, but for what it says of each place that isn't there."""
    for line in lines:
        if not NOISE.search(line):
            print(line, end="", file=sys.stderr, flush=True)


def show(lines: Iterable[str], said: list[str]) -> None:
    """One line that changes on a terminal; elsewhere a line for each large download."""
    live, count = sys.stdout.isatty(), 0
    for line in map(str.rstrip, lines):
        said.append(line)
        if found := re.match(r"\s*(Downloading|Processing) (\S+)( \((.*) MB\))?", line):
            count += 1
            name = found[2].rpartition("/")[2].split("-")[0]
            size = f" ({found[4]} MB)" if found[4] else ""
            if live:
                print(CLEAR + f"  {count}: {name}{size}", end="", flush=True)
            elif found[4] and float(found[4]) >= LARGE_MB:
                print(f"  {name}{size}", flush=True)
        elif line.startswith("Installing collected packages:"):
            packages = line.count(",") + 1
            noun = "package" if packages == 1 else "packages"
            print(CLEAR * live + f"  Installing {packages} {noun} ...", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
