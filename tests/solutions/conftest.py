"""What the tests of several references share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest


@pytest.fixture
def module(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of the test's SOLUTION by its name; those in OURS are imported afresh."""
    monkeypatch.syspath_prepend(str(request.module.SOLUTION))
    for name in request.module.OURS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in request.module.OURS:
        sys.modules.pop(name, None)
