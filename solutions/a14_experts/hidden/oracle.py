"""The checks that students have, too."""

from pathlib import Path

from ringside.checking.examples import beside

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "callers.py")
