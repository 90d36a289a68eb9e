"""``python -m autograder`` is ``autograder``."""

from __future__ import annotations

import sys


def run() -> int:
    """Run one command; Ctrl-C in the seconds that the imports take shows no traceback either."""
    try:
        from autograder.commands.cli import main
    except KeyboardInterrupt:
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
