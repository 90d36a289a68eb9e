"""A fold by hand: six ranks in a grid of two replicas by three, of whom rank 0 stands for all."""

from __future__ import annotations

import pytest

from ringside.scale.symmetry import Grid
from ringside.timing.engine_state import Flight
from ringside.timing.fold import AsymmetryError, Fold, FoldedPorts
from ringside.timing.machine import Machine
from ringside.trace import Trace

#              tp = 0 1 2
#     dp = 0        0 1 2
#     dp = 1        3 4 5
GRID = Grid.of({"dp": 2, "tp": 3}, 6)
MACHINE = Machine("two nodes", 1e-6, 1e-9, intra_alpha_s=1e-7, ranks_per_node=3)


def fold(*axes: str) -> Fold:
    return Fold(GRID.moves(axes), axes)


def test_one_rank_stands_for_all_that_can_be_moved_to_it() -> None:
    assert fold("dp", "tp").ranks == [0]
    assert fold("tp").stand_in == [0, 0, 0, 3, 3, 3]
    assert fold("dp").ranks == [0, 1, 2]
    assert fold().ranks == [0, 1, 2, 3, 4, 5]
    assert len(fold("dp", "tp").moves) == 6
    assert list(fold("dp", "tp").moves[0]) == [0, 1, 2, 3, 4, 5]


def test_a_rank_brings_everybody_along_to_its_stand_in() -> None:
    # Rank 4 comes to rank 0 by one replica and one place: 4 -> 1 -> 0.
    assert fold("dp", "tp").home(4) == [5, 3, 4, 2, 0, 1]
    assert fold("tp").home(4) == [2, 0, 1, 5, 3, 4]


def test_groups_come_along() -> None:
    both = fold("dp", "tp")
    assert both.home_comm("world/0g3-4-5", 4) == "world/0g0-1-2"
    assert both.home_comm("world/1g1-4", 4) == "world/1g0-3"
    assert both.home_comm("world", 4) == "world"


def test_the_lower_rank_stays_the_lower_one_or_does_not() -> None:
    assert fold("tp").keeps_order(0, 3)
    assert not fold("tp").keeps_order(0, 1)  # moved by two, they are 2 and 0
    assert fold("dp").keeps_order(0, 1)
    assert not fold("dp").keeps_order(3, 1)


def test_nodes_come_to_lie_on_nodes_or_do_not() -> None:
    nothing = Trace(6, [[] for _ in range(6)])
    fold("dp", "tp").check(nothing, MACHINE)
    with pytest.raises(AsymmetryError, match="ranks 0 and 1 are on one node"):
        fold("tp").check(nothing, MACHINE.with_(ranks_per_node=2))
    textbook = Machine.load("textbook").with_(ranks_per_node=2)  # links are alike, ports aren't
    fold("tp").check(nothing, textbook.with_(ports="peer"))
    with pytest.raises(AsymmetryError, match="ranks 0 and 1 are on one node"):
        fold("tp").check(nothing, textbook)
    with pytest.raises(AsymmetryError, match="ranks 0 and 1 are alike and share a port"):
        fold("tp").check(nothing, MACHINE.with_(gpus_per_nic=4))
    fold("dp").check(nothing, MACHINE.with_(gpus_per_nic=4))
    with pytest.raises(AsymmetryError, match=r"2 neighbours share a port .* are fewer"):
        fold("dp").check(nothing, MACHINE.with_(ranks_per_node=3, gpus_per_nic=2))


def flight(source: int, dest: int, posted: int) -> Flight:
    message = Flight()
    message.source, message.dest, message.nbytes, message.posted = source, dest, 1000, posted
    return message


def test_messages_that_come_at_once_need_an_order() -> None:
    """Rank 0 sends to 1 and to 2, so that rank 0 itself receives from 2 and from 1."""
    ports = FoldedPorts(MACHINE, fold("tp"))
    first, second = flight(0, 1, 0), flight(0, 2, 0)
    for message in (first, second):
        ports.leave(message, 0)
    ports.arrive(first, 500)
    with pytest.raises(AsymmetryError, match="from ranks 2 and 1, and which of them goes first"):
        ports.arrive(second, 500)


def test_messages_posted_one_after_the_other_have_an_order() -> None:
    ports = FoldedPorts(MACHINE, fold("tp"))
    first, second = flight(0, 1, 0), flight(0, 2, 10)
    for message in (first, second):
        ports.leave(message, message.posted)
    assert ports.arrive(second, 500) == ports.arrive(first, 501) - 1_000_000


def test_what_takes_no_time_has_no_order() -> None:
    ports = FoldedPorts(MACHINE, fold("tp"))
    first, second = flight(0, 1, 0), flight(0, 1, 10)
    for message in (first, second):
        ports.leave(message, message.posted)
    ports.chained = 500
    ports.arrive(first, 500)
    with pytest.raises(AsymmetryError, match="at which another took no time at all"):
        ports.arrive(second, 500)
