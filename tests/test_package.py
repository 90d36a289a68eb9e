"""The package without the repository: what wheel and sdist hold, and that they work alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from autograder.course.course import Course
from autograder.publish import bundle
from ringside.course.handout.manifest import Handout
from ringside.kit import VERSION

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("ringside", "autograder", "cluster", "assignments", "lectures", "docs")
FILES = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md"),
    *("LICENSE", "LICENSE-teaching", "constraints.txt"),
)
# What a checkout may hold beside what is committed.
LEFT = shutil.ignore_patterns(
    "__pycache__", ".ringside*", "run.json", "guesses.json", "hints.json", ".ipynb_*"
)

DRAFT = "a15_draft"

pytestmark = [pytest.mark.release, pytest.mark.slow]


def run(*words: str | Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in words], cwd=folder, env={**environment, **more},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a package is built of."""
    place = tmp_path_factory.mktemp("source") / "kit"
    place.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=LEFT, copy_function=linked)
    for name in FILES:
        shutil.copy(ROOT / name, place)
    for path in ROOT.glob("solutions/*/assignment.toml"):
        (place / "solutions" / path.parent.name).mkdir(parents=True)
        shutil.copy(path, place / path.relative_to(ROOT))
    (place / "assignments" / DRAFT).mkdir()  # which is in neither package
    (place / "assignments" / DRAFT / f"{DRAFT}.ipynb").write_text('{"cells": []}')
    return place


def wheel_of(source: Path, folder: Path) -> Path:
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = run(*words, "--wheel-dir", folder, source, folder=folder)
    assert built.returncode == 0, built.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    script = f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})"
    built = run(sys.executable, "-c", script, folder=source)
    assert built.returncode == 0, built.stderr
    [archive] = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it is published: built of the sdist."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return wheel_of(folder / f"ringside-{VERSION}", folder)


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if ".dist-info/" not in name]
        return {name: hashlib.sha256(packed.read(name)).hexdigest() for name in names}


def test_wheel_and_sdist_hold_the_same(source: Path, wheel: Path, tmp_path: Path) -> None:
    assert contents(wheel_of(source, tmp_path)) == contents(wheel)


def test_the_wheel_holds_presets_templates_licences_and_the_handout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    for folder in ("machines", "sites", "templates", "validation"):
        for path in (ROOT / "cluster" / folder).iterdir():
            assert f"ringside/cluster/{folder}/{path.name}" in names
    for path in (ROOT / "ringside" / "course" / "lectures" / "templates").iterdir():
        assert f"ringside/course/lectures/templates/{path.name}" in names
    assert {"ringside/mpi/__init__.py", "autograder/commands/cli.py"} <= names
    for name in ("LICENSE", "LICENSE-teaching"):
        assert f"ringside-{VERSION}.dist-info/licenses/{name}" in names
    handout = "ringside/course/handout/tree"
    # Who has the wheel has installed the kit: how to do so from the tree is for the tree.
    pages = [name for name in bundle.FILES if name.startswith("docs/") and "install" not in name]
    for name in (*pages, "lectures/03_allreduce.ipynb", "lectures/data/ledger.csv"):
        assert f"{handout}/{name}" in names
    assert not [name for name in names if DRAFT in name]
    assert f"{handout}/lectures/explanations.json" in names
    assert not [n for n in names if re.fullmatch(f"{handout}/lectures/[0-9].*py", n)]
    for path in (ROOT / "assignments").glob("*/*.ipynb"):
        assert f"{handout}/assignments/{path.parent.name}/{path.name}" in names


def test_the_wheels_lectures_are_cleared_and_small(wheel: Path) -> None:
    handout = "ringside/course/handout/tree/lectures"
    with zipfile.ZipFile(wheel) as packed:
        books = [name for name in packed.namelist() if re.fullmatch(f"{handout}/.*ipynb", name)]
        explained = json.loads(packed.read(f"{handout}/explanations.json"))["explanations"]
        assert len(books) == len(list((ROOT / "lectures").glob("*.ipynb")))
        for name in books:
            text = packed.read(name)
            cells = json.loads(text)["cells"]
            assert len(text) < 300_000 and not any(cell.get("outputs") for cell in cells)
            assert not any("checked" in cell["metadata"].get("tags", []) for cell in cells)
    assert "27 days" in explained["00/days"]["text"]


def test_in_its_environment_jupyterlab_hides_create_assignment(empty: Path) -> None:
    script = (
        "from jupyterlab_server.config import get_page_config; "
        "print(get_page_config([])['disabledExtensions'])"
    )
    done = run(empty / "python", "-c", script, folder=empty)
    assert "@jupyter/nbgrader:create-assignment" in done.stdout, done.stderr


def test_neither_holds_a_solution_or_a_hidden_line(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "wheel")
    kit = tmp_path / f"ringside-{VERSION}"
    # Of an assignment that nobody has: what `autograder new-assignment` begins with.
    for place in (kit, tmp_path / "wheel"):
        shutil.rmtree(place / "autograder" / "templates" / "new_assignment")
    found = bundle.leaks(Course(kit=ROOT, root=ROOT), tmp_path)
    # The machinery shares lines such as `return found` with suites; its demo hands in modules.
    assert [each for each in found if "/autograder/" not in each or "/demo/" in each] == []
    private = {"solutions", "hidden", "answers.md", "course_secret.txt", "tests"}
    assert not [path for path in tmp_path.rglob("*") if path.name in private]


def test_a_module_that_somebody_wrote_in_an_assignment_is_not_packed(
    source: Path, tmp_path: Path
) -> None:
    place = source / "assignments" / "a03_allreduce" / "ring.py"
    place.write_text("solved = True\n")
    try:
        words = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path)]
        done = run(*words, folder=source)
        assert done.returncode != 0
        assert "assignments/a03_allreduce/ring.py would be in the package" in done.stderr
    finally:
        place.unlink()


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and beside it what it needs: links; its bin folder."""
    place = tmp_path_factory.mktemp("empty") / "env"
    venv.create(place, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    new = next((place / "lib").glob("python*")) / "site-packages"
    pairs = [(here, new), (here.parent.parent, place / "lib")]
    pairs.append((Path(sysconfig.get_path("scripts")), place / "bin"))
    ours = ("ringside", "autograder", "__editable__", "pip")
    for folder, target in pairs:
        for path in folder.iterdir():
            beside = target / path.name
            if not path.name.startswith(ours) and not beside.exists():
                beside.symlink_to(path)
    words = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install"]
    done = run(*words, "--quiet", "--no-deps", "--no-index", wheel, folder=place)
    assert done.returncode == 0, done.stderr
    return place / "bin"


@pytest.mark.mpi
def test_from_the_wheel_alone_a_student_works(empty: Path, tmp_path: Path) -> None:
    def ringside(*words: str, folder: Path = tmp_path, status: int = 0) -> str:
        path = f"{empty}:{os.environ['PATH']}"
        done = run(empty / "ringside", *words, folder=folder, PATH=path)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    where = run(empty / "python", "-c", "import ringside; print(ringside.__file__)", folder=empty)
    assert str(empty.parent) in where.stdout
    assert "jupyter lab a01_first_ranks.ipynb" in ringside("start", "pdl")
    tree = tmp_path / "pdl"
    assert Handout.read(tree) == Handout.of(tree)
    task = tree / "assignments" / "a03_allreduce"
    shutil.copy(ROOT / "solutions" / "a03_allreduce" / "ring.py", task)
    assert "ring: 100 of 100 public points" in ringside("check", "ring", folder=task)
    said = ringside("launch", "ring.py:all_reduce", "--site", "local", "--nodes", "2", folder=task)
    assert "values right" in said
    run_json = json.loads((task / "run.json").read_text())
    assert run_json["kit_version"] == VERSION
    assert "is up to date" in ringside("update", folder=task)
    assert "is there already" in ringside("start", "pdl", status=2)
    data = "from ringside.course.lectures.ledger import FILE, read; print(len(read(FILE)), FILE)"
    done = run(empty / "python", "-c", data, folder=tmp_path)
    assert str(empty.parent) in done.stdout, done.stderr


def test_from_the_wheel_alone_a_lecture_runs(empty: Path, tmp_path: Path) -> None:
    path = f"{empty}:{os.environ['PATH']}"
    assert run(empty / "ringside", "start", "pdl", folder=tmp_path, PATH=path).returncode == 0
    script = (
        "import nbformat; from nbclient import NotebookClient; "
        "book = nbformat.read('00_why_parallel.ipynb', 4); "
        "NotebookClient(book, kernel_name='python3', timeout=600).execute(); "
        "print(sum(bool(cell.get('outputs')) for cell in book.cells))"
    )
    done = run(empty / "python", "-c", script, folder=tmp_path / "pdl" / "lectures", PATH=path)
    assert done.returncode == 0 and int(done.stdout) > 3, done.stderr


def test_the_autograder_of_a_wheel_says_what_it_lacks(empty: Path, tmp_path: Path) -> None:
    done = run(empty / "autograder", "build", folder=tmp_path)
    assert done.returncode == 2
    assert "has no solutions/" in done.stderr and "course's repository" in done.stderr


def test_uv_makes_an_environment_that_checks(tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("no uv here: `pip install uv`")
    place = tmp_path / "kit"
    bundle.make(Course(kit=ROOT, root=ROOT), place)
    done = run("uv", "sync", "--no-progress", folder=place)
    if done.returncode and "error sending request" in done.stderr.lower():
        pytest.skip("uv reaches no package index from here")
    assert done.returncode == 0, done.stderr
    task = place / "assignments" / "a03_allreduce"
    shutil.copy(ROOT / "solutions" / "a03_allreduce" / "ring.py", task)
    done = run("uv", "run", "ringside", "check", "ring", folder=task)
    assert "ring: 100 of 100 public points" in done.stdout, done.stderr
