"""The calls of predict.py that the tests make, and how near the answers must be."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from ringside.checking import Verdict
from ringside.checking.cases import Formula, brief, plain
from ringside.checking.published import load

NAMES = "num_layers", "hidden", "num_heads", "batch", "vocabulary", "sequence"
EXAMPLE = (2, 4, 2, 8, 5, 3)  # the docstring's model
SAYING_MACHINE = tuple(name for name in Formula.unsaid if name != "machine")


@dataclass(frozen=True)
class Number(Formula):
    """A number that must be near ``gives``.

    Attributes:
        within: 0.05: 5 % more or less.
        source: what sentences say of the right one, such as "published".
    """

    caller = "checks/inside.py:predict_calls"
    unit: ClassVar[str] = ""
    within: float = field(default=1e-9, kw_only=True)
    source: str = field(default="", kw_only=True)

    def said(self):
        """The arguments, as a sentence says them."""
        return ", ".join(map(str, self.arguments()))

    def __str__(self):
        return f"{self.function} of {self.said()}"

    def check_value(self, value):
        self.check_number(value, str(self))

    def check_number(self, value, what):
        """Raise a verdict unless it is near the right one."""
        value, right = plain(value), self.gives
        if type(value) not in (int, float) or not math.isfinite(value):
            raise Verdict(f"{what} is {brief(value)}; it must be a finite number.")
        if right is not None and abs(value - right) > self.within * abs(right) + 1e-12:
            near = self.within > 1e-6
            beside = f", as {self.source}" if self.source else ""
            apart = f", {value / right - 1:+.1%}" if right and near else ""
            allowed = f"; {100 * self.within:.3g} % more or less are allowed" if near else ""
            raise Verdict(
                f"{what} is {value:.12g}; it must be {right:.12g}{self.unit}{beside}{apart}"
                f"{allowed}."
            )


@dataclass(frozen=True)
class OfModel(Number):
    """A number of a model: layers, hidden, heads, batch, vocabulary, sequence."""

    model: tuple = EXAMPLE
    within: float = field(default=0.005, kw_only=True)

    @property
    def named(self):
        """The model's attributes."""
        return dict(zip(NAMES, self.model, strict=True))

    def said(self):
        return ", ".join(f"{name}={value}" for name, value in self.named.items())


@dataclass(frozen=True)
class StateBytes(Number):
    """Bytes of weights, gradients and optimizer."""

    target = "predict:state_bytes"
    parameters: int = 7_500_000_000
    data: int = 64
    zero: int = 0

    def arguments(self):
        return self.parameters, self.data, self.zero


@dataclass(frozen=True)
class OfMixture(OfModel):
    """A number of a model on a grid of GPUs."""

    data: int = 2
    tensor: int = 2
    pipeline: int = 2
    microbatch_size: int = 1
    interleave: int = 1
    zero: int = 0
    recompute: str = "none"

    @property
    def config(self):
        """The fields of the ``Config``."""
        names = "data", "tensor", "pipeline", "microbatch_size", "interleave", "zero", "recompute"
        return {name: getattr(self, name) for name in names}

    def arguments(self):
        return self.named, self.config

    def said(self):
        words = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"{super().said()}; {words}"


@dataclass(frozen=True)
class MemoryBytes(OfMixture):
    """Bytes of the GPU that needs most."""

    target = "predict:memory_bytes"


@dataclass(frozen=True)
class SentBytes(OfMixture):
    """Bytes that a GPU sends along an axis; exactly."""

    target = "predict:sent_bytes"
    axis: str = "tensor"
    element_bytes: int = 2
    within: float = field(default=1e-9, kw_only=True)

    def arguments(self):
        return *super().arguments(), self.element_bytes

    def check_value(self, value):
        if not isinstance(value, dict) or self.axis not in value:
            raise Verdict(f"{self} is {brief(value)}; it must be a dict with {self.axis!r}.")
        self.check_number(value[self.axis], f"{self.axis} of {self}")


@dataclass(frozen=True)
class StepS(OfMixture):
    """Seconds of a step on a machine."""

    target = "predict:step_s"
    unit = " s"
    unsaid = SAYING_MACHINE
    element_bytes: int = 2
    within: float = field(default=0.05, kw_only=True)

    def arguments(self):
        return *super().arguments(), self.machine, self.element_bytes

    def said(self):
        return f"{super().said()}; {self.machine}"


@dataclass(frozen=True)
class Faster(OfMixture):
    """Seconds of a step on machines, none of which is slower than the first; the last is faster."""

    target = "predict:step_s"
    caller = "checks/inside.py:predict_steps"
    on: tuple = ("zaratan", "zaratan,beta_s_per_byte=4e-11", "zaratan,flop_per_s=3.9e13")

    def arguments(self):
        return *super().arguments(), list(self.on)

    def check_value(self, value):
        for step_s, machine in zip(value, self.on, strict=True):
            self.check_number(step_s, f"{self}; {machine}")
            if not 0 < step_s <= value[0] * (1 + 1e-9):
                raise Verdict(
                    f"{self}; {machine} is {step_s:.6g} s; it must be at most the {value[0]:.6g} s "
                    f"of {self.on[0]}, which is slower."
                )
        if not value[-1] < value[0]:
            raise Verdict(
                f"{self}; {self.on[-1]} is {value[-1]:.6g} s, as on {self.on[0]}; "
                "with more bandwidth and FLOP/s it must be less."
            )


def megatron(table):
    """Rows of Megatron-LM's table 1 (``"scaling"``) or 2 (``"days"``), as dicts."""
    numbers = load("megatron_2021")[1][table]
    return [dict(zip(numbers["columns"], row, strict=True)) for row in numbers["rows"]]


def replayed(replays):
    """The steps whose time a file of replays has."""
    return [
        StepS(
            *_mixture(row),
            element_bytes=4,
            gives=row[11],
            source="replayed",
            machine=f"{replays.MACHINE},flop_per_s={row[10]}",
        )
        for row in replays.TIMES
    ]


def traced(replays, axis):
    """The steps whose bytes along an axis a file of replays has."""
    at = 10 + ("tensor", "pipeline", "data").index(axis)
    return [
        SentBytes(*_mixture(row), axis=axis, element_bytes=4, gives=row[at], source="traced")
        for row in replays.BYTES
    ]


def _mixture(row):
    """Model and sizes of a row."""
    layers, hidden, heads, sequence, vocabulary, batch, microbatch_size, *sizes = row[:10]
    return (layers, hidden, heads, batch, vocabulary, sequence), *sizes, microbatch_size
