"""Ranks that are alike, timed once: which rank stands for which, and when that is exact.

    every rank replayed    0 -> 1 -> 2 -> 3 -> 0      4 ranks that pass something round a ring
    folded                 0 -+                       one stands for all; what it sends to rank 1
                           ^  |                       it receives itself, as rank 3's message
                           +--+

All ranks can be moved along some axes of a grid, and the trace stays what it was. So its times stay
too, if nothing else tells the ranks apart. What could is looked at, and what does is an
``AsymmetryError``, in words:

    the machine        nodes must come to lie on nodes; and where the ranks of a node share a port,
                       no two of them may be alike, for one of them has to wait for the other
    a collective       its messages, moved, must be those of the moved members: unequal shares of a
                       ring, and trees, tell them apart
    order at a port    of two messages that come to a port at one instant, the lower rank's goes
                       first: all moves must leave it the lower one; and at an instant at which a
                       message takes no time, what it sets off may come before or after others

The first two are checked beforehand, the last whenever it happens. What then is left of the
engine's order concerns different ports, and so no times (``tests/ringside/scale/test_fold.py``
compares with replaying all ranks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.errors import TraceError
from ringside.timing.collectives import Round
from ringside.timing.engine_state import Flight
from ringside.timing.machine import Machine
from ringside.timing.ports import PS, Ports
from ringside.timing.rails import Layout, formula_s, layout, rounds
from ringside.trace import Kind, Trace

MAX_LOWERED = 8_000_000  # messages of one collective that are compared with their moved ones


class AsymmetryError(TraceError):
    """Something tells ranks apart that were to be timed as one."""


class Fold:
    """A group of moves, and the ranks that stand for all.

    Args:
        moves: shape (number of moves, world_size): where each rank comes; the first moves nobody,
            and no other leaves any rank in its place.
        axes: along which they go, for messages.
    """

    def __init__(self, moves: Array, axes: Sequence[str] = ()) -> None:
        self.moves = moves
        self.axes = tuple(axes)
        self.world_size = moves.shape[1]
        # Moves are a group: all ranks of an orbit have the same lowest one.
        self.stand_in: list[int] = moves.min(axis=0).tolist()
        self._homes: dict[int, list[int]] = {}
        self._ordered: dict[tuple[int, int], bool] = {}
        self._comms: dict[tuple[str, int], str] = {}

    @property
    def ranks(self) -> list[int]:
        """The ranks that stand for others, in order."""
        return [rank for rank, stands in enumerate(self.stand_in) if rank == stands]

    def home(self, rank: int) -> list[int]:
        """Where everybody comes by the move that brings ``rank`` to its stand-in."""
        move = self._homes.get(rank)
        if move is None:
            number = int(np.flatnonzero(self.moves[:, rank] == self.stand_in[rank])[0])
            move = self._homes[rank] = self.moves[number].tolist()
        return move

    def home_comm(self, comm: str, rank: int) -> str:
        """The path of the communicator that is ``comm`` when ``rank`` has come to its stand-in."""
        if comm == "world":
            return comm
        key = comm, rank
        path = self._comms.get(key)
        if path is None:
            # The path as ``scale.assembly`` writes it: world/2g0-1-3.
            home, (count, members) = self.home(rank), comm.rsplit("g", 1)
            moved = sorted(home[int(member)] for member in members.split("-"))
            path = self._comms[key] = f"{count}g{'-'.join(map(str, moved))}"
        return path

    def keeps_order(self, first: int, second: int) -> bool:
        """Whether wherever the two are moved, ``first`` is the lower rank."""
        key = first, second
        is_lower = self._ordered.get(key)
        if is_lower is None:
            is_lower = bool((self.moves[:, first] < self.moves[:, second]).all())
            self._ordered[key] = is_lower
        return is_lower

    # -- checks beforehand -------------------------------------------------------------------------

    def check(self, trace: Trace, machine: Machine) -> None:
        """Check the machine and the collectives of the ranks that stand for others.

        Raises:
            AsymmetryError: they tell ranks apart.
        """
        self._check_nodes(machine)
        seen: set[Any] = set()
        compared: set[Any] = set()
        for rank in self.ranks:
            for op in trace.ops[rank]:
                if op.kind == Kind.COLLECTIVE and op.detail:
                    name, _, root, members, sizes = op.detail
                    key = name, root, members, sizes
                    if key not in seen:
                        seen.add(key)
                        self._check_collective(machine, compared, *key)

    def _check_nodes(self, machine: Machine) -> None:
        if machine.ranks_per_node == 1 or not _nodes_matter(machine):
            return
        sharing = _sharing(machine)
        if machine.ranks_per_node % sharing:
            raise AsymmetryError(
                f"{sharing} neighbours share a port on {machine.name}, and the last ones of a node "
                "are fewer."
            )
        ranks = np.arange(self.world_size)
        nodes = ranks // machine.ranks_per_node
        for move in self.moves[1:]:
            self._check_units(nodes, move, f"on one node of {machine.name}")
            self._check_units(ranks // sharing, move, f"at one port on {machine.name}")
            came = nodes[move]
            if sharing > 1 and (came == nodes).any():
                rank = int(np.flatnonzero(came == nodes)[0])
                raise AsymmetryError(
                    f"ranks {rank} and {int(move[rank])} are alike and share a port of their node "
                    f"on {machine.name}: one waits for the other."
                )

    @staticmethod
    def _check_units(units: Array, move: Array, where: str) -> None:
        """Check that the ranks of a unit, numbered in the order of the ranks, come to one unit."""
        came = units[move]
        first = np.searchsorted(units, units)  # the first rank of each rank's unit
        if (came != came[first]).any():
            rank = int(np.flatnonzero(came != came[first])[0])
            raise AsymmetryError(
                f"ranks {int(first[rank])} and {rank} are {where}, and those that are like them, "
                f"{int(move[first[rank]])} and {int(move[rank])}, are on two."
            )

    def _check_collective(
        self,
        machine: Machine,
        compared: set[Any],
        name: str,
        root: int,
        members: tuple[int, ...],
        sizes: Any,
    ) -> None:
        """Compare a collective with its moved ones, unless the like were ``compared`` before."""
        p = len(members)
        moved = self.moves[:, np.array(members)]
        # Members that are moved ascend (``check_ascending``): sorted, they are the other group in
        # its order.
        ways = np.argsort(np.argsort(moved, axis=1), axis=1)
        if len(np.unique(ways, axis=0)) == 1:  # all moves leave the members in their order
            return
        # Of every way and layout on nodes, a group to which the members come.
        groups: dict[tuple[tuple[int, ...], Layout], tuple[int, ...]] = {}
        for way, ranks in zip(ways.tolist(), np.sort(moved, axis=1).tolist(), strict=True):
            there = tuple(ranks)
            groups.setdefault((tuple(way), layout(machine, there)), there)
        text = f"{name} of {max(sizes, default=0)} bytes over ranks {members[0]}, {members[1]}, ..."
        key = name, root, sizes, p, tuple(groups)
        if key in compared:
            return
        compared.add(key)
        if len(set(sizes)) > 1:
            raise AsymmetryError(f"{text} has parts of different sizes.")
        if formula_s(machine, name, members, sizes) is not None:
            return  # all end at once, wherever they lie
        if len(groups) * p * len(rounds(machine, name, members, 0, root, sizes)) > MAX_LOWERED:
            raise AsymmetryError(f"{text} has too many messages to compare them.")
        here = [rounds(machine, name, members, member, root, sizes) for member in range(p)]
        for (way, _), there in groups.items():
            for member in range(p):
                if _renamed(here[member], way) != rounds(
                    machine, name, there, way[member], root, sizes
                ):
                    raise AsymmetryError(
                        f"{text} tells its {p} members apart: {machine.algorithm(name)!r} gives "
                        "them messages of different sizes or to other places."
                    )


def _sharing(machine: Machine) -> int:
    """How many neighbours share a port between nodes."""
    return min(machine.gpus_per_nic, machine.ranks_per_node) if machine.ports == "rank" else 1


def _nodes_matter(machine: Machine) -> bool:
    """With ports by rank they always do: one port is for the node, the other for the network."""
    first, last = 0, machine.ranks_per_node
    alike = machine.link(first, 1) == machine.link(first, last) and (
        machine.eager_latency_s(first, 1) == machine.eager_latency_s(first, last)
    )
    by_nodes = machine.algorithm("allreduce") == "ring_or_tree" or machine.switch_gain != 1
    return machine.ports == "rank" or not alike or by_nodes


def _renamed(in_order: list[Round], way: Sequence[int]) -> list[Round]:
    return [tuple((way[peer], sent, got) for peer, sent, got in step) for step in in_order]


class FoldedPorts(Ports):
    """The ports of the ranks that stand for others; the order of what comes at once is checked."""

    def __init__(self, machine: Machine, fold: Fold) -> None:
        super().__init__(machine, fold.world_size, None)
        self._fold = fold
        self._came: dict[int, tuple[int, int, int]] = {}  # port -> instant, post time, source
        self._unit = _sharing(machine)
        self._homes: dict[int, tuple[int, list[int]]] = {}
        self.chained = -1  # an instant at which something took no time

    def leave(self, message: Flight, now: int) -> tuple[int, int]:
        """See ``Ports``."""
        times = super().leave(message, now)
        route = self._routes[message.source * self.world_size + message.dest]
        self._look(route[2], now, message, self._at_source(message.source))
        return times

    def arrive(self, message: Flight, now: int) -> int:
        """See ``Ports``."""
        done = super().arrive(message, now)
        route = self._routes[message.source * self.world_size + message.dest]
        self._look(route[3], now, message, self._at_dest(message.source, message.dest))
        return done

    def _look(self, port: int, now: int, message: Flight, source: int) -> None:
        before = self._came.get(port)
        posted = message.posted
        self._came[port] = now, posted, source
        if before is None or before[0] != now:
            return
        _, posted_before, source_before = before
        ordered = posted_before < posted or (
            posted_before == posted
            and (source_before == source or self._fold.keeps_order(source_before, source))
        )
        if ordered and self.chained != now:
            return
        reason = f"two messages come to one port at the same instant, {now / PS:.9g} s, "
        if ordered:
            raise AsymmetryError(reason + "at which another took no time at all.")
        raise AsymmetryError(
            f"{reason}from ranks {source_before} and {source}, and which of them goes first isn't "
            "the same for all the ranks that they stand for."
        )

    # A message is known by its sender that stands for others. At a port of another rank, or of a
    # node, the sender is whoever is its like there.

    def _at_source(self, source: int) -> int:
        return self._home_of_unit(source)[1][source]

    def _at_dest(self, source: int, dest: int) -> int:
        return self._home_of_unit(dest)[1][source]

    def _home_of_unit(self, rank: int) -> tuple[int, list[int]]:
        """The like of a rank, or node, that stands for it, and the move that brings it there."""
        home = self._homes.get(rank // self._unit)
        if home is None:
            came = self._fold.moves[:, rank // self._unit * self._unit] // self._unit
            number = int(np.argmin(came))
            home = int(came[number]), self._fold.moves[number].tolist()
            self._homes[rank // self._unit] = home
        return home

    def _route(self, source: int, dest: int) -> tuple[int, int, int, int, int]:
        alpha, beta, leaving, arriving, eager_alpha = super()._route(source, dest)
        if source != dest and self.machine.ports == "rank":
            if leaving < 0:  # to the network
                leaving = -2 * self._home_of_unit(source)[0] - 1
                arriving = -2 * self._home_of_unit(dest)[0] - 2
            else:
                arriving = 2 * self._fold.stand_in[dest] + 1
        route = (alpha, beta, leaving, arriving, eager_alpha)
        self._routes[source * self.world_size + dest] = route
        return route
