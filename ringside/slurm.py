"""Slurm as `ringside launch` needs it: submit a script, follow the job, explain how it ended."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ringside.errors import RingsideError

_WAITING = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED", "RESIZING"}
_MEANING = {
    "TIMEOUT": "it reached its wall time; --set time=HH:MM:SS asks for more, if it doesn't hang.",
    "OUT_OF_MEMORY": "it used more memory than it asked for: --set memory_per_cpu=4G.",
    "NODE_FAIL": "a node failed; that is the cluster's fault. Launch it again.",
    "BOOT_FAIL": "a node did not start; that is the cluster's fault. Launch it again.",
    "PREEMPTED": "another job took its place; that is no fault of yours. Launch it again.",
    "CANCELLED": "somebody cancelled it (scancel), or its account has no units left.",
}
_REASONS = {
    "AssociationJobLimit": "the account has too many jobs, or few units left: `sshare -U`.",
    "AssocGrpBillingMinutes": "the account has no units left: `sshare -U` shows its use.",
    "InvalidAccount": "the account doesn't exist: --set account=NAME.",
    "PartitionTimeLimit": "the partition allows less time: --set time=HH:MM:SS.",
    "PartitionNodeLimit": "the partition has fewer nodes than asked for.",
    "ReqNodeNotAvail": "the nodes are down or kept free (a maintenance, a reservation).",
}


class SlurmError(RingsideError):
    """Slurm refused a command; the message is Slurm's own and, where we know it, a cure."""


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    job_id: str
    state: str
    meaning: str


def submit(script: Path) -> str:
    """Submit a job script; return the job's id.

    Raises:
        SlurmError: there is no sbatch, or it refused the script.
    """
    try:
        result = subprocess.run(
            ["sbatch", "--parsable", script.name],
            cwd=script.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise SlurmError(
            "sbatch isn't on this machine: run this on a login node of the cluster, "
            "or try `--site local`, or look at the script with --dry-run."
        ) from None
    if result.returncode:
        raise SlurmError(f"sbatch refused the job: {result.stderr.strip()}{_cure(result.stderr)}")
    return result.stdout.strip().split(";")[0]


def _cure(message: str) -> str:
    if "configuration source" in message or "Unable to contact slurm" in message:
        return (
            "\nSlurm's commands are here, but no cluster: run this on a login node, or try "
            "`--site local`, or look at the script with --dry-run."
        )
    if "Invalid account" in message:
        return "\nName yours with --set account=NAME; `sshare -U` lists them."
    if "partition" in message.lower():
        return "\n`sinfo -s` lists the partitions; choose one with --set partition=NAME."
    return ""


def follow(job_id: str, log: Path, say: Callable[[str], None], interval_s: float = 0.3) -> Ended:
    """Wait until a job has ended; hand new lines of its log and changes of its state to ``say``."""
    state = reason = ""
    shown = missing = 0
    while True:
        now = _state(job_id)
        shown = _say_new_lines(log, shown, say)
        if now is None:
            # squeue forgets a job some minutes after its end, and may fail for a moment before.
            missing += 1
            if missing > 5:
                return Ended(job_id, state or "UNKNOWN", _MEANING.get(state, ""))
        elif now != (state, reason):
            missing = 0
            state, reason = now
            say(f"job {job_id}: {state}{_why(reason)}")
        if now is not None and state not in _WAITING:
            shown = _say_new_lines(log, shown, say)
            return Ended(job_id, state, _MEANING.get(state, ""))
        time.sleep(interval_s)
        interval_s = min(interval_s * 1.2, 5.0)  # a queue may be long, and squeue is not free


def _state(job_id: str) -> tuple[str, str] | None:
    result = subprocess.run(
        ["squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T|%r"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    match = re.match(r"(\w+)\|(.*)", result.stdout)
    return (match[1], match[2] if match[1] == "PENDING" else "") if match else None


def _why(reason: str) -> str:
    """Why a job waits, where Slurm says it."""
    if reason in ("", "None"):
        return ""
    return f" ({reason}: {_REASONS.get(reason, 'it waits its turn')})"


def _say_new_lines(log: Path, shown: int, say: Callable[[str], None]) -> int:
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return shown
    complete = text[: text.rfind("\n") + 1].splitlines()
    for line in complete[shown:]:
        say(f"  {line}")
    return max(shown, len(complete))
