"""What one run of a suite is about, and what it found: JSON on the way in and out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autograder.course.limits import Limits


@dataclass(frozen=True)
class SuiteJob:
    """What one run of the suite is about."""

    module: str
    folder: str  # the student's modules and the supplied ones
    record: str  # where the record is written
    secret: str
    module_hash: str
    sandbox: bool
    limits: dict[str, Any] = field(default_factory=dict)  # where they aren't the kit's
    about: str = ""  # a test: run only what tells whether it fails, and any test of values does
    nurseries: Sequence[str] = ()  # warm ones that may be used, for simulated ranks and real ones

    @property
    def bounds(self) -> Limits:
        """What this module may use."""
        return Limits(**self.limits).for_module(self.module)

    def rng(self, name: str) -> np.random.Generator:
        """Random numbers of a test, or of a run that tests share."""
        words = "\0".join((self.secret, name, self.module_hash))
        digest = hashlib.sha256(words.encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@dataclass
class TestRecord:
    """One test's result; ``message`` holds author's sentences only."""

    __test__ = False  # for pytest, which looks for classes named Test...

    name: str
    kind: str
    points: float
    earned: float = 0.0
    message: str = ""
    detail: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    world_sizes: list[int] = field(default_factory=list)  # of its runs
    essential: bool = False  # whether a module that fails it misses the point
    uncut: float = 0.0  # what it earned before the module was held to its essential test
    uncut_message: str = ""


@dataclass
class SuiteRecord:
    """What the suite found about one module."""

    module: str
    tests: list[TestRecord] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    timeline_svg: str | None = None
    sandbox: str = "none"
    flags: list[str] = field(default_factory=list)
    ended_by_clock: bool = False  # on a machine that was busy: it tells nothing of the module
    error: str | None = None  # a fault of ours: then nothing counts
