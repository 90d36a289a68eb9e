"""Faults of the grader, each cause once: a broken installation fails in every module alike.

sgd: a02_sgd/sgd: the suite left no record. ... ImportError: no libtorch.so
conv: a02_sgd/conv: the suite left no record. ... ImportError: no libtorch.so

sgd, conv: ImportError: no libtorch.so
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["MAX_FAULT", "TRIES", "by_cause", "cause_of"]

MAX_FAULT = 300  # characters of a fault that are repeated in messages
_RAISED = re.compile(
    r"^(?:E +)?((?:\w+\.)*\w*(?:Error|Exception|Unavailable)\b: .*)$", re.MULTILINE
)
TRIES = re.compile(r" \(the last of \d+ tries\)$")
_WHERE = re.compile(r"^[\w.-]+/\w+: ")  # assignment/module
_SCRATCH = re.compile(r"\S*/(?:grade|suite|record)-\w+")  # another one in each try


def cause_of(error: str) -> str:
    """The one line of a fault that says what is wrong: what a traceback in it raised last."""
    text = _WHERE.sub("", TRIES.sub("", error.strip()))
    raised = _RAISED.findall(text) if "\n" in text else []
    lines = text.splitlines()
    cause = raised[-1] if raised else text if len(lines) < 2 else f"{lines[0]} {lines[-1]}"
    return _SCRATCH.sub("...", " ".join(cause.split()))[:MAX_FAULT]


def by_cause(errors: Mapping[str, str]) -> str:
    """The modules' faults as one sentence, `one, two: cause`; each cause once."""
    causes: dict[str, list[str]] = {}
    tries: dict[str, str] = {}
    for module, error in errors.items():
        cause = cause_of(error)
        causes.setdefault(cause, []).append(module)
        if match := TRIES.search(error):
            tries[cause] = match[0]
    return "; ".join(
        f"{', '.join(modules)}: {cause}{tries.get(cause, '')}" for cause, modules in causes.items()
    )
