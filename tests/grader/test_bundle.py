"""The students' tree holds nothing hidden, and the check would find it if it did."""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from autograder import assignment as plans
from autograder import bundle
from autograder.build import BuildError
from autograder.course import Course

from .conftest import KIT, NAME

REAL = Course(kit=KIT, root=KIT)
BUILT = all(REAL.release(name).is_dir() for name in plans.known(REAL))


@pytest.mark.skipif(not BUILT, reason="assignments/ is not built")
def test_the_real_tree_holds_no_solution_and_no_hidden_line(tmp_path: Path) -> None:
    folder = bundle.make(REAL, tmp_path / "students")
    assert bundle.leaks(REAL, folder) == []
    assert not (folder / "autograder").exists() and not (folder / "solutions").exists()
    assert not list(folder.rglob("__pycache__"))
    assert not list(folder.rglob("new_assignment*")) and not list(folder.rglob("report.html.j2"))
    templates = (KIT / "autograder" / "templates" / "new_assignment").rglob("*.py")
    students = {path.read_text() for path in folder.rglob("*.py")}
    assert not {path.read_text() for path in templates} & students
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert list(project["project"]["scripts"]) == ["ringside"]
    assert project["tool"]["setuptools"]["packages"]["find"]["include"] == ["ringside*"]
    assert "autograder" not in (folder / "README.md").read_text()
    assert (folder / "ringside" / "cluster" / "machines").is_dir()
    packed = bundle.pack(folder)
    first = packed.read_bytes()
    assert bundle.pack(folder).read_bytes() == first
    with zipfile.ZipFile(packed) as archive:
        assert "students/pyproject.toml" in archive.namelist()


@pytest.mark.skipif(not BUILT, reason="assignments/ is not built")
@pytest.mark.parametrize("kind", ["text", "notebook", "suite"])
def test_a_hidden_line_anywhere_is_found(tmp_path: Path, kind: str) -> None:
    name = plans.known(REAL)[0]
    module = next(iter(plans.load(name, REAL).modules)).filename
    solution = (REAL.solution(name) / module).read_text()
    region = max(bundle.solution_regions(solution), key=len)  # a run has two lines or more
    if kind == "notebook":
        text = json.dumps({"cells": [{"source": [f"{line}\n" for line in region]}]}, indent=1)
    elif kind == "text":
        text = "\n".join(line.strip() for line in region)
    else:
        suites = KIT / "autograder" / "suites" / name
        text = (suites / f"test_{module}").read_text()
    (tmp_path / "slip.txt").write_text(text)
    found = bundle.leaks(REAL, tmp_path)
    assert found and found[0].startswith("slip.txt: ")


def test_a_tree_with_a_leak_is_not_made(course: Course, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    for name in ("solutions", "assignments"):
        (kit / name).mkdir(parents=True)
        (kit / name / NAME).symlink_to(course.kit / name / NAME)
    module = kit / "lectures" / "slip.py"
    module.parent.mkdir()
    other = Course(kit=kit, root=kit)
    (kit / "pyproject.toml").write_text('[project]\nname = "x"\n')
    module.write_text("nothing\n")
    assert (bundle.make(other, tmp_path / "out") / "lectures" / "slip.py").is_file()
    (kit / "solutions" / NAME).unlink()
    (kit / "solutions" / NAME).mkdir()
    for path in (course.kit / "solutions" / NAME).iterdir():
        (kit / "solutions" / NAME / path.name).write_bytes(path.read_bytes())
    long = "### BEGIN SOLUTION\n    first = one_step(comm)\n    return first + second\n"
    (kit / "solutions" / NAME / "one.py").write_text(long + "    ### END SOLUTION\n")
    module.write_text(
        "def mine(comm):\n    first = one_step(comm)  # so\n    return first + second\n"
    )
    with pytest.raises(BuildError, match=r"lectures/slip\.py: .*one_step"):
        bundle.make(other, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_left_alone(course: Course, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(BuildError, match="holds something else"):
        bundle.make(course, tmp_path)
    assert (tmp_path / "thesis.tex").exists()
