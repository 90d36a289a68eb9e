"""What was measured on 1, 2, ... ranks against a model of it: `python plots.py train`.

    T(p) = T(1) / p + C(p)          nothing of the communication is hidden behind the computation
    T(p) = max(T(1) / p, C(p))      as much as can be hidden is hidden
    C(p) = passes (p - 1) alpha + bytes (p - 1) / p beta

A pass is one round of a vector through a ring of all ranks: an all-gather or a reduce-scatter has
one, an all-reduce two. `passes` and `bytes`, of all vectors that pass in a step, stand in the
records; T(1) is measured; alpha and beta are the machine's (`--machine`, see cluster/machines/).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from ringside import Machine
from ringside.draw.figure import restyle
from ringside.draw.palette import LIGHT, scheme_styles

Records = dict[str, dict[int, dict[str, Any]]]  # name -> world size -> record
MOST_RANKS = 64  # how far the model is drawn


def read(folder: Path, program: str) -> Records:
    found: Records = defaultdict(dict)
    for path in sorted(folder.glob(f"{program}*.json")):
        record = json.loads(path.read_text())
        found[record["name"]][record["world_size"]] = record
    if not found:
        raise SystemExit(f"{folder} holds no record of {program}: launch {program}.py first.")
    return found


def communication_s(record: dict[str, Any], p: int, machine: Machine) -> float:
    """C(p) of the heading, over the slowest link of the ring."""
    alpha_s, beta_s_per_byte = machine.link(0, p - 1)
    return record["passes"] * (p - 1) * alpha_s + record["bytes"] * (p - 1) / p * beta_s_per_byte


def predicted_s(alone: dict[str, Any], record: dict[str, Any], p: int, machine: Machine) -> Any:
    """T(p) with everything hidden that can be, and with nothing hidden."""
    compute_s, communicate_s = alone["step_s"] / p, communication_s(record, p, machine)
    hidden_s = max(compute_s, communicate_s) if record["can_hide"] else compute_s + communicate_s
    return hidden_s, compute_s + communicate_s


def draw_times(ax: Axes, records: Records, machine: Machine) -> None:
    sizes = [1]
    while sizes[-1] < MOST_RANKS:
        sizes.append(2 * sizes[-1])
    for name, (colour, marker) in scheme_styles(records).items():
        runs, alone = records[name], one_rank(records, name)
        p = sorted(runs)
        ax.plot(p, [1e3 * runs[k]["step_s"] for k in p], marker, color=colour, label=name)
        if alone is None:
            continue
        some = next(iter(runs.values()))
        low, high = zip(*(predicted_s(alone, some, k, machine) for k in sizes), strict=True)
        ax.fill_between(
            sizes, [1e3 * t for t in low], [1e3 * t for t in high], color=colour, alpha=0.2
        )
        ax.plot(sizes, [1e3 * t for t in high], "--", color=colour, linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="ranks", ylabel="time of a step [ms]")
    ax.set_xticks(sizes, [str(k) for k in sizes])
    ax.minorticks_off()
    ax.set_title(f"measured, and the model on {machine.name}", loc="left")
    ax.legend(frameon=False, fontsize=9)


def one_rank(records: Records, name: str) -> dict[str, Any] | None:
    """The run on one rank that a name is compared with: its own, or its program's first."""
    others = [runs[1] for runs in records.values() if 1 in runs]
    return records[name].get(1) or (others[0] if others else None)


def draw_memory(ax: Axes, records: Records) -> None:
    for name, (colour, marker) in scheme_styles(records).items():
        p = sorted(records[name])
        held = [records[name][k]["state_bytes"] / 1e6 for k in p]
        ax.plot(p, held, f"{marker}-", color=colour, label=name, linewidth=1)
    ax.set(xscale="log", xlabel="ranks", ylabel="state held by a rank [MB]")
    every = sorted({k for runs in records.values() for k in runs})
    ax.set_xticks(every, [str(k) for k in every])
    ax.minorticks_off()
    ax.margins(y=0.3)  # room for the legend
    ax.set_ylim(bottom=0)
    trained = any("losses" in run for runs in records.values() for run in runs.values())
    ax.set_title("weights, gradients, optimizer" if trained else "weights", loc="left")
    ax.legend(frameon=False, fontsize=9)


def draw_losses(ax: Axes, records: Records) -> None:
    styles = ("-", "--", ":", "-.")
    for name, (colour, _) in scheme_styles(records).items():
        for style, (p, record) in zip(styles, sorted(records[name].items()), strict=False):
            ax.plot(record["losses"], style, color=colour, linewidth=1.4, label=f"{name}, {p}")
    ax.set(xlabel="step", ylabel="loss [nats a byte]")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_title("the same for every number of ranks", loc="left")
    ax.legend(frameon=False, fontsize=8, labelcolor=LIGHT.muted)


def table(records: Records, machine: Machine) -> str:
    lines = ["run              ranks   step [ms]   model [ms]       speed-up"]
    for name, runs in records.items():
        alone = one_rank(records, name)
        for p, record in sorted(runs.items()):
            row = f"{name:16} {p:5} {1e3 * record['step_s']:11.2f}"
            if alone is not None:
                low, high = predicted_s(alone, record, p, machine)
                row += f"   {1e3 * low:.2f} to {1e3 * high:.2f}"
                row = f"{row:50}   {alone['step_s'] / record['step_s']:.2f}"
            lines.append(row)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measured against modelled.")
    parser.add_argument("program", choices=("train", "finetune", "generate"))
    parser.add_argument(
        "--machine", default="zaratan", help="a preset, or what `ringside fit` wrote"
    )
    parser.add_argument("--measured", type=Path, default=Path("measured"))
    asked = parser.parse_args()
    machine, records = Machine.load(asked.machine), read(asked.measured, asked.program)
    panels = 2 if asked.program == "generate" else 3
    figure, axes = pyplot.subplots(1, panels, figsize=(4.2 * panels, 3.8), layout="constrained")
    draw_times(axes[0], records, machine)
    draw_memory(axes[1], records)
    if panels == 3:
        draw_losses(axes[2], records)
    for ax in axes:
        restyle(ax)
    figure.savefig(f"{asked.program}.svg")
    print(table(records, machine))
    print(f"{asked.program}.svg is drawn.")


if __name__ == "__main__":
    main()
