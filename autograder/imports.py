"""Which of an author's modules a module needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

_IMPORT = re.compile(r"^[ \t]*(?:from|import)\b[^\n]*", re.MULTILINE)


def imported(module: str, modules: Mapping[str, str]) -> dict[str, str]:
    """`module` and those of its author's modules that it imports, directly or through others.

    Only these are put beside it, so that its result depends on nothing else.
    """
    wanted, found = [module], dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name in found or name not in modules:
            continue
        found[name] = modules[name]
        words = set(re.findall(r"\w+", " ".join(_IMPORT.findall(modules[name]))))
        wanted += sorted(words & modules.keys())
    return found
