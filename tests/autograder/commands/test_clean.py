"""`make clean` removes what the kit's commands made, and nothing that a person or a course did."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from autograder.commands.clean import MADE, clean
from autograder.course.course import Course
from autograder.gradebook.nbgrader import outdated
from autograder.publish import build, bundle
from ringside import output_folder
from ringside.output_folder import made_anew

RESULT = f"build/results/ab/ab{'0' * 62}.json"
KEPT = [
    ".mypy_cache/mine", "build/gradebook.db", "build/kept/assignments/a01/ring.py",
    "build/notes.md",
    "build/measured/a01/1.json", "build/quarantine/ada/a01/x.bin", "build/results/notes.md",
    "build/submitted/ada/a01/__pycache__/x.pyc", "venv/lib/__pycache__/x.pyc",
]  # fmt: skip


def fill(kit: Path, *names: str) -> None:
    for name in names:
        (kit / name).parent.mkdir(parents=True, exist_ok=True)
        (kit / name).write_text(name)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    for name, command in MADE.items():
        with made_anew(tmp_path / "build" / name, command) as fresh:
            (fresh / "index.html").touch()
    bundle.pack(tmp_path / "build" / "ringside-students")
    fill(tmp_path, "build/source/a01/a01.ipynb", RESULT, "ringside/__pycache__/x.pyc")
    fill(tmp_path, ".ruff_cache/CACHEDIR.TAG", *KEPT)
    course = Course(kit=tmp_path, root=tmp_path)
    source = course.source("a01")
    fill(tmp_path, build._record(source, course).relative_to(tmp_path).as_posix())
    build._record(source, course).write_text(json.dumps(output_folder.contents(source)))
    return tmp_path


def test_what_the_commands_made_goes_and_all_else_stays(kit: Path) -> None:
    assert list(clean(kit)) == []
    left = {name for name in output_folder.contents(kit) if not name.startswith("build/built/")}
    assert left | {name for name in KEPT if (kit / name).is_file()} == set(KEPT)
    assert all((kit / name).is_file() for name in KEPT)
    assert not (kit / ".ruff_cache").exists() and not (kit / "ringside/__pycache__").exists()


def test_what_was_changed_is_left_and_named(kit: Path) -> None:
    mine = ["build/demo/mine.csv", "build/site/index.html", "build/source/a01/a01.ipynb"]
    fill(kit, mine[0])
    for name in mine[1:]:
        (kit / name).write_text("changed")
    (kit / "build" / "ringside-students.zip").write_text("mine")
    assert list(clean(kit)) == [
        f"{kit}/build/demo is left: `autograder demo` did not make mine.csv.",
        f"{kit}/build/site is left: `python -m ringside.course.lectures site` did not make "
        "index.html (changed).",
        f"{kit}/build/source/a01 is left: `autograder build` did not make a01.ipynb.",
    ]
    assert all((kit / name).is_file() for name in [*mine, *KEPT, "build/ringside-students.zip"])


def test_another_checkouts_folders_behind_links_stay(kit: Path, tmp_path: Path) -> None:
    (kit / "build").rename(tmp_path / "scratch")
    (kit / "build").symlink_to(tmp_path / "scratch")
    (tmp_path / "scratch" / "site").rename(tmp_path / "elsewhere")
    (tmp_path / "scratch" / "site").symlink_to(tmp_path / "elsewhere")
    list(clean(kit))
    assert (tmp_path / "elsewhere" / "index.html").exists()
    assert all((kit / name).is_file() for name in KEPT)


def test_half_a_folder_of_nbgraders_goes_and_a_file_of_the_instructors_is_kept(
    tmp_path: Path,
) -> None:
    build_folder, log = tmp_path / "build", logging.getLogger("test")
    source, half = build_folder / "autograded/ada/a01", build_folder / "feedback/ada/a01"
    fill(source, "a01.ipynb", "ring.py")
    fill(build_folder / "source/a01", "cases.py")
    fill(half, "a01.html", "ring.py", "cases.py")
    outdated._remove_outdated(half, source, build_folder, "a reason", log)
    assert not half.exists() and not (build_folder / "kept").exists()
    fill(half, "ring.py", "remarks.pdf")
    outdated._remove_outdated(half, source, build_folder, "a reason", log)
    assert not half.exists()
    assert (build_folder / "kept/feedback/ada/a01/remarks.pdf").read_text() == "remarks.pdf"
