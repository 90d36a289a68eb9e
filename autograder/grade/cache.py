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
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from autograder import storage
from autograder.course import limits
from autograder.course.course import Course
from autograder.digests import kit_digest
from autograder.grade.suite.result import InvalidResult, ModuleResult


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
        # With its length: else other parts could be the same text when they are put together.
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


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

    def get(self, name: str) -> ModuleResult | None:
        """The stored result, or None; a damaged file counts as none."""
        path = self._path(name)
        try:
            result = ModuleResult.from_json(json.loads(path.read_bytes()))
            if not result.error:  # what has one is never stored
                return result
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            pass
        if path not in self.damaged:  # told once, however often it is looked for
            self.damaged.append(path)
        return None

    def when(self, name: str) -> float:
        """When the result was stored, in seconds of the epoch; 0 where there is none."""
        try:
            return self._path(name).stat().st_mtime
        except OSError:
            return 0.0

    def put(self, name: str, result: ModuleResult) -> None:
        """Store `result` so that no reader ever sees a part of it.

        Raises:
            InvalidResult: a fault of ours is no result, and its numbers must be scores.
            StorageError: it can't be written.
        """
        result.check()
        if result.error:
            raise InvalidResult(f"{result.module} was not graded: {result.error[:200]}")
        text = json.dumps(asdict(result), allow_nan=False)
        storage.write(self._path(name), text.encode(), mode=0o600)
