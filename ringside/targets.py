"""What a target names: ``"ring:all_reduce"``, or ``"checks/inside.py:called"`` in a folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def module_name(file: str) -> str:
    """A file, or a module, as it is imported from its folder.

    >>> module_name("checks/inside.py")
    'checks.inside'
    """
    return file.removesuffix(".py").replace("/", ".")


def find(target: str) -> Callable[..., Any]:
    """The function that a target names.

    Raises:
        ImportError: there is no such module, or it can't be imported.
        AttributeError: it has no such function.

    >>> find("math:sqrt")(9.0)
    3.0
    """
    file, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(import_module(module_name(file)), name)
    return function
