"""``breakpoint()`` in a rank: pdb at the terminal of the command that started the run.

A rank has no keyboard and its output is collected until the run ends, so pdb would
read the end of a file. The rank that is asked for talks to ``/dev/tty`` instead; the others pass
their breakpoints by, and wait in their next receive as they would for a slow rank.
"""

from __future__ import annotations

import sys
from typing import Any

TERMINAL = "/dev/tty"


def install(rank: int, debug_rank: int | None) -> None:
    """Set what ``breakpoint()`` does in this rank, of a run in which ``debug_rank`` is debugged.

    Call it before the rank is confined, which refuses to open the terminal later.

    Raises:
        OSError: this process has no terminal.
    """
    if debug_rank is None:
        sys.breakpointhook = _refuse
    elif debug_rank != rank:
        sys.breakpointhook = pass_by
    else:
        from pdb import Pdb  # not in every zygote: it brings thirty modules

        # For as long as the rank lives.
        keys, screen = open(TERMINAL), open(TERMINAL, "w", buffering=1)  # noqa: SIM115

        def stop(*_args: Any, **_options: Any) -> None:
            Pdb(stdin=keys, stdout=screen, nosigint=True).set_trace(sys._getframe(1))

        sys.breakpointhook = stop


def pass_by(*_args: Any, **_options: Any) -> None:
    """Go on: also where the zygote rehearses, through the same code as ranks."""


def _refuse(*_args: Any, **_options: Any) -> None:
    raise RuntimeError(
        "a rank has no keyboard, so breakpoint() can't stop here. In a terminal, "
        "`ringside run FILE:FUNCTION --ranks 4 --debug 1` stops in rank 1."
    )
