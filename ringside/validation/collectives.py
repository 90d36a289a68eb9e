"""Collectives: from point-to-point latencies, from a fitted line, and by replay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace
from ringside.validation.row import Row, load


def allreduce_s(machine: Machine, world_size: int, nbytes: int, algorithm: str) -> float:
    """Replay one library all-reduce of all ranks."""
    members = tuple(range(world_size))
    detail = ("allreduce", 0, 0, members, (nbytes,))
    call = [Op(Kind.COLLECTIVE, request=0, detail=detail), Op(Kind.WAIT, detail=(0,))]
    chosen = machine.with_(collectives={"allreduce": algorithm})
    return replay(Trace(world_size, [call] * world_size), chosen).makespan_s


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


def _line(nbytes: Sequence[float], us: Sequence[float]) -> tuple[float, float]:
    """Latency and inverse bandwidth that miss the times least, relatively."""
    x, y = np.asarray(nbytes, float), np.asarray(us, float)
    both = np.stack([1 / y, x / y], axis=1)
    (alpha, beta), *_ = np.linalg.lstsq(both * [1, 1e6], np.ones_like(y), rcond=None)
    return float(alpha), float(beta) * 1e6


def nccl() -> list[Row]:
    """One latency and bandwidth for all sizes, then one for each of three protocols."""
    source, table = load("nccl_a100")
    sizes, times = table["bytes"], table["us"]
    ends = [*table["regimes"], float("inf")]
    rows = []
    for name, limits in (("one line", [float("inf")]), ("three lines", ends)):
        for size, published in zip(sizes[1::2], times[1::2], strict=True):
            low, high = _regime(size, limits)
            fitted = [
                (n, t) for n, t in zip(sizes[::2], times[::2], strict=True) if low <= n <= high
            ]
            alpha, beta = _line([n for n, _ in fitted], [t for _, t in fitted])
            item = f"all-reduce of {size} B, µs, {name} fitted on the other sizes"
            rows.append(Row(source, item, published, alpha + beta * size, "large messages"))
    return rows


def _regime(size: float, limits: Sequence[float]) -> tuple[float, float]:
    """The stretch that a size lies in; neighbours share their limit."""
    low = 0.0
    for high in limits:
        if size <= high:
            break
        low = high
    return low, high


def nccl_trees() -> list[Row]:
    """Latency of rings over that of double trees: steps alone."""
    source, table = load("nccl_trees")
    ring_steps = 2 * (table["nodes"] * table["gpus_per_node"] - 1)
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
