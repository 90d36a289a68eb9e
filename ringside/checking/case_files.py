"""The classes of cases beside a module, ``checks/cases*.py``: for runs that nobody tests.

    ringside run ring.py:all_reduce --ranks 5 -- --n 11 --dtype float32

makes the case ``AllReduce(p=5, n=11, dtype="float32")`` of the class whose target is
``ring:all_reduce``, and compares what comes with what the case says is right.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ringside.checking.cases import CHECKS, Case, Formula
from ringside.errors import TargetError

PATTERN = "cases*.py"


def unit_of(path: Path) -> Path | None:
    """The folder that holds ``checks/`` with cases, of a file in it or in ``checks/``; or None."""
    folder = path.resolve().parent
    unit = folder.parent if folder.name == CHECKS else folder
    return unit if any((unit / CHECKS).glob(PATTERN)) else None


def classes(unit: Path) -> list[type[Case]]:
    """The classes of cases of an assignment's folder.

    What they import from there is theirs: it doesn't stay in ``sys.modules``.

    Raises:
        TargetError: a file can't be imported.
    """
    before, there = set(sys.modules), str(unit)
    sys.path.insert(0, there)
    found: dict[str, type[Case]] = {}
    try:
        importlib.invalidate_caches()
        for path in sorted((unit / CHECKS).glob(PATTERN)):
            module = importlib.import_module(f"{CHECKS}.{path.stem}")
            for name, kind in vars(module).items():
                if isinstance(kind, type) and issubclass(kind, Case) and kind.target:
                    found.setdefault(name, kind)
    except ModuleNotFoundError as error:
        raise TargetError(
            f"{CHECKS}/ needs {error.name}, which isn't here: it comes with the assignment."
        ) from error
    except Exception as error:
        raise TargetError(f"{unit / CHECKS}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(there)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if (file and unit in Path(file).parents) or name in (CHECKS, "given"):
                del sys.modules[name]
    return list(found.values())


def kind_of(path: Path, function: str) -> type[Case] | None:
    """The first class of cases that calls this function on ranks; None: there is none."""
    unit = unit_of(path)
    if unit is None:
        return None
    name = path.resolve().relative_to(unit).as_posix()
    targets = (f"{name.removesuffix('.py')}:{function}", f"{name}:{function}")
    kinds = (kind for kind in classes(unit) if not issubclass(kind, Formula))
    return next((kind for kind in kinds if kind.target in targets), None)


def case(kind: type[Case], p: int, given: Mapping[str, Any], **usual: Any) -> Case:
    """A case of a class, from the options that stand in a line.

    Args:
        given: what was asked for, by the name of the field.
        usual: values of fields that the class may not have.

    Raises:
        TargetError: there is no such field.
    """
    names = {item.name for item in dataclasses.fields(kind)} - {"p", "members", "world"}
    if unknown := sorted(set(given) - names):
        raise TargetError(
            f"{kind.target.partition(':')[2]} has no option {unknown[0]!r}; its options are: "
            f"{', '.join(sorted(names))}."
        )
    values = {name: value for name, value in usual.items() if name in names}
    return kind(p, **{**values, **given})
