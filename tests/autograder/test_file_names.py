"""A person's file: another one for each person, whoever else is there."""

from __future__ import annotations

import random
import re
import unicodedata

from autograder import file_names

PEOPLE = [
    *("李明", "王芳", "😀", "😁", "सीता", "é", "e\u0301", "ß", "ss", "SS", "Ada", "ADA", "ada"),
    *("", ".", "..", "-x", "a b", "a/b", "a\\b", "a_b", "a=20b", "a+da", "\ud800", "x\0", "aux."),
]
ON_DISK = re.compile(r"[^/\\:*?\"<>|\0\s]+")


def on_any_disk(name: str) -> str:
    """What a disk tells names by that knows neither case nor how a letter is composed."""
    return unicodedata.normalize("NFD", name.casefold())


def test_each_person_has_a_file_of_their_own_on_any_disk() -> None:
    names = [file_names.of(person) for person in PEOPLE]
    assert len({on_any_disk(name) for name in names}) == len(PEOPLE)
    assert all(ON_DISK.fullmatch(name) and name[0] not in ".-" for name in names)


def test_any_name_is_nobody_elses() -> None:
    pick, seen = random.Random(1), dict[str, str]()
    letters = "abABkK \u212a.+=-_/2Féıİß\u0301李😀\ud800"
    for _ in range(3_000):
        person = "".join(pick.choice(letters) for _ in range(pick.randrange(6)))
        name = file_names.of(person)
        assert seen.setdefault(on_any_disk(name), person) == person


def test_a_name_that_is_too_long_is_cut_and_still_its_owners() -> None:
    long = ["x" * 300, "x" * 299, "😀" * 60, "😀" * 61, "A" * 120]
    names = [file_names.of(person) for person in long]
    assert len(set(names)) == 5 and max(len(name.encode()) for name in names) <= 160


def test_who_is_called_like_a_pattern_keeps_a_name_of_their_own_in_nbgraders_tree() -> None:
    people = ["a/b@x", "a*b@x", "a?b@x", "a_b@x", "a=2Fb@x", ".a", "Ada", "李明", "a[1]"]
    names = [file_names.in_tree(person) for person in people]
    assert len(set(names)) == len(people) and names[-3:-1] == ["Ada", "李明"]
    assert not any(set(name) & set("/\\*?[]\0") or name.startswith(".") for name in names)
