"""The ring all-reduce of lecture 3 as a picture that moves, with the numbers of a run on ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringside.course.lectures.gallery import PROGRAMS
from ringside.draw.cells import Cell
from ringside.draw.ring_animation import Sent, Step, steps_svg
from ringside.errors import TargetError
from ringside.session.session import run

_SENDS = {
    "Reduce-scatter": "Each rank sends one shard to the next rank, which adds it to its own.",
    "All-gather": "Each rank sends a finished sum to the next rank, which keeps a copy.",
}


@dataclass(frozen=True)
class MovingRing:
    """A drawing of the ring.

    Attributes:
        held: per step, the first one before all, and per rank: the numbers in its shards.
        counts: likewise, how many ranks are in each of these numbers.
        sent_bytes: per rank, as the network counted them.
        svg: the drawing, which moves where the reader's settings allow it.
    """

    held: list[list[list[int]]]
    counts: list[list[list[int]]]
    sent_bytes: list[int]
    svg: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"MovingRing({len(self.sent_bytes)} ranks, {len(self.held) - 1} steps)"


def moving_ring(world_size: int = 4) -> MovingRing:
    """Run a ring all-reduce on ranks and draw it, step by step.

    Args:
        world_size: 2 to 5 ranks, with a shard each.

    Raises:
        TargetError: the ranks don't fit into the drawing.
    """
    if not 2 <= world_size <= 5:
        raise TargetError(f"world_size ({world_size}) must be between 2 and 5 to be drawn.")
    result = run(str(PROGRAMS / "ring.py") + ":all_reduce", world_size)
    num_steps = 2 * (world_size - 1) + 1
    held, counts = (
        [[value[step][index] for value in result.values] for step in range(num_steps)]
        for index in (0, 1)
    )
    steps = [
        Step(
            _title(number, world_size),
            _words(number, world_size),
            [
                [shown(*pair, rank, world_size) for pair in zip(*row, strict=True)]
                for rank, row in enumerate(zip(held[number], counts[number], strict=True))
            ],
            sent(held, counts, number),
        )
        for number in range(num_steps)
    ]
    title = f"A ring all-reduce on {world_size} ranks"
    return MovingRing(
        held,
        counts,
        result.sent_bytes(),
        steps_svg(title, steps),
    )


def shown(number: int, count: int, rank: int, world_size: int) -> Cell:
    """A rank's own number, or a sum of several ranks."""
    return Cell(str(number), rank if count == 1 else None, (count - 1) / (world_size - 1))


def sent(held: list[list[list[int]]], counts: list[list[list[int]]], number: int) -> list[Sent]:
    """The messages of a step: each shard that has become another came from the rank before."""
    if number == 0:
        return []
    p = len(held[0])
    return [
        Sent((rank - 1) % p, rank, shard)
        for rank in range(p)
        for shard in range(p)
        if (held[number][rank][shard], counts[number][rank][shard])
        != (held[number - 1][rank][shard], counts[number - 1][rank][shard])
    ]


def _title(number: int, world_size: int) -> str:
    """Of the state after so many steps."""
    per_phase = world_size - 1
    if number == 0:
        return "At first"
    phase = "Reduce-scatter" if number <= per_phase else "All-gather"
    return f"{phase} {(number - 1) % per_phase + 1} of {per_phase}"


def _words(number: int, world_size: int) -> str:
    """What comes next."""
    per_phase = world_size - 1
    if number == 2 * per_phase:
        return "Every rank holds every sum."
    return _SENDS["Reduce-scatter" if number < per_phase else "All-gather"]
