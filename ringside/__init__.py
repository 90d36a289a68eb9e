"""Ringside: write a parallel scheme, run it on simulated ranks, and see every message it sends."""

from ringside.checking.announce import announce
from ringside.checking.public_tests import check
from ringside.commands.magic import load_ipython_extension
from ringside.course.predictions.ask import guess, reveal
from ringside.course.predictions.progress import guesses
from ringside.course.predictions.prompt import GuessError
from ringside.errors import (
    DeadlineError,
    DeadlockError,
    LimitError,
    MachineError,
    RankError,
    RingsideError,
    RunError,
    StoreError,
    TargetError,
    TraceError,
)
from ringside.failures import Failures, Flip, Hang, Kill, Slow
from ringside.kit import VERSION
from ringside.session.recorder import compute, phase, recorded
from ringside.session.session import Result, Session, run, trace_torch
from ringside.session.store import Store
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.timing.timeline import Timeline
from ringside.trace import Trace

__version__ = VERSION

__all__ = [
    "DeadlineError",
    "DeadlockError",
    "Failures",
    "GuessError",
    "Flip",
    "Hang",
    "Kill",
    "LimitError",
    "Machine",
    "MachineError",
    "RankError",
    "Result",
    "RingsideError",
    "RunError",
    "Session",
    "Slow",
    "Store",
    "StoreError",
    "TargetError",
    "Timeline",
    "Trace",
    "TraceError",
    "announce",
    "check",
    "compute",
    "guess",
    "guesses",
    "load_ipython_extension",
    "phase",
    "recorded",
    "replay",
    "reveal",
    "run",
    "trace_torch",
]
