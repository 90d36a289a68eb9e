"""What one run of a suite is about, as JSON on its way in."""

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
    about: str = ""  # a test: run no other
    debug_rank: int | None = None  # without a sandbox: the rank whose breakpoint() opens pdb
    nurseries: Sequence[str] = ()  # warm ones that may be used, for simulated ranks and real ones

    @property
    def bounds(self) -> Limits:
        """What this module may use."""
        return Limits(**self.limits).for_module(self.module)

    def rng(self, name: str) -> np.random.Generator:
        """Random numbers of a test, or of a run that tests share."""
        seed = "\0".join((self.secret, name, self.module_hash))
        digest = hashlib.sha256(seed.encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))
