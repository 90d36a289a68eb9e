"""Collectives: from point-to-point latencies, and by replay."""

from __future__ import annotations

import numpy as np

from ringside.checking.published import Row, load
from ringside.timing.machine import Machine
from ringside.timing.rails import formula_s, rings_s
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace


def allreduce_s(
    machine: Machine, world_size: int, nbytes: int, algorithm: str, num_groups: int = 1
) -> float:
    """Replay one library all-reduce of all ranks, or of several groups of them at once.

    Args:
        machine: where the ranks live.
        world_size: of all groups together.
        nbytes: of every rank's vector.
        algorithm: by which the library's all-reduce is timed.
        num_groups: rank r belongs to group r modulo this.
    """
    chosen = machine.with_(collectives={"allreduce": algorithm})
    return _collective_s(chosen, world_size, "allreduce", (nbytes,), num_groups)


def allgather_s(machine: Machine, world_size: int, nbytes: int) -> float:
    """Replay one library all-gather of all ranks, after which each has ``nbytes``."""
    return _collective_s(machine, world_size, "allgather", (nbytes // world_size,) * world_size)


def _collective_s(
    machine: Machine, world_size: int, name: str, sizes: tuple[int, ...], num_groups: int = 1
) -> float:
    members = tuple(range(world_size))
    in_rings = machine.algorithm(name) in ("ring", "ring_or_tree")
    rails = in_rings and num_groups == 1 and machine.gpus_per_nic < machine.ranks_per_node
    if rails and machine.node(world_size - 1) > 1:  # as the replay, without its messages
        by_formula = formula_s(machine, name, members, sizes)
        return rings_s(machine, name, members, sizes) if by_formula is None else by_formula
    calls = []
    for rank in range(world_size):
        group = rank % num_groups
        detail = (name, 0, 0, members[group::num_groups], sizes)
        call = Op(Kind.COLLECTIVE, comm=f"group {group}", request=0, detail=detail)
        calls.append([call, Op(Kind.WAIT, detail=(0,))])
    return replay(Trace(world_size, calls), machine).makespan_s


def osu() -> list[Row]:
    """Two ranks: one exchange of all, or two of half each; at half duplex, the halves queue."""
    source, table = load("osu_gke")
    latency = {int(n): us for n, us in table["latency_us"].items()}
    rows = []
    for size, published in ((int(n), us) for n, us in table["allreduce_us"].items()):
        whole = size < 10_000  # where Open MPI changes from one algorithm to the other
        predicted = latency.get(size, latency[0]) if whole else 2 * latency[size // 2]
        accuracy = "small messages" if size <= 16384 else "large messages"
        rows.append(Row(source, f"all-reduce of {size} B, µs", published, predicted, accuracy))
        if size > 32768:
            queued = 2 * (latency[size // 2] + size / 2 / table["bytes_per_s"] * 1e6)
            item = f"all-reduce of {size} B, µs, at half duplex"
            rows.append(Row(source, item, published, queued, "large messages"))
    return rows


def nccl() -> list[Row]:
    """The preset, and what a call costs besides: fitted on every other size, judged on the rest."""
    source, table = load("nccl_a100")
    sizes, times = table["bytes"], np.asarray(table["us"])
    machine, world_size = Machine.load(table["machine"]), table["gpus"]
    modelled = np.array(
        [1e6 * allreduce_s(machine, world_size, n, machine.algorithm("allreduce")) for n in sizes]
    )
    fitted = slice(0, None, 2)
    # One cost c a call, by relative least squares: sum ((model_i + c) / t_i - 1)^2 is least at c =
    # sum ((1 - model_i / t_i) / t_i) / sum (1 / t_i^2).
    shares = modelled[fitted] / times[fitted]
    call_us = float(np.sum((1 - shares) / times[fitted]) / np.sum(times[fitted] ** -2.0))
    return [
        Row(source, f"all-reduce of {n} B, µs", us, model + call_us, "large messages")
        for n, us, model in zip(sizes[1::2], times[1::2], modelled[1::2], strict=True)
    ]


def bus_bandwidths() -> list[Row]:
    """Large vectors on the presets: what each rank sends, over the time."""
    source, table = load("bus_bandwidths")
    rows = []
    for values in table["rows"]:
        of = dict(zip(table["columns"], values, strict=True))
        machine = Machine.load(of["machine"])
        world_size = of["nodes"] * machine.ranks_per_node
        seconds = allreduce_s(machine, world_size, of["bytes"], of["algorithm"], of["groups"])
        predicted = _bus_bandwidth(of["bytes"], world_size // of["groups"], seconds, 2)
        rows.append(Row(source, of["item"], of["gb_per_s"], predicted, "bus bandwidth"))
    return rows


def many_nodes() -> list[Row]:
    """The same vector on more and more nodes, and a network that is set up badly."""
    source, table = load("many_nodes")
    machine, nbytes = Machine.load(table["machine"]), table["bytes"]
    algorithm = machine.algorithm("allreduce")
    rows = []
    for i, nodes in enumerate(table["nodes"]):
        world_size = nodes * machine.ranks_per_node
        seconds = allreduce_s(machine, world_size, nbytes, algorithm)
        for name, passes, took_s in (
            ("all-reduce", 2, seconds),
            ("all-gather", 1, allgather_s(machine, world_size, nbytes)),
        ):
            published = table[name.replace("-", "")][i]
            predicted = _bus_bandwidth(nbytes, world_size, took_s, passes)
            item = f"{name} of 256 MB on {world_size} H100, GB/s"
            rows.append(Row(source, item, published, predicted, "bus bandwidth"))
    badly = table["badly_set_up"]
    for size, published in zip(badly["bytes"], badly["gb_per_s"], strict=True):
        seconds = allreduce_s(machine, 16, size, "ring")
        item = f"all-reduce of {size >> 30} GiB on 16 H100 over RoCE, GB/s"
        predicted = _bus_bandwidth(size, 16, seconds, 2)
        rows.append(Row(source, item, published, predicted, "bus bandwidth"))
    return rows


def _bus_bandwidth(nbytes: int, num_members: int, seconds: float, passes: int) -> float:
    """GB/s as nccl-tests counts them: what a member sends in a ring, over the time."""
    return 1e-9 * passes * (num_members - 1) / num_members * nbytes / seconds


def nccl_trees() -> list[Row]:
    """Latency of rings over that of double trees: steps alone."""
    source, table = load("nccl_trees")
    ring_steps = 2 * (table["nodes"] * table["gpus_per_node"] - 1)
    # Reduce and broadcast: a chain inside each node, and a tree of ceil(log2(nodes)) levels.
    tree_steps = 2 * (table["gpus_per_node"] - 1 + (table["nodes"] - 1).bit_length())
    item = "latency of rings over trees on 24,576 GPUs, counted in steps"
    return [Row(source, item, table["latency_ratio"], ring_steps / tree_steps, "factor 3")]


def goyal() -> list[Row]:
    """Halving-doubling against the ring on 32 servers, replayed with an assumed latency."""
    source, table = load("goyal")
    numbers = table["halving_doubling"]
    machine = Machine("servers", numbers["alpha_s"], 1 / numbers["bytes_per_s"])
    ring, halving = (
        allreduce_s(machine, numbers["servers"], numbers["bytes"], algorithm)
        for algorithm in ("ring", "halving_doubling")
    )
    item = "halving-doubling over ring, 32 servers (latency assumed)"
    return [Row(source, item, numbers["speedup_over_ring"], ring / halving, "factor 3")]


def megatron_2019() -> list[Row]:
    """Tensor parallelism: compute plus replayed ring all-reduces, nothing hidden."""
    source, table = load("megatron_2019")
    numbers, total = table["tensor_parallel"], table["aggregate"]
    machine = Machine("NVLink", numbers["alpha_s"], 1 / numbers["bytes_per_s"])
    one_s = allreduce_s(machine, numbers["gpus"], numbers["bytes"], "ring")
    communication_s = numbers["layers"] * numbers["all_reduces_per_layer"] * one_s
    efficiency = numbers["compute_s"] / (numbers["compute_s"] + communication_s)
    share = 1000 * total["pflops"] / (total["gpus"] * total["baseline_tflops"])
    return [
        Row(
            source,
            "efficiency of 8-way tensor parallelism",
            numbers["efficiency"],
            efficiency,
            "large messages",
            0.005,
        ),
        Row(source, "15.1 PFLOP/s over 512 baselines", total["efficiency"], share, "exact", 0.005),
    ]
