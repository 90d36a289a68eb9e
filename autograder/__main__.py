"""``python -m autograder`` is ``autograder``."""

from __future__ import annotations

import sys

from autograder.cli import main

sys.exit(main())
