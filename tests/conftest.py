"""What holds for all tests: the public secret, how they are shared out, what failed ones left open.

`make test` shares the tests out to some processes (pytest-xdist). The tests of a file run in one of
them, in order, so that its fixtures are made once. All tests that start Slurm's daemons run in one
process too, since two sets of daemons would disturb each other. The samples of units and the
attacks are shared out one by one.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from autograder.course.secret import PUBLIC_SECRET, VARIABLE
from tests.leftovers import pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]  # hooks: pytest finds them here

# Tests grade with what everybody knows: without it they would draw a secret into the kit.
os.environ[VARIABLE] = PUBLIC_SECRET

SLURM = "tests/cluster/"
ONE_BY_ONE = ("tests/autograder/author/test_verify.py", "tests/autograder/author/test_redteam.py")
# They begin in this order; what takes minutes and comes last would keep one core idle.
LONGEST = (SLURM, *ONE_BY_ONE, "tests/autograder/author/test_demo.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest."""

    def turn(item: pytest.Item) -> int:
        starts = (n for n, place in enumerate(LONGEST) if item.nodeid.startswith(place))
        return next(starts, len(LONGEST))

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist asks for it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Say which tests stay together."""
    from xdist.scheduler import LoadScopeScheduling

    # Its own order begins with the files of most tests: the samples would come last, one core idle.
    config.option.loadscopereorder = False

    # Not by the mark xdist_group: pytest-xdist 3.8 writes it where pytest 9.2 looks no more.
    class FilesTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ONE_BY_ONE):
                return nodeid
            return SLURM if nodeid.startswith(SLURM) else nodeid.partition("::")[0]

    return FilesTogether(config, log)
