"""How a cluster job can end: what it is called, whose fault it is, what to do about it.

::

    end                 exit status of `ringside launch`
    done                0
    failed              1 if a rank had begun with the student's file, else 2
    out of memory       1 if a rank had begun, else 2
    timeout             1 if a rank had begun, else 2
    node failure        2  the cluster's fault
    preempted           2  nobody's fault
    cancelled           2
    wrong account       2  sbatch refuses it, or it would wait for ever
    wrong partition     2  the same
    impossible          2  no node or partition can ever run it as it was asked for
    lost                2  Slurm has forgotten the job
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a job ended.

    Attributes:
        job_id: Slurm's number.
        state: Slurm's word: COMPLETED, FAILED, TIMEOUT, ...
        exit_code: Slurm's pair "exit status:signal"; empty where it is not known.
        end: one of the words above.
        meaning: what happened and what to do about it; empty where all went well.
    """

    job_id: str
    state: str
    exit_code: str
    end: str
    meaning: str


@dataclass(frozen=True)
class Look:
    """What Slurm says of a job at one moment."""

    state: str
    reason: str = ""
    exit_code: str = ""
    restarts: int = 0
    nodes: str = ""
    num_nodes: int = 0
    time_limit: str = ""
    partition: str = ""
    memory_per_cpu: str = ""
    num_cores: int = 0  # of all nodes together; 0: not known


# What a rank's or a node's end looks like in the log: the first such line is the cause,
# later ones are ranks that were killed because of it.
_TOO_MUCH = re.compile(
    r"exceeded (?:job |step )?memory limit|oom[-_ ]kill|tasks? [\d,-]+: Out Of Memory",
    re.IGNORECASE,
)
# Without control groups that is all that is said of a rank without memory.
_KILLED = re.compile(
    r"tasks? [\d,-]+: Killed|Signal 9 \(SIGKILL\)|EXIT CODE: 9\b|KILLED BY SIGNAL: 9\b"
    r"|exited on signal 9\b"
)
_CRASHED = re.compile(
    r"tasks? (?P<ranks>[\d,-]+): (?P<what>Segmentation fault|Bus error|Aborted|Floating point"
    r" exception|Illegal instruction)"
    r"|KILLED BY SIGNAL: (?P<signal>(?!9\b)\d+)"
    r"|Signal \d+ \((?P<name>SIGSEGV|SIGABRT|SIGBUS|SIGILL|SIGFPE)\)"
    r"|exited on signal \d+ \((?P<string>[^)]+)\)"
)
_LEFT = re.compile(
    r"tasks? (?P<ranks>[\d,-]+): Exited with exit code (?P<code>[1-9]\d*)"
    r"|EXIT CODE: (?P<other>(?!9\b)[1-9]\d*)|failed \(exitcode: (?P<agent>[1-9]\d*)\)"
)
# What a node lacks, as Python, bash, Environment Modules, Lmod and Slurm say it.
_LACKS = (
    (
        r"No module named '?([\w.]+)",
        "the environment on the nodes has no {0}: install it there, or name another environment "
        "with --set environment=FOLDER.",
    ),
    (
        r"module: command not found",
        "the nodes don't know `module`: --set profile=FILE names the file that defines it.",
    ),
    (
        r"(?:module\(s\) are unknown: |Unable to locate a modulefile for )[\"']?([^\s\"']+)",
        "there is no module {0}: `module spider` lists what there is; --set modules=...",
    ),
    (
        r"(?:line \d+: |execve\(\): )(\S+): (?:command not found|No such file)",
        "the nodes don't find {0}: load the module that has it (--set modules=...), or name the "
        "environment that has it (--set environment=FOLDER).",
    ),
    (
        r"Invalid MPI type '(\w+)'",
        "this Slurm knows no --mpi={0}: `srun --mpi=list` shows which; --set launcher=...",
    ),
)
# Slurm writes into the log why it took a job off its nodes.
_TAKEN_OFF = re.compile(r"CANCELLED AT \S+ DUE TO ([A-Z ]+?)(?:,| \*\*\*)", re.IGNORECASE)


def _memory(look: Look, cause: str) -> tuple[str, str]:
    had = f"the {look.memory_per_cpu} a core that" if look.memory_per_cpu else "what"
    meaning = (
        f"{cause} more memory than {had} it asked for. Ask for more with --set "
        "memory_per_cpu=..., or use fewer ranks on a node, or smaller inputs."
    )
    return "out of memory", meaning


def ended(job_id: str, look: Look, log: str) -> Ended:
    """Explain the end of a job.

    Args:
        job_id: Slurm's number.
        look: what Slurm says of the job now.
        log: what the job has printed since it last started.
    """
    end, meaning = _explain(look, log)
    return Ended(job_id, look.state, look.exit_code, end, meaning)


def _explain(look: Look, log: str) -> tuple[str, str]:
    where = f" ({look.nodes})" if look.nodes else ""
    if look.state == "COMPLETED":
        return "done", ""
    if look.state == "OUT_OF_MEMORY":
        return _memory(look, "it used")
    if look.state in ("TIMEOUT", "DEADLINE"):
        limit = f" of {look.time_limit}" if look.time_limit else ""
        meaning = (
            f"it reached its wall time{limit}. `ringside run` shows whether it hangs; if it only "
            "needs longer, --set time=HH:MM:SS asks for more."
        )
        return "timeout", meaning
    if look.state in ("NODE_FAIL", "BOOT_FAIL"):
        meaning = f"one of its nodes{where} failed; that is the cluster's fault. Launch it again."
        return "node failure", meaning
    if look.state == "PREEMPTED":
        meaning = (
            f"another job took its nodes: partition {look.partition or 'of this job'} lets jobs "
            "with precedence go first. That is no fault of yours: launch it again."
        )
        return "preempted", meaning
    if look.state == "CANCELLED":
        meaning = (
            "somebody cancelled it (scancel). If that wasn't you, look whether the account has "
            "units left (`sshare -U`), and ask the cluster's people."
        )
        return "cancelled", meaning
    return _explain_failure(look, log)


def _explain_failure(look: Look, log: str) -> tuple[str, str]:
    for line in log.splitlines():
        for pattern, meaning in _LACKS:
            if lacks := re.search(pattern, line):
                return "failed", meaning.format(*lacks.groups())
        if _TOO_MUCH.search(line):
            return _memory(look, "it used")
        if _KILLED.search(line):
            return _memory(look, "a rank was killed (signal 9): most likely it used")
        if crashed := _CRASHED.search(line):
            what = (
                crashed["what"]
                or crashed["name"]
                or crashed["string"]
                or f"signal {crashed['signal']}"
            )
            who = _ranks(crashed["ranks"])
            return "failed", f"{who} crashed ({what}) below Python, so there is no line to show."
        if match := _LEFT.search(line):
            code = match["code"] or match["other"] or match["agent"]
            meaning = (
                f"{_ranks(match['ranks'])} ended with exit status {code} and left no word; the "
                "lines above may say why."
            )
            return "failed", meaning
    status, _, signal = look.exit_code.partition(":")
    # A shell reports a child that signal n has killed as exit status 128 + n.
    if "9" in (signal, str(int(status) - 128) if status.isdigit() else ""):
        # Without control groups Slurm kills what is over its memory, and says no more.
        return _memory(look, "it was killed by signal 9: most likely it used")
    if look.reason == "JobLaunchFailure":
        meaning = "a node could not start it; that is the cluster's fault. Launch it again."
        return "node failure", meaning
    how = f"signal {signal}" if signal not in ("", "0") else f"exit status {status or 'unknown'}"
    meaning = (
        f"the job's script ended with {how} ({look.state}) and no rank said why; the lines above "
        "may say more."
    )
    return "failed", meaning


def _ranks(numbers: str | None) -> str:
    if not numbers:
        return "a rank"
    return f"rank {numbers}" if numbers.isdigit() else f"ranks {numbers}"


_TAKEN = {
    "NODE FAILURE": "a node failed, which is the cluster's fault",
    "PREEMPTION": "a job with precedence took its nodes",
    "TIME LIMIT": "its wall time was over",
}


def restarted(look: Look, log: str) -> str:
    """What to say of a job that Slurm starts again by itself.

    Args:
        look: what Slurm says of the job now.
        log: what the job printed before.
    """
    # Slurm writes JOB REQUEUE for each of them, before or after the cause, or in its place.
    causes = [_TAKEN[word.upper()] for word in _TAKEN_OFF.findall(log) if word.upper() in _TAKEN]
    cause = causes[-1] if causes else ""
    return (
        f"goes back to the queue{': ' + cause if cause else ''}. Slurm starts it again by itself "
        f"(start {look.restarts + 1})."
    )
