"""The students' tree: what they may have, and a proof that nothing else is in it.

Taken are ringside/, cluster/, assignments/, lectures/ and the files that install them. README
loses its part for instructors, and pyproject.toml what names the autograder. `leaks` looks for
every run of solution lines, and for every run of hidden-suite lines, in every file of the tree.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder import assignment as plans
from autograder.build import BuildError
from autograder.course import Course

FOLDERS = ("ringside", "cluster", "assignments", "lectures")
FILES = ("LICENSE", "LICENSE-teaching", "CHANGELOG.md", "environment.yml", "install.py")
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "build", "run.json", "*.egg-info")
MAKEFILE = """# make install: an environment in .venv with the kit in it
PYTHON ?= python3
# `make install EXTRAS=` leaves PyTorch out; TORCH_INDEX is the index or folder that it comes from.
EXTRAS ?= torch
export TORCH_INDEX

install:
\t@$(PYTHON) -m venv .venv
\t@.venv/bin/python install.py $(EXTRAS)

.PHONY: install
"""
RUN = 2  # lines in a row that make a leak; single ones (`return total`) stand in every program
TELLING = 20  # characters of code that a run must have


def make(course: Course, folder: Path) -> Path:
    """Write the students' tree to `folder`, which is replaced.

    Raises:
        BuildError: an assignment isn't built, or something hidden would be in the tree.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyproject.toml").is_file():
        raise BuildError(f"{folder} holds something else: name another folder.")
    missing = [n for n in plans.known(course) if not course.release(n).is_dir()]
    if missing:
        raise BuildError(f"Not built yet: {', '.join(missing)}. Run `autograder build` first.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in FOLDERS:
        if (course.kit / name).is_dir():
            shutil.copytree(course.kit / name, folder / name, symlinks=True, ignore=IGNORED)
    for name in FILES:
        if (course.kit / name).is_file():
            shutil.copy(course.kit / name, folder)
    _write(folder / "pyproject.toml", _for_students(_read(course.kit / "pyproject.toml")))
    _write(folder / "README.md", _without_instructors(_read(course.kit / "README.md")))
    _write(folder / "Makefile", MAKEFILE)
    found = leaks(course, folder)
    if found:
        shutil.rmtree(folder)
        raise BuildError("Hidden lines would be in the students' tree: " + "; ".join(found[:5]))
    return folder


def pack(folder: Path) -> Path:
    """A zip of the tree beside it, the same bytes for the same tree."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if not file.is_file():
                continue
            info = zipfile.ZipInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            info.external_attr = 0o644 << 16
            archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def leaks(course: Course, folder: Path) -> list[str]:
    """Where solution lines or hidden-suite lines stand in `folder`: "file: the lines"."""
    hidden = {run: origin for origin, run in _hidden_runs(course)}
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        lines = _code(_read(path).replace("\\n", "\n").splitlines())
        for run in _runs(lines):
            if run in hidden:
                name = path.relative_to(folder).as_posix()
                found.append(f"{name}: {' / '.join(run)!r} of {hidden[run]}")
    return found


def _hidden_runs(course: Course) -> Iterator[tuple[str, tuple[str, ...]]]:
    public = {
        run
        for path in (course.kit / "ringside").rglob("*.py")
        for run in _runs(_code(_read(path).splitlines()))
    }
    for name in plans.known(course):
        given = {*plans.load(name, course).supplied, plans.load(name, course).public_tests}
        for path in sorted(course.solution(name).glob("*.py")):
            if path.name in given:
                public |= set(_runs(_code(_read(path).splitlines())))
        for path in sorted(course.solution(name).glob("*.py")):
            for region in solution_regions(_read(path)):
                for run in _runs(_code(region)):
                    yield f"solutions/{name}/{path.name}", run
        for path in sorted((course.kit / "autograder" / "suites" / name).rglob("*.py")):
            for run in _runs(_code(_read(path).splitlines())):
                if run not in public:  # imports and fixtures are the same in public tests
                    yield f"suites/{name}/{path.name}", run


def solution_regions(text: str) -> list[list[str]]:
    """The lines between the markers, a list for each region."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if "### BEGIN SOLUTION" in line:
            inside = True
            found.append([])
        elif "### END SOLUTION" in line:
            inside = False
        elif inside:
            found[-1].append(line)
    return found


def _code(lines: Iterable[str]) -> list[str]:
    """Lines as they are compared: without layout, comments, JSON's quotes, and empty ones."""
    cleaned = (re.sub(r"\s+", " ", line).strip(' ",').split(" #")[0] for line in lines)
    return [line for line in cleaned if line and not line.startswith("#")]


def _runs(lines: list[str]) -> Iterator[tuple[str, ...]]:
    for at in range(len(lines) - RUN + 1):
        run = tuple(lines[at : at + RUN])
        if sum(map(len, run)) >= TELLING and not all(_is_import(line) for line in run):
            yield run


def _is_import(line: str) -> bool:
    return line.startswith(("import ", "from "))


def _for_students(text: str) -> str:
    """pyproject.toml with nothing in it that names the autograder or the tests' tools."""
    text = text.replace('include = ["ringside*", "autograder*"]', 'include = ["ringside*"]')
    head = text.split("[tool.ruff]")[0]
    return "\n".join(line for line in head.splitlines() if "autograder" not in line).rstrip() + "\n"


def _without_instructors(text: str) -> str:
    return re.sub(r"\n## For instructors\n.*?(?=\n## |\Z)", "\n", text, flags=re.DOTALL)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
