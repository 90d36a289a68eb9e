"""A course outside the kit: what is in it, who may read it, and that all commands find it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets.config.loader import PyFileConfigLoader

from autograder.author import new_course
from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course import database, late
from autograder.course import secret as course_secret
from autograder.course.assignment import AssignmentError
from autograder.course.course import CONFIG, Course
from autograder.course.secret import VARIABLE
from autograder.publish import build, bundle
from tests.autograder.conftest import KIT, NAME


@pytest.fixture
def own(toy_kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A course that the command has made, and no variable that names one."""
    for name in ("RINGSIDE_COURSE", "RINGSIDE_RESULTS", VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RINGSIDE_KIT", str(toy_kit))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert cli.main(["new-course", str(tmp_path / "pdl 2026")]) == 0
    return Course(kit=toy_kit, root=tmp_path / "pdl 2026")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_course_is_its_owners_alone_and_has_a_secret_of_its_own(
    own: Course, tmp_path: Path
) -> None:
    assert mode(own.root) == 0o700
    assert mode(own.root / course_secret.FILE) == 0o600
    other = new_course.make(tmp_path / "other", own.kit)
    assert len(own.secret()) > 40 and own.secret() != other.secret()
    assert own.secret() == course_secret.of(own.root, own.kit)
    assert len((own.root / "README.md").read_text().splitlines()) < 13
    assert late.extensions(own) == {}
    assert own.results == own.build / "results"


def test_a_new_course_has_the_release_and_its_source_and_nothing_that_was_tried_there(
    own: Course, tmp_path: Path
) -> None:
    tried = own.kit / "assignments" / NAME / "one.py"
    tried.write_text("mine")
    try:
        other = new_course.make(tmp_path / "other", own.kit)
    finally:
        tried.unlink()
    for course in (own, other):
        assert course.release(NAME) == course.build / "release" / NAME
        kits = {
            path.name: path.read_bytes() for path in (own.kit / "assignments" / NAME).rglob("*.*")
        }
        ours = {path.name: path.read_bytes() for path in course.release(NAME).rglob("*.*")}
        assert ours == kits
        assert (course.source(NAME) / f"{NAME}.ipynb").is_file()
    assert build.stale(plans.load(NAME, own), own) == []


def test_a_course_of_some_units_lists_their_assignments_and_no_others(
    own: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RINGSIDE_KIT", str(KIT))
    for place, units, why in (
        ("a", "01,03", ""),
        ("b", "1", "'1' is no unit with an assignment; 01, 02, 03,"),
        ("c", "01,77", "'77' is no unit"),
    ):
        done = cli.main(["new-course", str(tmp_path / place), "--units", units])
        assert done == (2 if why else 0)
        assert why in capsys.readouterr().err
    course = Course(kit=KIT, root=tmp_path / "a")
    assert not (tmp_path / "b").exists()
    found = bundle.listed(course)
    assert found.given == () and list(found.later) == ["a01_first_ranks", "a03_allreduce"]
    assert "a02_sgd" in found.unlisted
    assert {path.name for path in course.releases.iterdir()} == set(found.later)
    text = course.settings.read_text()
    assert "# 01 = " in text and "# a03_allreduce = 10" in text and "a02" not in text
    dated = text.replace('= "not yet"', "= 2020-02-01T12:00:00Z", 1)
    course.settings.write_text(dated)
    assert bundle.listed(course).given == ("a01_first_ranks",)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("full", "is there and not an empty folder"),
        ("file", "is there and not an empty folder"),
        ("missing/course", r"missing is no folder: `mkdir -p`"),
        ("pdl 2026/build/inner", r"lies inside the course .*pdl 2026"),
        ("kit/build/course", r"and the kit, .*/kit, lie one inside the other"),
        ("kit", "lie one inside the other"),
        (".", "lie one inside the other"),
    ],
)
def test_no_course_is_made_where_it_would_be_in_the_way(
    own: Course, tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "file").touch()
    (tmp_path / "kit" / "build").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AssignmentError, match=why):
        new_course.make(tmp_path / place, tmp_path / "kit")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_becomes_the_course_and_a_full_disk_leaves_nothing(
    own: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert new_course.make(tmp_path / "empty", own.kit).secret()
    assert mode(tmp_path / "empty") == 0o700

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(build, "write_source", full)
    before = sorted(tmp_path.iterdir())
    assert cli.main(["new-course", str(tmp_path / "third")]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'third'} can't be written: No space left on device. Free some" in said
    assert sorted(tmp_path.iterdir()) == before


def test_a_course_is_found_from_below_it_and_the_variable_goes_first(
    own: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = own.root / "build" / "submitted" / "ada"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert Course.here() == own
    foreign = own.root / "another"
    foreign.mkdir()
    (foreign / CONFIG).write_text("c = get_config()\nc.CourseDirectory.course_id = 'other'\n")
    assert Course.here(foreign) == own
    monkeypatch.chdir(tmp_path)
    assert Course.here() == Course(own.kit, own.kit)
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path / "named"))
    assert Course.here(below).root == tmp_path / "named"


def directories(folder: Path) -> dict[str, str]:
    """What nbgrader reads of a folder's settings, that are to be the same everywhere."""
    settings = PyFileConfigLoader(CONFIG, path=str(folder)).load_config().CourseDirectory
    return {name: settings.get(name) for name in ("root", "db_url", "release_directory")}


def test_nbgraders_settings_name_the_course_that_our_commands_find(
    own: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert directories(own.root) == {
        "root": str(own.root),
        "db_url": f"sqlite:///{own.build}/gradebook.db",
        "release_directory": "build/release",
    }
    monkeypatch.setenv("RINGSIDE_COURSE", str(own.root))
    assert directories(own.kit) == directories(own.root) == own.nbgrader_folders
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.setenv("RINGSIDE_COURSE", str(named))
    assert directories(own.kit)["root"] == str(named)
    kits = own.kit / "assignments" / NAME
    assert (named / directories(own.kit)["release_directory"] / NAME).resolve() == kits.resolve()


def test_what_a_course_changes_in_its_settings_counts_in_our_commands_too(own: Course) -> None:
    assert late.policy_of(own).grace_days == 5
    with (own.root / CONFIG).open("a") as file:
        file.write("c.LatePenalty.grace_days = 3\n")
    assert late.policy_of(own).grace_days == 3


def nbgrader(folder: Path, settings: Path, *words: str) -> str:
    """One of nbgrader's commands, as it is typed."""
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "JUPYTER_CONFIG_DIR": str(settings)}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_nbgraders_own_commands_write_into_the_course_and_not_into_the_kit(
    own: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.stat().st_mtime_ns for path in own.kit.rglob("*")}
    nbgrader(own.root, tmp_path, "generate_assignment", NAME, "--force")
    with database.open_gradebook(own) as book:
        assert [each.name for each in book.assignments] == [NAME]
    monkeypatch.setenv("RINGSIDE_COURSE", str(own.root))
    nbgrader(own.kit, tmp_path, "db", "student", "add", "ada")
    with database.open_gradebook(own) as book:
        assert [each.id for each in book.students] == ["ada"]
    assert {path: path.stat().st_mtime_ns for path in own.kit.rglob("*")} == before


def test_what_is_missing_is_asked_for_in_the_folder_where_nbgrader_finds_the_course(
    own: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(own.root)
    assert cli.main(["report", NAME]) == 2
    said = capsys.readouterr().err
    assert f"run `nbgrader collect {NAME}` in {own.root}" in said
    monkeypatch.setenv("RINGSIDE_COURSE", str(own.root.parent))
    assert cli.main(["report", NAME]) == 2
    said = capsys.readouterr().err
    assert f"run `nbgrader collect {NAME}` in {own.kit}" in said
