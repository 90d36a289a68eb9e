"""Files and processes that failed tests left open are named above the summary, never below it.

A failed test's traceback holds what the test had open until the session is over. pytest collects
that after its closing line, and raises hundreds of lines there, so that nobody sees what failed.
A session in which nothing failed is left as it is: there a resource left open stays an error.
"""

from __future__ import annotations

import gc
import sys

import pytest

LEFT_OPEN = pytest.StashKey[list[str]]()
OF_LAST_FAILURE = ("last_exc", "last_type", "last_value", "last_traceback")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let go of the last failure, and collect all of them before the summary is written."""
    if not session.testsfailed:
        return
    for name in OF_LAST_FAILURE:
        sys.__dict__.pop(name, None)
    left: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: left.append(str(unraisable.exc_value))
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
    session.config.stash[LEFT_OPEN] = left


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name them, a line for each."""
    if left := config.stash.get(LEFT_OPEN, []):
        terminalreporter.section("left open by tests that failed")
        for warning in left:
            terminalreporter.write_line(warning)
