"""Ringside: write a parallel scheme, run it on simulated ranks, and see every message it sends."""

from ringside.errors import (
    DeadlineError,
    DeadlockError,
    LimitError,
    MachineError,
    RankError,
    RingsideError,
    RunError,
    TargetError,
    TraceError,
)
from ringside.machine import Machine
from ringside.magic import load_ipython_extension
from ringside.public_tests import check
from ringside.recorder import recorded
from ringside.replay import replay
from ringside.timeline import Timeline
from ringside.trace import Trace
from ringside.world import Result, Session, compute, run, trace_torch

__version__ = "0.1.0"

__all__ = [
    "DeadlineError",
    "DeadlockError",
    "LimitError",
    "Machine",
    "MachineError",
    "RankError",
    "Result",
    "RingsideError",
    "RunError",
    "Session",
    "TargetError",
    "Timeline",
    "Trace",
    "TraceError",
    "check",
    "compute",
    "load_ipython_extension",
    "recorded",
    "replay",
    "run",
    "trace_torch",
]
