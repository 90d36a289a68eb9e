"""Downloads of Canvas, Moodle and Gradescope, as they come: who, which files, when."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autograder import file_names
from autograder.collect.submissions import PathError
from autograder.commands import cli
from autograder.course import database, late, nbgrader_steps, receipt
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import class_grading
from autograder.grade.cluster import task as array_task
from autograder.grade.cluster.task import TaskOptions
from autograder.gradebook.nbgrader import csv_export
from autograder.platforms.gradescope import metadata as gradescope_metadata
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import NAME, solved

Files = Mapping[str, bytes]


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)


def packed(**modules: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in modules.items():
            archive.writestr(f"{name}.py", text)
    return stream.getvalue()


def source(name: str) -> bytes:
    return solved(name).split("\n", 1)[1].encode()


ONE, TWO, HALF = (
    packed(one=source("one").decode()),
    packed(two=source("two").decode()),
    packed(one="half"),
)


def as_folder(place: Path, files: Files) -> Path:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


def as_zip(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def grade(tmp_path: Path, *words: object) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out.json"
    status = cli.main(["grade", NAME, *map(str, words), "--json", str(out)])
    return status, {each["student"]: each for each in json.loads(out.read_text())["submissions"]}


def scores(report: dict[str, Any]) -> dict[str, float]:
    return {student: each["score"] for student, each in report.items()}


CANVAS: Files = {
    "adeyemiada_1023_9001_a99.zip": HALF,
    "adeyemiada_1023_9044_a99-1.zip": ONE,
    "barthabela_LATE_1024_9002_two-2.py": source("two"),
    "barthabela_LATE_1024_9003_one.py": source("one"),
    "李明_1025_9005_a99.zip": TWO,
    "adeyemiada_1026_9006_x_55123_assignsubmission_file_1_2_y.zip": TWO,  # another Ada
    ".DS_Store": b"",
}
CANVAS_SCORES = {"1023": 30, "1024": 90, "1025": 60, "1026": 60}
CANVAS_ROSTER = """Student,ID,SIS User ID,SIS Login ID,Section,A toy (4711)
    Points Possible,,,,,90
"Adeyemi, Ada",1023,u77,ada,1,
"Bartha, Bela",1024,u78,bela,1,
李明,1025,,,1,
"Adeyemi, Ada",1026,,ada2,1,
"""


def test_canvas_download_is_taken_as_it_comes_and_its_ids_match_the_roster(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = as_folder(tmp_path / "submissions", CANVAS)
    status, report = grade(tmp_path, folder, "--feedback", tmp_path / "pages")
    assert (status, scores(report)) == (0, CANVAS_SCORES)
    assert report["1023"]["name"] == "adeyemiada"
    assert report["1023"]["notes"] == ["a99-1.zip counts, the newest of 2; not a99.zip."]
    told = capsys.readouterr()
    assert "A download from Canvas: 4 students." in told.err
    assert "1023 (adeyemiada): a99-1.zip counts" in told.err
    assert "marks as late, and doesn't say by how much: 1024 (barthabela). Nothing" in told.err
    assert "1025 (李明)" in told.out
    assert sorted(p.stem for p in (tmp_path / "pages").iterdir()) == sorted(CANVAS_SCORES)
    assert "a99-1.zip counts, the newest of 2" in (tmp_path / "pages" / "1023.html").read_text()
    assert receipt.received(course, NAME) == {}

    status, report = grade(tmp_path, as_zip(tmp_path / "submissions.zip", CANVAS))
    assert (status, scores(report)) == (0, CANVAS_SCORES)
    roster, out = tmp_path / "canvas.csv", tmp_path / "grades.csv"
    roster.write_text(CANVAS_ROSTER)
    words = ["export", NAME, str(folder), "--to", "canvas", "--roster", str(roster)]
    assert cli.main([*words, "--out", str(out)]) == 0
    with out.open(newline="") as stream:
        assert [(row[1], row[-1]) for row in list(csv.reader(stream))[2:]] == [
            ("1023", "30.0"), ("1024", "90.0"), ("1025", "60.0"), ("1026", "60.0"),
        ]  # fmt: skip
    assert cli.main(["report", NAME, str(tmp_path / "submissions.zip")]) == 0
    assert "1024 (barthabela)" in capsys.readouterr().out


def times(path: Path, *pages: list[dict[str, Any]]) -> Path:
    """A file of Canvas's list of submissions, a page after the other as curl leaves them."""
    path.write_text("\n".join(json.dumps(page) for page in pages))
    return path


def handed(user: int, at: str | None, name: str = "", **more: Any) -> dict[str, Any]:
    """A submission as Canvas's API writes it."""
    person = {"id": user, "name": "?", "sortable_name": name, "login_id": f"login{user}"}
    entry = {"id": 90 + user, "user_id": user, "assignment_id": 4711, "submitted_at": at}
    return entry | {"attempt": 1, "workflow_state": "submitted", "user": person} | more


ALL_HANDED = [
    handed(1023, "2030-01-01T13:00:00Z", "Adeyemi, Ada Grace"),
    handed(1024, "2030-01-04T10:00:00+01:00", "Bartha, Bela"),
    handed(1025, "2030-01-01T10:00:00Z", "李明"),
    handed(1026, "2030-01-01T11:00:00Z", "Adeyemi, Ada"),
    handed(1027, None, "Nobody, Ned"),
]


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_canvas_own_list_gives_the_times_and_the_names(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = as_folder(tmp_path / "submissions", CANVAS)
    path = times(tmp_path / "times.json", ALL_HANDED[:2], ALL_HANDED[2:])
    assert cli.main(["collect", NAME, str(folder), "--times", str(path)]) == 0
    told = capsys.readouterr().err
    assert f"{path} says when 4 of them handed in." in told and "marks as late" not in told
    assert late.seconds_late(course, NAME) == {
        "1023": 3600, "1024": 69 * 3600, "1025": 0, "1026": 0,
    }  # fmt: skip
    nbgrader_steps.autograde(course, NAME)
    course.settings.write_text(f"[weights]\n{NAME} = 1\n[due]\n{NAME} = 2020-01-01T12:00:00Z\n")
    assert cli.main(["total", "--csv", str(tmp_path / "total.csv")]) == 0
    with (tmp_path / "total.csv").open(newline="") as stream:
        rows = {row["student"]: row for row in csv.DictReader(stream)}
    assert {who: (row["last_name"], row["first_name"]) for who, row in rows.items()} == {
        "1023": ("Adeyemi", "Ada Grace"), "1024": ("Bartha", "Bela"), "1025": ("李明", ""),
        "1026": ("Adeyemi", "Ada"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("<html>Log in", r"times\.json is no JSON, as Canvas's API writes it: .* Open /api/v1"),
        ("", r"times\.json is empty\. Open /api/v1/courses"),
        ('{"errors": [{"message": "not authorized"}]}', r"an error of Canvas's .*not authorized"),
        ('{"id": 3}', r"times\.json holds no list of submissions"),
        ('[{"id": 3}]', r"times\.json, submission 1 has no user_id and submitted_at"),
        ([handed(1023, "yesterday")], r"\(user 1023\): submitted_at is 'yesterday', no time like"),
        ([handed(1023, "2030-01-01T13:00:00")], r"of which zone\? --timezone names it"),
        ([handed(1, None), handed(2, None, assignment_id=8)], r"the assignments 4711 and 8: keep"),
        (
            ALL_HANDED[:1],
            r"no time for 1026 \(adeyemiada\), 1024 \(barthabela\), 1025 .* Get all pages",
        ),
    ],
)
def test_a_list_of_times_that_does_not_fit_is_refused_and_nothing_is_taken(
    course: Course, tmp_path: Path, content: str | list[dict[str, Any]], match: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "times.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    folder = as_folder(tmp_path / "submissions", CANVAS)
    assert cli.main(["collect", NAME, str(folder), "--times", str(path)]) == 2
    assert re.search(match, capsys.readouterr().err)
    assert not (course.build / "submitted").exists()


def test_a_time_without_files_is_said_and_a_zone_can_be_named(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = as_folder(tmp_path / "submissions", CANVAS)
    more = [handed(1023, "2030-01-01T14:30:00"), *ALL_HANDED[1:4], handed(1029, "2030-01-01T00Z")]
    path = times(tmp_path / "times.json", more)
    words = ["collect", NAME, str(folder), "--times", str(path), *ZONE]
    assert cli.main(words) == 0
    assert "nothing of theirs is in the download: 1029" in capsys.readouterr().err
    assert late.seconds_late(course, NAME)["1023"] == 5400
    moodle = as_folder(tmp_path / "moodle", MOODLE)
    assert cli.main(["collect", NAME, str(moodle), "--times", str(path), *ZONE]) == 2
    assert "is for a download of Canvas, and this is none" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["collect", NAME, str(folder), "--timezone", "Mars/Olympus"])
    assert "'Mars/Olympus' is no time zone" in capsys.readouterr().err


MOODLE: Files = {
    "Ada Adeyemi_55123_assignsubmission_file_/a99.zip": ONE,
    "Zoë von der Au_55124_assignsubmission_file_/one.py": source("one"),
    "Zoë von der Au_55124_assignsubmission_file_/more/notes.txt": b"mine",
    "李明_55125_assignsubmission_file_/two.py": source("two"),
    "李明_55126_assignsubmission_file_/two.py": b"half",
    "李明_55126_assignsubmission_onlinetext_/onlinetext.html": b"<p>Hello",
}
FLAT: Files = {
    "Ada Adeyemi_55123_assignsubmission_file_a99.zip": ONE,
    "Zoë von der Au_55124_assignsubmission_file_one.py": source("one"),
    "李明_55125_assignsubmission_file_two.py": source("two"),
    "李明_55126_assignsubmission_file_two.py": b"half",
}
MOODLE_SCORES = {"55123": 30, "55124": 30, "55125": 60, "55126": 18}
WORKSHEET = """Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission),Last modified (grade),Feedback comments
Participant 55123,Ada Adeyemi,Ada@uni.example,Submitted,,95.00,"Tuesday, 1 January 2030, 12:59 PM",-,
Participant 55124,Zoë von der Au,zoe@uni.example,Submitted,,95.00,"Friday, 4 January 2030, 9:05 AM",-,
Participant 55125,李明,liming@uni.example,Submitted,,95.00,"Tuesday, 1 January 2030, 10:00",-,
Participant 55126,李明,,Submitted,,95.00,-,-,
Participant 55127,Nobody,nobody@uni.example,No submission,,95.00,-,-,
"""  # noqa: E501
ZONE = ("--timezone", "Europe/Berlin")


def test_moodles_download_is_taken_as_it_comes_with_and_without_folders(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given in (
        as_folder(tmp_path / "download", MOODLE),
        as_folder(tmp_path / NAME, FLAT),
        as_zip(tmp_path / "moodle.zip", MOODLE),
        as_zip(tmp_path / "flat.zip", FLAT),
    ):
        status, report = grade(tmp_path, given)
        assert (status, scores(report)) == (0, MOODLE_SCORES), given
        assert report["55124"]["name"] == "Zoë von der Au"
        assert "It doesn't say when they handed in: --roster FILE" in capsys.readouterr().err


def test_moodles_worksheet_says_who_they_are_and_when_they_handed_in(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, sheet = as_zip(tmp_path / "moodle.zip", MOODLE), tmp_path / "worksheet.csv"
    sheet.write_text(WORKSHEET)
    status, report = grade(tmp_path, given, "--roster", sheet, *ZONE)
    assert status == 0
    assert scores(report) == {
        "ada@uni.example": 30, "zoe@uni.example": 30, "liming@uni.example": 60, "55126": 18,
    }  # fmt: skip
    told = capsys.readouterr().err
    assert f"{sheet} says when 3 of them handed in. Its times are taken as Europe/Berlin's" in told
    # due at 12:00 UTC, which is 13:00 in Berlin
    assert report["ada@uni.example"]["late_seconds"] == 0
    assert report["zoe@uni.example"]["late_seconds"] == 3 * 86_400 - 4 * 3600 + 5 * 60
    assert receipt.received(course, NAME)["zoe@uni.example"].isoformat() == (
        "2030-01-04T08:05:00+00:00"
    )
    assert late.of_assignment(course, NAME)["zoe@uni.example"].days == 3

    out = tmp_path / "marks.csv"
    words = ["export", NAME, str(given), "--to", "moodle", "--roster", str(sheet), *ZONE]
    assert cli.main([*words, "--raw", "--out", str(out)]) == 0
    with out.open(newline="") as stream:
        assert [row["Grade"] for row in csv.DictReader(stream)] == [
            "30.0",
            "30.0",
            "60.0",
            "18.0",
            "",
        ]

    beside = as_folder(tmp_path / "unpacked", {**MOODLE, "Grades-toy.csv": WORKSHEET.encode()})
    assert scores(grade(tmp_path, beside, *ZONE)[1]) == scores(report)
    sheet.write_text("\n".join(WORKSHEET.splitlines()[:3]))
    assert cli.main(["grade", NAME, str(given), "--roster", str(sheet)]) == 2
    assert "has no participant 55125, 55126, who is in" in capsys.readouterr().err
    sheet.write_text(WORKSHEET.replace("Friday, 4 January 2030, 9:05 AM", "Freitag, 4. Januar"))
    assert cli.main(["grade", NAME, str(given), "--roster", str(sheet)]) == 2
    assert f"{sheet}, line 3: 'Last modified (submission)' is 'Freitag" in capsys.readouterr().err
    sheet.write_text("student,received\nada,2030-01-01\n")
    assert cli.main(["grade", NAME, str(given), "--roster", str(sheet)]) == 2
    assert "is not Moodle's grading worksheet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["grade", NAME, str(given), "--timezone", "Berlin"])
    assert "'Berlin' is no time zone like Europe/Berlin" in capsys.readouterr().err


METADATA = """---
submission_4711:
  :submitters:
  - :name: Ada Adeyemi
    :sid: '0077'
    :email: Ada@uni.example
  :created_at: 2030-01-01 11:00:00.123456789 Z
  :score: 1.0
  :results: {output: "submission_99:\\n  :submitters: []"}
submission_4712:
  :submitters:
  - :name: 李明
    :sid:
    :email: liming@uni.example
  - :name: 李明
    :sid: 0078
    :email: other@uni.example
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: 2030-01-02 11:00:00 Z
    zone: x
submission_4713:
  :submitters:
  - :name: Ada Adeyemi
    :sid: '0077'
    :email: ada@uni.example
  :created_at: 2030-01-01 13:30:00 +0100
"""
GRADESCOPE: Files = {
    "submission_metadata.yml": METADATA.encode(),
    "submission_4711/one.py": b"half",
    "submission_4712/two.py": source("two"),
    "submission_4712/submission_metadata.yml": b"submission_4711: {}",  # a student's file
    "submission_4713/mine.zip": ONE,
}
GRADESCOPE_SCORES = {"0077": 30, "liming@uni.example": 60, "0078": 60}


def test_gradescopes_export_is_taken_as_it_comes_with_groups_and_times(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = as_folder(tmp_path / "assignment_5_export", GRADESCOPE)
    around = {f"assignment_5_export/{name}": content for name, content in GRADESCOPE.items()}
    for given in (folder, as_zip(tmp_path / "export.zip", around)):
        status, report = grade(tmp_path, given)
        assert (status, scores(report)) == (0, GRADESCOPE_SCORES)
        told = capsys.readouterr().err
        assert "submission_metadata.yml says when 3 of them handed in." in told
        assert "submission_4713 counts, the newest of 2; not submission_4711." in told
        assert report["0077"]["late_seconds"] == 30 * 60
        assert report["0078"]["late_seconds"] == 23 * 3600
    roster, out = tmp_path / "canvas.csv", tmp_path / "grades.csv"
    roster.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,A toy (4711)\n"
        '"Adeyemi, Ada",1,0077,x,1,\n李明,2,u3,LIMING@uni.example,1,\n李明,3,0078,y,1,\n'
    )
    words = ["export", NAME, str(folder), "--to", "canvas", "--roster", str(roster), "--raw"]
    cli.main([*words, "--out", str(out)])
    with out.open(newline="") as stream:
        assert [row[-1] for row in list(csv.reader(stream))[2:]] == ["30.0", "60.0", "60.0"]

    (folder / "submission_4799").mkdir()
    assert cli.main(["grade", NAME, str(folder)]) == 2
    assert "doesn't say whose these are: submission_4799." in capsys.readouterr().err
    (folder / "submission_metadata.yml").unlink()
    assert cli.main(["grade", NAME, str(folder)]) == 2
    assert "submission_metadata.yml, which says who handed in what" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"\xff\xfe\x00", "can't be read"),
        (b"a: [", "can't be read"),
        (b"- a", "holds no list"),
        (b"submission_1: {}", "submission_1: it names no submitter"),
        (b"submission_1: {':submitters': [{':sid': a}], ':created_at': soon}", "'soon'"),
    ],
)
def test_metadata_that_is_none_is_told_and_makes_no_object(text: bytes, match: str) -> None:
    with pytest.raises(PathError, match=match):
        gradescope_metadata.of_text(text, "x.yml")
    evil = b"!!python/object/apply:os.system ['false']"
    with pytest.raises(PathError, match="holds no list"):
        gradescope_metadata.of_text(evil, "x.yml")


def test_a_mix_is_refused_and_the_odd_names_are_told(
    plan: Assignment, course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = as_folder(tmp_path / "submissions", {**CANVAS, "bob.zip": ONE, "one.py": b"x"})
    assert cli.main(["grade", NAME, str(folder)]) == 2
    told = capsys.readouterr().err
    assert (
        f"{folder} is a mix: 6 of its 8 names are as Canvas gives them. These aren't: bob" in told
    )
    mixed = as_folder(tmp_path / "both", {**FLAT, "cy_1_2_a99.zip": ONE})
    assert cli.main(["grade", NAME, str(mixed)]) == 2
    assert (
        "4 of its 5 names are as Moodle gives them. These aren't: cy_1_2" in capsys.readouterr().err
    )
    named = as_folder(tmp_path / "named", {"ada.zip": ONE, "bob.zip": ONE, "cy_1_2_a99.zip": ONE})
    assert cli.main(["grade", NAME, str(named)]) == 2
    assert "These are: cy_1_2_a99.zip." in capsys.readouterr().err
    # one student's modules, and a file of theirs with an odd name
    own = as_folder(
        tmp_path / "own", {"one.py": source("one"), "two.py": b"", "fig_1_2_x.png": b""}
    )
    assert scores(grade(tmp_path, own)[1]) == {"own": 30}


def test_what_lies_in_a_submission_names_no_student(course: Course, tmp_path: Path) -> None:
    posing = as_zip(
        tmp_path / "posing.zip", {"bob_1_2_one.py": source("one"), "eve_3_4_one.py": b""}
    )
    given = as_folder(
        tmp_path / "download",
        {
            "ada_1023_9001_a99.zip": posing.read_bytes(),
            "cy_1024_9001_a99.zip": as_zip(tmp_path / "x.zip", CANVAS).read_bytes(),
        },
    )
    assert set(grade(tmp_path, given)[1]) == {"1023", "1024"}
    one = tmp_path / "named"
    one.mkdir()
    posing.rename(one / "ada.zip")
    as_zip(one / "bob.zip", {"one.py": source("one")})
    assert set(grade(tmp_path, one)[1]) == {"ada", "bob"}
    # a task of an array grades one submission, whatever its files are called
    array = tmp_path / "array"
    array.mkdir()
    tasks = {"assignment": NAME, "submissions": [str(one / "ada.zip")], "tasks": [[0]]}
    (array / "tasks.json").write_text(json.dumps(tasks))
    array_task.run(array, [0], TaskOptions(jobs=1))
    (graded,) = json.loads((array / "records" / "0.json").read_text())["submissions"]
    assert graded["student"] == "ada"


def test_a_hostile_file_in_a_platforms_archive_costs_its_author_alone(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (course.root / "limits.toml").write_text("module_kib = 4\nsubmission_files = 3\n")
    given = as_zip(
        tmp_path / "moodle.zip",
        {
            "A_1_assignsubmission_file_/one.py": source("one"),
            "B_2_assignsubmission_file_/one.py": b"#" * 5000,
            "C_3_assignsubmission_file_/../../one.py": source("one"),
            **{f"D_4_assignsubmission_file_/{k}.txt": b"" for k in range(4)},
            "E_5_assignsubmission_file_/one.py": source("one"),
            "F_6_assignsubmission_file_/one.py": b"/etc/passwd",
        },
    )
    with zipfile.ZipFile(given, "a") as archive:
        link = zipfile.ZipInfo("F_6_assignsubmission_file_/two.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    status, report = grade(tmp_path, given)
    assert status == 2
    assert {student: each["status"] for student, each in report.items()} == {
        "1": "graded", "2": "rejected", "3": "rejected", "4": "rejected", "5": "graded",
        "6": "graded",
    }  # fmt: skip
    assert report["2"]["message"].endswith("one.py is larger than 0.00390625 MiB.")
    assert "is no name of a file in a folder" in report["3"]["message"]
    assert report["4"]["message"] == "The submission holds more than 3 files."
    assert report["6"]["score"] == 0  # a link's target is text here
    unpacked = course.build / "downloads" / NAME
    assert not any(path.is_symlink() for path in unpacked.rglob("*"))
    assert stat.S_IMODE(unpacked.parent.stat().st_mode) == 0o700


def test_a_damaged_member_and_links_in_a_folder_are_told(course: Course, tmp_path: Path) -> None:
    given = as_zip(
        tmp_path / "canvas.zip", {"a_1_2_one.py": source("one"), "b_3_4_one.py": ONE * 9}
    )
    raw = bytearray(given.read_bytes())
    at = raw.index(b"b_3_4_one.py") + len("b_3_4_one.py")
    raw[at : at + 20] = b"x" * 20
    given.write_bytes(raw)
    _, report = grade(tmp_path, given)
    assert report["1"]["score"] == 30
    assert "b_3_4_one.py is damaged in canvas.zip" in report["3"]["message"]
    folder = as_folder(tmp_path / "folder", {"a_1_2_one.py": source("one")})
    (folder / "b_3_4_one.py").symlink_to(folder / "a_1_2_one.py")
    _, report = grade(tmp_path, folder)
    assert report["3"]["status"] == "rejected" and report["1"]["score"] == 30


def test_an_instructors_own_receipt_goes_first_and_that_is_said(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = course.receipts(NAME)
    own.parent.mkdir(parents=True)
    own.write_text("student,received\n0077,2030-01-01T10:00:00+00:00\n")
    given = as_folder(tmp_path / "export", GRADESCOPE)
    assert grade(tmp_path, given)[1]["0077"]["late_seconds"] == 0
    told = capsys.readouterr().err
    assert f"{own} has other times for 0077 (Ada Adeyemi): it goes first." in told
    assert own.read_text() == "student,received\n0077,2030-01-01T10:00:00+00:00\n"
    own.unlink()
    assert grade(tmp_path, given)[1]["0077"]["late_seconds"] == 1800
    # what another download said of others stays; a later one of the same student is taken
    later = METADATA.replace("13:30:00 +0100", "14:30:00 +0100")
    (given / "submission_metadata.yml").write_text(later)
    assert grade(tmp_path, given)[1]["0077"]["late_seconds"] == 5400
    receipt.record(course, NAME, "bob", receipt.received(course, NAME)["0077"])
    assert own.read_text().count("\n") == 2  # not the platform's, too


def test_names_in_any_script_are_pages_of_their_own(course: Course, tmp_path: Path) -> None:
    given = as_folder(
        tmp_path / "class",
        {"李明.zip": ONE, "王芳.zip": ONE, "a b.zip": ONE, "a+b.zip": ONE, "Ada.zip": ONE},
    )
    grade(tmp_path, given, "--feedback", tmp_path / "pages")
    pages = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert len(pages) == 5 and {"李明.html", "王芳.html", "+Ada.html"} <= pages.keys()
    assert "王芳" in pages["王芳.html"]
    long = ["x" * 300, "x" * 299, "ADA", "ada", "..", "\ud800"]
    names = [file_names.of(each) for each in long]
    assert len({name.casefold() for name in names}) == 6 and max(map(len, names)) <= 160


def test_who_has_typed_a_text_or_handed_in_an_empty_folder_is_in_the_table(
    course: Course, tmp_path: Path
) -> None:
    given = as_zip(
        tmp_path / "moodle.zip",
        {
            "Ada_1_assignsubmission_file_/one.py": source("one"),
            "Bo_2_assignsubmission_file_/": b"",
            "Cy_3_assignsubmission_onlinetext_/onlinetext.html": b"I could not upload",
            "Di_4_assignsubmission_file_/.DS_Store": b"",
            "😀_5_assignsubmission_file_/one.py": source("one"),
            "😁_6_assignsubmission_file_/two.py": source("two"),
        },
    )
    status, report = grade(tmp_path, given, "--feedback", tmp_path / "pages")
    assert status == 2 and scores(report) == {"1": 30, "2": 0, "3": 0, "4": 0, "5": 30, "6": 60}
    assert report["3"]["message"] == "A text was typed into Moodle, and no file handed in."
    assert len(list((tmp_path / "pages").iterdir())) == 6


def test_a_member_that_names_its_own_memory_is_read_in_no_process_of_ours(
    course: Course, tmp_path: Path
) -> None:
    given = as_zip(tmp_path / "canvas.zip", {"a_1_2_one.py": source("one")})
    with zipfile.ZipFile(given, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("b_3_4_one.py", source("one"))
    _, report = grade(tmp_path, given)
    assert scores(report) == {"1": 30, "3": 0}
    assert "is packed in a way that no platform uses" in report["3"]["message"]


def test_unpacking_is_done_once_and_a_changed_file_is_seen(course: Course, tmp_path: Path) -> None:
    given = as_folder(tmp_path / "submissions", {"a_1_2_one.py": b"half"})
    assert scores(grade(tmp_path, given)[1]) == {"1": 9}
    grade(tmp_path, given)
    assert len(list((course.build / "downloads" / NAME).iterdir())) == 1
    (given / "a_1_2_one.py").write_bytes(source("one"))
    assert scores(grade(tmp_path, given)[1]) == {"1": 30}


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_collect_puts_a_download_where_nbgrader_looks_and_loses_nothing(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was released by nbgrader: `collect` tells the gradebook of the cells."""
    words = ["collect", NAME, str(as_folder(tmp_path / "export", GRADESCOPE))]
    assert cli.main(words) == 0
    told = capsys.readouterr()
    assert "3 submissions (3 new)." in told.out and "Next: nbgrader autograde" in told.out
    assert "0077: submission_4713 counts, the newest of 2" in told.err
    folder = course.submitted("0077", NAME)
    assert sorted(path.name for path in folder.iterdir()) == [
        "mine.zip", "one.py", "submission_secret.txt",
    ]  # fmt: skip

    nbgrader_steps.autograde(course, NAME)
    with database.open_gradebook(course) as book:
        found = {row["student"]: row for row in csv_export.rows(book, [NAME], [])}
        assert book.find_student("0078").email == "other@uni.example"
    assert {student: row["raw_score"] for student, row in found.items()} == GRADESCOPE_SCORES
    assert (found["0077"]["first_name"], found["0077"]["last_name"]) == ("Ada", "Adeyemi")
    assert found["0077"]["late_seconds"] == 1800

    with database.open_gradebook(course) as book:  # what a person has written is better
        book.update_or_create_student("0077", first_name="Ada", last_name="Adeyemi")
    assert cli.main(words) == 0
    assert "3 submissions (3 as before)." in capsys.readouterr().out
    with database.open_gradebook(course) as book:
        ada = book.find_student("0077")
        assert (ada.first_name, ada.last_name) == ("Ada", "Adeyemi")
    (tmp_path / "export" / "submission_4712" / "two.py").write_bytes(b"half")
    assert cli.main(words) == 0
    assert "(1 as before, 2 replaced)" in capsys.readouterr().out
    assert course.submitted("0078", NAME).joinpath("two.py").read_bytes() == b"half"
    kept = course.build / "replaced" / "0078" / f"{NAME}-1"
    assert (kept / "two.py").read_bytes() == source("two")


def test_gradescopes_groups_are_teams_unless_a_person_says_otherwise(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = as_folder(tmp_path / "export", GRADESCOPE)
    status, report = grade(tmp_path, given)
    assert status == 0 and scores(report) == GRADESCOPE_SCORES
    assert {who: each.get("team", "") for who, each in report.items()} == {
        "0077": "", "liming@uni.example": "submission_4712", "0078": "submission_4712",
    }  # fmt: skip
    path = course.platform_teams(NAME)
    assert path.read_text().splitlines() == [
        "team,student", "submission_4712,liming@uni.example", "submission_4712,0078",
    ]  # fmt: skip
    assert f"names 1 team: kept in {path}. {course.teams(NAME)} goes first." in (
        capsys.readouterr().err
    )
    course.teams(NAME).write_text("team,student\nred,0077\nred,0078\n")
    status, report = grade(tmp_path, given)
    assert {who: each.get("team", "") for who, each in report.items()} == {
        "0077": "red", "liming@uni.example": "", "0078": "red",
    }  # fmt: skip
    assert scores(report) == GRADESCOPE_SCORES | {"0077": 60}  # 0078's is the newest


def test_an_upload_that_brings_a_request_and_nothing_else_keeps_its_time(
    course: Course, tmp_path: Path
) -> None:
    export = {name: content for name, content in GRADESCOPE.items() if "4713" not in name}
    metadata = METADATA.partition("submission_4713:")[0]
    export["submission_metadata.yml"] = metadata.encode()
    assert cli.main(["collect", NAME, str(as_folder(tmp_path / "first", export))]) == 0
    before = receipt.received(course, NAME)
    later = metadata.replace("2030-01-01 11", "2030-01-09 11").replace("01-02 11", "01-09 11")
    export |= {
        "submission_metadata.yml": later.encode(),
        "submission_4711/regrade.txt": b"Look at one.",
        "submission_4712/two.py": b"other",
    }
    assert cli.main(["collect", NAME, str(as_folder(tmp_path / "second", export))]) == 0
    after = receipt.received(course, NAME)
    assert after["0077"] == before["0077"] and after["0078"] > before["0078"]
    assert (course.submitted("0077", NAME) / "regrade.txt").read_bytes() == b"Look at one."
