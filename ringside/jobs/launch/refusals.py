"""Why Slurm refuses a job or lets it wait, in words, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ringside.jobs.launch.endings import Look
from ringside.units import format_count

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


def never_starts(look: Look, partition_cores: Sequence[int]) -> tuple[str, str] | None:
    """The end and its meaning if a waiting job can never start as it was asked for.

    Args:
        look: what Slurm says of the job now.
        partition_cores: the cores of each of its partition's nodes, whether up or down; none: not
            known.
    """
    num_nodes = len(partition_cores)
    if num_nodes and look.num_nodes > num_nodes:
        meaning = (
            f"it asks for {look.num_nodes} nodes, and partition {look.partition} has "
            f"{num_nodes}: --nodes {num_nodes} at most."
        )
        return "impossible", meaning
    # The largest nodes: a job that even these can't hold never starts.
    most = sum(sorted(partition_cores)[-look.num_nodes :]) if look.num_nodes else 0
    if most and look.num_cores > most:
        meaning = (
            f"it asks for {look.num_cores} cores on {format_count(look.num_nodes, 'node')}, and "
            f"{most} is all that partition "
            f"{look.partition} has on so many: --set ranks_per_node=..., cpus_per_rank=... or "
            "cpus_per_gpu=... asks for fewer."
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
