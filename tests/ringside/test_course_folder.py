"""What other accounts can read of a course's folder: by the rights of all folders above it too."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringside import course_folder
from ringside.course_folder import exposed, others_read
from ringside.jobs.doctor import this_machine as doctor

OTHERS = 12_345  # a group without a name


@pytest.fixture
def course() -> Iterator[Path]:
    """A folder that everybody can reach; a test's own lies below one that is shut."""
    folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir="/var/tmp"))
    for name in ("build/submitted/ada", "solutions"):
        (folder / name).mkdir(parents=True)
    (folder / "course_secret.txt").write_text("hush")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    yield folder
    shutil.rmtree(folder)


def test_a_folder_that_is_shut_hides_what_lies_below_it(course: Path) -> None:
    secret, submitted = course / "course_secret.txt", course / "build" / "submitted"
    secret.chmod(0o644)
    submitted.chmod(0o755)
    assert exposed([secret, submitted]) == []
    course.chmod(0o711)  # names can be guessed
    assert exposed([secret, submitted, course / "none"]) == [secret]
    (course / "build").chmod(0o711)
    assert exposed([secret, submitted]) == [secret, submitted]
    submitted.chmod(0o711)
    assert exposed([submitted]) == [submitted]
    secret.chmod(0o600)
    assert exposed([secret]) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another group needs root")
def test_a_group_counts_unless_it_is_the_owners_own_or_the_folder_was_given_to_it(
    course: Path,
) -> None:
    secret = course / "course_secret.txt"
    course.chmod(0o750)
    secret.chmod(0o640)
    assert exposed([secret]) == []  # the owner's own group
    for path in (course, secret):
        os.chown(path, -1, OTHERS)
    assert exposed([secret]) == [secret]
    course.chmod(0o2750)
    assert exposed([secret]) == []
    course.chmod(0o700)
    assert exposed([secret]) == []


def test_a_sentence_names_what_is_read_and_the_cure(course: Path, tmp_path: Path) -> None:
    assert others_read(course, course) == []
    for path in (course, course / "solutions", course / "build", course / "build" / "submitted"):
        path.chmod(0o755)
    (course / "course_secret.txt").chmod(0o644)
    (said,) = others_read(course, course)
    assert said == (
        f"Other accounts of this machine can read course_secret.txt, solutions, build/submitted "
        f"in {course}. `chmod go-rwx {course}` keeps them out."
    )
    (said,) = others_read(tmp_path, course)
    assert "course_secret.txt, solutions in" in said
    course.chmod(0o700)
    assert others_read(course, course) == []


def test_doctor_says_what_others_read_of_a_course(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(course_folder, "_OF_KIT", ())  # this checkout may be anywhere
    monkeypatch.setenv("RINGSIDE_COURSE", str(course))
    (finding,) = doctor._course()
    assert finding.works and str(course) in finding.detail
    course.chmod(0o755)
    (course / "course_secret.txt").chmod(0o644)
    (finding,) = doctor._course()
    assert not finding.works and not finding.needed
    assert finding.detail.endswith(f"can read course_secret.txt in {course}.")
    assert finding.mend == f"chmod go-rwx {course}"


def test_machines_that_test_and_those_of_one_person_are_left_in_peace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Account:
        def __init__(self, uid: int, shell: str = "/bin/bash") -> None:
            self.pw_uid, self.pw_shell = uid, shell

    accounts = [Account(0), Account(os.getuid()), Account(65_534), Account(1500, "/sbin/nologin")]
    monkeypatch.setattr(course_folder.pwd, "getpwall", lambda: accounts)
    monkeypatch.setattr(course_folder, "_asks_elsewhere", lambda: False)
    monkeypatch.delenv("CI", raising=False)
    assert not course_folder.shared_machine()
    accounts.append(Account(1501))
    assert course_folder.shared_machine()
    monkeypatch.setenv("CI", "true")
    assert not course_folder.shared_machine()
