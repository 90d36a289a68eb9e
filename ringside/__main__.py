"""``python -m ringside`` is ``ringside``."""

from __future__ import annotations

import sys

from ringside.commands.cli import main

sys.exit(main())
