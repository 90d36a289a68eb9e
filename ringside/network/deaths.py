"""Ranks that are killed in a run, or hang: before which operation, and what goes with them.

All of it is known before the run, from one in which nobody died, so that it doesn't depend on which
frame of which rank comes first: see ``ringside.session.killing``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ringside.timing.ports import PS
from ringside.units import format_time, ordinal


@dataclass(frozen=True)
class Death:
    """The end of one rank.

    Attributes:
        op: the number of operations that it has posted; it dies instead of the next one.
        time_ps: on the virtual clock.
        lost: those of its sends that never arrive, by index among its operations.
        broken: those of its collectives that had not come to an end.
        call: what it would have done next, with its line; empty: return.
        hangs: it is alive, and goes on no more.
    """

    rank: int
    op: int
    time_ps: int
    lost: frozenset[int] = frozenset()
    broken: frozenset[int] = frozenset()
    call: str = ""
    hangs: bool = False

    @property
    def told(self) -> str:
        """It in words."""
        if self.hangs:
            before = self.call or "its end"
            return (
                f"rank {self.rank} hangs from {format_time(self.time_ps / PS)} on, before its "
                f"{ordinal(self.op + 1)} operation ({before})"
            )
        return (
            f"rank {self.rank} was killed at {format_time(self.time_ps / PS)}, in its "
            f"{ordinal(self.op + 1)} operation{self.call and f' ({self.call})'}"
        )


class Deaths:
    """All deaths of a run, and which of them have happened.

    Args:
        detect_ps: how long it takes until others know of one.
        collectives: which members of a broken one get its result: "all", "none", or "split", a
            drawn half.
        seed: draws them.
    """

    def __init__(
        self,
        deaths: Sequence[Death] = (),
        *,
        detect_ps: int = 0,
        collectives: str = "split",
        seed: int = 0,
    ) -> None:
        self._by_rank = {death.rank: death for death in deaths}
        self.foreseen = bool(deaths)
        self._detect_ps = detect_ps
        self._collectives = collectives
        self._seed = seed
        self.dead: set[int] = set()
        self.hung: set[int] = set()
        self.acked: dict[tuple[int, int], frozenset[int]] = {}  # communicator, rank -> dead ranks

    def due(self, rank: int, num_ops: int) -> bool:
        """Whether a rank that has posted so many operations dies now."""
        death = self._by_rank.get(rank)
        return death is not None and num_ops >= death.op and rank not in self.dead

    def happen(self, rank: int) -> Death:
        """A rank is dead from here on, or hangs."""
        death = self._by_rank[rank]
        (self.hung if death.hangs else self.dead).add(rank)
        return death

    def loses(self, rank: int, op: int) -> bool:
        """Whether a send never arrives."""
        death = self._by_rank.get(rank)
        return death is not None and op in death.lost

    def breaks(self, rank: int, op: int) -> bool:
        """Whether a rank dies in a collective that it has joined."""
        death = self._by_rank.get(rank)
        return death is not None and op in death.broken

    def known_ps(self, ranks: Sequence[int]) -> int:
        """When the last of these deaths is known to the others."""
        return max(self._by_rank[rank].time_ps for rank in ranks) + self._detect_ps

    def spares(self, path: str, sequence: int, member: int) -> bool:
        """Whether a member gets the result of a collective in which another one dies."""
        if self._collectives != "split":
            return self._collectives == "all"
        return random.Random(f"{self._seed} {path} {sequence} {member}").random() < 0.5

    def told(self, ranks: Sequence[int]) -> str:
        """The deaths of ranks, in words."""
        return ", ".join(self._by_rank[rank].told for rank in sorted(ranks))

    def happened(self) -> list[Death]:
        """Those that have, by rank."""
        return [self._by_rank[rank] for rank in sorted(self.dead)]

    def hanging(self) -> list[Death]:
        """The ranks that hang by now."""
        return [self._by_rank[rank] for rank in sorted(self.hung)]
