"""Slurm as `ringside launch` needs it: submit a script, follow the job, explain how it ended."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ringside.errors import RingsideError
from ringside.jobs.launch import endings, refusals
from ringside.jobs.launch.endings import Ended, Look

GOES_ON = {
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "RESIZING",
    "SIGNALING",
    "SPECIAL_EXIT",
    "STAGE_OUT",
    "STOPPED",
    "SUSPENDED",
}
# After these Slurm may put the job back in the queue, a moment after it said so.
PERHAPS_AGAIN = {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED"}
SLOWEST_S = 5.0  # a queue may be long, and asking Slurm is not free
WORD_S = 1.0  # until what Slurm has decided stands in the log and in its answers
_KEPT = 1_000_000  # characters of a job's log in which its end is looked for


class SlurmError(RingsideError):
    """Slurm refused a command; the message is Slurm's own and, where we know it, a cure.

    ``end`` is the job's end in the words of `ringside.jobs.launch.endings`.
    """

    def __init__(self, message: str, end: str = "no cluster") -> None:
        super().__init__(message)
        self.end = end


def submit(script: Path) -> str:
    """Submit a job script; return the job's id.

    Raises:
        SlurmError: there is no sbatch, or it refused the script.
    """
    try:
        result = ask(["sbatch", "--parsable", script.name], script.parent)
    except FileNotFoundError:
        raise SlurmError(
            "sbatch isn't on this machine: run this on a login node of the cluster, "
            "or try `--site local`, or look at the script with --dry-run."
        ) from None
    if result.returncode:
        message = result.stderr.strip()
        end, cure = refusals.refused(message)
        raise SlurmError(f"sbatch refused the job: {message}\n{cure}".strip(), end)
    return result.stdout.strip().splitlines()[-1].split(";")[0]


def cancel(job_id: str) -> None:
    """Take a job out of the queue."""
    ask(["scancel", job_id])


def goes_on(job_id: str) -> bool:
    """Whether a job waits or runs; False too where Slurm can't be asked."""
    try:
        look = _look(job_id)
    except SlurmError:
        return False
    return isinstance(look, Look) and look.state in GOES_ON


def follow(job_id: str, log: Path, say: Callable[[str], None], interval_s: float = 0.3) -> Ended:
    """Wait until a job has ended, and explain its end.

    A job that Slurm starts again by itself is followed on. One that can never start is
    taken out of the queue.

    Args:
        job_id: Slurm's number.
        log: the file that the job prints to.
        say: gets new lines of the log and changes of the job's state.
        interval_s: seconds between the first two looks; later ones come less often.

    Raises:
        SlurmError: there is no Slurm here.
    """
    tail = _Tail(log, say)
    seen = Look("")
    asked_s, hopeless, silent = interval_s, 0, 0
    while True:
        look = _look(job_id)
        tail.show()
        if isinstance(look, str):  # Slurm doesn't answer; the job isn't concerned
            silent += 1
            if silent == 10:
                say(f"job {job_id}: Slurm doesn't answer ({look}); still asking.")
        elif look is None:
            return _forgotten(job_id, seen, tail.since_start)
        else:
            silent = 0
            # At the first look nothing is news, however often the job has been started before.
            if look.restarts > seen.restarts and seen.state:
                time.sleep(WORD_S)
                tail.show()
                say(f"job {job_id}: {endings.restarted(look, tail.since_start)}")
                tail.start_again()
            if (look.state, look.reason) != (seen.state, seen.reason):
                say(f"job {job_id}: {look.state}{_why(look)}")
                asked_s = interval_s
            seen = look
            if look.state not in GOES_ON and not _starts_again(job_id, look):
                tail.show()
                return endings.ended(job_id, look, tail.since_start)
            verdict = never_starts(look)
            hopeless = hopeless + 1 if verdict else 0
            if verdict and hopeless == 3:  # a reason may be wrong for a moment
                cancel(job_id)
                end, meaning = verdict
                return Ended(job_id, look.state, "", end, f"{meaning} The job is cancelled.")
        time.sleep(asked_s)
        asked_s = min(asked_s * 1.2, SLOWEST_S)


def _starts_again(job_id: str, look: Look) -> bool:
    """Whether Slurm puts a job back in the queue that it has taken off its nodes."""
    if look.state not in PERHAPS_AGAIN:
        return False
    time.sleep(WORD_S)
    later = _look(job_id)
    return isinstance(later, Look) and later.restarts > look.restarts


def _why(look: Look) -> str:
    """Why a job waits, where Slurm says it."""
    if look.state != "PENDING" or look.reason in ("", "None"):
        return f" on {look.nodes}" if look.state == "RUNNING" and look.nodes else ""
    meaning = refusals.waits(look.reason)
    return f" ({look.reason})" if meaning == look.reason else f" ({look.reason}: {meaning})"


def never_starts(look: Look) -> tuple[str, str] | None:
    """The end and its meaning if a waiting job can never start as it was asked for."""
    if look.state != "PENDING":
        return None
    cores: list[int] = []
    if look.reason.startswith(("PartitionNodeLimit", "PartitionConfig")):
        counted = ask(["sinfo", "-h", "-N", "-p", look.partition, "-o", "%c"])  # a node a line
        cores = [int(word) for word in counted.stdout.split() if word.isdigit()]
    return refusals.never_starts(look, cores)


def _look(job_id: str) -> Look | str | None:
    """What Slurm says of a job now; None: it has forgotten it; a text: it doesn't answer."""
    try:
        result = ask(["scontrol", "show", "job", "--oneliner", job_id])
    except FileNotFoundError:
        raise SlurmError("scontrol isn't on this machine: run this on a login node.") from None
    if result.returncode:
        message = result.stderr.strip()
        return None if "Invalid job id" in message else message or "no word"
    return parsed(result.stdout)


def parsed(text: str) -> Look:
    """Read one record of `scontrol show job --oneliner`."""

    def value(key: str) -> str:
        match = re.search(rf"(?:^|\s){key}=(\S*)", text)
        return "" if match is None or match[1] in ("(null)", "N/A") else match[1]

    return Look(
        state=value("JobState"),
        reason=value("Reason"),
        exit_code=value("ExitCode"),
        restarts=int(value("Restarts") or 0),
        nodes=value("NodeList"),
        num_nodes=int(value("NumNodes").split("-")[0] or 0),  # "2-2" while it waits
        time_limit=value("TimeLimit"),
        partition=value("Partition").split(",")[0],
        memory_per_cpu=value("MinMemoryCPU"),
        num_cores=int(value("NumCPUs").split("-")[0] or 0),
    )


def _forgotten(job_id: str, seen: Look, log: str) -> Ended:
    """The end of a job that slurmctld has forgotten: some minutes after it, only sacct knows it."""
    try:
        columns = "State,ExitCode,NodeList,Timelimit"
        result = ask(["sacct", "-X", "-n", "-P", "-j", job_id, "-o", columns])
    except FileNotFoundError:
        result = None
    lines = result.stdout.splitlines() if result and result.returncode == 0 else []
    if lines:
        state, exit_code, nodes, limit = lines[-1].split("|")
        state = state.split()[0]  # "CANCELLED by 1000"
        look = replace(seen, state=state, exit_code=exit_code, nodes=nodes, time_limit=limit)
        if state not in GOES_ON:
            return endings.ended(job_id, look, log)
    meaning = (
        f"Slurm doesn't know job {job_id} (any more), and there is no accounting to ask: "
        "the job's log may say how it ended."
    )
    return Ended(job_id, seen.state or "UNKNOWN", "", "lost", meaning)


def ask(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "SLURM_BITSTR_LEN": "0"},  # numbers of tasks are not abbreviated
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


class _Tail:
    """A growing log: hands on its whole lines, and keeps what was printed since the last start."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.say = say
        self.since_start = ""
        self._read_bytes = 0

    def show(self) -> None:
        try:
            with self.path.open("rb") as file:
                # A job that Slurm starts again appends to its log (--open-mode in the template).
                file.seek(self._read_bytes)
                new = file.read()
        except OSError:
            return  # it is made when the job starts
        whole = new[: new.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        text = whole.decode(errors="replace")
        self.since_start = (self.since_start + text)[-_KEPT:]
        for line in text.splitlines():
            self.say(f"  {line}")

    def start_again(self) -> None:
        self.since_start = ""
