"""The job on a cluster that a student hands in: is run.json complete, and of this module?

Who says that it ran so is `run_evidence`'s to find out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.collect.quarantine import Rejected, read_regular
from autograder.collect.run_evidence import vouch
from autograder.course import settings
from autograder.course.assignment import Assignment, RunSpec
from autograder.course.course import Course
from ringside.checking.notebook import module_sha256

MAX_BYTES = 4 << 20
MAX_SECONDS = 1e9  # of a measurement; a whole number may have more digits than any float
FORMAT, VERSION = "ringside-run", 1  # what `ringside launch` writes; tests hold the two together


@dataclass(frozen=True)
class RunCheck:
    """What is right and what isn't about a run; all of it earns the points.

    Attributes:
        waits: all of it is right, and a person is to give the points.
        job: Slurm's number of the job that the record names.
        flag: what the instructor should look at.
    """

    name: str
    module: str
    points: float
    max_points: float
    findings: list[tuple[bool, str]]
    waits: bool = False
    job: str = ""
    flag: str = ""


def of_record(record: Mapping[str, Any]) -> RunCheck:
    """A check that was kept as JSON."""
    findings = [(bool(right), str(sentence)) for right, sentence in record["findings"]]
    return RunCheck(**{**record, "findings": findings})


def check_all(
    plan: Assignment, folder: Path | None, sources: Mapping[str, str], course: Course
) -> list[RunCheck]:
    """Check a submission's runs; `sources` are the modules that were handed in."""
    if not plan.runs:
        return []
    rule = settings.runs(course)
    return [check(run, folder, sources.get(run.module), rule) for run in plan.runs]


def check(run: RunSpec, folder: Path | None, source: str | None, rule: str = "word") -> RunCheck:
    """Check `folder`/run.json against the module's `source` that was handed in.

    No folder means that the submission has none of its own: a notebook among others.

    Args:
        rule: the course's, of who vouches for a run; see `run_evidence`.
    """
    record, why_not = _read(folder)
    if record is None:
        return RunCheck(run.name, run.module, 0.0, run.points, [(False, why_not)])
    findings = [*_complete(record), _belongs(record, run, source)]
    if not all(ok for ok, _ in findings):
        return RunCheck(run.name, run.module, 0.0, run.points, findings)
    behind = vouch(record, rule)
    findings.append((behind.by != "nobody", behind.says))
    return RunCheck(
        run.name,
        run.module,
        run.points if behind.by in ("accounting", "word") else 0.0,
        run.points,
        findings,
        waits=behind.by == "person",
        job=str(record.get("job_id") or "")[:32],
        flag=behind.flag,
    )


def _read(folder: Path | None) -> tuple[dict[str, Any] | None, str]:
    """The record in a folder, or why there is none."""
    path = folder and folder / "run.json"
    if path is None or not path.exists():
        return None, "There is no run.json: `ringside launch` leaves it; hand it in too."
    try:
        record = json.loads(read_regular(path, MAX_BYTES))
    except (Rejected, ValueError, RecursionError) as error:
        return None, f"run.json can't be read: {str(error)[:200]}"
    if not isinstance(record, dict):
        return None, "run.json does not hold a run."
    return record, ""


def _complete(record: dict[str, Any]) -> list[tuple[bool, str]]:
    """Is it a whole run, with right values, on several ranks?"""
    same_format = record.get("format") == FORMAT and record.get("version") == VERSION
    if not same_format:
        return [(False, "It is not the run.json that this version of `ringside launch` leaves.")]
    size, hosts = record.get("world_size"), record.get("hosts")
    placed = (
        isinstance(size, int)
        and isinstance(hosts, list)
        and len(hosts) == size >= 2
        and all(isinstance(host, str) and host for host in hosts)
    )
    rows = record.get("measurements")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    measured = bool(rows) and all(_measured(row) for row in rows)
    right = bool(rows) and all(row.get("values") == "right" for row in rows)
    where = f"{size} ranks on {len(set(hosts))} hosts" if placed and hosts else "2 ranks or more"
    return [
        (placed, f"It ran on {where}." if placed else f"It must say that it ran on {where}."),
        (
            measured,
            f"{len(rows)} lengths are measured." if measured else "Measurements are missing.",
        ),
        (right, "The values were right." if right else "The values were not right at each length."),
    ]


def _measured(row: dict[str, Any]) -> bool:
    times = row.get("times_s")
    return (
        isinstance(row.get("n"), int)
        and isinstance(times, list)
        and bool(times)
        and all(_positive(time_s) for time_s in times)
        and bool(row.get("checksum"))
    )


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < MAX_SECONDS


def _belongs(record: dict[str, Any], run: RunSpec, source: str | None) -> tuple[bool, str]:
    if source is None:
        return False, f"{run.module}.py was not handed in, so the run can't be compared with it."
    same = record.get("module_sha256") == module_sha256(source.encode())
    if same:
        return True, f"It is of the {run.module}.py that was handed in."
    return False, (
        f"It is of another {run.module}.py than was handed in: launch the last one again."
    )
