"""The kit works wherever it lies: below /tmp, on a path with spaces, in a home that is private.

A test lays a kit of its own there: the tree, and an environment of which all that ranks need is
there too. Files are linked, so that it takes a moment and no room. The tests marked `place` run
once more in a clone below /tmp, as they would there after `make install`.
"""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.sandbox import sandbox
from autograder.sandbox.sandbox import Tier
from ringside.ranks import landlock
from tests.unprivileged import UID, run_unprivileged

HERE = Path(__file__).resolve().parent.parent
TREE = ("autograder", "ringside", "cluster", "solutions", "assignments", "pyproject.toml")
IN_RANKS = ("numpy", "mpi4py", "mpich")
MODULE = "ping"  # its suite takes seconds, and ends on real ranks

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(
        sandbox._bubblewrap_fails() is not None,
        reason=f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}",
    ),
]


@pytest.fixture
def somewhere(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A fresh folder below the one that a test names; /var/tmp is no sandbox's own."""
    parent = getattr(request, "param", "/var/tmp")
    folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir=parent))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def lay_kit(folder: Path) -> Path:
    """Lay the kit and an environment there; returns its Python."""
    folder.mkdir(parents=True)
    passed = shutil.ignore_patterns("__pycache__")
    for name in TREE:
        if (HERE / name).is_dir():
            shutil.copytree(
                HERE / name, folder / name, symlinks=True, ignore=passed, copy_function=link
            )
        else:
            link(HERE / name, folder / name)
    venv.create(folder / ".venv", symlinks=True)
    site = Path(sysconfig.get_path("purelib"))
    new = next((folder / ".venv" / "lib").glob("python*")) / "site-packages"
    for name in IN_RANKS:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:  # the MPI library may be the system's
            continue
        for file in files:
            if "__pycache__" not in file.parts and (site / file).is_file():
                target = Path(os.path.normpath(new / file))
                target.parent.mkdir(parents=True, exist_ok=True)
                link(site / file, target)
    (new / "others.pth").write_text(f"{site}\n", encoding="utf-8")  # what no rank imports
    submission = folder / "ada"
    submission.mkdir()
    link(HERE / "solutions" / "a01_first_ranks" / f"{MODULE}.py", submission / f"{MODULE}.py")
    return folder / ".venv" / "bin" / "python"


def link(source: str | Path, target: str | Path) -> None:
    """A hard link, or a copy on another disk; a symbolic link stays one."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM):
            raise
        shutil.copy2(source, target, follow_symlinks=False)


GRADE = ("-m", "autograder", "grade", "a01_first_ranks", "ada", "--json", "-")


def check(done: subprocess.CompletedProcess[str], tiers: tuple[str, ...]) -> None:
    """The reference has full marks, on the network and on real ranks, in one of the sandboxes."""
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["sandbox"] in tiers
    (submission,) = report["submissions"]
    assert submission["modules"][MODULE]["score"] == 100, submission
    assert "test_real_mpi" in {test["name"] for test in submission["modules"][MODULE]["tests"]}


def grade(kit: Path) -> subprocess.CompletedProcess[str]:
    python = lay_kit(kit)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [str(python), *GRADE], cwd=kit, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("somewhere", ["/tmp"], indirect=True)
def test_a_kit_below_tmp_grades(somewhere: Path) -> None:
    check(grade(somewhere / "ringside"), Tier.IN_BUBBLEWRAP)


def test_a_kit_on_a_path_with_spaces_and_letters_of_any_alphabet_grades(somewhere: Path) -> None:
    check(grade(somewhere / "mit Leerzeichen é" / "ringside"), Tier.IN_BUBBLEWRAP)


@pytest.mark.parametrize("tier", [Tier.BUBBLEWRAP, Tier.LANDLOCK])
def test_a_user_whose_home_is_private_grades_there(somewhere: Path, tier: str) -> None:
    if tier == Tier.LANDLOCK and landlock.abi() < 1:
        pytest.skip("this kernel has no Landlock")
    home = somewhere / "home"
    python = lay_kit(home / "ringside")
    home.chmod(0o700)
    if os.geteuid() == 0:
        for path in (home, home / "ringside"):
            os.chown(path, UID, UID)
    path = "" if tier == Tier.LANDLOCK else os.environ["PATH"]  # no bwrap is found
    words = ["env", f"--chdir={home / 'ringside'}", f"HOME={home}", f"PATH={path}"]
    done = run_unprivileged([*words, str(python), *GRADE], [home], timeout_s=240)
    check(done, Tier.IN_BUBBLEWRAP if tier == Tier.BUBBLEWRAP else (tier,))


def clone(folder: Path) -> Path:
    """Clone the tree with its whole environment, all files linked; returns its Python."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and os.path.lexists(HERE / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            link(HERE / name, folder / name)
    environment = folder / ".venv"
    subprocess.run(["cp", "-al", sys.prefix, str(environment)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    own = ("*.pth", "__editable__*", "ringside-*.dist-info/*")
    files = [*environment.glob("bin/*"), environment / "pyvenv.cfg"]
    for file in [*files, *(file for pattern in own for file in site.glob(pattern))]:
        if file.is_symlink() or not file.is_file():
            continue
        data = file.read_bytes()
        moved = data.replace(sys.prefix.encode(), bytes(environment))
        moved = moved.replace(bytes(HERE), bytes(folder))
        if moved != data and b"\0" not in data:
            mode = file.stat().st_mode
            file.unlink()  # its other name stays as it is
            file.write_bytes(moved)
            file.chmod(mode)
    return environment / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(HERE.is_relative_to("/tmp"), reason="this tree itself lies below /tmp")
@pytest.mark.skipif(
    Path("/tmp").stat().st_dev != Path(sys.prefix).stat().st_dev,
    reason="/tmp is on another disk, where the environment can't be linked",
)
@pytest.mark.parametrize("somewhere", ["/tmp"], indirect=True)
def test_what_depends_on_the_place_passes_in_a_clone_below_tmp(somewhere: Path) -> None:
    python = clone(somewhere / "ringside")
    tests = [
        str(path.relative_to(HERE))
        for path in (HERE / "tests").rglob("test_*.py")
        if path != Path(__file__) and "mark.place\n" in path.read_text(encoding="utf-8")
    ]
    environment = os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-m", "place", *sorted(tests)],
        cwd=somewhere / "ringside", env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]
