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
    account: str = ""


# What a rank's or a node's end looks like in the log: the first such line is the cause,
# later ones are ranks that were killed because of it.
_KILLED = re.compile(
    r"exceeded (?:job |step )?memory limit|oom[-_ ]kill"
    r"|tasks? [\d,-]+: (?:Out Of Memory|Killed)|SIGKILL|EXIT CODE: 9\b|KILLED BY SIGNAL: 9\b",
    re.IGNORECASE,
)
_CRASHED = re.compile(
    r"tasks? (?P<ranks>[\d,-]+): (?P<what>Segmentation fault|Bus error|Aborted|Floating point"
    r" exception|Illegal instruction)"
    r"|KILLED BY SIGNAL: (?P<signal>(?!9\b)\d+)|(?P<name>SIGSEGV|SIGABRT|SIGBUS|SIGILL|SIGFPE)"
)
_LEFT = re.compile(
    r"tasks? (?P<ranks>[\d,-]+): Exited with exit code (?P<code>[1-9]\d*)"
    r"|EXIT CODE: (?P<other>(?!9\b)[1-9]\d*)"
)
# Slurm writes into the log why it took a job off its nodes.
_TAKEN_OFF = re.compile(r"CANCELLED AT \S+ DUE TO ([A-Z ]+?)(?:,| \*\*\*)", re.IGNORECASE)

_MEMORY = (
    "it used more memory than it asked for. Ask for more (--set memory_per_cpu=...; "
    "`ringside launch --variables` shows the value now), or use fewer ranks on a node, or smaller "
    "inputs."
)


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
        return "out of memory", _MEMORY
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
        if _KILLED.search(line):
            return "out of memory", f"a rank was killed: most likely {_MEMORY}"
        if crashed := _CRASHED.search(line):
            what = crashed["what"] or crashed["name"] or f"signal {crashed['signal']}"
            who = _ranks(crashed["ranks"])
            return "failed", f"{who} crashed ({what}) below Python, so there is no line to show."
        if left := _LEFT.search(line):
            code = left["code"] or left["other"]
            meaning = (
                f"{_ranks(left['ranks'])} ended with exit status {code} and without an exception; "
                "the lines above may say why."
            )
            return "failed", meaning
    status, _, signal = look.exit_code.partition(":")
    if "9" in (signal, str(int(status) - 128) if status.isdigit() else ""):
        # Without control groups Slurm kills what is over its memory, and says no more.
        return "out of memory", f"it was killed by signal 9: most likely {_MEMORY}"
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
    "JOB REQUEUE": "it asked for that itself, or the cluster's people did",
    "TIME LIMIT": "its wall time was over",
}


def restarted(look: Look, log: str) -> str:
    """What to say of a job that Slurm starts again by itself.

    Args:
        look: what Slurm says of the job now.
        log: what the job printed before.
    """
    causes = _TAKEN_OFF.findall(log)
    cause = _TAKEN.get(causes[-1].upper(), causes[-1].lower()) if causes else ""
    return (
        f"goes back to the queue{': ' + cause if cause else ''}. Slurm starts it again by itself "
        f"(start {look.restarts + 1})."
    )


# Why a job waits: Slurm's words, and what they mean for a student. The first that fits is taken.
_REASONS = (
    (r"None$", ""),
    (r"Priority$", "other jobs go first"),
    (r"Resources$", "it waits for free nodes"),
    (r"BeginTime$", "it may start in a moment"),
    (r"InvalidAccount|AccountNotAllowed", "the account doesn't exist, or may not use this"),
    (r"InvalidQOS|QOSNotAllowed", "this quality of service doesn't exist, or is not yours"),
    (
        r"Assoc\w*(Minutes|Billing)",
        "the account has no units left, or they are promised to running jobs: `sshare -U` shows "
        "it. The job waits until there are units; --account NAME charges another account",
    ),
    (
        r"Assoc",
        "the account is at one of its limits: too many jobs or cores at once, or no units left. "
        "`sshare -U` shows the units, `squeue -A ACCOUNT` the account's jobs",
    ),
    (r"QOS", "a limit of the cluster for such jobs is reached; it waits until others end"),
    (r"PartitionTimeLimit", "the partition allows less time: --set time=HH:MM:SS"),
    (
        r"PartitionNodeLimit|PartitionConfig",
        "the partition has fewer nodes or cores than asked for, or some are down: `sinfo -s`",
    ),
    (r"PartitionDown|PartitionInactive", "the partition is closed at the moment: `sinfo -s`"),
    (
        r"ReqNodeNotAvail|Nodes_required|NodeDown|Reservation",
        "nodes are down, or kept free for a maintenance or a reservation: `sinfo -s`, "
        "`scontrol show reservation`",
    ),
    (r"JobHeldUser", "it is held: `scontrol release` lets it go"),
    (r"JobHeldAdmin|launch_failed", "it is held by the cluster: ask the cluster's people"),
    (r"Dependency", "it waits for another job's end"),
    (r"Licenses", "it waits for a licence"),
    (r"JobArrayTaskLimit", "as many tasks of the array run as may run at once"),
)
_NEVER = {
    r"InvalidAccount|AccountNotAllowed": "wrong account",
    r"PartitionTimeLimit|InvalidQOS|QOSNotAllowed|\w*Max\w*PerJobLimit": "impossible",
    r"DependencyNeverSatisfied": "impossible",
}
_CURES = {
    "wrong account": "name yours with --account NAME; `sacctmgr show associations user=$USER` "
    "lists them",
}


def waits(reason: str) -> str:
    """Why a job waits, in words; empty where Slurm gives no reason."""
    return next((text for pattern, text in _REASONS if re.match(pattern, reason)), reason)


def never_starts(look: Look, partition_nodes: int | None) -> tuple[str, str] | None:
    """The end and its meaning if a waiting job can never start as it was asked for.

    Args:
        look: what Slurm says of the job now.
        partition_nodes: how many nodes its partition has, whether up or down; None: not known.
    """
    if partition_nodes is not None and look.num_nodes > partition_nodes:
        meaning = (
            f"it asks for {look.num_nodes} nodes, and partition {look.partition} has "
            f"{partition_nodes}: --nodes {partition_nodes} at most."
        )
        return "impossible", meaning
    for pattern, end in _NEVER.items():
        if re.match(pattern, look.reason):
            cure = _CURES.get(end, waits(look.reason))
            return end, f"it would wait for ever ({look.reason}): {cure}."
    return None


# What sbatch refuses, and the cure.
_REFUSALS = (
    (
        r"configuration source|Unable to contact slurm",
        "no cluster",
        "Slurm's commands are here, but no cluster: run this on a login node, or try "
        "`--site local`, or look at the script with --dry-run.",
    ),
    (
        r"Invalid account",
        "wrong account",
        "Name yours with --account NAME; `sacctmgr show associations user=$USER` lists "
        "them. An account may be tied to some partitions: --partition NAME.",
    ),
    (
        r"invalid partition|not permitted to use this partition",
        "wrong partition",
        "`sinfo -s` lists the partitions; choose one with --partition NAME.",
    ),
    (
        r"time limit is invalid",
        "impossible",
        "`sinfo -o '%P %l'` shows how long each partition lets jobs run: --set time=HH:MM:SS.",
    ),
    (
        r"reservation",
        "impossible",
        "Ask the tutorial's host for its name, or leave --reservation away.",
    ),
    (
        r"Memory specification",
        "impossible",
        "No node has so much memory: --set memory_per_cpu=..., or fewer ranks on a node.",
    ),
    (
        r"generic resource|gres",
        "impossible",
        "`sinfo -o '%P %G'` shows the GPUs of each partition, and how they are called.",
    ),
    (
        r"[Nn]ode count|node configuration|[Mm]ore processors|job size",
        "impossible",
        "No partition has such nodes: `sinfo -o '%P %D nodes %c cores %m MB %G'` shows what there "
        "is. Ask for fewer nodes, ranks, GPUs or less memory, or another --partition.",
    ),
    (
        r"QOS|policy",
        "impossible",
        "The account may not have so many jobs, nodes or so much time: `sacctmgr show "
        "associations user=$USER` shows its limits.",
    ),
    (
        r"timed out",
        "no cluster",
        "Slurm is busy: look with `squeue --me` whether the job came through, then try again.",
    ),
)


def refused(message: str) -> tuple[str, str]:
    """The end and the cure of a job that sbatch refused, from sbatch's own words."""
    for pattern, end, cure in _REFUSALS:
        if re.search(pattern, message):
            return end, cure
    return "impossible", ""
