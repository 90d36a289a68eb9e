"""Build the kit's images from containers/Containerfile: `make image`.

    python -m containers.build                        student and grader, on debian:12-slim
    python -m containers.build --base here            on a base that is made here by mmdebstrap
    python -m containers.build --engine docker student

Wheels are downloaded by this machine's pip, from where it looks: so the build itself asks no
index of Python's, and a second one downloads nothing. TORCH_INDEX is an index or a folder, as
for `make install`. In build/image/ each image lies as an archive, for other machines and for
`make sif`. All times in an image are that of the recipe's last commit.

`--renew` resolves containers/packages.txt anew, within constraints.txt.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from install import complain, where

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "image"
WHEELS = OUT / "wheels"
PACKAGES = ROOT / "containers" / "packages.txt"
RECIPE = ("containers", "constraints.txt")
ENGINES = ("podman", "docker", "buildah")
TARGETS = ("student", "grader")
BASE = "localhost/ringside-base"
SUITE = "bookworm"
# What Debian's own slim image leaves out too; licences stay.
UNREAD = ("doc/*", "man/*", "info/*", "locale/*")
# Beside what the kit depends on: a hub's students need its version of this.
BESIDE = ("jupyterhub",)
# Python 3.11 of Debian 12, and the C libraries that wheels may ask for there.
FOR = ("--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp")
GLIBC = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")


class BuildError(Exception):
    """The images can't be built; the message says what to do."""


def main(words: Sequence[str]) -> int:
    """Do it; give the exit status."""
    assert __doc__
    parser = argparse.ArgumentParser("make image", description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--engine", default="", help=f"one of {', '.join(ENGINES)}")
    parser.add_argument("--base", default="", help="an image of Debian 12; `here`: made here")
    parser.add_argument("--renew", action="store_true", help="resolve packages.txt anew")
    asked = parser.parse_args(words)
    try:
        engine = asked.engine or found_engine()
        if asked.renew:
            renew()
        download()
        base = make_base(engine) if asked.base == "here" else asked.base
        for target in asked.targets:
            build(engine, target, base)
            archive(engine, target)
    except BuildError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        command = error.cmd if isinstance(error.cmd, str) else error.cmd[0]
        print(f"make image: {command} ended with {error.returncode}.", file=sys.stderr)
        return 2
    return 0


def found_engine() -> str:
    """The first of the engines that is here and answers."""
    for name in ENGINES:
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True).returncode
        ):
            return name
    raise BuildError(
        f"none of {', '.join(ENGINES)} works here. Debian: apt-get install "
        "--no-install-recommends podman runc mmdebstrap"
    )


def epoch() -> str:
    """The time, in seconds, of the last commit that changed what images are built of.

    SOURCE_DATE_EPOCH takes precedence. The kit's own commits don't count: each would build anew
    the layers below it.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct", "--", *RECIPE]
    told = subprocess.run(asked, capture_output=True, text=True)
    return told.stdout.strip() or "1767225600"  # a tree without its history


def requirements() -> list[str]:
    """What the images hold, as ranges: the kit's dependencies, PyTorch, and what a hub needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["torch"], *BESIDE]


def pip(words: Sequence[str]) -> None:
    """Download wheels for the image's Python, whatever Python this is."""
    kinds = [f"manylinux_{version}_{platform.machine()}" for version in GLIBC]
    kinds += [f"{name}_{platform.machine()}" for name in ("manylinux2014", "manylinux1")]
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(WHEELS), *FOR]
    command += [word for kind in kinds for word in ("--platform", kind)]
    with subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        complain(process.stderr)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "pip download")


def download() -> None:
    """Fill the folder of wheels with what packages.txt lists, and with nothing else."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    listed = PACKAGES.read_text(encoding="utf-8").split()
    print(f"{len(listed)} wheels, into {WHEELS} ...", flush=True)
    index = os.environ.get("TORCH_INDEX", "")
    torch = [line for line in listed if line.startswith("torch==")]
    if index:
        pip([*where(index), "--no-deps", *torch])
        listed = [line for line in listed if line not in torch]
    pip(["--no-deps", *listed])
    keep(set(PACKAGES.read_text(encoding="utf-8").split()))


def keep(listed: set[str]) -> None:
    """Remove wheels of other versions, which an earlier list asked for.

    Raises:
        BuildError: the wheel of PyTorch is not one for CPUs.
    """
    for wheel in WHEELS.glob("*.whl"):
        if pin(wheel) not in listed:
            wheel.unlink()
    for wheel in WHEELS.glob("torch-*.whl"):
        if wheel.stat().st_size > 400e6:
            raise BuildError(
                f"{wheel.name} has {wheel.stat().st_size / 1e6:.0f} MB: it is a build for GPUs. "
                "`make image TORCH_INDEX=ADDRESS` takes the index that pytorch.org names for CPUs, "
                "or a folder with such a wheel."
            )


def pin(wheel: Path) -> str:
    """The line of packages.txt that a wheel is of.

    >>> pin(Path("typing_extensions-4.16.0-py3-none-any.whl"))
    'typing-extensions==4.16.0'
    """
    name, version = wheel.name.split("-")[:2]
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version.partition('+')[0]}"


def renew() -> None:
    """Resolve what the images hold, and write the versions down."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    index = os.environ.get("TORCH_INDEX", "")
    links = where(index)[-2:] if index and "://" not in index else []
    also = ["--extra-index-url", index] if index and not links else links
    pip([*also, "--constraint", str(ROOT / "constraints.txt"), *requirements()])
    lines = sorted(pin(wheel) for wheel in WHEELS.glob("*.whl"))
    PACKAGES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_base(engine: str) -> str:
    """A minimal Debian 12 from Debian's own packages, where no registry of images is reached."""
    if engine == "buildah":
        raise BuildError("BASE=here needs podman or docker, which import it.")
    if not shutil.which("mmdebstrap"):
        raise BuildError("BASE=here needs mmdebstrap: apt-get install mmdebstrap")
    file = OUT / "base.tar"
    # Times of its files: one for all that are built on it, else no layer is ever used again.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0")}
    if not file.exists():
        print("the base, from Debian's packages ...", flush=True)
        options = [f"--dpkgopt=path-exclude=/usr/share/{name}" for name in UNREAD]
        options += [
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            "--dpkgopt=force-unsafe-io",
        ]
        made = file.with_suffix(".part.tar")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", *options]
        subprocess.run([*command, SUITE, str(made)], check=True, env=environment)
        made.rename(file)
    subprocess.run([engine, "import", str(file), BASE], check=True, stdout=subprocess.DEVNULL)
    return BASE


def build(engine: str, target: str, base: str = "", tag: str = "") -> None:
    """Build one target; its tag is ringside-TARGET."""
    when = epoch()
    words = [engine, "build", "--file", str(ROOT / "containers" / "Containerfile")]
    words += ["--target", target, "--tag", tag or f"ringside-{target}"]
    words += ["--build-context", f"wheels={WHEELS}", "--network", "host"]
    words += ["--build-arg", f"SOURCE_DATE_EPOCH={when}"]
    words += ["--build-arg", f"BASE={base}"] if base else []
    # Of docker the files keep their times, unless its builder is asked for an archive instead.
    words += ["--timestamp", when, "--isolation", "chroot"] if engine != "docker" else []
    print(f"{target}, with {engine} ...", flush=True)
    subprocess.run([*words, str(ROOT)], check=True)


def archive(engine: str, target: str) -> None:
    """Write an image into build/image/; containers/ringside.def makes Apptainer's image of it."""
    file = OUT / f"ringside-{target}.tar"
    file.unlink(missing_ok=True)
    name = f"ringside-{target}"
    command = {
        "podman": ["podman", "save", "--quiet", "--format", "oci-archive", "-o", str(file), name],
        "docker": ["docker", "save", "-o", str(file), name],
        "buildah": ["buildah", "push", "--quiet", name, f"oci-archive:{file}"],
    }[engine]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
