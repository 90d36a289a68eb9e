"""What holds for all tests: the public secret, their order, and what failed tests leave open.

`make test` shares the tests out to some processes (pytest-xdist, ``--dist loadgroup``). What has a
group runs in one process, in order: a file, whose fixtures are then made once, and all that needs
Slurm's daemons. The samples of units and the attacks have no group: each is a process of its own.
"""

from __future__ import annotations

import os

import pytest

from autograder.course.secret import PUBLIC_SECRET, VARIABLE
from tests.leftovers import pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]  # hooks: pytest finds them here

# Tests grade with what everybody knows: without it they would draw a secret into the kit.
os.environ[VARIABLE] = PUBLIC_SECRET

# Groups begin in this order; one that takes minutes and comes last would keep one core idle.
LONGEST = ("cluster/", "autograder/author/test_verify.py", "autograder/author/test_redteam.py")
APART = LONGEST[1:]


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest, and name the group of each test."""
    here = os.path.dirname(__file__)
    places = {item: os.path.relpath(item.path, here) for item in items}

    def turn(item: pytest.Item) -> int:
        return next((n for n, p in enumerate(LONGEST) if places[item].startswith(p)), len(LONGEST))

    items.sort(key=turn)
    for item in items:
        if places[item] in APART:
            continue
        slurm = item.get_closest_marker("slurm") is not None
        item.add_marker(pytest.mark.xdist_group("slurm" if slurm else places[item]))
