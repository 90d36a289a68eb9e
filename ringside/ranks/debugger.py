"""``breakpoint()`` in a rank: pdb at the terminal of the command that started the run.

A rank's standard input is empty and its output is collected until the run ends, so pdb would
read the end of a file. The rank that is asked for talks to ``/dev/tty`` instead; the others pass
their breakpoints by, and wait in their next receive as they would for a slow rank.
"""

from __future__ import annotations

import sys
from pdb import Pdb
from typing import Any

TERMINAL = "/dev/tty"


def install(*, stops: bool) -> None:
    """Set what ``breakpoint()`` does in this rank: open pdb, or nothing.

    Call it before the rank is confined, which refuses to open the terminal later.

    Raises:
        OSError: this process has no terminal.
    """
    if not stops:
        sys.breakpointhook = lambda *_args, **_options: None
        return
    keys, screen = open(TERMINAL), open(TERMINAL, "w", buffering=1)

    def stop(*_args: Any, **_options: Any) -> None:
        Pdb(stdin=keys, stdout=screen, nosigint=True).set_trace(sys._getframe(1))

    sys.breakpointhook = stop
