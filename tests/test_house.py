"""The house's rules: dependencies, who may import whom, what the package holds."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbgrader.server_extensions.validate_assignment.handlers import ValidateAssignmentHandler
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from tornado.web import HTTPError

from autograder.publish.bundle import for_students
from ringside.course.lectures import api
from ringside.kit import VERSION
from ringside.torch_there import INSTALL
from tests import house
from tests.house import arrows, is_submission

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = {"ringside", "autograder", "solutions", "lectures", "assignments", "tests", "cluster"}

# Pages of docs/ that go to students with the tree (autograder/publish/bundle.py).
STUDENTS = (
    *("student.md", "contract.md", "attendee.md", "cluster.md", "api.md"),
    *("ways_to_run.md", "programs.md", "glossary.md", "install.md", "colab.md"),
)
# Import name -> distribution, where they differ.
DISTRIBUTION = {"IPython": "ipython", "yaml": "pyyaml"}
# conda-forge's name of a package, where it differs.
CONDA = {"torch": "pytorch"}


def requirements(extra: str = "") -> dict[str, SpecifierSet]:
    project = PROJECT["project"]
    listed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    parsed = [Requirement(line) for line in listed]
    return {requirement.name: requirement.specifier for requirement in parsed}


def conda_requirements() -> dict[str, SpecifierSet]:
    """All that the file lists, what conda takes and below it what pip does."""
    _, listed = (ROOT / "environment.yml").read_text().split("dependencies:\n")
    lines = [line for line in re.findall(r"^ +- (.*)$", listed, re.MULTILINE) if line != "pip:"]
    parsed = [Requirement(line) for line in lines]
    return {requirement.name: requirement.specifier for requirement in parsed}


def test_conda_and_pip_install_the_same_ranges() -> None:
    conda = conda_requirements()
    assert conda.pop("python") == SpecifierSet(PROJECT["project"]["requires-python"])
    assert conda.pop("pip") == SpecifierSet("")
    both = requirements() | requirements("torch") | requirements("site")
    assert conda == {CONDA.get(name, name): ranges for name, ranges in both.items()}


def test_conda_takes_packages_from_conda_forge_alone() -> None:
    text = (ROOT / "environment.yml").read_text()
    assert re.search(r"channels:\n  - conda-forge\n  - nodefaults\ndependencies:", text)


def test_every_dependency_has_a_lower_bound_and_most_an_upper() -> None:
    for name, ranges in (requirements() | requirements("torch") | requirements("site")).items():
        assert any(item.operator == ">=" for item in ranges), name
    unbounded = {name for name, ranges in requirements().items() if len(ranges) == 1}
    assert unbounded <= {"ipython"}  # its major version rises every year, with Python's


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_what_is_installed_is_pinned_to_one_version_within_its_range() -> None:
    ranges = requirements()
    for extra in PROJECT["project"]["optional-dependencies"]:
        ranges |= requirements(extra)
    assert pinned().keys() == ranges.keys()
    for name, version in pinned().items():
        assert version in ranges[name], f"{name}=={version} is not in {ranges[name]}"


def test_nbgraders_validate_opens_no_notebook_outside_of_jupyters_folder(tmp_path: Path) -> None:
    # nbgrader's pull request 1978: releases before 0.9.6 validate, and so execute, any path.
    assert "0.9.5" not in requirements()["nbgrader"]
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "other.ipynb").write_text("{}")
    (root / "link.ipynb").symlink_to(tmp_path / "other.ipynb")
    handler = SimpleNamespace(root_dir=str(root))
    for path in ("../other.ipynb", str(tmp_path / "other.ipynb"), "link.ipynb"):
        with pytest.raises(HTTPError, match="outside allowed directory"):
            ValidateAssignmentHandler.validate_notebook(handler, path)


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT)
            if not {"__pycache__", "build"} & set(inside.parts) and not is_submission(inside):
                yield path


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports, at any depth of its code."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("ringside", {"ringside"}),
        ("solutions", {"ringside"}),
        ("assignments", {"ringside"}),
        ("lectures", {"ringside"}),
        ("autograder", {"autograder", "ringside"}),
        ("benchmarks", {"autograder", "ringside"}),
    ],
)
def test_who_may_import_whom(folder: str, allowed: set[str]) -> None:
    for path in python_files(folder):
        permitted = allowed | ({"solutions", "autograder"} if "hidden" in path.parts else set())
        strangers = imported(path) & OURS - permitted
        assert not strangers, f"{path.relative_to(ROOT)} imports {', '.join(strangers)}"


# Bottom to top; rooms of one floor don't import one another. A room is a folder of the package;
# "root" are the files beside the folders, but for those that are a floor of their own.
FLOORS = {
    "ringside": [
        *("root", "draw", "timing", "network", "scale", "pytorch mpi", "ranks", "session"),
        *("checking checkpoint", "jobs course", "commands", "__init__", "__main__"),
    ],
    "autograder": [
        *("root", "course", "sandbox collect", "grade", "publish", "gradebook", "platforms"),
        *("author", "commands", "__init__", "__main__"),
    ],
}


def room_of(module: str, rooms: set[str]) -> str:
    package, _, inside = module.partition(".")
    room = inside.split(".")[0] or "__init__"
    is_file = not (ROOT / package / room).is_dir()
    return "root" if is_file and room not in rooms else room


@pytest.mark.parametrize("package", FLOORS)
def test_a_room_imports_only_from_floors_below_it(package: str) -> None:
    height = {room: n for n, floor in enumerate(FLOORS[package]) for room in floor.split()}
    upward = []
    for module, imports in arrows(package).items():
        here = room_of(module, set(height))
        for other in sorted(imports):
            there = room_of(other, set(height))
            assert {here, there} <= height.keys(), f"{here}, {there}: give it a floor in FLOORS"
            if here != there and height[there] >= height[here]:
                upward.append(f"{module} imports {other}, and {there} isn't below {here}")
    assert not upward, "a room imports only from floors below it:\n" + "\n".join(upward)


def test_only_what_assembles_mpi_imports_its_rare_parts() -> None:
    # What a program sees as MPI is put together there: Comm of its calls, the module of its names.
    assembling = {"ringside.mpi.comm", "ringside.mpi.namespace"}
    rare = "ringside.mpi.rare"
    importers = {
        module
        for package in FLOORS
        for module, imports in arrows(package).items()
        for other in imports
        if f"{other}.".startswith(f"{rare}.") and not f"{module}.".startswith(f"{rare}.")
    }
    strangers = sorted(importers - assembling)
    assert not strangers, f"{', '.join(strangers)}: nothing below {rare} may need it"
    assert importers == assembling


@pytest.mark.parametrize("package", FLOORS)
def test_no_modules_import_one_another_in_a_circle(package: str) -> None:
    left = arrows(package)
    while free := {module for module, imports in left.items() if not imports & left.keys()}:
        left = {module: imports for module, imports in left.items() if module not in free}
    # What is left lies on a circle, or above one: walk down until a module comes again.
    path = list(left)[:1]
    while path and path[-1] not in path[:-1]:
        path.append(min(left[path[-1]] & left.keys()))
    circle = path[path.index(path[-1]) :] if path else []
    assert not circle, "modules import one another in a circle: " + " -> ".join(circle)


def test_the_house_is_measured_as_it_is_drawn(tmp_path: Path) -> None:
    # roof --> walls --> ground.py, roof --> ground.py: three floors, three arrows
    files = {
        "ringside/__init__.py": "",
        "ringside/ground.py": "def lay(a, b, *, c):\n    # first\n    found = a\n    stone = b\n",
        "ringside/walls/__init__.py": "",
        "ringside/walls/brick.py": "from ringside.ground import lay\n",
        "ringside/walls/stub/wrong/brick.py": "a syntax error\n",
        "ringside/roof/__init__.py": "from ringside import ground, walls\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    measured = house.measured_package("ringside", tmp_path)
    assert measured.rooms == {"__init__", "ground", "walls", "roof"}
    assert measured.room_arrows == {("walls", "ground"), ("roof", "ground"), ("roof", "walls")}
    assert measured.num_floors == 3 and measured.num_modules == 5
    assert measured.single_importer == ["ringside.walls"]
    code = house.measured_code("ringside", tmp_path)
    assert (code.num_files, code.num_lines, code.num_comments) == (6, 7, 1)
    assert (code.num_variables, code.num_dialect, code.function_lines) == (2, 1, [4])


# Who gives a file its name by a rename, besides `files.write_atomically`.
RENAMING = {
    "ringside/files.py": "the one way",
    "autograder/storage.py": "what nobody can make again, synchronized and explained",
    "ringside/checkpoint.py": "a state of many gigabytes, streamed and synchronized",
    "ringside/course/handout/applying.py": "files that were staged together, with a journal",
}
# Who makes temporary folders elsewhere than in a run's folder or beside what they become.
FOLDERS_ELSEWHERE = {
    "autograder/scratch.py": "the run's folder itself",
    "autograder/grade/real_ranks/gloo_nursery.py": "in the sandbox",
    "autograder/grade/real_ranks/mpi_nursery.py": "in the sandbox",
    "autograder/author/verify/redteam_outside.py": "what attacks look for outside",
    "autograder/author/verify/redteam_run.py": "a course of its own for each attack",
}


def test_files_are_written_and_folders_made_for_a_while_in_one_way() -> None:
    renaming, elsewhere = set(), set()
    temporary = {"tempfile.mkdtemp", "tempfile.TemporaryDirectory"}
    for path in python_files(*FLOORS):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if "os.replace(" in text:
            renaming.add(name)
        if name.startswith("ringside/") or "tempfile" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) in temporary):
                continue
            if "dir" not in {keyword.arg for keyword in node.keywords}:
                elsewhere.add(name)
    assert renaming == RENAMING.keys(), "use ringside.files.write_atomically"
    assert elsewhere == FOLDERS_ELSEWHERE.keys(), "use autograder.scratch"


def test_a_notebook_reads_a_students_module_as_its_file_is_now() -> None:
    # A cell that is run again after a correction must not meet the module of before.
    for path in sorted((ROOT / "solutions").glob("*/notebook.py")):
        text = path.read_text()
        for match in re.finditer(r"import_module\(", text):
            before = text[: match.start()].removesuffix("importlib.")
            fresh = before.endswith("reload(") or "sys.modules.pop(" in before[-60:]
            line = before.count("\n") + 1
            assert fresh, f"{path.relative_to(ROOT)}:{line}: reload(import_module(...))"


def test_cluster_holds_no_python() -> None:
    assert not list(python_files("cluster"))


def test_every_package_that_we_import_is_declared() -> None:
    declared = set(requirements() | requirements("torch"))
    for path in python_files("ringside", "autograder"):
        if path.parent == ROOT / "autograder" / "templates" / "hub":
            continue  # settings that an administrator copies to where Jupyter is
        for name in imported(path) - OURS - set(sys.stdlib_module_names):
            distribution = DISTRIBUTION.get(name, name)
            assert distribution in declared, f"{path.relative_to(ROOT)} imports {name}"


def test_the_students_copy_installs_what_their_part_imports() -> None:
    project = tomllib.loads(for_students((ROOT / "pyproject.toml").read_text()))["project"]
    declared = {Requirement(line).name for line in project["dependencies"]}
    left_out = set(requirements()) - declared
    assert "nbgrader" in left_out and {"numpy", "jupyter", "mpi4py", "pytest"} <= declared
    for path in python_files("ringside", "lectures", "assignments"):
        for name in imported(path):
            # Where nbgrader's exchange is, nbgrader is; elsewhere a zip is made.
            assert DISTRIBUTION.get(name, name) not in left_out or path.name == "handin.py"


def test_what_is_said_where_torch_is_missing_installs_the_range_that_is_declared() -> None:
    name, text = INSTALL.removeprefix("pip install ").strip("'").partition("torch")[1:]
    assert {name: SpecifierSet(text)} == requirements("torch")


def test_the_changelog_goes_by_release_and_reader_in_lines() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    first = next(release for release in releases if not release.startswith("Unreleased\n"))
    assert first.startswith(f"{VERSION} ("), "cut a release, or count the version up"
    for release in releases:
        head, *lines = filter(None, release.splitlines())
        dated = r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)"
        assert re.fullmatch(rf"Unreleased|{dated}", head), head
        readers = [line for line in lines if line.startswith("#")]
        order = ["### Students", "### Instructors", "### Developers"]
        assert readers == [reader for reader in order if reader in readers], head
        entries = [line for line in lines if line not in readers]
        assert not [entry for entry in entries if not re.fullmatch(r"- \S.{10,160}\.", entry)]


def test_the_page_of_public_names_is_what_their_docstrings_say() -> None:
    committed = (ROOT / "docs" / "api.md").read_text()
    assert committed == api.page(), f"run `{api.COMMAND}`"


def documents() -> Iterator[tuple[str, str]]:
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_documents_name_only_targets_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, text in documents():
        used = set(re.findall(r"`make ([a-z-]+)`|^ *make ([a-z-]+)", text, re.MULTILINE))
        used_names = {first or second for first, second in used}
        assert used_names <= targets, name
    assert {"demo", "test", "build", "verify", "lint"} <= targets


def commands(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Commands of ours that a page names: the package, the command, its options."""
    for block in re.findall(r"```sh\n(.*?)```|`((?:ringside|autograder) [^`]+)`", text, re.DOTALL):
        for line in re.split(r"\n|&& ", "".join(block)):
            words = re.sub(r'"[^"]*"', "", line.split(" # ")[0].split(" -- ")[0])
            if found := re.match(r"(?:srun .*|mpiexec .*)?(ringside|autograder) ([a-z-]+)", words):
                yield found[1], found[2], re.findall(r" (--[a-z-]+)", words[found.end() :])


def test_documents_name_only_commands_and_options_that_there_are() -> None:
    shown: dict[tuple[str, str], str] = {}
    for name, text in documents():
        for package, command, options in commands(text):
            if (package, command) not in shown:
                words = [sys.executable, "-m", package, command, "--help"]
                done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
                assert done.returncode == 0, f"{name}: {package} {command}: {done.stderr}"
                shown[package, command] = done.stdout
            for option in options:
                known = re.search(rf"{option}\b(?!-)", shown[package, command])
                assert known, f"{name}: {package} {command} {option}"
    assert len(shown) > 15


def test_links_and_pictures_in_documents_exist() -> None:
    for name, text in documents():
        for target, place in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]+)?\)", text):
            path = (ROOT / name).parent / target if target else ROOT / name
            assert path.exists(), f"{name} links to {target}"
            if place:
                headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
                slugs = {
                    re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
                }
                assert place[1:] in slugs, f"{name} links to {target}{place}"


def test_the_readme_is_short_and_leads_every_reader_to_a_page() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 900
    for path in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{path.name})" in text, path.name


def test_students_pages_name_nothing_that_students_do_not_have() -> None:
    for name in STUDENTS:
        text = (ROOT / "docs" / name).read_text()
        for word in ("solutions/", "instructor.md)", "CONTRIBUTING.md", "architecture.md"):
            assert word not in text.replace("tutorial/instructor.md)", ""), f"{name}: {word}"


def test_the_readmes_table_of_units_is_what_its_command_writes(tmp_path: Path) -> None:
    for name in ("lectures", "assignments", "solutions"):
        (tmp_path / name).symlink_to(ROOT / name)
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"(?m)^\| \d\d \|.*\n", text)
    assert len(rows) == len({path.name[:2] for path in ROOT.glob("lectures/[0-9][0-9]_*.py")})
    (tmp_path / "README.md").write_text(text.replace(rows[3], ""))
    words = ["-m", "ringside.course.lectures", "readme", "--folder", str(tmp_path / "lectures")]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "README.md").read_text() == text, "python -m ringside.course.lectures readme"


def test_the_readmes_picture_is_what_its_command_draws(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    [line] = re.findall(r"^ringside (run .*--svg .*)$", text, re.MULTILINE)
    words = [sys.executable, "-m", "ringside", *line.replace("--svg ring.svg", "").split()]
    at = words.index("--")
    words[at:at] = ["--svg", str(tmp_path / "ring.svg")]
    done = subprocess.run(
        words, cwd=ROOT / "solutions" / "a03_allreduce", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ring.svg").read_text() == (ROOT / "docs" / "ring.svg").read_text(), (
        f"in solutions/a03_allreduce: ringside {line}; then move it to docs/"
    )


def test_the_drawing_of_the_architecture_names_every_folder() -> None:
    drawn = (ROOT / "docs" / "architecture.svg").read_text()
    for package in ("ringside", "autograder"):
        for path in (ROOT / package).glob("*/__init__.py"):
            assert re.search(rf"\b{path.parent.name}\b", drawn), f"{package}/{path.parent.name}"


@pytest.mark.parametrize(
    ("tests", "verified", "status", "last"),
    [
        ("=== 12 passed, 3 skipped in 9.31s ===", "2 passed, 0 failed", 0, "14 passed, 0 failed"),
        (
            "== 1 failed, 11 passed, 1 error in 9s ==",
            "0 passed, 0 failed",
            1,
            "11 passed, 2 failed",
        ),
        (
            "12 passed in 9.31s",
            "a03_allreduce differs\n1 passed, 1 failed",
            1,
            "13 passed, 1 failed",
        ),
        ("12 passed in 9.31s", "No rule to make target", 1, "12 passed, 0 failed"),
    ],
)
def test_ci_runs_the_readmes_test_command_and_sums_up(
    tests: str, verified: str, status: int, last: str, tmp_path: Path
) -> None:
    assert "\nmake test " in (ROOT / "README.md").read_text()
    (tmp_path / ".ci").mkdir()
    shutil.copy2(ROOT / ".ci" / "run", tmp_path / ".ci")
    make = tmp_path / "make"  # stands in, and says which targets it was asked for
    make.write_text(
        '#!/bin/sh\necho "$*" >>asked\ncase "$2" in\n'
        f"test) echo '{tests}'; exit {int('failed' in tests)} ;;\n"
        f"verify-stale) echo '{verified}'; exit {int(not verified.endswith('0 failed'))} ;;\n"
        "esac\n"
    )
    make.chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "run"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[1] for line in asked] == ["lint", "test", "verify-stale"]
    assert asked[-1].endswith(" MINUTES=30")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, last)
