"""Pipelines: GPipe and torchgpipe by replay, PipeDream by its partitioner.

One stage a rank; S stages, M microbatches, all forwards and then all backwards (GPipe)::

    stage 0   F0 F1 F2 F3             B3 B2 B1 B0         messages cost nothing here,
    stage 1      F0 F1 F2 F3       B3 B2 B1 B0            so that only the schedule counts
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ringside.checking.published import Row, load
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

_FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)


def gpipe_s(stage_s: Sequence[float], num_microbatches: int) -> float:
    """Replay a GPipe step: stage s computes ``stage_s[s]`` a microbatch, a third of it forward."""
    num_stages = len(stage_s)
    ops: list[list[Op]] = [[] for _ in stage_s]
    for stage, seconds in enumerate(stage_s):
        for backward in (False, True):
            step = -1 if backward else 1
            order = range(num_microbatches)[::step]
            for microbatch in order:
                source, dest = stage - step, stage + step
                key = 2 * microbatch + backward
                if 0 <= source < num_stages:
                    number = key * num_stages + source
                    ops[stage].append(
                        Op(Kind.IRECV, source, 0, 0, "world", 2 * key, number, (source, 0))
                    )
                    ops[stage].append(Op(Kind.WAIT, detail=(2 * key,)))
                share = seconds * (2 if backward else 1) / 3
                ops[stage].append(Op(Kind.COMPUTE, detail=(0.0, 0.0, round(share * 1e12), "stage")))
                if 0 <= dest < num_stages:
                    number = key * num_stages + stage
                    ops[stage].append(
                        Op(Kind.ISEND, dest, 0, 0, "world", 2 * key + 1, number, (0,))
                    )
    return replay(Trace(num_stages, ops), _FREE).makespan_s


def _balanced_s(num_stages: int, num_microbatches: int) -> float:
    """A step of unit work, divided evenly."""
    return gpipe_s([1 / num_stages / num_microbatches] * num_stages, num_microbatches)


def gpipe() -> list[Row]:
    """Speed over K = 2, M = 1, or on GPUs over K = 2, M = 32: the bubble alone."""
    source, table = load("gpipe")
    rows = []
    for device, unit in (("TPU", 1), ("GPU", 32)):
        for network, numbers in table[device.lower()].items():
            for microbatches in (m for m in (1, 4, 32) if str(m) in numbers):
                for stages, published in zip((2, 4, 8), numbers[str(microbatches)], strict=True):
                    if (stages, microbatches) == (2, unit):
                        continue  # the unit of all others
                    predicted = _balanced_s(2, unit) / _balanced_s(stages, microbatches)
                    item = f"{network}, {device}, K={stages}, M={microbatches}"
                    rounding = numbers["rounding"]
                    rows.append(Row(source, item, published, predicted, "pipeline", rounding))
    memory = table["memory"]
    for layers, parameters, known_to, gib in zip(
        memory["layers"],
        memory["parameters"],
        memory["parameters_rounding"],
        memory["gib"],
        strict=True,
    ):
        each_gib = memory["bytes_per_parameter"] / 2**30
        rounding = memory["rounding"] + known_to * each_gib
        item = f"GiB of parameters, Transformer of {layers} layers"
        rows.append(Row(source, item, gib, parameters * each_gib, "exact", rounding))
    return rows


def torchgpipe() -> list[Row]:
    """One imbalance a number of stages, fitted on m = 32; judged on m = 4."""
    source, table = load("torchgpipe")
    speeds = table["amoebanet"]
    column = {m: index for index, m in enumerate(speeds["microbatches"])}
    unit = speeds["2"][column[1]]  # two stages, one microbatch: nothing overlaps
    rows = []
    for stages in (2, 4, 8):
        published = speeds[str(stages)]
        imbalance = _fit_imbalance(stages, 32, unit / published[column[32]])
        item = f"AmoebaNet-D, n={stages}, m=4, from m=32 (imbalance {imbalance:.2f})"
        predicted = unit / _unbalanced_s(stages, imbalance, 4)
        rows.append(Row(source, item, published[column[4]], predicted, "pipeline"))
    for network, numbers in table["partitions"].items():
        if network != "n":
            for n, published in list(zip(table["partitions"]["n"], numbers, strict=True))[1:]:
                item = f"{network}, n={n}, if all n always worked"
                rows.append(Row(source, item, published, n * numbers[0], "pipeline"))
    return rows


def _unbalanced_s(num_stages: int, imbalance: float, num_microbatches: int) -> float:
    """A step of unit work whose slowest stage has ``imbalance`` times its share."""
    rest = (num_stages - imbalance) / (num_stages - 1)
    shares = [imbalance, *[rest] * (num_stages - 1)]
    return gpipe_s([share / num_stages / num_microbatches for share in shares], num_microbatches)


def _fit_imbalance(num_stages: int, num_microbatches: int, step_s: float) -> float:
    """The imbalance that makes a step take ``step_s``, by bisection."""
    low, high = 1.0, 2.0
    for _ in range(20):
        middle = (low + high) / 2
        if _unbalanced_s(num_stages, middle, num_microbatches) < step_s:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class Layer(NamedTuple):
    """What PipeDream's partitioner wants to know about a layer, for one minibatch."""

    compute_s: float  # forward and backward
    weight_bytes: float
    activation_bytes: float  # of its output


def vgg16(minibatch: int, compute_s: float) -> list[Layer]:
    """VGG-16's 16 layers with weights; the time is dealt out by FLOPs, float32."""
    shapes = [(3, 64, 224), (64, 64, 224), (64, 128, 112), (128, 128, 112), (128, 256, 56)]
    shapes += [(256, 256, 56)] * 2 + [(256, 512, 28)] + [(512, 512, 28)] * 2 + [(512, 512, 14)] * 3
    last = {1, 3, 6, 9, 12}  # convolutions with a pooling behind them
    flops, weights, outputs = [], [], []
    for index, (inputs, channels, side) in enumerate(shapes):
        weights.append(9 * inputs * channels + channels)
        flops.append(9 * inputs * channels * side**2)
        outputs.append(channels * (side // 2 if index in last else side) ** 2)
    for inputs, channels in ((25088, 4096), (4096, 4096), (4096, 1000)):
        weights.append(inputs * channels + channels)
        flops.append(inputs * channels)
        outputs.append(channels)
    return [
        Layer(compute_s * mine / sum(flops), 4.0 * weight, 4.0 * minibatch * output)
        for mine, weight, output in zip(flops, weights, outputs, strict=True)
    ]


def plan(layers: Sequence[Layer], workers: int, bytes_per_s: float) -> tuple[float, list[int]]:
    """PipeDream's partition: seconds a minibatch, and the replicas of every stage.

    Source: Narayanan et al. 2019, section 3.1, with all workers on one level.
    """

    def stage_s(first: int, end: int, m: int) -> float:
        compute = sum(layer.compute_s for layer in layers[first:end])
        weights = sum(layer.weight_bytes for layer in layers[first:end])
        return max(compute, 2 * (m - 1) * weights / bytes_per_s) / m

    @cache
    def best(end: int, m: int) -> tuple[float, tuple[int, ...]]:
        partition: tuple[float, tuple[int, ...]] = (stage_s(0, end, m), (m,))
        for cut in range(1, end):
            for last in range(1, m):
                before, replicas = best(cut, m - last)
                transfer = 2 * layers[cut - 1].activation_bytes / bytes_per_s
                slowest = max(before, transfer, stage_s(cut, end, last))
                if slowest < partition[0]:
                    partition = (slowest, (*replicas, last))
        return partition

    seconds, replicas = best(len(layers), workers)
    return seconds, list(replicas)


def pipedream() -> list[Row]:
    """VGG-16 on 16 workers: the replicas of the first stage, and the speedup over data parallel."""
    source, table = load("pipedream")
    numbers = table["vgg16"]
    layers = vgg16(numbers["minibatch"], numbers["compute_s"])
    workers = numbers["workers"]
    rows = []
    for cluster, bandwidth in numbers["bandwidth_bytes_per_s"].items():
        seconds, replicas = plan(layers, workers, bandwidth)
        total = Layer(*(sum(layer[k] for layer in layers) for k in range(3)))
        data_parallel_s = plan([total], workers, bandwidth)[0]
        item = f"VGG-16, cluster {cluster}: replicas of the first stage"
        published = float(numbers["plan"].split("-")[0])
        rows.append(Row(source, item, published, replicas[0], "exact"))
        item = f"VGG-16, cluster {cluster}: speedup over data parallelism"
        speedup = data_parallel_s / seconds
        rows.append(Row(source, item, numbers["speedup"][cluster], speedup, "pipeline"))
    return rows
