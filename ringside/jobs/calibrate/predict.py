"""A real run's trace, replayed on a machine model: predicted against measured.

The time between two calls stays as it was measured, or, where FLOPs were counted, is taken from
the machine's roofline. What the model predicts is the time inside the calls, and what follows
from it: who waits for whom, and the makespan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError
from ringside.jobs.real.measured import seconds_by_call
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Trace
from ringside.units import format_count, format_time


class PredictError(RingsideError):
    """A run that can't be replayed."""


@dataclass(frozen=True)
class Prediction:
    """What a machine model says of a run, and what the run took."""

    target: str
    world_size: int
    machine: str
    predicted_s: float
    predicted_calls_s: Mapping[str, float]  # mean of the ranks, by kind of call and "compute"
    measured_s: float | None
    measured_calls_s: Mapping[str, float]

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1 if self.measured_s else None

    def rows(self) -> list[tuple[str, float | None, float | None]]:
        """Name, predicted and measured seconds: each kind of call, then the makespan."""
        kinds = sorted({*self.predicted_calls_s, *self.measured_calls_s}, key=_compute_first)
        rows: list[tuple[str, float | None, float | None]] = [
            (kind, self.predicted_calls_s.get(kind), self.measured_calls_s.get(kind))
            for kind in kinds
        ]
        return [*rows, ("makespan", self.predicted_s, self.measured_s)]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "target": self.target,
            "world_size": self.world_size,
            "machine": self.machine,
            "error": self.error,
            "rows": [
                {"name": name, "predicted_s": predicted, "measured_s": measured}
                for name, predicted, measured in self.rows()
            ],
        }

    def text(self) -> str:
        """For people."""
        ranks = format_count(self.world_size, "rank")
        lines = [f"{self.target} on {ranks}, machine {self.machine}"]
        width = max(len(name) for name, _, _ in self.rows())
        lines.append(f"  {'':<{width}} {'predicted':>10} {'measured':>10}  error")
        for name, predicted, measured in self.rows():
            error = f"{predicted / measured - 1:+.0%}" if predicted and measured else ""
            times = f"{_shown(predicted):>10} {_shown(measured):>10}"
            lines.append(f"  {name:<{width}} {times}  {error:>5}")
        lines.append("  Calls and compute are the mean of the ranks.")
        return "\n".join(lines)


def _compute_first(kind: str) -> tuple[bool, str]:
    return kind != "compute", kind


def _shown(seconds: float | None) -> str:
    return "-" if seconds is None else format_time(seconds)


def predict(path: Path, machine: str | Machine, *, scale_compute: bool = False) -> Prediction:
    """Replay a real run on a machine.

    Args:
        path: its run.json, or its trace; of a trace, the run.json beside it is read.
        machine: a machine, a preset's name or a TOML file.
        scale_compute: take the time of computation whose FLOPs are known from the machine.

    Raises:
        PredictError: no such run, or its trace is missing or another one.
        MachineError: no such machine.
    """
    machine = Machine.load(machine)
    record, trace_path = _files(path)
    trace = Trace.load(trace_path)
    if scale_compute:
        trace = scaled(trace)
    timeline = replay(trace, machine)
    return Prediction(
        str(record.get("target", trace_path.name)),
        trace.world_size,
        machine.name,
        timeline.makespan_s,
        seconds_by_call(timeline),
        record.get("makespan_s"),
        record.get("calls_s") or {},
    )


def _files(path: Path) -> tuple[Mapping[str, Any], Path]:
    """The record, which may be empty, and the trace."""
    if path.name.endswith(".json"):
        record = _record(path)
        trace = path.with_name(str(record.get("trace")))
        if not trace.is_file():
            raise PredictError(f"{path} names the trace {trace.name}, which is not beside it.")
        digest = hashlib.sha256(trace.read_bytes()).hexdigest()
        if digest != record.get("trace_sha256"):
            raise PredictError(
                f"{trace} is not the trace of {path.name}: it was changed or is of another run. "
                "Launch it again."
            )
        return record, trace
    beside = path.with_name("run.json")
    if beside.is_file():
        record = _record(beside)
        if record.get("trace") == path.name:
            return _files(beside)
    return {}, path


def _record(path: Path) -> Mapping[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PredictError(f"{path}: no record of a run: {error}") from None
    if not isinstance(record, dict) or "trace" not in record:
        raise PredictError(f"{path}: no record of a run: `ringside launch` leaves one.")
    return record


def scaled(trace: Trace) -> Trace:
    """Forget how long computation took where its FLOPs or bytes are known."""
    ops = []
    for rank_ops in trace.ops:
        ops.append(
            [
                op._replace(detail=(*op.detail[:2], -1, *op.detail[3:]))
                if op.kind == Kind.COMPUTE and (op.detail[0] or op.detail[1])
                else op
                for op in rank_ops
            ]
        )
    return Trace(trace.world_size, ops, trace.sites, trace.machine, trace.slow)
