"""One hub for all tests of this folder, whose thread is in its network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from tests.autograder.hub import hub as hubs
from tests.autograder.hub.hub import Hub


@pytest.fixture(scope="session")
def _hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hubs.ready()
    try:
        best_tier()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    made = Hub(tmp_path_factory.mktemp("hub"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def hub(_hub: Hub) -> Iterator[Hub]:
    """The hub, as long as a module's tests are in its network."""
    with _hub.machine.network():
        yield _hub
