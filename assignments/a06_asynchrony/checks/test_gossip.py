"""gossip.py: values of W^r, messages to neighbours only, and all neighbours at once."""

from checks.cases_gossip import Gossip, GossipTwice, RefusedGossip, assert_gossip
from ringside.checking import assert_bytes, assert_makespan, assert_messages, assert_pairs
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("gossip")
RINGS, OTHERS, NARROW = "rings", "other graphs", "float32"
THREE_A_NODE = "buffered,ranks_per_node=3,intra_alpha_s=1e-08"  # between nodes it is 1e-6


@suite.test("neighbours", "communication", Gossip(4, num_rounds=2, shape=(4,)), checked=False)
def test_values_travel_to_neighbours(case, run):
    """On a ring, each rank's values go to its neighbours, at least once, and to nobody else."""
    assert_gossip(run, case)
    for rank, neighbours in enumerate(case.neighbours):
        for j in sorted(neighbours):
            sent = [
                op.nbytes for op in run.trace.ops[rank] if (op.kind, op.peer) == (Kind.ISEND, j)
            ]
            if sum(sent) < case.nbytes:
                raise case.fail(
                    f"rank {rank} sent its neighbour {j} {sum(sent)} bytes; its own values are "
                    f"{case.nbytes} bytes."
                )


@suite.test("rounds", "values", *(Gossip(p) for p in (2, 3, 4)))
def test_ring_on_2_to_5_ranks(case, run):
    """Some rounds on a ring."""


@suite.test("graphs", "values", Gossip(4, "wheel"), Gossip(6, "wheel"))
def test_wheel(case, run):
    """Rank 0 has all others as neighbours."""


@suite.test("graphs", "values", Gossip(6, "random", 4, (3,)), weight=2)
def test_random_graphs_with_weights_of_their_own(case, run):
    """Neighbours stand in any order."""


@suite.test(
    "arrays", "values", Gossip(3, "ring", 2, (2, 3), "float32"), Gossip(3, "ring", 2, ()),
    Gossip(3, "ring", 2, (0, 2)), Gossip(5, "ring", 1, (3,), nan_of=2), weight=2,
)  # fmt: skip
def test_any_array(case, run):
    """Any shape, float32 (also on its way), and NaN, which reaches whom it can."""
    assert_bytes(run, [int(each) for each in case.edge_nbytes.sum(axis=1)], case)


@suite.test(
    "arrays", "values", Gossip(4, "apart"), Gossip(3, "ring", 0), Gossip(1, "ring", 2),
    RefusedGossip(neighbours=("me",)),
    RefusedGossip(neighbours=("you", "you"), weights=(0.1, 0.1)),
    RefusedGossip(weights=(0.1, 0.1)), RefusedGossip(weights=(1.1,)), RefusedGossip(num_rounds=-1),
    RefusedGossip(neighbours=(2,)), RefusedGossip(weights=(-0.1,)),
)  # fmt: skip
def test_no_rounds_no_neighbours_one_rank_and_wrong_rows(case, run):
    """A rank looks at its own row."""


@suite.test(
    "ahead", "values", GossipTwice(3, "ring", 2, (3, 2)), GossipTwice(3, "line", 1, (3, 2)),
    GossipTwice(3, "ring", 0, (3, 2)), weight=0.7,
)  # fmt: skip
def test_inputs_stay_and_a_second_call_is_right(case, run):
    """A neighbour may be in the next call already."""


test_real_mpi = suite.real_ranks("comm", Gossip(3, "ring", 2), Gossip(4, "wheel", 2), weight=4)


@suite.test(
    "messages", "communication", group(RINGS, Gossip(3)), group(OTHERS, Gossip(5, "wheel")),
    checked=False,
)  # fmt: skip
def test_one_message_a_round_and_neighbour(case, run):
    assert_messages(run, [case.num_rounds * len(own) for own in case.neighbours], case)


@suite.test(
    "messages", "communication", group(RINGS, Gossip(3)), group(OTHERS, Gossip(5, "wheel")),
    group(NARROW, Gossip(3, dtype="float32"), weight=3), checked=False, weight=2,
)  # fmt: skip
def test_bytes_to_each_neighbour(case, run, ranks):
    in_all = [int(each) for each in case.edge_nbytes.sum(axis=1)]
    ranks.record(case, run, {"sent_bytes": in_all})
    assert_pairs(run, case.edge_nbytes, case)
    assert_bytes(run, in_all, case)


test_given_communicator_is_used = suite.given_communicator("comm", Gossip(3), weight=5)
test_sends_may_wait_and_messages_come_in_any_order = suite.slow_messages(
    "ahead", group(RINGS, Gossip(5, "ring", 4)),
    group(OTHERS, Gossip(5, "even", 4), Gossip(4, "line", machine=THREE_A_NODE)), weight=2,
)  # fmt: skip


@suite.test("time", "speed", Gossip(8, "ring", 5, (2,)), checked=False)
def test_a_round_on_a_ring_takes_one_latency(case, run):
    assert_makespan(run, case.time_s, case)


@suite.test("time", "speed", Gossip(8, "wheel", 5, (1,)), checked=False)
def test_a_hub_talks_to_all_at_once(case, run):
    assert_makespan(run, case.time_s, case)
