"""What holds for all tests: the public secret, and what failed tests leave open."""

from __future__ import annotations

import os

from autograder.course.secret import PUBLIC_SECRET, VARIABLE
from tests.leftovers import pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]  # hooks: pytest finds them here

# Tests grade with what everybody knows: without it they would draw a secret into the kit.
os.environ[VARIABLE] = PUBLIC_SECRET
