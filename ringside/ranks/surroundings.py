"""Where ranks of one's own run live: in the caller's folder, environment and import paths.

Graded ranks have none of this, so that a result depends on nothing but what was handed in.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
from typing import Any


def of_caller() -> dict[str, Any]:
    """This process's own, as a rank's start command carries them."""
    paths = os.environ.get("PYTHONPATH")
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "paths": [os.path.abspath(path) for path in paths.split(os.pathsep)] if paths else [],
        "users": [site.getusersitepackages()] if site.ENABLE_USER_SITE else [],
    }


def has_input() -> bool:
    """Whether this process's standard input is a file or a pipe, which rank 0 may read.

    Not a terminal: what a rank prints is collected, so it would wait for an answer to a question
    that nobody sees.
    """
    try:
        os.fstat(0)
    except OSError:  # it is closed
        return False
    return not os.isatty(0)


def enter(surroundings: dict[str, Any]) -> None:
    """Let this rank live there; what the kit itself has set in the environment stays."""
    of_the_kit = {name: value for name, value in os.environ.items() if name != "PATH"}
    os.environ.clear()
    os.environ.update({**surroundings["environment"], **of_the_kit})
    with contextlib.suppress(OSError):  # it was removed since
        os.chdir(surroundings["folder"])
    # In the places where Python itself puts them.
    installed = (n for n, path in enumerate(sys.path) if path.endswith("-packages"))
    at = next(installed, len(sys.path))
    sys.path[at:at] = surroundings["users"]
    sys.path[:0] = surroundings["paths"]
