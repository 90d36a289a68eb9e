"""What came of a launch: the record that the ranks left, or what went wrong and whose fault it is.

Ranks leave word in ``.ringside-run`` beside the record: ``started-RANK`` when the student's file
begins, ``failure-RANK.json`` when it fails; a job's number is there in ``job.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside.draw.units import format_bytes, format_time
from ringside.endings import Ended
from ringside.trace import write_atomically

Stamp = tuple[int, int] | None  # when run.json was written, and its number; None: there is none

# 0: done; 1: the student's; everything else is the cluster's or ours, 2.
_EXIT_STATUS = {
    "complete": 0,
    "submitted": 0,
    "wrong values": 1,
    "failed": 1,
    "out of memory": 1,
    "timeout": 1,
}


@dataclass(frozen=True)
class Outcome:
    """How a launch ended: its record, or what went wrong and whose fault it is.

    ``status`` is one of the words in `_EXIT_STATUS`.
    """

    status: str
    message: str
    record: Mapping[str, Any] | None = None
    job_id: str | None = None

    @property
    def exit_status(self) -> int:
        return _EXIT_STATUS.get(self.status, 2)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "status": self.status,
            "message": self.message,
            "job_id": self.job_id,
            "run": self.record,
        }

    def text(self) -> str:
        """For people: the measurements, or what went wrong."""
        if self.record is None:
            return f"{self.status}: {self.message}"
        record = self.record
        hosts = ", ".join(dict.fromkeys(record["hosts"]))
        lines = [f"{record['target']} on {record['world_size']} ranks of {hosts}"]
        for entry in record["measurements"]:
            lines.append(
                f"  n = {entry['n']:>9,}  {format_bytes(entry['nbytes']):>9}  "
                f"{format_time(entry['median_s']):>9}  values {entry['values']}"
            )
        return "\n".join([*lines, f"{self.status}: {self.message}"])


@dataclass(frozen=True)
class Submitted:
    """A job that was submitted from a folder, to be followed now or later."""

    job_id: str
    before: Stamp

    def save(self, out: Path) -> None:
        content = {"job_id": self.job_id, "before": self.before}
        write_atomically(scratch(out) / "job.json", json.dumps(content).encode())

    @classmethod
    def load(cls, out: Path) -> Submitted | None:
        """The last job of a folder; None: there is none."""
        try:
            content = json.loads((scratch(out) / "job.json").read_text())
            before = content["before"]
            return cls(content["job_id"], None if before is None else (before[0], before[1]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def scratch(out: Path) -> Path:
    """The folder in which the ranks of a running launch leave word."""
    return out.resolve() / ".ringside-run"


def stamp(out: Path) -> Stamp:
    """What tells one run.json from another."""
    try:
        status = (out / "run.json").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def here(out: Path, before: Stamp, meaning: str) -> Outcome:
    """The outcome of ranks on this machine; ``meaning`` says what is known beside their word."""
    known = _of_ranks(out, before, None)
    if known is not None:
        return known
    return Outcome("not run", meaning or _SILENT)


def of_job(out: Path, before: Stamp, ended: Ended) -> Outcome:
    """The outcome of a job."""
    if ended.end not in ("node failure", "preempted"):
        # There ranks fail too, since others vanish; that is not what the student must hear.
        known = _of_ranks(out, before, ended.job_id)
        if known is not None:
            return known
    elif _written_since(out, before):
        return _of_record(out, ended.job_id)
    began = any(scratch(out).glob("started-*"))
    status = {
        "done": "not run",
        "failed": "failed" if began else "not run",
        "out of memory": "out of memory" if began else "not run",
        "timeout": "timeout" if began else "not run",
    }.get(ended.end, ended.end)
    return Outcome(status, ended.meaning or _SILENT, None, ended.job_id)


_SILENT = "the ranks ended without a word; the lines above may say why."


def _of_ranks(out: Path, before: Stamp, job_id: str | None) -> Outcome | None:
    """What the ranks themselves left: a record or a failure; None: neither."""
    failures = sorted(scratch(out).glob("failure-*.json"), key=_rank)
    if _written_since(out, before):
        # A job that was started again may have left failures before it came to its end.
        written_ns = (out / "run.json").stat().st_mtime_ns
        if all(path.stat().st_mtime_ns < written_ns for path in failures):
            return _of_record(out, job_id)
    if failures:
        first = json.loads(failures[0].read_text())
        ours = first["kind"] in ("size", "asked")
        return Outcome("not run" if ours else "failed", first["message"], None, job_id)
    return None


def _rank(path: Path) -> int:
    match = re.search(r"-(\d+)", path.name)
    return int(match[1]) if match else 0


def _written_since(out: Path, before: Stamp) -> bool:
    return stamp(out) not in (None, before)


def _of_record(out: Path, job_id: str | None) -> Outcome:
    record = json.loads((out / "run.json").read_text())
    wrong = [entry["n"] for entry in record["measurements"] if entry["values"] == "wrong"]
    if wrong:
        message = (
            f"the values are wrong at n = {', '.join(map(str, wrong))}; `ringside check` says more."
        )
        return Outcome("wrong values", message, record, job_id)
    message = f"{out / 'run.json'} and run.trace.gz are written; hand them in."
    return Outcome("complete", message, record, job_id)
