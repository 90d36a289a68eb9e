"""What came of a launch: the record that the ranks left, or what went wrong and whose fault it is.

Ranks leave word in ``.ringside-run`` beside the record: ``started-RANK`` when the student's file
begins, ``failure-RANK.json`` when it fails, ``unfinished`` when they stop to go on later; a job's
number is there in ``job.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside.files import write_atomically
from ringside.jobs.launch import sweep
from ringside.jobs.launch.endings import Ended
from ringside.jobs.real.watch import UNFINISHED
from ringside.units import format_bytes, format_count, format_time

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
        lines = [f"{record['target']} on {format_count(record['world_size'], 'rank')} of {hosts}"]
        for entry in record["measurements"]:
            lines.append(
                f"  n = {entry['n']:>9,}  {format_bytes(entry['nbytes']):>9}  "
                f"{format_time(entry['median_s']):>9}  values {entry['values']}"
            )
        return "\n".join([*lines, f"{self.status}: {self.message}"])


@dataclass(frozen=True)
class Awaited:
    """A launch whose end is waited for, now or by a later command.

    Attributes:
        out: the folder of its record.
        before: the stamp of the run.json that was there already.
        sizes: the numbers of ranks of a sweep; none: no sweep.
        job_id: Slurm's number; None: ranks on this machine.
    """

    out: Path
    before: Stamp
    sizes: tuple[int, ...] = ()
    job_id: str | None = None

    def save(self) -> None:
        content = {"job_id": self.job_id, "before": self.before, "sizes": self.sizes}
        write_atomically(scratch(self.out) / "job.json", json.dumps(content).encode())

    @classmethod
    def load(cls, out: Path) -> Awaited | None:
        """The last job of a folder; None: there is none."""
        try:
            content = json.loads((scratch(out) / "job.json").read_text())
            before, sizes = content["before"], tuple(content["sizes"])
            stamped = None if before is None else (int(before[0]), int(before[1]))
            return cls(out, stamped, sizes, str(content["job_id"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def here(self, meaning: str) -> Outcome:
        """The outcome of ranks on this machine; ``meaning`` says what else is known."""
        return self._of_ranks(meaning) or Outcome("not run", meaning or _SILENT)

    def of_job(self, ended: Ended) -> Outcome:
        """The outcome of a job."""
        # Where a node is gone, the other ranks fail too; that is not what the student must hear.
        fails_by_itself = ended.end not in ("node failure", "preempted")
        outcome = self._of_ranks(ended.meaning) if fails_by_itself or self._written() else None
        if outcome is not None:
            return outcome
        if ended.end in ("failed", "out of memory", "timeout") and self._began():
            return Outcome(ended.end, ended.meaning, None, self.job_id)
        ours = ended.end in ("done", "failed", "out of memory", "timeout")
        return Outcome(
            "not run" if ours else ended.end, ended.meaning or _SILENT, None, self.job_id
        )

    def _of_ranks(self, meaning: str) -> Outcome | None:
        """What the ranks themselves left: a record or a failure; None: neither."""
        failures = self._failures()
        if self._written():
            # A job that was started again may have left failures before it came to its end.
            written_ns = (self.out / "run.json").stat().st_mtime_ns
            if self.sizes:
                failures = failures[:1]
            elif all(path.stat().st_mtime_ns < written_ns for path in failures):
                failures = []
        if failures:
            first = json.loads(failures[0].read_text())
            ours = first["kind"] in ("size", "asked")
            which = f"on {failures[0].parents[1].name} ranks: " if self.sizes else ""
            status = "not run" if ours else "failed"
            message = which + first["message"] + self._other_sizes()
            return Outcome(status, message, None, self.job_id)
        return self._of_record(meaning) if self._written() else None

    def _of_record(self, meaning: str) -> Outcome:
        record = json.loads((self.out / "run.json").read_text())
        of_sizes = sweep.runs(self.out / "sweep") if self.sizes else {}
        records = of_sizes if self.sizes else {0: record}
        wrong = [
            (size, entry["n"])
            for size, run_record in records.items()
            for entry in run_record["measurements"]
            if entry["values"] == "wrong"
        ]
        if wrong:
            lengths = ", ".join(str(n) for n in sorted({n for _, n in wrong}))
            sizes = ", ".join(str(size) for size in sorted({size for size, _ in wrong}))
            where = f" on {sizes} {'rank' if sizes == '1' else 'ranks'}" if self.sizes else ""
            message = f"the values are wrong at n = {lengths}{where}; `ringside check` says more."
            return Outcome("wrong values", message, record, self.job_id)
        missing = [size for size in self.sizes if size not in of_sizes]
        if missing:
            message = (
                f"no record of {', '.join(map(str, missing))} ranks: {meaning or _SILENT} "
                f"{self.out / 'sweep.csv'} has the others."
            )
            return Outcome("failed", message, record, self.job_id)
        if (scratch(self.out) / UNFINISHED).exists():
            message = (
                "its time was over before its work was done. Its checkpoint is there: launch it "
                "again, and it goes on from that (--set max_requeues=N: Slurm does so N times)."
            )
            return Outcome("timeout", message, record, self.job_id)
        written = f"{self.out / 'run.json'} and run.trace.gz are written"
        written += "; hand them in." if record.get("function") else "."  # a script isn't
        if self.sizes:
            written = f"{self.out / 'sweep.csv'} has all times; run.json is of the most ranks."
        return Outcome("complete", written, record, self.job_id)

    def _other_sizes(self) -> str:
        """Of a sweep that has failed at some numbers of ranks: what there is of the others."""
        others = sorted(sweep.runs(self.out / "sweep")) if self.sizes else []
        if not others:
            return ""
        size_text = ", ".join(map(str, others))
        ranks = "rank" if others == [1] else "ranks"
        return f"\n{self.out / 'sweep.csv'} has the times on {size_text} {ranks}."

    def _folders(self) -> list[Path]:
        """Where ranks leave word: of a sweep, those of the fewest ranks first."""
        if not self.sizes:
            return [scratch(self.out)]
        return [scratch(self.out / "sweep" / str(size)) for size in self.sizes]

    def _failures(self) -> list[Path]:
        """What ranks have written of failures: causes before echoes, whichever came first."""
        return [
            path
            for folder in self._folders()
            for path in sorted(folder.glob("failure-*.json"), key=lambda p: (_is_echo(p), _rank(p)))
        ]

    def _began(self) -> bool:
        return any(any(folder.glob("started-*")) for folder in self._folders())

    def _written(self) -> bool:
        return stamp(self.out) not in (None, self.before)


_SILENT = "the ranks ended without a word; the lines above may say why."


def scratch(out: Path) -> Path:
    """The folder in which the ranks of a running launch leave word."""
    return out.resolve() / ".ringside-run"


def stamp(out: Path) -> Stamp:
    """What tells one run.json from another."""
    try:
        status = (out / "run.json").stat()
    except OSError:
        return None
    # The inode too: a new record is renamed into place, perhaps within the clock's grain.
    return status.st_mtime_ns, status.st_ino


def _is_echo(path: Path) -> bool:
    return bool(json.loads(path.read_text()).get("echo"))


def _rank(path: Path) -> int:
    match = re.search(r"-(\d+)", path.name)
    return int(match[1]) if match else 0
