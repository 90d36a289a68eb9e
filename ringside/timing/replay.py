"""Replay: the time a trace would take on another machine."""

from __future__ import annotations

from pathlib import Path

from ringside.errors import TraceError
from ringside.timing.engine import Engine
from ringside.timing.machine import Machine
from ringside.timing.timeline import Timeline
from ringside.trace import Trace


def replay(
    trace: Trace | str | Path, machine: Machine | str | Path, *, latency_seed: int | None = None
) -> Timeline:
    """Time a trace on a machine.

    Args:
        trace: a trace or the path of a trace file.
        machine: a machine, the name of a preset or the path of a TOML file.
        latency_seed: scale each pair's latency by a factor drawn between 1/2 and 2.

    Raises:
        TraceError: the trace can't end, because something waits for a message that was never sent;
            or its operations contradict each other.
    """
    if not isinstance(trace, Trace):
        trace = Trace.load(trace)
    used = Machine.load(machine)
    try:
        timeline = time_trace(trace, used, latency_seed=latency_seed)
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise TraceError(
            f"the trace contradicts itself ({type(error).__name__}: {error})."
        ) from error
    if timeline.unfinished:
        raise TraceError(
            f"the trace can't end: rank {timeline.unfinished[0]} waits for a message "
            "that is never sent."
        )
    return timeline


def time_trace(trace: Trace, machine: Machine, *, latency_seed: int | None = None) -> Timeline:
    """Time a trace as far as it goes; a run that ended in an error is cut off where it stood."""
    engine = Engine(machine, trace.world_size, latency_seed=latency_seed)
    for thread, ops in zip(engine.threads, trace.ops, strict=True):
        thread.ops = ops
    makespan_ps = engine.run()
    return Timeline(trace, machine.name, engine, makespan_ps)
