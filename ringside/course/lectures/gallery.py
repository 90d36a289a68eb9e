"""A gallery of collectives: what each rank holds before and after, taken from a run on ranks.

gallery()              all of them, as many side by side as the page has room for
gallery("all-reduce")  one of them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringside.draw.cells import Cell, arrivals_svg, before_after_svg
from ringside.errors import TargetError
from ringside.session.session import Result, Session

PROGRAMS = Path(__file__).parent / "programs"
BARRIER = "barrier"

# name -> calls of MPI and of torch.distributed, whether it adds, and what it does
COLLECTIVES: Mapping[str, tuple[str, bool, str]] = {
    "broadcast": ("Bcast · broadcast", False, "One rank gives all that it holds to every rank."),
    "reduce": ("Reduce · reduce", True, "One rank gets the sums over all ranks."),
    "scatter": ("Scatter · scatter", False, "One rank gives a part of its own to each rank."),
    "gather": ("Gather · gather", False, "One rank gets what every rank holds."),
    "all-gather": (
        "Allgather · all_gather", False,
        "Every rank gets what every rank holds.",
    ),
    "reduce-scatter": (
        "Reduce_scatter_block · reduce_scatter", True,
        "Every rank gets its part of the sums over all ranks.",
    ),
    "all-reduce": (
        "Allreduce · all_reduce", True,
        "Every rank gets all sums over all ranks.",
    ),
    "all-to-all": (
        "Alltoall · all_to_all", False,
        "Every rank gives a part of its own to each rank.",
    ),
    BARRIER: (
        "Barrier · barrier", False,
        "No rank goes on until all of them have arrived.",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Gallery:
    """Drawings of collectives.

    Attributes:
        before, after: name -> per rank, the numbers that it holds; a barrier has none.
        arrive_us, leave_us: per rank, when it comes to the barrier and when it goes on.
        svgs: name -> the drawing.
    """

    before: dict[str, list[list[int]]]
    after: dict[str, list[list[int]]]
    arrive_us: list[float]
    leave_us: list[float]
    svgs: dict[str, str] = field(repr=False)

    def _repr_html_(self) -> str:
        style = "display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start"
        return f'<div class="ringside-gallery" style="{style}">{"".join(self.svgs.values())}</div>'

    def __repr__(self) -> str:
        return f"Gallery({', '.join(self.svgs)})"


def gallery(*names: str, world_size: int = 4) -> Gallery:
    """Run collectives on ranks and draw what each rank holds before and after.

    Args:
        names: which ones; none: all nine.
        world_size: 2 to 8 ranks, which root 0 is one of.

    Raises:
        TargetError: there is no such collective, or the ranks don't fit into a drawing.
    """
    unknown = [name for name in names if name not in COLLECTIVES]
    if unknown:
        raise TargetError(f"{unknown[0]!r} is none of {', '.join(COLLECTIVES)}.")
    if not 2 <= world_size <= 8:
        raise TargetError(f"world_size ({world_size}) must be between 2 and 8 to be drawn.")
    before: dict[str, list[list[int]]] = {}
    after: dict[str, list[list[int]]] = {}
    arrive_us: list[float] = []
    leave_us: list[float] = []
    svgs: dict[str, str] = {}
    with Session(PROGRAMS) as session:
        for name in names or COLLECTIVES:
            calls, adds, sentence = COLLECTIVES[name]
            options: dict[str, Any] = {"calls": calls, "sentence": sentence}
            title = name.capitalize()
            result = session.call(f"collectives:{name.replace('-', '_')}", world_size)
            result.raise_for_error()
            if name == BARRIER:
                arrive_s, leave_s = arrivals(result)
                arrive_us, leave_us = ([1e6 * s for s in times] for times in (arrive_s, leave_s))
                svgs[name] = arrivals_svg(title, arrive_s, leave_s, **options)
                continue
            before[name], after[name] = (
                [value[index] for value in result.values] for index in (0, 1)
            )
            cells = [
                [[origin(number, adds and index == 1) for number in row] for row in rows]
                for index, rows in enumerate((before[name], after[name]))
            ]
            svgs[name] = before_after_svg(title, *cells, **options)
    return Gallery(before, after, arrive_us, leave_us, svgs)


def origin(number: int, is_sum: bool) -> Cell:
    """The tens of a number tell which rank it comes from."""
    return Cell(str(number), None if is_sum else number // 10)


def arrivals(result: Result) -> tuple[list[float], list[float]]:
    """When each rank's work ended, and when the rank did."""
    arrive = [max(s.end_s for s in row if s.kind == "compute") for row in result.timeline.spans]
    return arrive, list(result.timeline.end_s)
