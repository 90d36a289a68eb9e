"""The Unix group of the course's account is the list of graders, and the only one."""

from __future__ import annotations

import pytest

from tests.autograder.hub.hub import COURSE, Hub
from tests.autograder.hub.test_accounts import SERVICE

pytestmark = [pytest.mark.release, pytest.mark.sandbox, pytest.mark.slow]


def test_who_leaves_the_group_loses_the_formgrader_when_the_hub_starts_again(hub: Hub) -> None:
    status = f"{SERVICE}/formgrader/api/status"
    assert hub.asks("gwen", "GET", status).status_code == 200
    hub.machine.run("root", f"gpasswd --delete gwen {COURSE}")
    hub.restart()
    assert hub.asks("gwen", "GET", status).status_code == 403
    assert hub.asks("gus", "GET", status).status_code == 200
