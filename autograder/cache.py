"""Graded results, stored under a hash of all that they depend on.

A module's result is a pure function of its source, the suite, the kit and the course's secret.
It is written whole by an atomic rename, so a grader that is killed at any moment and started
again loses nothing that was finished and repeats nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autograder.course import Course

Result = dict[str, Any]

# What a grade depends on, of our own code; under the kit's root.
KIT_CODE = (
    "ringside",
    "autograder/grading.py",
    "autograder/plugin.py",
    "autograder/plausibility.py",
    "autograder/sandbox.py",
    "autograder/sandbox_files.py",
    "autograder/sandbox_process.py",
    "autograder/bubblewrap.py",
    "autograder/watchdog.py",
    "autograder/reality.py",
    "autograder/mpi_driver.py",
    "autograder/mpi_job.py",
    "autograder/gloo_driver.py",
    "autograder/gloo_nursery.py",
    "autograder/mpi_nursery.py",
    "autograder/mpi_stand_in.py",
    "autograder/suite_process.py",
    "autograder/warm_host.py",
    "autograder/warm_sandbox.py",
)


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
        kit_digest(course.kit, assignment).encode(),
    ]
    for name in sorted(sources):
        parts += [name.encode(), sources[name].encode("utf-8", "surrogatepass")]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


@functools.cache
def kit_digest(kit: Path, assignment: str) -> str:
    """A hash of the suite, the oracle, the machines and the code that grades."""
    roots = [kit / name for name in KIT_CODE]
    roots += [kit / "autograder" / "suites" / assignment, kit / "solutions" / assignment]
    roots += [kit / "cluster" / "machines"]
    digest = hashlib.sha256()
    for path in _files(roots):
        content = path.read_bytes()
        name = path.relative_to(kit).as_posix().encode()
        digest.update(len(name).to_bytes(8, "big") + name)
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _files(roots: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for root in roots:
        found += [root] if root.is_file() else root.rglob("*")
    return sorted(path for path in found if path.suffix in (".py", ".toml") and path.is_file())


class Store:
    """A folder of results, one JSON file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"

    def get(self, name: str) -> Result | None:
        """The stored result, or None; a damaged file counts as none."""
        try:
            content = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def put(self, name: str, result: Result) -> None:
        """Store `result` so that no reader ever sees a part of it."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(result, stream, allow_nan=False)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
