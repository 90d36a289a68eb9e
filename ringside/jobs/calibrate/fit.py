"""A machine model from measurements: `ringside fit`.

Half a round trip of n bytes takes ``alpha + n * beta``. Of measured points (n_i, t_i) on a log
grid, alpha and beta are those that miss least *relatively*::

    minimise  sum_i ((alpha + n_i * beta) / t_i - 1)^2        alpha >= 0, beta >= 0

Times on such a grid lie three or four decades apart, and their noise is about proportional to
them. Unweighted squares would fit the largest message alone and leave alpha to its noise; with
relative errors every size counts the same, so the short ones decide alpha and the long ones beta.

Every number of the machine says in ``sources`` where it was measured, when, and how far the fit
is off.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ringside.errors import RingsideError
from ringside.files import write_output
from ringside.timing.collectives import ALGORITHMS
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace
from ringside.units import format_bytes

Points = Sequence[Sequence[float]]  # (bytes, seconds)


class FitError(RingsideError):
    """Runs that no machine can be fitted to."""


@dataclass(frozen=True)
class Line:
    """alpha + n * beta through measured points."""

    alpha_s: float
    beta_s_per_byte: float
    points: tuple[tuple[float, float], ...]

    def predict_s(self, nbytes: float) -> float:
        return self.alpha_s + nbytes * self.beta_s_per_byte

    @property
    def errors(self) -> list[float]:
        """Predicted over measured, less 1, of each point."""
        return [self.predict_s(nbytes) / seconds - 1 for nbytes, seconds in self.points]

    @property
    def rms(self) -> float:
        """Root of the mean squared relative error."""
        return float(np.sqrt(np.mean(np.square(self.errors))))

    def residual(self) -> str:
        """For people: how far off the line is."""
        worst = max(range(len(self.points)), key=lambda i: abs(self.errors[i]))
        at = format_bytes(int(self.points[worst][0]))
        return f"relative residual {self.rms:.1%} (rms), worst {self.errors[worst]:+.0%} at {at}"


def line(points: Points) -> Line:
    """Fit alpha and beta by relative least squares; neither is negative.

    Raises:
        FitError: fewer than two sizes, or a time that is not more than 0.

    >>> fitted = line([(n, 2e-6 + n * 1e-10) for n in (8, 1024, 2**20)])
    >>> round(fitted.alpha_s * 1e9), round(fitted.beta_s_per_byte * 1e15)
    (2000, 100000)
    """
    samples = tuple((float(nbytes), float(seconds)) for nbytes, seconds in points)
    if len({nbytes for nbytes, _ in samples}) < 2:
        raise FitError(f"alpha and beta need at least 2 sizes of messages, not {len(samples)}.")
    if not all(seconds > 0 for _, seconds in samples):
        raise FitError("a message that took no time: were these ranks simulated ones?")
    nbytes, seconds = np.array(samples).T
    columns = np.stack([1 / seconds, nbytes / seconds], axis=1)
    scale = columns.max(axis=0)  # the columns lie decades apart
    both, *_ = np.linalg.lstsq(columns / scale, np.ones(len(samples)), rcond=None)
    for index in (0, 1):  # at a bound, the other one alone
        if both[index] < 0:
            # sum (c_i x - 1)^2 is least at x = sum c_i / sum c_i^2.
            other = columns[:, 1 - index] / scale[1 - index]
            both[index], both[1 - index] = 0.0, other.sum() / (other @ other)
    alpha, beta = both / scale
    return Line(float(alpha), float(beta), samples)


@dataclass(frozen=True)
class Fitted:
    """A machine, and the lines that its links are."""

    machine: Machine
    links: Mapping[str, Line]  # "inside", "between"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        lines = {
            where: {
                "alpha_s": fitted.alpha_s,
                "beta_s_per_byte": fitted.beta_s_per_byte,
                "rms": fitted.rms,
                "points": [list(point) for point in fitted.points],
            }
            for where, fitted in self.links.items()
        }
        return {"machine": dataclasses.asdict(self.machine), "links": lines}

    def text(self) -> str:
        """For people: every number with its source."""
        rows = [f"machine {self.machine.name}"]
        for name, source in self.machine.sources.items():
            value = getattr(self.machine, name)
            cell = f"{value:.4g}" if isinstance(value, float) else str(value)
            rows.append(f"  {name:<24} {cell:<12} {source}")
        return "\n".join(rows)


def fit(paths: Sequence[Path], name: str, base: str | Machine = "textbook") -> Fitted:
    """Fit a machine to the runs of the probe.

    Args:
        paths: run.json of one run or of several on the same machine.
        name: the machine's name.
        base: has what was not measured.

    Raises:
        FitError: a file is no run of the probe.
        MachineError: no such base.
    """
    runs = [_Run.load(path) for path in paths]
    if not runs:
        raise FitError("no run to fit a machine to: name a run.json of the probe.")
    base = Machine.load(base)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    lines = _links(runs, values, sources)
    _rates(runs, values, sources)
    _host(runs, values, sources)
    if base.gpus_per_nic >= base.ranks_per_node:
        values["gpus_per_nic"] = values["ranks_per_node"]
        sources["gpus_per_nic"] = "assumed: one port to the network for each node; not measured"
    # One line is fitted through messages of all sizes, so small ones have no latency of their own.
    keys = ("intra_alpha_s", "intra_beta_s_per_byte", "eager_alpha_s", "intra_eager_alpha_s")
    machine = base.with_(name=name, sources={}, **dict.fromkeys(keys))
    if not lines:
        machine = machine.with_(**{key: getattr(base, key) for key in keys})
    machine = machine.with_(**values)
    _all_reduce(runs, machine, values, sources)
    for field in dataclasses.fields(Machine):
        value = getattr(machine, field.name)
        if field.name not in ("name", "sources", *sources) and value not in (None, {}):
            sources[field.name] = f"taken over from machine {base.name}: not measured"
    order = [field.name for field in dataclasses.fields(Machine)]
    values["sources"] = {key: sources[key] for key in order if key in sources}
    return Fitted(machine.with_(**values), lines)


@dataclass(frozen=True)
class _Run:
    """A run.json of the probe."""

    probe: Mapping[str, Any]
    date: str
    world_size: int

    @classmethod
    def load(cls, path: Path) -> _Run:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            probe = record.get("script") if isinstance(record, dict) else None
        except (OSError, ValueError) as error:
            raise FitError(f"{path}: no record of a run: {error}") from None
        if not isinstance(probe, dict) or "links" not in probe:
            raise FitError(
                f"{path} is no run of the probe, so it doesn't say what messages and kernels "
                "cost: `ringside fit --site ... --out machine.toml` launches the probe."
            )
        return cls(probe, str(record["started_utc"])[:10], int(record["world_size"]))

    def where(self) -> str:
        """For a source: which library, where, when."""
        hosts = ", ".join(dict.fromkeys(self.probe["hosts"]))
        return f"{self.probe['transport']} ({self.probe['library']}) on {hosts}, {self.date}"


def _links(
    runs: Sequence[_Run], values: dict[str, Any], sources: dict[str, str]
) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    names = {"inside": ("intra_alpha_s", "intra_beta_s_per_byte")}
    names["between"] = ("alpha_s", "beta_s_per_byte")
    origins: dict[str, str] = {}
    for where in ("inside", "between"):
        links = [(run, link) for run in runs for link in run.probe["links"]]
        links = [(run, link) for run, link in links if link["where"] == where]
        if not links:
            continue
        fitted = lines[where] = line([point for _, link in links for point in link["points"]])
        hosts = "inside a node" if where == "inside" else "between two nodes"
        origins[where] = (
            f"measured: ping-pong {hosts}, {'; '.join(dict.fromkeys(r.where() for r, _ in links))}"
            f"; {len(fitted.points)} sizes, {fitted.residual()}"
        )
        for key, value in zip(names[where], (fitted.alpha_s, fitted.beta_s_per_byte), strict=True):
            values[key], sources[key] = value, origins[where]
        thresholds = [link["eager_threshold_bytes"] for _, link in links]
        _threshold(thresholds, origins[where].partition(";")[0], values, sources)
    if set(lines) == {"inside"}:  # one node: what is inside stands for every link
        for inside, plain in zip(names["inside"], names["between"], strict=True):
            values[plain], values[inside] = values.pop(inside), None
            sources[plain] = f"{sources.pop(inside)}; no second node was seen"
    return lines


def _threshold(
    thresholds: Sequence[int | None], where: str, values: dict[str, Any], sources: dict[str, str]
) -> None:
    """The smaller one of several runs; of both kinds of link, that between nodes stays."""
    seen = [number for number in thresholds if number is not None]
    if seen:
        values["eager_threshold_bytes"] = min(seen)
        sources["eager_threshold_bytes"] = (
            f"{where}: the smallest send that did not end before its receive was posted"
        )


def _rates(runs: Sequence[_Run], values: dict[str, Any], sources: dict[str, str]) -> None:
    run = max(runs, key=lambda run: len(run.probe["products"]))
    probe, where = run.probe, f"{run.probe['device']}, {run.where()}"
    everybody = (
        f"all {run.world_size} ranks at once, the slowest" if run.world_size > 1 else "1 rank"
    )
    rates: dict[str, tuple[float, int]] = {}
    for one in probe["products"]:
        if one["s"] > 0:
            # n^3 multiplications and as many additions.
            rate = 2 * one["n"] ** 3 / one["s"]
            rates[one["dtype"]] = max(rates.get(one["dtype"], (0.0, 0)), (rate, one["n"]))
    if "float32" in rates:
        phrases = [f"{dtype} {rate:.3g} (n = {n})" for dtype, (rate, n) in rates.items()]
        values["flop_per_s"] = rates["float32"][0]
        sources["flop_per_s"] = (
            f"measured: product of two n x n matrices, float32, {everybody}, {where}; "
            f"FLOP/s by dtype: {', '.join(phrases)}"
        )
    copies = [(nbytes, seconds) for nbytes, seconds in probe["copies"] if seconds > 0]
    if copies:
        nbytes, seconds = copies[-1]  # the largest lies in no cache
        values["memory_bytes_per_s"] = nbytes / seconds
        sources["memory_bytes_per_s"] = (
            f"measured: copy of {format_bytes(nbytes // 2)}, read and written, {everybody}, {where}"
        )
    for key, field, what in (
        ("kernel_s", "kernel_overhead_s", "an operator on one element, mean of 1000"),
        ("poll_s", "poll_s", "a Test that finds nothing"),
    ):
        if probe[key]:
            values[field], sources[field] = probe[key], f"measured: {what}, {where}"


def _host(runs: Sequence[_Run], values: dict[str, Any], sources: dict[str, str]) -> None:
    run = max(runs, key=lambda run: run.world_size)
    hosts = run.probe["hosts"]
    values["ranks_per_node"] = max(hosts.count(host) for host in hosts)
    sources["ranks_per_node"] = f"chosen: as in the run of the probe, {run.where()}"
    values["memory_bytes"] = run.probe["memory_bytes"]
    sources["memory_bytes"] = (
        "read: of the device"
        if run.probe["device"] != "cpu"
        else "read: a rank's share of its host's memory"
    ) + f", {run.where()}"


def _all_reduce(
    runs: Sequence[_Run], machine: Machine, values: dict[str, Any], sources: dict[str, str]
) -> None:
    """Time library all-reduces by the algorithm that comes clearly nearest to what they took."""
    run = max(runs, key=lambda run: run.world_size)
    points = run.probe["all_reduce"]
    if run.world_size < 2 or not run.probe["links"]:
        return
    errors = {}
    for algorithm in ALGORITHMS["allreduce"]:
        timed = machine.with_(collectives={"allreduce": algorithm})
        ratios = [
            replay(all_reduce_trace(run.world_size, int(nbytes)), timed).makespan_s / seconds - 1
            for nbytes, seconds in points
        ]
        errors[algorithm] = float(np.median(np.abs(ratios)))
    best = min(errors, key=lambda algorithm: errors[algorithm])
    usual = machine.algorithm("allreduce")
    if errors[best] > 0.8 * errors[usual]:  # too near to tell, as any two are on 2 ranks
        best = usual
    values["collectives"] = {**machine.collectives, "allreduce": best}
    error_text = ", ".join(f"{name} {error:.0%}" for name, error in errors.items())
    sources["collectives"] = (
        f"measured: all-reduces of {run.world_size} ranks, {run.where()}; median error of each "
        f"algorithm: {error_text}"
    )


def all_reduce_trace(world_size: int, nbytes: int) -> Trace:
    """One library all-reduce of ``nbytes`` on every rank, and nothing else."""
    detail = ("allreduce", 0, 0, tuple(range(world_size)), (nbytes,))
    call = [
        Op(Kind.COLLECTIVE, nbytes=nbytes, request=0, detail=detail),
        Op(Kind.WAIT, detail=(0,)),
    ]
    return Trace(world_size, [call] * world_size)


def save(machine: Machine, path: Path) -> Path:
    """Write a machine as the TOML file that `Machine.load` reads; whole or not at all."""
    tables: dict[str, Mapping[str, Any]] = {
        "intra": {},
        "rates": machine.rates,
        "collectives": machine.collectives,
        "sources": machine.sources,
    }
    lines = []
    for field in dataclasses.fields(Machine):
        value = getattr(machine, field.name)
        if field.name in tables or value is None:
            continue
        if field.name.startswith("intra_"):
            tables["intra"] = {**tables["intra"], field.name.removeprefix("intra_"): value}
        else:
            lines.append(f"{field.name} = {_toml(value)}")
    for name, table in tables.items():
        if table:
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    write_output(path, ("\n".join(lines) + "\n").encode())
    return path


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return repr(value)


def draw(fitted: Fitted, path: Path) -> Path:
    """Write the residual plot as SVG: the lines through the points, and below how far they miss."""
    import io

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if not fitted.links:
        raise FitError("no link was measured: a picture needs at least 2 ranks.")
    figure = Figure(figsize=(7, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for colour, (where, one) in zip(("tab:blue", "tab:orange"), fitted.links.items(), strict=False):
        sizes = sorted({nbytes for nbytes, _ in one.points})
        label = f"{where}: {one.alpha_s * 1e6:.3g} µs + n / {_bandwidth(one)}"
        above.plot(sizes, [one.predict_s(n) * 1e6 for n in sizes], color=colour, label=label)
        measured = [(nbytes, seconds * 1e6) for nbytes, seconds in one.points]
        above.plot(*zip(*measured, strict=True), "o", color=colour, markersize=4)
        errors = [100 * error for error in one.errors]
        below.plot([n for n, _ in one.points], errors, "o", color=colour, markersize=4)
    above.set(xscale="log", yscale="log", ylabel="half a round trip (µs)")
    above.set_title(f"{fitted.machine.name}: ping-pong and fitted lines")
    above.legend()
    below.axhline(0, color="0.6", linewidth=0.8)
    below.set(xlabel="message (bytes)", ylabel="fit / measured − 1 (%)")
    with rc_context({"svg.hashsalt": "ringside", "svg.fonttype": "none"}):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    write_output(path, buffer.getvalue())
    return path


def _bandwidth(one: Line) -> str:
    if not one.beta_s_per_byte:
        return "∞"
    return f"({1e-9 / one.beta_s_per_byte:.3g} GB/s)"
