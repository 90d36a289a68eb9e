"""Whole training steps: the planner's formula, with one share of the peak for each GPU and dtype.

    rate of a step = share * peak     fitted on every other run of a part, judged on all others;
                                      the presets have it as ``rates.DTYPE.steps``

In fp8 only the products with weights run at the rate of fp8, attention's own run at that of bf16.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence

from ringside.checking.published import Row, load
from ringside.kit import cluster_folder
from ringside.scale.hybrid_cost import Config, Model, cost
from ringside.timing.machine import Machine

Run = Mapping[str, str]  # a line of the table

WIRE_SHARE = 0.96  # of a port's rate that carries data, as the presets have it


def read() -> list[Run]:
    """Read the table of runs, in the order of the file."""
    path = cluster_folder() / "validation" / "published_runs.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def machine_of(run: Run) -> Machine:
    """Return the preset of its GPUs, with the ports of its network."""
    bytes_per_s = WIRE_SHARE / 8 * 1e9 * float(run["port_gbit_per_s"])
    preset = Machine.load(run["machine"])
    return preset.with_(beta_s_per_byte=1 / bytes_per_s, gpus_per_nic=int(run["gpus_per_port"]))


def step_s(run: Run, machine: Machine) -> float:
    """Predict the seconds of a step at the rates that whole steps reach."""
    number = {key: int(value) for key, value in run.items() if value.isdecimal()}
    model = Model(
        number["layers"],
        number["hidden"],
        number["heads"],
        number["batch"],
        number["vocabulary"],
        number["sequence"],
        number["ffn"],
        number["kv_heads"],
        gated=bool(number["gated"]),
        tied=not number["gated"],
    )
    config = Config(
        number["data"],
        number["tensor"],
        number["pipeline"],
        number["microbatch_size"],
        number["interleave"],
        number["zero"],
        run["recompute"],
        sequence_parallel=number["tensor"] > 1,
        gradient_bytes=number["gradient_bytes"],
        context=number["context"],
    )
    flop_per_s = machine.rate("bf16", "steps")
    if run["dtype"] == "fp8":
        scores = model.scores_flops() / model.layer_flops()
        flop_per_s = 1 / (scores / flop_per_s + (1 - scores) / machine.rate("fp8", "steps"))
    return cost(model, config, machine.with_(flop_per_s=flop_per_s)).step_s


def fit(runs: Sequence[Run]) -> dict[tuple[str, str], float]:
    """The shares of preset and dtype that miss least: the sum of the logarithms' distances."""
    machines = {run["id"]: machine_of(run) for run in runs}
    # bf16 comes first: steps in fp8 use the rate that was fitted for it (see `step_s`).
    shares: dict[tuple[str, str], float] = {}
    for name, dtype in sorted({(run["machine"], run["dtype"]) for run in runs}):  # bf16 before fp8
        mine = [run for run in runs if (run["machine"], run["dtype"]) == (name, dtype)]
        misses = {}
        for share in (percent / 100 for percent in range(20, 81)):
            reaching = {run["id"]: _reaching(machines[run["id"]], dtype, share) for run in mine}
            ratios = [step_s(run, reaching[run["id"]]) / float(run["step_s"]) for run in mine]
            misses[share] = sum(abs(math.log(ratio)) for ratio in ratios)
        best = shares[name, dtype] = min(misses, key=misses.__getitem__)
        for run in runs:
            if run["machine"] == name:
                machines[run["id"]] = _reaching(machines[run["id"]], dtype, best)
    return shares


def _reaching(machine: Machine, dtype: str, share: float) -> Machine:
    rates = {**machine.rates, dtype: {**machine.rates[dtype], "steps": share}}
    return machine.with_(rates=rates)


def published_runs() -> list[Row]:
    """Every run that isn't fitted."""
    source, _ = load("published_runs")
    return [
        Row(
            source,
            f"{run['id']}, s a step on {run['gpus']} GPUs",
            float(run["step_s"]),
            step_s(run, machine_of(run)),
            "factor 1.5",
        )
        for run in read()
        if run["fitted"] == "0"
    ]
