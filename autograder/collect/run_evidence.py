"""Whether a run.json is more than its author's word: the course's rule, and Slurm's accounting.

    course.toml            the job's record in ``sacct``            the points
    (nothing)              fits the run                             are given
                           says otherwise                           are not given
                           is missing, or of another job            wait for a person
                           nothing answers here                     are given on the student's word
    runs = "accounting"    nothing answers here                     wait for a person
    runs = "word"          is never asked for                       are given on the student's word
    runs = "by hand"       is never asked for                       wait for a person

A record fits if the run's hosts are nodes of the job, its ranks had a core each, and it began and
ended while the job ran. What the run measured stays the student's word.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autograder.collect import accounting
from autograder.collect.accounting import Job, NoAccounting

__all__ = ["Vouched", "vouch"]

CLOCKS_S = 120.0  # by which a node's clock may differ from the accounting's
BY_HAND = "A person looks at the run and gives its points."


@dataclass(frozen=True)
class Vouched:
    """What there is behind a run."""

    by: Literal["accounting", "word", "person", "nobody"]
    says: str  # for the student
    flag: str = ""  # for the instructor


WORD = Vouched("word", "That it ran so is your word: nothing here can vouch for it.")


def vouch(record: Mapping[str, Any], rule: str) -> Vouched:
    """What there is behind a complete record, by the rule of the course."""
    if rule == "by hand":
        return Vouched("person", BY_HAND)
    if rule == "word":
        return WORD
    number = str(record.get("job_id") or "")
    has_number = accounting.NUMBER.fullmatch(number) is not None
    try:
        job = accounting.job(number if has_number else "1")  # any: does somebody answer?
    except NoAccounting:
        reason = f"Slurm's accounting can't be asked here. {BY_HAND}"
        return Vouched("person", reason) if rule == "accounting" else WORD
    if not has_number:
        return Vouched("person", f"It names no job of Slurm's. {BY_HAND}")
    if job is None:
        return Vouched("person", f"Slurm's accounting knows no job {number}. {BY_HAND}")
    return _compared(record, number, job)


def _compared(record: Mapping[str, Any], number: str, job: Job) -> Vouched:
    job_name = f"ringside-{record.get('module')}"
    if job.state != "COMPLETED" or job.name != job_name:
        reason = f"Slurm says that job {number} is called {job.name!r} and ended as {job.state}."
        return Vouched("person", f"{reason} {BY_HAND}", f"run.json: {reason}")
    if differs := _difference(record, job):
        reason = f"Slurm's accounting says otherwise of job {number}: {differs}."
        return Vouched("nobody", reason, f"run.json: {reason}")
    return Vouched(
        "accounting",
        f"Slurm's accounting vouches for job {number}: {job.user} ran it then, on these nodes.",
    )


def _difference(record: Mapping[str, Any], job: Job) -> str:
    """Where a run can't have been in a job; empty if it can."""
    hosts = {str(host).split(".")[0] for host in record["hosts"]}
    nodes = {node.split(".")[0] for node in job.nodes}
    if strange := sorted(hosts - nodes):
        return f"it ran on {_listed(nodes)}, and the run on {_listed(strange)}"
    if record["world_size"] > job.num_cores:
        return f"it had {job.num_cores} cores, and the run {record['world_size']} ranks"
    if job.start_s is None or job.end_s is None:
        return "it has not ended"
    began_s, took_s = _time_s(record.get("started_utc")), record.get("wall_s")
    if not isinstance(took_s, int | float) or isinstance(took_s, bool) or not 0 <= took_s < 1e9:
        took_s = math.nan
    # Comparisons with NaN are false: a time that is missing fits no job.
    fits = began_s >= job.start_s - CLOCKS_S and began_s + took_s <= job.end_s + CLOCKS_S
    if fits:
        return ""
    return (
        f"it ran from {_moment(job.start_s)} to {_moment(job.end_s)}, and the run began at "
        f"{str(record.get('started_utc'))[:32]} and took {took_s:g} s"
    )


def _time_s(text: object) -> float:
    try:
        moment = datetime.datetime.fromisoformat(str(text))
        return moment.timestamp() if moment.tzinfo else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _moment(time_s: float) -> str:
    return datetime.datetime.fromtimestamp(min(time_s, 4e9), datetime.UTC).isoformat("T", "seconds")


def _listed(names: set[str] | list[str], most: int = 4) -> str:
    labels = [name[:64] for name in sorted(names)]
    return (
        ", ".join(labels[:most]) + (", ..." if len(labels) > most else "") if labels else "no node"
    )
