"""A file's name for each student, whatever students are called."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

MAX_BYTES = 120


def of(students: Iterable[str]) -> dict[str, str]:
    """A name for each student, readable in any script; no two are the same, on any disk.

    >>> of(["ada", "李明", "a b", "a/b"])
    {'ada': 'ada', '李明': '李明', 'a b': 'a_b-c8687a08', 'a/b': 'a_b-c14cddc0'}
    """
    plain = {student: _plain(student) for student in students}
    counts = Counter(name.casefold() for name in plain.values())
    return {
        student: name
        if counts[name.casefold()] == 1 and len(name.encode()) <= MAX_BYTES
        else f"{_cut(name)}-{hashlib.sha256(student.encode('utf-8', 'replace')).hexdigest()[:8]}"
        for student, name in plain.items()
    }


def _plain(student: str) -> str:
    """Letters and digits of any script, dots, dashes, @; what else stands there becomes `_`."""
    return re.sub(r"[^\w.@-]|^[.-]+", "_", unicodedata.normalize("NFC", student)) or "_"


def _cut(name: str) -> str:
    return name.encode()[:MAX_BYTES].decode("utf-8", "ignore")
