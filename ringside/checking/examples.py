"""Inputs that an assignment brings itself: ``examples.py`` beside the modules.

Where functions want other things than vectors, this supplied file says what they are tried out on.
It has these functions, with ``options`` as ``ringside.checking.inputs.Options``; it may leave out
the last one::

    arguments(function, world_size, rank, options)   what a rank gets after ``comm``, a tuple
    expected(function, world_size, rank, options)    what it should return
    check(case, function, rank, value, options)      raises ``case.fail(...)`` if a value is wrong;
                                                     True: it has compared it

and ``OPTIONS``, the names that may stand after ``--``; sentences leave out those in ``UNSAID``. The
first two give None for a function that they don't know: then it gets vectors, as
``ringside.checking.inputs`` says.

``CHECKS``, if it is there, has checks of a whole run by name, which ``ringside run --check NAME``
makes: ``function(result, case, value)`` for ``--check NAME=VALUE``.

A function that takes objects which only a rank can make, a model or a process group's hook, can't
be tried out like that. ``INSTEAD``, if it is there, names the supplied function that makes them::

    INSTEAD = {"step_torch.py:train_step": "callers_torch.py:train_step"}
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ringside.errors import TargetError

NAME = "examples.py"


def beside(path: Path) -> ModuleType | None:
    """The ``examples.py`` in a module's folder, or None.

    The modules that it imports from there are its own: they don't stay in ``sys.modules``.

    Raises:
        TargetError: it can't be imported.
    """
    module_path = path.parent / NAME
    if not module_path.is_file():
        return None
    folder, before = str(module_path.parent.resolve()), set(sys.modules)
    spec = importlib.util.spec_from_file_location("examples", module_path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise TargetError(
            f"{NAME} needs {error.name}.py, which isn't here yet: write it first."
        ) from error
    except Exception as error:
        raise TargetError(f"{module_path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).parent == Path(folder):
                del sys.modules[name]
    return module


def instead(module: ModuleType, target: str) -> str:
    """The target to run in the place of one that can't be tried out; empty if there is none."""
    return str(getattr(module, "INSTEAD", {}).get(target, ""))
