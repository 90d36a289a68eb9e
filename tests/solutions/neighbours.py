"""A solution's module as students have it: what it imports lies beside it, in no package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def beside(path: Path) -> ModuleType:
    """Import a module that imports its neighbours; none of them stays importable by its bare name.

    Units have neighbours of the same name, so one that stayed would be another unit's.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(path.parent))
    try:
        return importlib.import_module(path.stem)
    finally:
        sys.path.remove(str(path.parent))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).parent == path.parent and "." not in name:
                del sys.modules[name]
