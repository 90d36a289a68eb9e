"""Which array of an assignment is waited for: one process waits, and no array is submitted twice.

In the folder ``build/array/<assignment>/``::

    state.json     the array that is waited for: whoever grades next follows it
    lock           held by the process that waits
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.collect.submissions import Submission
from autograder.grade.cluster.grading_array import ArrayError, GradingArray
from ringside.files import write_atomically
from ringside.jobs.launch import slurm, slurm_array


@dataclass(frozen=True)
class EarlierArray:
    """An array of an earlier process that still goes on; `tries` are those of each student."""

    job_name: str
    job_id: str
    folder: Path
    tasks: Sequence[Sequence[int]]
    submissions: Sequence[Submission]
    tries: dict[str, int]


class ArrayState:
    """What one grading leaves to the next, whenever it is killed."""

    def __init__(self, folder: Path, assignment: str) -> None:
        self.folder = folder
        self.assignment = assignment
        self._path = folder / "state.json"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process waits; the lock ends with it, however it ends.

        Raises:
            ArrayError: another one waits already.
        """
        with (self.folder / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArrayError(
                    f"another `autograder grade --executor slurm` waits for {self.assignment} "
                    f"already ({self.folder / 'lock'})."
                ) from None
            except OSError:
                pass  # a file system without locks
            yield

    def note(
        self,
        array: GradingArray,
        job_id: str,
        students: Mapping[str, str],
        tries: Mapping[str, int],
    ) -> None:
        """Keep what is waited for; `students` have the paths of their submissions."""
        content = {
            "folder": array.folder.name,
            "job_name": array.name,
            "job_id": job_id,
            "students": dict(students),
            "tries": dict(tries),
        }
        write_atomically(self._path, json.dumps(content, indent=1).encode())

    def forget(self) -> None:
        """Nothing is waited for any more."""
        self._path.unlink(missing_ok=True)

    def earlier(self) -> EarlierArray | None:
        """The array that an earlier process has left, if it still goes on."""
        try:
            state: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            name, job_id = str(state["job_name"]), str(state["job_id"])
            folder = self.folder / str(state["folder"])
            content = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
            students = {path: student for student, path in state["students"].items()}
            submissions = [
                Submission(students[path], Path(path)) for path in content["submissions"]
            ]
            tries = {str(student): int(count) for student, count in state["tries"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        job_id = job_id or _find(name)
        if not job_id or not slurm_array.goes_on(slurm_array.looks(job_id, name)):
            return None
        return EarlierArray(name, job_id, folder, content["tasks"], submissions, tries)


def _find(job_name: str) -> str:
    """The number of an array that was submitted while its submitter was killed."""
    try:
        answer = slurm.ask(["squeue", "-h", "--name", job_name, "-o", "%F"])
    except FileNotFoundError:
        return ""
    job_ids = answer.stdout.split()
    return job_ids[0] if job_ids else ""
