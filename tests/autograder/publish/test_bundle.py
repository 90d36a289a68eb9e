"""The students' tree holds nothing hidden, and the check would find it if it did."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest

from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.platforms import github
from autograder.publish import bundle
from autograder.publish.build import BuildError
from ringside import output_folder
from ringside.commands.cli import main as ringside
from ringside.output_folder import FolderError
from tests.autograder.conftest import KIT, NAME

REAL = Course(kit=KIT, root=KIT)
BUILT = all(REAL.release(name).is_dir() for name in plans.known(REAL))


@pytest.fixture(scope="module")
def students(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not BUILT:
        pytest.skip("assignments/ is not built")
    return bundle.make(REAL, tmp_path_factory.mktemp("bundle") / "students")


def test_the_real_tree_holds_no_solution_and_no_hidden_line(students: Path) -> None:
    folder = students
    assert bundle.leaks(REAL, folder) == []
    assert not (folder / "autograder").exists() and not (folder / "solutions").exists()
    assert not list(folder.rglob("__pycache__"))
    assert not list(folder.rglob("new_assignment*")) and not list(folder.rglob("report.html.j2"))
    templates = (KIT / "autograder" / "templates" / "new_assignment").rglob("*.py")
    students = {path.read_text() for path in folder.rglob("*.py")}
    mine = {path.read_text() for path in templates if path.name != "__init__.py"}  # one sentence
    assert mine and not mine & students
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


def test_the_real_trees_lectures_are_cleared(students: Path) -> None:
    folder = students / "lectures"
    assert not list(folder.glob("[0-9]*.py")), "their texts hold the answers"
    explained = json.loads((folder / "explanations.json").read_text())["explanations"]
    assert "27 days" in explained["00/days"]["text"]
    for path in folder.glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") for cell in cells)
        assert not any("revealed" in cell["metadata"] for cell in cells)
        words = "".join(line for cell in cells for line in cell["source"])
        assert "For teachers" not in words and "It takes 27 days" not in words
    first = students / "assignments" / "a01_first_ranks"
    assert 'reveal(\\"a01/own-x\\")' in (first / "a01_first_ranks.ipynb").read_text()
    entry = json.loads((first / "explanations.json").read_text())["explanations"]["a01/own-x"]
    assert entry["answer"] == "200 on rank 1 and 100 on the others" and "own" in entry["text"]


def test_answers_suites_and_submissions_for_tests_stay_with_the_instructor(
    students: Path,
) -> None:
    private = ("answers.md", "hidden", "verify")
    assert not [path for path in students.rglob("*") if path.name in private]
    given = {path.read_bytes() for path in students.rglob("*") if path.is_file()}
    for name in plans.known(REAL):
        for part in private:
            place = REAL.solution(name) / part
            files = [p for p in (place, *place.rglob("*")) if p.is_file()]
            assert files, f"{name} has no {part}"
            assert not {path.read_bytes() for path in files} & given


@pytest.mark.skipif(not BUILT, reason="assignments/ is not built")
@pytest.mark.parametrize("kind", ["text", "notebook", "suite", "answers"])
def test_a_hidden_line_anywhere_is_found(tmp_path: Path, kind: str) -> None:
    name = plans.known(REAL)[0]
    module = next(iter(plans.load(name, REAL).modules)).filename
    solution = (REAL.solution(name) / module).read_text()
    region = max(bundle.solution_regions(solution), key=len)  # a run has two lines or more
    if kind == "notebook":
        text = json.dumps({"cells": [{"source": [f"{line}\n" for line in region]}]}, indent=1)
    elif kind == "text":
        text = "\n".join(line.strip() for line in region)
    elif kind == "suite":
        text = (REAL.hidden(name) / "cases.py").read_text()
    else:
        text = (REAL.solution(name) / bundle.ANSWERS).read_text()
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
    shutil.copytree(course.kit / "solutions" / NAME, kit / "solutions" / NAME, dirs_exist_ok=True)
    long = "### BEGIN SOLUTION\n    first = one_step(comm)\n    return first + second\n"
    (kit / "solutions" / NAME / "one.py").write_text(long + "    ### END SOLUTION\n")
    module.write_text(
        "def mine(comm):\n    first = one_step(comm)  # so\n    return first + second\n"
    )
    with pytest.raises(BuildError, match=r"lectures/slip\.py: .*one_step"):
        bundle.make(other, tmp_path / "out")
    assert (tmp_path / "out" / "lectures" / "slip.py").read_text() == "nothing\n"  # the old tree


# -- what may be replaced ------------------------------------------------------------------------


@pytest.fixture
def kit(toy_kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A small clone, with what nobody can make again in it; commands run there."""
    folder = tmp_path / "home" / "kit"
    shutil.copytree(toy_kit, folder)
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n')
    for name in (".git/HEAD", "build/gradebook.db", "lectures/01.md", "ringside/x.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("precious")
    monkeypatch.setenv("RINGSIDE_KIT", str(folder))
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path / "course"))
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.chdir(folder)
    return Course.here()


@pytest.mark.parametrize("command", ["bundle", "demo"])
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("to", [".", "..", "/", "build", "lectures", "foreign", "pyproject.toml"])
def test_no_command_removes_the_clone_the_home_or_a_foreign_folder(
    kit: Course, command: str, marked: bool, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (kit.kit / "foreign").mkdir()
    (kit.kit / "foreign" / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    if marked:  # even the mark of a tree that was made there doesn't open the home and the kit
        for place in (kit.kit, kit.kit.parent):
            output_folder._write_mark(place, f"autograder {command}", None)
    before = output_folder.contents(kit.kit.parent)
    assert cli.main([command, "--to", to]) == 2
    said = capsys.readouterr().err
    assert re.search("never replaces|did not make|is not a folder|name another folder", said), said
    assert output_folder.contents(kit.kit.parent) == before


def test_the_courses_root_is_never_replaced(kit: Course) -> None:
    kit.root.mkdir()
    output_folder._write_mark(kit.root, bundle.COMMAND, None)
    with pytest.raises(FolderError, match=r"never replaces .*/course: name a new folder"):
        bundle.make(kit, kit.root)


def test_a_tree_that_can_not_be_made_leaves_the_old_one(
    kit: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bundle.make(kit, Path("out"))
    before = output_folder.contents(folder)
    (kit.kit / "lectures" / "01.md").write_text("newer")
    with monkeypatch.context() as patch:
        patch.setattr(bundle, "leaks", lambda *_: ["lectures/01.md: a line"])
        with pytest.raises(BuildError, match="Hidden lines"):
            bundle.make(kit, folder)
    assert output_folder.contents(folder) == before
    bundle.make(kit, folder)
    assert (folder / "lectures" / "01.md").read_text() == "newer"
    assert not list(kit.kit.glob(".out*"))


def test_a_tree_in_which_somebody_works_is_left_alone(kit: Course) -> None:
    folder = bundle.make(kit, Path("out"))
    (folder / "README.md").write_text("ours")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: x")
    with pytest.raises(FolderError, match=r"did not make: \.git/HEAD, README\.md \(changed\)\."):
        bundle.make(kit, folder)
    assert (folder / "README.md").read_text() == "ours"


def test_a_zip_that_the_command_did_not_make_is_left_alone(
    kit: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bundle", "--to", "v1.2", "--zip"]) == 0
    assert cli.main(["bundle", "--to", "v1.2", "--zip"]) == 0
    packed = Path("v1.2.zip")
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("notes.txt", "mine")
    for mine in (packed.read_bytes(), b"no zip at all"):
        packed.write_bytes(mine)
        capsys.readouterr()
        assert cli.main(["bundle", "--to", "v1.2", "--zip"]) == 2
        assert "`autograder bundle` did not make" in capsys.readouterr().err
        assert packed.read_bytes() == mine


# -- which assignments -----------------------------------------------------------------------------

LATER = "a98_later"
DRAFT = "a97_draft"


@pytest.fixture
def three(kit: Course) -> Course:
    """The toy, one that is released in 2199, and a draft; all of them built."""
    for name in (LATER, DRAFT):
        for folder in ("solutions", "assignments"):
            shutil.copytree(kit.kit / folder / NAME, kit.kit / folder / name)
        notebook = kit.kit / "assignments" / name / f"{NAME}.ipynb"
        notebook.rename(notebook.with_name(f"{name}.ipynb"))
    kit.root.mkdir()
    kit.settings.write_text(
        f"[released]\n{NAME} = 2020-02-01T12:00:00Z\n{LATER} = 2199-02-01T12:00:00Z\n"
    )
    return kit


def handed_out(tree: Path) -> set[str]:
    return {path.name for path in (tree / "assignments").iterdir()}


def test_students_get_what_the_term_has_released_and_never_a_draft(
    three: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bundle", "--to", "out"]) == 0
    assert handed_out(Path("out")) == {NAME}
    said = capsys.readouterr().out
    assert "In the handout: a99; not yet: a98 (Fri 1 Feb 2199, 12:00 UTC); " in said
    assert f"not listed: {DRAFT}." in said
    dates = (Path("out") / "calendar.ics").read_text()
    assert "a98 handed out: A toy" in dates and "a97" not in dates
    assert cli.main(["bundle", "--to", "out", "--also-future"]) == 0
    assert handed_out(Path("out")) == {NAME, LATER}
    three.settings.write_text(f'[released]\n{NAME} = "not yet"\n')
    assert cli.main(["bundle", "--to", "out"]) == 2
    said = capsys.readouterr().err
    assert "No assignment is handed out now." in said and "a99 (no date yet)" in said
    assert handed_out(Path("out")) == {NAME, LATER}  # the tree of before
    three.settings.write_text(f'[released]\n{NAME} = "soon"\n')
    assert cli.main(["bundle", "--to", "out"]) == 2
    assert f"{NAME} = 'soon': a date with a time is wanted" in capsys.readouterr().err


def test_without_release_dates_the_assignments_say_themselves(three: Course) -> None:
    three.settings.unlink()
    assert bundle.listed(three).given == (DRAFT, LATER, NAME)  # where none says it, all
    for name in (NAME, LATER):
        file = three.solution(name) / "assignment.toml"
        file.write_text(f"handed_out = true\n{file.read_text()}")
    assert bundle.listed(three).given == (LATER, NAME)
    assert bundle.listed(three).unlisted == (DRAFT,)
    assert handed_out(bundle.make(three, Path("out"))) == {NAME, LATER}
    kit = Course(kit=KIT, root=three.root)
    assert set(bundle.listed(kit).given) == {path.name for path in (KIT / "assignments").iterdir()}


def test_a_githubs_repository_holds_what_is_handed_out_and_what_it_is_made_for(
    three: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(github, "script", lambda *_, **__: "jobs:\n")
    monkeypatch.setattr("autograder.course.assignment.Assignment.has_tests", True)
    assert cli.main(["platform", "github", NAME, "--to", "repository"]) == 0
    assert handed_out(Path("repository")) == {NAME}
    assert "private" not in capsys.readouterr().out
    assert cli.main(["platform", "github", LATER, "--to", "later"]) == 0
    assert handed_out(Path("later")) == {NAME, LATER}
    assert "keep the repository private until then" in capsys.readouterr().out
    for platform in ("github", "classroom50"):
        assert cli.main(["platform", platform, DRAFT, "--to", "draft"]) == 2
        assert f"{DRAFT} is a draft" in capsys.readouterr().err
    assert cli.main(["platform", "classroom50", LATER, "--to", "room"]) == 0
    assert handed_out(Path("room") / "template") == {NAME, LATER}


def test_a_later_bundle_brings_an_assignment_to_a_tree_in_which_somebody_works(
    three: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "ada"
    shutil.copytree(bundle.make(three, Path("out")), tree)
    (tree / "assignments" / NAME / "one.py").write_text("mine")
    three.settings.write_text(
        f"[released]\n{NAME} = 2020-02-01T12:00:00Z\n{LATER} = 2020-03-01T12:00:00Z\n"
    )
    bundle.pack(bundle.make(three, Path("out")))
    assert ringside(["update", "out.zip", "--tree", str(tree)]) == 0
    assert handed_out(tree) == {NAME, LATER}
    assert (tree / "assignments" / NAME / "one.py").read_text() == "mine"
    assert f"assignments/{LATER}: 2 new" in capsys.readouterr().out


# -- what students get ---------------------------------------------------------------------------


def test_the_zip_holds_what_links_lead_to(students: Path) -> None:
    with zipfile.ZipFile(bundle.pack(students)) as archive:
        names = set(archive.namelist())
    assert "students/ringside/cluster/sites/generic.toml" in names
    assert "students/.ringside-made" not in names
    assert {"students/.vscode/tasks.json", "students/.ringside/handout.json"} <= names
