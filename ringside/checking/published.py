"""One published number beside its prediction, and the tables of published numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ringside.kit import cluster_folder

# How far a prediction of its kind may be from the measurement, relatively.
ACCURACY = {
    "exact": 0.005,  # counts of parameters, bytes, FLOPs
    "arithmetic": 0.03,  # training time from measured FLOP/s
    "pipeline": 0.10,  # balanced pipelines of many microbatches
    "small messages": 0.10,  # collectives from measured latencies
    "large messages": 0.25,  # collectives of large messages, data parallelism on few GPUs
    "bus bandwidth": 0.15,  # collectives of large vectors on the presets, nothing fitted
    "factor 1.5": 0.5,  # training steps from one set of constants: right within a factor of 1.5
    "factor 3": 2.0,  # ratios of latencies across switches: right within a factor of 3
}


@dataclass(frozen=True)
class Source:
    """Where published numbers come from, and why which of them do not reproduce.

    Attributes:
        title, source, evidence: what it is, where it stands, who read it where.
        reasons: why a row doesn't reproduce, by the row's item.
        note: what a reader has to know of the predictions.
    """

    title: str
    source: str
    evidence: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A published number and what the kit predicts for it.

    Args:
        source: the table that it stands in.
        item: which number.
        published, predicted: in the same unit.
        accuracy: its class, a key of ``ACCURACY``.
        rounding: half a unit of the last printed digit of the published number.
    """

    source: Source
    item: str
    published: float
    predicted: float
    accuracy: str
    rounding: float = 0.0

    @property
    def error(self) -> float:
        """Relative difference of the prediction: 0.1 is 10 % too large."""
        return self.predicted / self.published - 1

    @property
    def reason(self) -> str:
        """Why it does not reproduce; empty: it does."""
        return self.source.reasons.get(self.item, "")

    @property
    def reproduces(self) -> bool:
        """Whether the prediction is as near as its class asks, printing aside."""
        tolerance = ACCURACY[self.accuracy]
        low, high = self.published * (1 - tolerance), self.published * (1 + tolerance)
        if self.accuracy.startswith("factor"):
            low = self.published / (1 + tolerance)
        return low - self.rounding <= self.predicted <= high + self.rounding


def load(name: str) -> tuple[Source, dict[str, Any]]:
    """Read ``cluster/validation/<name>.toml``: where it comes from, and its numbers."""
    path = cluster_folder() / "validation" / f"{name}.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    reasons = {item: miss["reason"] for miss in table.pop("misses", []) for item in miss["items"]}
    title, evidence = table.pop("title"), table.pop("evidence")
    note = table.pop("note", "").replace("\n", " ").strip()
    source = Source(title, table.pop("source", ""), evidence, reasons, note)
    return source, table
