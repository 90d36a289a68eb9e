"""hierarchical.py: reduce-scatter in the node, all-reduce between nodes, all-gather in the node."""

import functools

from ringside import Machine
from ringside.checking import (
    Case,
    assert_bytes,
    assert_own_messages,
    assert_ran,
    members_of_world,
    on_members,
)
from ringside.checking.points import points_of
from solutions.a03_allreduce import examples
from solutions.a03_allreduce.examples import assert_two_levels
from solutions.a03_allreduce.hidden import oracle, runs

TARGET = "hierarchical:all_reduce"
GRIDS = ((4, 2), (6, 3), (6, 2), (8, 4), (9, 3))  # p, g
points = points_of("hierarchical")


def case(world_size, ranks_per_node, n, dtype="float64"):
    return Case(TARGET, world_size, n, dtype, {"ranks_per_node": ranks_per_node})


def check_values(ranks, rng, cases):
    for asked in cases:
        runs.reduced(ranks, rng, asked, values_only=True)


@points(6, "communication", essential=True)
def test_every_rank_sends_inside_its_node_and_between_nodes(ranks, rng):
    runs.check_scheme(ranks, rng, [case(6, 3, 36)])


@points(13, "values")
def test_sums_where_everything_divides(ranks, rng):
    check_values(ranks, rng, [case(p, g, n) for p, g in GRIDS for n in (p, 6 * p)])


@points(10, "values")
def test_sums_of_other_lengths(ranks, rng):
    lengths = {p: (0, 1, p - 1, p + 1, 203) for p, _ in GRIDS}
    check_values(ranks, rng, [case(p, g, n) for p, g in GRIDS[:4] for n in lengths[p]])


@points(6, "values")
def test_one_node_and_nodes_of_one_rank(ranks, rng):
    grids = ((2, 2), (4, 4), (3, 1), (4, 1), (1, 1))
    check_values(ranks, rng, [case(p, g, 4 * p) for p, g in grids])


@points(4, "values")
def test_dtype_is_kept_and_integers_are_exact(ranks, rng):
    check_values(ranks, rng, [case(4, 2, 16, dtype) for dtype in ("float32", "int64")])


@points(5, "values")
def test_inputs_may_have_gaps_and_stay_as_they_were(ranks, rng):
    runs.check_strided(ranks, rng, [case(4, 2, 12)], runs.summed)
    runs.check_inputs_kept(ranks, rng, [case(4, 2, 12), case(6, 3, 12)])


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    runs.check_second_call(ranks, rng, [case(4, 2, 12), case(6, 2, 12)])


def check_refused(ranks, rng, asked):
    """All ranks raise, and none waits for a message."""
    arguments = [(TARGET, *each) for each in asked.arguments(asked.vectors(rng))]
    result = ranks.call("callers:refused", asked.world_size, arguments)
    seen = asked.called_by("callers:refused").seen_in(result)
    assert_ran(result, seen)
    for rank, value in enumerate(result.values):
        examples.check_refused(seen, rank, value)


@points(3, "values")
def test_other_worlds_are_refused(ranks, rng):
    check_values(ranks, rng, [case(4, 2, 12)])
    for p, g in ((5, 2), (6, 4)):
        check_refused(ranks, rng, case(p, g, 8))


@points(4, "reality")
def test_real_mpi(mpi, rng):
    runs.check_real_mpi(mpi, rng, [case(4, 2, 12), case(4, 2, runs.LARGE)])


@points(10, "communication")
def test_bytes_between_nodes(ranks, rng):
    for asked in (case(4, 2, 64), case(12, 4, 1200), case(15, 5, 3000), case(20, 4, 800)):
        assert_two_levels(runs.reduced(ranks, rng, asked), asked)


@points(6, "communication")
def test_bytes_in_all(ranks, rng):
    for asked in (case(4, 2, 64), case(6, 3, 6000), case(12, 4, 1200), case(20, 4, 800)):
        result = runs.reduced(ranks, rng, asked)
        assert_own_messages(result, asked)
        allowed = [sum(oracle.two_level_bytes(asked))] * asked.world_size
        ranks.record(asked, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, asked)


@points(8, "communication")
def test_given_communicator_is_used(ranks, rng):
    for asked in (case(4, 2, 16), case(6, 3, 24, "float32")):
        members, world_size = members_of_world(rng, asked.world_size, 2)
        # Nodes are those of comm: which ranks of the world they are does not matter.
        one = functools.partial(runs.reduced, ranks, rng, asked)
        on_members(one, members, world_size, asked)


@points(6, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    runs.check_rendezvous(ranks, rng, [case(4, 2, 16), case(6, 3, 600)])


@points(4, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    runs.check_any_order(ranks, rng, [case(6, 3, 24)])


@points(12, "speed")
def test_time_on_two_and_four_nodes(ranks, rng):
    machine = Machine.load("zaratan")
    for p in (8, 16):
        asked = case(p, 4, p * 10_000, "float64")
        runs.check_makespans(ranks, rng, [asked], machine, oracle.two_level_s)
