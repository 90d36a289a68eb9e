"""Replay: the time a trace would take on another machine."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ringside.errors import TraceError
from ringside.timing.engine import Engine
from ringside.timing.fold import AsymmetryError, Fold
from ringside.timing.machine import Machine
from ringside.timing.timeline import Timeline
from ringside.trace import Trace


class Kinds(ABC):
    """A trace of a rank of each kind, which the others are alike along axes of a grid."""

    @property
    @abstractmethod
    def trace(self) -> Trace:
        """All ranks' operations."""

    @property
    @abstractmethod
    def extents(self) -> dict[str, int]:
        """Axis -> extent, of the axes along which ranks are alike."""

    @abstractmethod
    def fold(self, axes: Sequence[str]) -> Fold:
        """Which rank stands for which, if all that are alike along ``axes`` are timed once."""

    @abstractmethod
    def folded(self, fold: Fold) -> Trace:
        """The operations of the ranks that stand for others."""


def replay(
    trace: Trace | Kinds | str | Path,
    machine: Machine | str | Path,
    *,
    latency_seed: int | None = None,
) -> Timeline:
    """Time a trace on a machine.

    Of a trace made on fake tensors, ranks that are alike are timed once, along as many axes as that
    gives the very times of timing all of them; ``Timeline.folded`` and ``Timeline.not_folded`` say
    which, and why not along others.

    Args:
        trace: a trace, what ``ringside.trace_torch`` returned, or the path of a trace file.
        machine: a machine, the name of a preset or the path of a TOML file.
        latency_seed: scale each pair's latency by a factor drawn between 1/2 and 2.

    Raises:
        TraceError: the trace can't end, because something waits for a message that was never sent;
            or its operations contradict each other; or all its ranks have to be timed, and they
            are too many.
    """
    used = Machine.load(machine)
    if isinstance(trace, Kinds):
        return _replay_kinds(trace, used, latency_seed)
    if not isinstance(trace, Trace):
        trace = Trace.load(trace)
    return _replayed(trace, used, latency_seed, None)


def _replay_kinds(kinds: Kinds, machine: Machine, latency_seed: int | None) -> Timeline:
    """Fold along the axes with most ranks for which that is exact."""
    refused: dict[tuple[str, ...], str] = {}
    extents = {axis: extent for axis, extent in kinds.extents.items() if extent > 1}
    if latency_seed is not None:
        why = "latency_seed draws another latency for every pair of ranks."
        refused, extents = {(axis,): why for axis in extents}, {}
    if extents:
        most = kinds.fold(tuple(extents))
        trace = kinds.folded(most)
    # First each axis alone: one that is refused is in none of the ways that are tried below.
    for axis in extents:
        try:
            kinds.fold((axis,)).check(trace, machine)
        except AsymmetryError as error:
            refused[(axis,)] = str(error)
    axes = [axis for axis in extents if (axis,) not in refused]
    ways = [way for k in range(1, len(axes) + 1) for way in itertools.combinations(axes, k)]
    for way in sorted(ways, key=lambda way: -math.prod(extents[axis] for axis in way)):
        fold = kinds.fold(way)
        try:
            timeline = _replayed(
                trace if way == most.axes else kinds.folded(fold), machine, None, fold
            )
        except AsymmetryError as error:
            refused[way] = str(error)
            continue
        timeline.not_folded = refused
        return timeline
    try:
        timeline = _replayed(kinds.trace, machine, latency_seed, None)
    except TraceError as error:
        why = " ".join(f"Not along {', '.join(way)}: {text}" for way, text in refused.items())
        raise TraceError(f"{error} {why}" if refused else str(error)) from error
    timeline.not_folded = refused
    return timeline


def _replayed(
    trace: Trace, machine: Machine, latency_seed: int | None, fold: Fold | None
) -> Timeline:
    try:
        timeline = time_trace(trace, machine, latency_seed=latency_seed, fold=fold)
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        # A trace may be anybody's file: what the engine stumbles over is the trace's fault.
        raise TraceError(
            f"the trace contradicts itself ({type(error).__name__}: {error})."
        ) from error
    if timeline.unfinished:
        raise TraceError(
            f"the trace can't end: rank {timeline.unfinished[0]} waits for a message "
            "that is never sent."
        )
    return timeline


def engine_of(
    trace: Trace, machine: Machine, latency_seed: int | None = None, fold: Fold | None = None
) -> Engine:
    """An engine that has a trace's operations before it."""
    engine = Engine(
        machine, trace.world_size, latency_seed=latency_seed, fold=fold, slow=trace.slow
    )
    for thread, ops in zip(engine.threads, trace.ops, strict=True):
        thread.ops = ops
    return engine


def time_trace(
    trace: Trace,
    machine: Machine,
    *,
    latency_seed: int | None = None,
    fold: Fold | None = None,
) -> Timeline:
    """Time a trace as far as it goes; a run that ended in an error is cut off where it stood.

    Raises:
        AsymmetryError: ranks that stand for others, by ``fold``, turn out not to be like them.
    """
    if fold is not None:
        fold.check(trace, machine)
    engine = engine_of(trace, machine, latency_seed, fold)
    makespan_ps = engine.run()
    return Timeline(trace, machine.name, engine, makespan_ps)
