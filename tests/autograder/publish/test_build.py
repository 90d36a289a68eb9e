"""The build: deterministic, without solutions in the release."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import nbformat
import pytest

from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.publish import build
from ringside import Session
from ringside.checking import notebook
from tests.autograder.conftest import NAME


def marks(nb: nbformat.NotebookNode) -> dict[str, nbformat.NotebookNode]:
    return {
        cell.metadata.nbgrader.grade_id: cell for cell in nb.cells if "nbgrader" in cell.metadata
    }


def test_a_second_build_gives_the_same_bytes(plan: Assignment, course: Course) -> None:
    assert build.stale(plan, course) == []


def test_what_students_get_is_what_a_build_makes() -> None:
    course = Course.here()
    stale = build.build_all(course, plans.known(course), check=True)
    assert not any(stale.values()), f"run `python -m autograder build`: {stale}"


def test_a_changed_release_is_found_and_named(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    other = Course(kit=tmp_path / "kit", root=tmp_path / "kit")
    (tmp_path / "kit").mkdir()
    for name in ("solutions", "assignments", "nbgrader_config.py"):
        (tmp_path / "kit" / name).symlink_to(course.kit / name)
    (tmp_path / "kit" / "assignments").unlink()
    release = other.release(NAME)
    shutil.copytree(course.release(NAME), release)
    (release / "given/numbers.py").write_text("GIVEN = 2\n")
    (release / "extra.py").write_text("")
    assert build.stale(plan, other) == ["extra.py", "given/numbers.py"]
    build.build(plan, other)
    assert build.stale(plan, other) == []
    assert not (release / "extra.py").exists()


def test_the_release_holds_stubs_where_solutions_were(plan: Assignment, course: Course) -> None:
    text = (course.release(NAME) / plan.notebook).read_text()
    assert "is solved" not in text and "SOLUTION" not in text
    nb = nbformat.reads(text, as_version=4)
    cell = marks(nb)["one"]
    assert cell.source.startswith("%%module one.py\n")
    assert cell.source.endswith("raise NotImplementedError")
    assert sorted(path.name for path in course.release(NAME).iterdir()) == [
        plan.notebook, "given",
    ]  # fmt: skip


def test_points_come_from_the_plan_and_extra_ones_are_not_in_the_maximum(
    plan: Assignment, course: Course
) -> None:
    nb = nbformat.read(course.release(NAME) / plan.notebook, as_version=4)
    points = {name: cell.metadata.nbgrader.get("points") for name, cell in marks(nb).items()}
    assert points == {
        "one": None, "check_one": 30, "two": None, "check_two": 60, "more": None,
        "check_more": 0, "one_cluster": 5, "words": 5,
    }  # fmt: skip
    table = next(cell.source for cell in nb.cells if cell.id == "plan")
    assert "| `two.py` | The second | 60 |" in table and "+20 (extra)" in table


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("# %%\n# {{module one}}\n", "lacks: check more, check one"),
        ("# %%\n# {{module none}}\n", "names nothing of the plan"),
        ("# %%\n# {{module one}}\n# %%\n# {{module one}}\n", "stands twice"),
        ("# %%\n# {{check one points=3}}\n", "assignment.toml says 30"),
    ],
)
def test_a_wrong_notebook_source_is_refused(
    plan: Assignment, course: Course, source: str, match: str
) -> None:
    with pytest.raises(build.BuildError, match=match):
        build.instructor_notebook(plan, source, course.solution(NAME))


def test_a_module_without_markers_would_be_released_whole_and_is_refused(
    plan: Assignment, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("def answer():\n    return 1\n")
    with pytest.raises(build.BuildError, match="has no '### BEGIN SOLUTION'"):
        build.instructor_notebook(plan, "# %%\n# {{module one}}\n", tmp_path)


def test_a_mark_without_its_other_one_is_refused_with_the_file(
    plan: Assignment, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("def answer():\n    ### BEGIN SOLUTION\n    return 1\n")
    said = r"one\.py: 1 '### BEGIN SOLUTION' and 0 '### END SOLUTION'"
    with pytest.raises(build.BuildError, match=said):
        build.instructor_notebook(plan, "# %%\n# {{module one}}\n", tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "### BEGIN SOLUTION\ndef _helper():\n    return 1\n\n### END SOLUTION\n",
        "class Answer:\n    ### BEGIN SOLUTION\n    def of(self):\n        return 1\n"
        "    ### END SOLUTION\n",
    ],
)
def test_a_solution_outside_of_every_function_is_refused(
    plan: Assignment, tmp_path: Path, source: str
) -> None:
    (tmp_path / "one.py").write_text(f"import os\n\n{source}")
    with pytest.raises(build.BuildError, match=r"one.py:\d: a solution begins outside of every"):
        build.instructor_notebook(plan, "# %%\n# {{module one}}\n", tmp_path)


@pytest.mark.parametrize("name", plans.known(Course.here()))
def test_every_stub_can_be_imported(name: str, tmp_path: Path) -> None:
    release = Course.here().kit / "assignments" / name
    shutil.copytree(release, tmp_path, dirs_exist_ok=True)
    cells = notebook.module_cells(release / f"{name}.ipynb")
    for cell in cells:
        (tmp_path / cell.module).write_text(cell.source)
    (tmp_path / "load.py").write_text(
        "import importlib\n\n\ndef all_of(comm, names):\n"
        "    for name in names:\n        importlib.import_module(name)\n"
    )
    modules = [cell.module.removesuffix(".py") for cell in cells]
    with Session(tmp_path) as session:
        session.call("load:all_of", 1, (modules,)).raise_for_error()


@pytest.mark.parametrize("name", plans.known(Course.here()))
def test_the_first_code_cell_makes_the_first_line_of_modules_known(name: str) -> None:
    release = Course.here().kit / "assignments" / name
    path = release / f"{name}.ipynb"
    codes = [cell for cell in notebook.read(path)["cells"] if cell["cell_type"] == "code"]
    assert "%load_ext ringside" in "".join(codes[0]["source"]).splitlines()
    assert {cell.first for cell in notebook.module_cells(path)} == {
        f"%%module {cell.module}" for cell in notebook.module_cells(path)
    }


@pytest.mark.parametrize("name", plans.known(Course.here()))
def test_a_stub_shows_its_drawings_as_they_are(name: str) -> None:
    release = Course.here().kit / "assignments" / name
    for cell in notebook.module_cells(release / f"{name}.ipynb"):
        shown = ast.get_docstring(ast.parse(cell.source), clean=False)
        assert shown is not None
        assert shown in cell.source, f"{cell.module}: its docstring needs an r in front"


def test_unknown_assignments_are_refused_by_name(course: Course) -> None:
    with pytest.raises(AssignmentError, match="Known: a99_toy"):
        plans.load("a98_other", course)
    with pytest.raises(AssignmentError, match="is not an assignment's name"):
        plans.load("../../etc", course)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[[module]]\nname='../x'\nweight=1\n", "not a name"),
        ("[[module]]\nname='a'\nweight=1\n[[module]]\nname='a'\nweight=1\n", "used twice"),
        (
            "supplied=['x.py']\n[[module]]\nname='a'\nweight=1\n",
            r"line 1: supplied = \['x.py'\] is of an earlier form: what lies in given/",
        ),
        ("public_tests='x.py'\n[[module]]\nname='a'\nweight=1\n", "tests are in checks/test_"),
        ("[[module]]\nname='a'\n", r"\[\[module\]\] 'a': weight is missing"),
        ("title='x'\n", r"assignment\.toml: module is missing"),
        (
            "duedate=2026-03-01T23:59:00Z\n[[module]]\nname='a'\nweight=1\n",
            r"line 1: duedate = 2026-03-01T23:59:00\+00:00: there is no such key; did you mean "
            r"'due'\?",
        ),
        (
            "[[module]]\nname='a'\nweight=1\ndue=2026-03-01T23:59:00Z\n",
            r"line 4: \[\[module\]\] 'a': due = 2026-03-01T23:59:00\+00:00 stands below "
            r"\[\[module\]\] and so belongs to it; move it above the first line that begins",
        ),
        (
            "[[module]]\nname='a'\nweight=1\n[limits]\ndue=2026-03-01T23:59:00Z\n",
            r"line 5: \[limits\]: due = .* stands below \[limits\] and so belongs to it",
        ),
        ("due=2026-03-01\n[[module]]\nname='a'\nweight=1\n", "due = 2026-03-01: a date with a"),
        ("due='soon'\n[[module]]\nname='a'\nweight=1\n", "due = 'soon': a date with a time is"),
        (
            "[[module]]\nname='a'\nweight=1\nextra='false'\n",
            r"line 4: \[\[module\]\] 'a': extra = 'false': true or false is wanted",
        ),
        ("[[module]]\nname='a'\nweight='1'\n", "weight = '1': a number is wanted"),
        ("[[module]]\nname='a'\nweight=true\n", "weight = true: a number is wanted"),
        (
            "[[module]]\nname='a'\nweight=1\n[[run]]\nname='r'\nmodule='a'\npoint=1\n",
            r"line 7: \[\[run\]\] 'r': point = 1: there is no such key; did you mean 'points'\?",
        ),
        (
            "[[module]]\nname='a'\nweight=1\n[[paragraph]]\nname='p'\npoints=1\nhours=1\n",
            r"hours = 1: there is no such key; known are name, points, title",
        ),
        ("[[run]]\nname='r'\nmodule='b'\npoints=1\n[[module]]\nname='a'\nweight=1\n", "no module"),
    ],
)
def test_a_wrong_plan_is_refused(tmp_path: Path, text: str, match: str) -> None:
    folder = tmp_path / "solutions" / "a98_wrong"
    folder.mkdir(parents=True)
    (folder / "assignment.toml").write_text(text)
    with pytest.raises(AssignmentError, match=match):
        plans.load("a98_wrong", Course(kit=tmp_path, root=tmp_path))
