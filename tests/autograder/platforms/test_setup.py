"""Gradescope's setup.sh: which images it takes, and what it says of the others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from autograder.course import assignment as plans
from autograder.platforms.scripts import script

TOOLS = ("bash", "chmod", "env", "ln")
OLD = '#!/bin/sh\ncase "$*" in *version_info*) exit 1 ;; esac\n'
NEW = '#!/bin/sh\ncase "$*" in *version_info*) exit 0 ;; esac\necho "$0 $*" >>"$LOG"\nexit 7\n'
APT = '#!/bin/sh\necho "apt-get $*" >>"$LOG"\n'


class Image:
    """A file system of a few programs; what they were asked is in a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()
        (folder / "bin").mkdir()
        (folder / "autograder" / "source" / "kit").mkdir(parents=True)
        for tool in TOOLS:
            (folder / "bin" / tool).symlink_to(str(shutil.which(tool)))

    def program(self, name: str, text: str) -> None:
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def build(self) -> subprocess.CompletedProcess[str]:
        text = script("setup.sh", plans.load("a03_allreduce"))
        for path in ("/autograder", "/opt/ringside"):
            text = text.replace(path, f"{self.folder}{path}")
        return subprocess.run(
            [str(self.folder / "bin" / "bash"), "-c", text],
            env={"PATH": str(self.folder / "bin"), "LOG": str(self.log)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


@pytest.mark.parametrize("apt", ["", APT], ids=["no apt-get", "apt-get has none"])
def test_an_image_without_a_new_python_is_refused_in_a_sentence(image: Image, apt: str) -> None:
    image.program("python3", OLD)
    if apt:
        image.program("apt-get", apt)
    done = image.build()
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "NOT BUILT. The kit needs Python 3.11 or newer with venv, and this image"
    )
    assert "choose the base image Ubuntu 22.04 or newer, variant Base" in line
    assert not [word for word in image.asked if " -m " in word]  # nothing was begun


def test_ubuntu_22_gets_its_second_python(image: Image) -> None:
    image.program("python3", OLD)
    image.program("new", NEW)
    brings = 'case "$*" in *python3.11-venv) ln -s new "${0%/*}/python3.11" ;; esac\n'
    image.program("apt-get", APT + brings)
    assert image.build().returncode == 7  # of the venv, which isn't made here
    assert [line for line in image.asked if "apt-get install" in line] == [
        "apt-get install -y --no-install-recommends python3-venv",
        "apt-get install -y --no-install-recommends python3.11 python3.11-venv",
    ]
    assert image.asked[-1].endswith(f"-m venv {image.folder}/opt/ringside/venv")


def test_an_image_with_a_new_python_installs_none(image: Image) -> None:
    image.program("python3", NEW)
    assert image.build().returncode == 7
    (line,) = image.asked
    assert " -m venv " in line
