"""What Slurm's accounting knows of a job: who ran it, where and when (``sacct``).

JobName|State|User|Start|End|NodeList|AllocCPUS
ringside-ring|COMPLETED|ada|1772400000|1772400041|node[01-02]|8
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Job", "NoAccounting", "job", "names_in", "parsed"]

COLUMNS = ("JobName", "State", "User", "Start", "End", "NodeList", "AllocCPUS")
NUMBER = re.compile(r"[1-9]\d{0,9}(_\d{1,7})?")
TIMEOUT_S = 30  # a database that doesn't answer is one that can't vouch
_MOST_NODES = 10_000


class NoAccounting(Exception):
    """Slurm's accounting can't be asked here."""


@dataclass(frozen=True)
class Job:
    """One job, as it was accounted for."""

    name: str
    state: str
    user: str
    start_s: float | None  # seconds of the epoch; None: it has not started, or not ended
    end_s: float | None
    nodes: frozenset[str]
    num_cores: int


@functools.lru_cache(maxsize=4096)  # a submission is read more than once
def job(number: str) -> Job | None:
    """The job of this number; None where the accounting knows none.

    Raises:
        NoAccounting: there is no ``sacct``, or nothing answers it.
        ValueError: it is no job's number.
    """
    if not NUMBER.fullmatch(number):
        raise ValueError(f"{number!r} is no job's number")
    # -a: all users', for the job is a student's. -X: no steps. -n -P: no header, bars between.
    command = ["sacct", "-a", "-X", "-n", "-P", "-j", number, "-o", ",".join(COLUMNS)]
    # Seconds, since names of time zones can't be compared.
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        ended = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAccounting(str(error)) from error
    if ended.returncode:
        raise NoAccounting(" ".join(ended.stderr.split())[:200])
    return parsed(ended.stdout)


def parsed(text: str) -> Job | None:
    """What ``sacct`` printed of one job; the last line is that of its last start.

    Raises:
        NoAccounting: it is something else.
    """
    lines = text.splitlines()
    if not lines:
        return None
    fields = lines[-1].split("|")
    if len(fields) != len(COLUMNS):
        raise NoAccounting(f"sacct printed {lines[-1][:80]!r}")
    name, state, user, start, end, nodes, cores = fields
    return Job(
        name,
        state.split(" ")[0],  # "CANCELLED by 1000"
        user,
        float(start) if start.isdigit() else None,
        float(end) if end.isdigit() else None,
        frozenset(names_in(nodes)),
        int(cores) if cores.isdigit() else 0,
    )


def names_in(nodes: str) -> Iterator[str]:
    """The nodes of a list of Slurm's.

    >>> list(names_in("login,n[1-2,07-08]x,gpu[3]"))
    ['login', 'n1x', 'n2x', 'n07x', 'n08x', 'gpu3']
    """
    waiting = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", nodes)[:_MOST_NODES]
    count = 0
    while waiting and count < _MOST_NODES:
        entry = waiting.pop(0)
        match = re.search(r"\[([^\]]*)\]", entry)
        if match is None:
            count += 1
            yield entry
            continue
        before, after = entry[: match.start()], entry[match.end() :]
        numbers = [number for part in match[1].split(",") for number in _numbers(part)]
        waiting[:0] = [f"{before}{number}{after}" for number in numbers]


def _numbers(part: str) -> list[str]:
    first, dash, last = part.partition("-")
    if not dash or not (first.isdigit() and last.isdigit()):
        return [first]
    stop = min(int(last), int(first) + _MOST_NODES)
    return [f"{number:0{len(first)}d}" for number in range(int(first), stop + 1)]
