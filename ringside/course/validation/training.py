"""Counts of training: parameters, FLOPs, days, bytes a GPU, and data parallelism on few GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringside.checking.published import Row, Source, load


def gpt_parameters(layers: int, hidden: int, vocabulary: int, sequence: int) -> float:
    """P = 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)); Narayanan et al. 2021, equation 2."""
    share = 13 / (12 * hidden) + (vocabulary + sequence) / (12 * layers * hidden)
    return 12 * layers * hidden**2 * (1 + share)


def training_s(tokens: float, parameters: float, num_gpus: int, flop_per_s: float) -> float:
    """8 T P / (n X): forward, backward and one more forward; Narayanan et al. 2021, equation 4."""
    return 8 * tokens * parameters / (num_gpus * flop_per_s)


def zero_bytes(parameters: float, num_gpus: int, stage: int) -> float:
    """Bytes a GPU in mixed precision with Adam: 2 weights, 2 gradients, 12 optimizer state.

    Stage 1 shards the state, 2 also the gradients, 3 also the weights; Rajbhandari et al. 2020.
    """
    sharded = {0: 0, 1: 12, 2: 14, 3: 16}[stage]
    return parameters * (16 - sharded + sharded / num_gpus)


def megatron_2021() -> list[Row]:
    """Parameters from the shape, totals from the speed of a GPU, days from both."""
    source, table = load("megatron_2021")
    scaling = table["scaling"]
    rows = []
    for values in scaling["rows"]:
        of = dict(zip(scaling["columns"], values, strict=True))
        name = f"{of['parameters']:g}B"
        billions = 1e-9 * gpt_parameters(
            of["layers"], of["hidden"], table["vocabulary"], table["sequence"]
        )
        total = of["tflops"] * of["gpus"] / 1000
        percent = 100 * of["tflops"] / table["peak_tflops"]
        known_to = 0.5 / of["tflops"]  # TFLOP/s are printed without decimals
        rows += [
            Row(source, f"{name}: parameters", of["parameters"], billions, "exact", 0.05),
            Row(
                source,
                f"{name}: PFLOP/s of all GPUs",
                of["pflops"],
                total,
                "exact",
                0.05 + known_to * total,
            ),
            Row(source, f"{name}: % of peak", of["percent"], percent, "exact", 0.5),
        ]
    for values in table["days"]["rows"]:
        of = dict(zip(table["days"]["columns"], values, strict=True))
        seconds = training_s(
            table["days"]["tokens"], 1e9 * of["parameters"], of["gpus"], 1e12 * of["tflops"]
        )
        item = f"days, {of['scheme']}, {of['parameters']:g}B on {of['gpus']} GPUs"
        rows.append(Row(source, item, of["days"], seconds / 86400, "arithmetic", 0.5))
    return rows


def zero() -> list[Row]:
    """Memory by stage."""
    source, table = load("zero")
    return [
        Row(
            source,
            f"GB a GPU, stage {stage}" if stage else "GB a GPU, nothing sharded",
            published,
            zero_bytes(table["parameters"], table["gpus"], stage) / 1e9,
            "exact",
            table["rounding"],
        )
        for stage, published in enumerate(table["gigabytes"])
    ]


def tensorflow() -> list[Row]:
    """Data parallelism: T(P) = T(1) + c 2 (P - 1) / P; c fitted on few GPUs, judged on more."""
    source, table = load("tensorflow")
    rows = []
    for machine, numbers in table.items():
        for network, speeds in numbers.items():
            if network not in ("gpus", "fitted"):
                rows += _data_parallel(source, machine, network, numbers, speeds)
    return rows


def _data_parallel(
    source: Source, place: str, network: str, numbers: dict[str, Any], speeds: Sequence[float]
) -> list[Row]:
    image_s = {p: p / speed for p, speed in zip(numbers["gpus"], speeds, strict=True)}
    volume = {p: 2 * (p - 1) / p for p in numbers["gpus"]}
    x = np.array([volume[p] for p in numbers["fitted"]])
    y = np.array([image_s[p] - image_s[1] for p in numbers["fitted"]])
    exposed_s = max(0.0, float(x @ y / (x @ x)))
    judged = [p for p in numbers["gpus"] if p > max(numbers["fitted"])]
    fitted = " and ".join(map(str, numbers["fitted"]))
    return [
        Row(
            source,
            f"{network}, {place}, images/s on {p} GPUs, from {fitted}",
            p / image_s[p],
            p / (image_s[1] + exposed_s * volume[p]),
            "large messages",
        )
        for p in judged
    ]


def goyal_bandwidth() -> list[Row]:
    """What the network must carry to hide an all-reduce behind the backward pass."""
    source, table = load("goyal")
    numbers = table["bandwidth"]
    # An all-reduce of many GPUs sends the gradients twice (reduce-scatter, all-gather); 8e-9 Gbit a
    # byte.
    needed = 2 * numbers["gradient_bytes"] / numbers["backward_s"] * 8e-9
    item = "Gbit/s that hide the gradients' all-reduce"
    return [Row(source, item, numbers["gbit_per_s"], needed, "exact", 0.05)]


def jin() -> list[Row]:
    """No alpha-beta-gamma model is ever faster than P times."""
    source, table = load("jin")
    return [
        Row(source, f"speedup on 4 GPUs, {name} pass", published, table["gpus"], "exact", 0.005)
        for name, published in table["speedup"].items()
    ]
