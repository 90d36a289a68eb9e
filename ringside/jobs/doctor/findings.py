"""Is a job what was asked for: the judgement of `ringside doctor --cluster`.

Facts come from the ranks (`ringside.jobs.real.facts`), measurements from the probe; every finding
that is not as it should be names its cure. Nothing here looks at the machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringside.jobs.doctor.this_machine import Finding
from ringside.timing.machine import Machine
from ringside.units import format_bytes, format_time

Facts = Mapping[str, Any]

SLOW_MESSAGE = 5.0  # times the machine model's; short messages feel every other load
SLOW_BANDWIDTH = 2.0

_FITTING = (
    "the launcher doesn't fit the MPI library: `srun --mpi=pmi2` or `mpiexec` for the mpich wheel, "
    "`srun --mpi=pmix` or `mpirun` for Open MPI (--set launcher=...)."
)
_BIND = (
    "srun: --cpu-bind=cores, and `export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK`; MPICH: "
    "`mpiexec -bind-to core`; Open MPI: `mpirun --bind-to core`; and no more ranks than cores."
)
_GPU_RULE = (
    "ask with --gres=gpu:TYPE:N for the node and without a flag for tasks, and let each rank call "
    "torch.cuda.set_device(LOCAL_RANK)."
)
_NETWORK = (
    "which network carries it? NCCL_DEBUG=INFO shows NCCL's, GLOO_SOCKET_IFNAME and "
    "NCCL_SOCKET_IFNAME choose; for MPI take the cluster's own module."
)
_NODE = "is the node shared with other jobs (--exclusive), are the ranks bound to cores?"


@dataclass(frozen=True)
class Examination:
    """What was found on the ranks.

    Attributes:
        job: `ringside.jobs.real.facts.job` of rank 0.
        ranks: the facts of each rank.
        world_size: how many ranks the library says there are.
        transport, library: what carries their messages.
        all_reduce: None if it wasn't tried, else {"right", "nbytes", "seconds"} or {"error"}.
        links: as in a run of the probe.
        folder_seen: of each rank, whether it sees a file that rank 0 wrote; None: not tried.
    """

    job: Facts
    ranks: Sequence[Facts]
    world_size: int
    transport: str
    library: str
    all_reduce: Facts | None = None
    links: Sequence[Facts] = ()
    folder: str = ""
    folder_seen: Sequence[bool] = field(default=())


def judge(found: Examination, machine: Machine | None) -> list[Finding]:
    """Judge what was found; links are compared with the machine, where there is one."""
    findings = [_slurm(found), _ranks(found)]
    if found.world_size != (found.job["ranks_asked"] or found.world_size):
        return findings  # each rank is alone: the rest would judge something else
    findings += [_hosts(found), _binding(found), _threads(found), *_gpus(found), _software(found)]
    if found.folder_seen:
        findings.append(_folder(found))
    findings.append(_all_reduce(found))
    findings += [_link(link, machine) for link in found.links]
    return findings


def _slurm(found: Examination) -> Finding:
    job = found.job
    if not job["job_id"]:
        return Finding("Slurm", True, f"no job: the ranks were started by {job['launcher']}")
    cluster = f" on {job['cluster']}" if job["cluster"] else ""
    return Finding("Slurm", True, f"job {job['job_id']}{cluster}, started by {job['launcher']}")


def _ranks(found: Examination) -> Finding:
    num_asked, got = found.job["ranks_asked"], found.world_size
    detail = f"{got} ranks, {found.transport} ({found.library})"
    if num_asked is None or num_asked == got:
        suffix = "" if num_asked is None else ", as asked for"
        return Finding("ranks", True, detail + suffix, needed=True)
    mend = _FITTING if got == 1 and found.transport == "mpi4py" else (
        f"the launcher was told another number: ask for {num_asked} with `-n {num_asked}`, or with "
        "--nodes and --ntasks-per-node."
    )  # fmt: skip
    return Finding("ranks", False, f"asked for {num_asked} ranks, got {detail}", mend, True)


def _by_host(found: Examination) -> dict[str, list[Facts]]:
    hosts: dict[str, list[Facts]] = defaultdict(list)
    for facts in found.ranks:
        hosts[facts["host"]].append(facts)
    return hosts


def _hosts(found: Examination) -> Finding:
    hosts = _by_host(found)
    spread = ", ".join(f"{host}: {len(facts)}" for host, facts in hosts.items())
    num_nodes = found.job["nodes_asked"]
    if num_nodes and len(hosts) < min(num_nodes, found.world_size):
        mend = (
            "the launcher started all ranks where it stands: use srun, or `mpiexec` without "
            "`-launcher fork`; a fixed --ntasks-per-node spreads them."
        )
        return Finding(
            "nodes", False, f"{num_nodes} nodes given, {len(hosts)} used ({spread})", mend, True
        )
    counts = {len(facts) for facts in hosts.values()}
    if len(counts) > 1:
        mend = "--ntasks-per-node gives every node as many; local ranks and models count on it."
        return Finding("nodes", False, f"unequal numbers of ranks on nodes ({spread})", mend, True)
    return Finding("nodes", True, f"{len(hosts)} ({spread})", needed=True)


def without_cores(sets: Sequence[set[int]], each: Sequence[int]) -> list[int]:
    """The ranks that are left without ``each`` cores of their own, cores being shared out at best.

    >>> without_cores([{0, 1}, {0, 1}], [1, 1])
    []
    >>> without_cores([{0}, {0}, {1}], [1, 1, 1])
    [1]
    """
    owner: dict[int, int] = {}

    def give(rank: int, tried: set[int]) -> bool:
        """One more core for a rank, moving others to theirs."""
        # An augmenting path of bipartite matching (Kuhn): `tried` keeps the search finite.
        for core in sorted(sets[rank] - tried):
            tried.add(core)
            if core not in owner or give(owner[core], tried):
                owner[core] = rank
                return True
        return False

    wanting = []
    for rank, number in enumerate(each):
        if not all(give(rank, set()) for _ in range(number)):
            wanting.append(rank)
    return wanting


def ranges(numbers: Sequence[int]) -> str:
    """
    >>> ranges([0, 1, 2, 5])
    '0-2,5'
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _binding(found: Examination) -> Finding:
    name = "binding"
    bindings, remarks = [], []
    for host, facts in _by_host(found).items():
        sets = [set(one["cores"]) for one in facts]
        wanting = without_cores(sets, [1] * len(facts))
        if wanting:
            cores = "; ".join(f"rank {one['rank']}: {ranges(one['cores'])}" for one in facts[:8])
            detail = (
                f"{len(facts)} ranks on {len(set().union(*sets))} cores of {host} ({cores}): "
                f"rank {facts[wanting[0]]['rank']} has no core of its own"
            )
            return Finding(name, False, detail, _BIND, True)
        physical = [set(one["physical"]) for one in facts]
        if without_cores(physical, [1] * len(facts)):
            remarks.append(
                f"on {host} ranks share a core's hardware threads (--hint=nomultithread)"
            )
        alike = all(one == sets[0] for one in sets) and len(sets) > 1
        bindings.append(
            f"{host}: not bound, {len(facts)} ranks may use cores {ranges(sorted(sets[0]))}"
            if alike
            else f"{host}: " + " | ".join(ranges(one["cores"]) for one in facts[:16])
        )
    more = f"; and {len(bindings) - 4} more" if len(bindings) > 4 else ""
    return Finding(name, True, "; ".join([*bindings[:4], *remarks]) + more, needed=True)


def _threads(found: Examination) -> Finding:
    """Whether every rank has cores for the threads that its libraries will start."""
    for host, facts in _by_host(found).items():
        needs = [one["threads"] or len(one["cores"]) for one in facts]
        wanting = without_cores([set(one["cores"]) for one in facts], needs)
        if wanting and max(needs) > 1:  # of single threads the binding says enough
            rank = facts[wanting[0]]
            setting = rank["threads"]
            why = f"OMP_NUM_THREADS={setting}" if setting else "OMP_NUM_THREADS is not set"
            total = len({core for one in facts for core in one["cores"]})
            return Finding(
                "threads",
                False,
                f"{why}: {len(facts)} ranks of {host} start {sum(needs)} threads on {total} cores",
                "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK (1 without Slurm), and ask for cores "
                "with --cpus-per-task.",
                True,
            )
    counts = sorted({one["threads"] or len(one["cores"]) for one in found.ranks})
    return Finding("threads", True, f"{ranges(counts)} for each rank", needed=True)


def _gpus(found: Examination) -> Iterator[Finding]:
    gpu_request = found.job["gpus_asked"]
    without = [one for one in found.ranks if not one["gpus"]]
    if len(without) == found.world_size and not gpu_request and not any(
        one["gpu_devices"] for one in found.ranks
    ):  # fmt: skip
        yield Finding("GPUs", True, "none asked for, none here")
        return
    if without:
        yield _without_gpu(without[0], gpu_request)
        return
    used: dict[tuple[str, str], int] = {}
    for local_rank, one in _places(found):
        gpu = one["gpus"][local_rank % len(one["gpus"])]
        other = used.setdefault((one["host"], gpu["uuid"]), one["rank"])
        if other != one["rank"]:
            detail = f"ranks {other} and {one['rank']} of {one['host']} use the same {gpu['name']}"
            yield Finding("GPUs", False, detail, f"one rank for each GPU; {_GPU_RULE}", True)
            return
    names = sorted({gpu["name"] for one in found.ranks for gpu in one["gpus"]})
    if len(names) > 1:
        yield Finding("GPUs", False, f"different ones: {', '.join(names)}", "name the type.", True)
    else:
        yield Finding("GPUs", True, f"one {names[0]} for each rank", needed=True)
    nccl = sorted({str(one["nccl"]) for one in found.ranks})
    if found.transport != "nccl":
        mend = "start it by torchrun, or with RANK, WORLD_SIZE and MASTER_ADDR, to try NCCL."
        yield Finding("NCCL", False, f"{nccl[0]}; not tried over {found.transport}", mend)
    elif len(nccl) > 1:
        mend = "one environment on all nodes: name it with --set environment=..."
        yield Finding("NCCL", False, f"different versions: {', '.join(nccl)}", mend, True)
    else:
        yield Finding("NCCL", True, nccl[0], needed=True)


def _places(found: Examination) -> Iterator[tuple[int, Facts]]:
    """Each rank with its place on its host: what the launcher says, else in order."""
    for facts in _by_host(found).values():
        for number, one in enumerate(facts):
            yield (number if one["local_rank"] is None else one["local_rank"]), one


def _without_gpu(rank: Facts, asked: str | None) -> Finding:
    where = f"rank {rank['rank']} of {rank['host']}"
    if rank["cuda_visible"] == "":
        detail = f"{where} has an empty CUDA_VISIBLE_DEVICES"
        return Finding("GPUs", False, detail, _GPU_RULE, True)
    if rank["torch"] is None:
        return Finding("GPUs", False, f"{where} has no torch", "pip install torch", True)
    detail = (
        f"{where}: {asked or rank['gpu_devices']} given, torch {rank['torch']} sees none "
        f"(CUDA_VISIBLE_DEVICES={rank['cuda_visible']})"
    )
    mend = "install torch with CUDA (not +cpu) for the node's driver: `nvidia-smi` shows it."
    return Finding("GPUs", False, detail, mend, True)


def _software(found: Examination) -> Finding:
    for key, what in (("python", "Python"), ("kit", "ringside"), ("torch", "torch")):
        versions: dict[str, int] = {}
        for one in found.ranks:
            versions.setdefault(str(one[key]), one["rank"])
        if len(versions) > 1:
            detail = ", ".join(f"{version} on rank {rank}" for version, rank in versions.items())
            mend = "one environment on all nodes: name it with --set environment=..."
            return Finding("software", False, f"different {what}: {detail}", mend, True)
    one = found.ranks[0]
    torch = f", torch {one['torch']}" if one["torch"] else ""
    return Finding(
        "software", True, f"ringside {one['kit']}, Python {one['python']}{torch} on every rank"
    )


def _folder(found: Examination) -> Finding:
    blind = [one for one, seen in zip(found.ranks, found.folder_seen, strict=True) if not seen]
    if blind:
        detail = f"{found.folder}: rank {blind[0]['rank']} on {blind[0]['host']} doesn't see it"
        mend = "work in your home or on the cluster's scratch: every node has a /tmp of its own."
        return Finding("folder", False, detail, mend, True)
    return Finding("folder", True, f"{found.folder}: every rank sees it", needed=True)


def _all_reduce(found: Examination) -> Finding:
    name, result = "all-reduce", found.all_reduce
    if result is None or "error" in result:
        detail = "not tried" if result is None else str(result["error"])
        mend = (
            "NCCL_DEBUG=INFO says more; NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name the network."
        )
        return Finding(name, False, detail, mend, True)
    if not result["right"]:
        mend = "the library is broken here: try another version, or another launcher."
        return Finding(name, False, f"wrong sum over {found.transport}", mend, True)
    took = f"{format_bytes(result['nbytes'])} in {format_time(result['seconds'])}"
    return Finding(name, True, f"right over {found.transport}, {took}", needed=True)


def _link(link: Facts, machine: Machine | None) -> Finding:
    """The shortest and the longest message against the machine's."""
    name = "inside a node" if link["where"] == "inside" else "between nodes"
    (short, short_s), (long, long_s) = link["points"][0], link["points"][-1]
    latency, rate = format_time(short_s), long / long_s * 1e-9
    if machine is None:
        detail = f"{format_bytes(short)} in {latency}, {format_bytes(long)} at {rate:.3g} GB/s"
        return Finding(name, True, f"{detail}; --site NAME compares with its machine")
    inside = link["where"] == "inside"
    several = machine.with_(ranks_per_node=max(2, machine.ranks_per_node))
    pair = 0, 1 if inside else several.ranks_per_node
    alpha_s, beta = several.link(*pair)
    short_model, long_model = (
        (several.eager_latency_s(*pair) if nbytes < several.eager_threshold_bytes else alpha_s)
        + nbytes * beta
        for nbytes in (short, long)
    )
    detail = (
        f"{format_bytes(short)} in {latency} (machine {machine.name}: {format_time(short_model)}), "
        f"{format_bytes(long)} at {rate:.3g} GB/s ({long / long_model * 1e-9:.3g})"
    )
    slow = [
        what
        for what, measured, model, limit in (
            ("latency", short_s, short_model, SLOW_MESSAGE),
            ("bandwidth", long_s, long_model, SLOW_BANDWIDTH),
        )
        if measured > limit * model
    ]
    if not slow:
        return Finding(name, True, detail, needed=True)
    limits = f"{' and '.join(slow)} worse than the machine's by more than {SLOW_MESSAGE:g} or "
    return Finding(
        name,
        False,
        f"{detail}: {limits}{SLOW_BANDWIDTH:g} times",
        _NODE if inside else _NETWORK,
        True,
    )
