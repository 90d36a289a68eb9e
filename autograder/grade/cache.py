"""Graded results, stored under a hash of all that they depend on.

A module's result is a pure function of its source, its suite, the kit and the course's secret.
What counts of the kit, and how, stands in ``autograder.digests``: a test that is mended changes the
hash of the modules whose suites import it, and a comment changes none.

A result is written whole by an atomic rename, so a grader that is killed at any moment and
started again loses nothing that was finished and repeats nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder import storage
from autograder.course import limits
from autograder.course.assignment import SUITE_POINTS
from autograder.course.course import Course
from autograder.digests import kit_digest

Result = dict[str, Any]


def key(
    assignment: str,
    module: str,
    sources: Mapping[str, str],
    course: Course,
    *,
    trusted: bool = False,
) -> str:
    """The hash under which the result of `module` is stored; `sources` is all that it sees."""
    digest = hashlib.sha256()
    parts: list[bytes] = [
        assignment.encode(),
        module.encode(),
        course.secret().encode(),
        b"without a sandbox" if trusted else b"",
        kit_digest(course.kit, assignment, module).encode(),
        repr(limits.load(assignment, course)).encode(),
    ]
    for name in sorted(sources):
        parts += [name.encode(), sources[name].encode("utf-8", "surrogatepass")]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def valid(result: object) -> bool:
    """Whether this is a module's result as ``pipeline`` makes it, with numbers that are scores."""
    if not isinstance(result, dict) or result.get("error"):
        return False
    tests = result.get("tests")
    if not isinstance(tests, list) or not _is_number(result.get("score"), SUITE_POINTS):
        return False
    return all(
        isinstance(test, dict)
        and isinstance(test.get("name"), str)
        and _is_number(test.get("points"), SUITE_POINTS)
        and _is_number(test.get("earned"), test["points"])
        for test in tests
    )


def _is_number(value: object, most: float) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return real and -1e-9 <= value <= most + 1e-9  # type: ignore[operator]


class Store:
    """A folder of results, one JSON file each.

    Attributes:
        damaged: files that were no results when they were read; what they were about is graded
            again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[Path] = []

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"

    def get(self, name: str) -> Result | None:
        """The stored result, or None; a damaged file counts as none."""
        path = self._path(name)
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            content = None
        if valid(content):
            return dict(content)
        if path not in self.damaged:  # told once, however often it is looked for
            self.damaged.append(path)
        return None

    def when(self, name: str) -> float:
        """When the result was stored, in seconds of the epoch; 0 where there is none."""
        try:
            return self._path(name).stat().st_mtime
        except OSError:
            return 0.0

    def put(self, name: str, result: Result) -> None:
        """Store `result` so that no reader ever sees a part of it.

        Raises:
            StorageError: it can't be written.
        """
        if not valid(result):
            raise ValueError(f"no result of a module: {str(result)[:200]}")
        text = json.dumps(result, allow_nan=False)
        storage.write(self._path(name), text.encode(), mode=0o600)
