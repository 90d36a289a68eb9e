"""What ends a command with one line, which names the cause: not a bug, and no traceback."""

from __future__ import annotations

from autograder.collect.submissions import PathError
from autograder.course.assignment import AssignmentError
from autograder.course.limits import LimitsError
from autograder.sandbox.sandbox import SandboxUnavailable
from ringside.errors import RingsideError
from ringside.toml_tables import TableError

FAULTS = (
    AssignmentError, LimitsError, TableError, RingsideError, SandboxUnavailable, PathError, OSError,
)  # fmt: skip
