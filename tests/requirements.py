"""Requirements for the small suites that tests write: one requirement for each of their tests."""

from __future__ import annotations

import json
from pathlib import Path


def lay_requirements(checks: Path, module: str, *, point: str = "", **points: float) -> None:
    """Add a module's table to ``requirements.toml``: requirements by name, with their points.

    Args:
        point: the point of the exercise; the first requirement, if nothing is said. Without it
            half of the points are left.
    """
    rows = [[name, worth, f"It asks for {name}."] for name, worth in points.items()]
    table = f"""[{module}]
the_point = "{point or next(iter(points))}"
without_it = 50
points = {json.dumps(rows)}

"""
    with (checks / "requirements.toml").open("a", encoding="utf-8") as file:
        file.write(table)
