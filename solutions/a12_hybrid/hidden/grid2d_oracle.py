"""The checks that students have, too: of ``grid.py`` and ``train2d.py``."""

from pathlib import Path

from ringside.checking.examples import beside

examples = beside(Path(__file__).resolve().parents[1] / "train2d.py")
grid_cases, train2d_cases = examples.grid_cases, examples.train2d_cases
