"""A communicator as the network sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ringside.network.gathering import Gathering


@dataclass(eq=False)
class Communicator:
    """A group of ranks with its own messages."""

    number: int
    path: str
    members: tuple[int, ...]
    sequence: dict[Any, int] = field(default_factory=dict)
    gatherings: dict[Any, Gathering] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()  # of a window: the bytes that each member lets others use
    rank_of: dict[int, int] = field(init=False)  # in the communicator, of a world rank

    def __post_init__(self) -> None:
        self.rank_of = {rank: member for member, rank in enumerate(self.members)}
