"""hierarchical.py: reduce-scatter in the node, all-reduce between nodes, all-gather in the node."""

import numpy as np

from checks.cases import Levels
from checks.network import assert_time, exchanged
from checks.sums import Sums, shares
from ringside.checking import assert_bytes, assert_own_messages
from ringside.checking.suite import group

suite = Sums("hierarchical")
ONE_NODE, ONE_RANK = "one node", "nodes of one rank"


def levels(p, ranks_per_node, n, dtype="float64", **more):
    return Levels(p, n, dtype, ranks_per_node, **more)


@suite.test("two_levels", "communication", levels(6, 3, 36), checked=False)
def test_every_rank_sends_inside_its_node_and_between_nodes(case, run):
    for rank, row in enumerate(exchanged(run, case)):
        first = rank // case.ranks_per_node * case.ranks_per_node
        inside = int(row[first : first + case.ranks_per_node].sum())
        between = int(row.sum()) - inside
        if not inside or not between:
            where = "other nodes" if inside else "its own node"
            raise case.fail(
                f"rank {rank} exchanged no data with ranks of {where}; each rank takes part in "
                "the steps inside its node and in those between nodes."
            )


@suite.test("two_levels", "communication", levels(6, 3, 36), checked=False)
def test_nodes_are_summed_before_they_exchange(case, run):
    nodes = np.arange(case.p) // case.ranks_per_node
    between = int(exchanged(run, case)[nodes[:, None] != nodes].sum()) // 2
    most = case.p * case.most_between
    if between < case.nbytes:
        raise case.fail(f"the nodes sent each other {between} bytes; their sums must be added.")
    if between > most:
        raise case.fail(
            f"the nodes sent each other {between} bytes in all; at most {most} are needed where "
            "each node adds up what its ranks have before anything leaves it."
        )


@suite.test("sum", "values", levels(4, 2, 8), levels(6, 3, 12), levels(8, 4, 16), weight=3)
def test_sums_where_everything_divides(case, run):
    """Ranks a node, and nodes, divide the length."""
    case.check_exactly(run)


@suite.test(
    "sum", "values", *(levels(p, p // 2, n) for p in (4, 6) for n in (0, 1, 5, 11)), weight=15
)
def test_sums_of_other_lengths(case, run):
    """Shards of shards that differ by one element, or have none."""
    case.check_exactly(run)


@suite.test(
    "sum", "values", group(ONE_NODE, levels(3, 3, 12)), group(ONE_RANK, levels(3, 1, 12)), weight=5
)
def test_one_node_and_nodes_of_one_rank(case, run):
    """One of the levels has nothing to do."""


@suite.test("sum", "values", levels(4, 2, 8, "float32"), levels(4, 2, 8, "int64"), weight=5)
def test_dtype_is_kept_and_integers_are_exact(case, run):
    """Also integers that a float64 can't hold."""
    case.check_exactly(run)


test_inputs_may_have_gaps_and_stay_as_they_were = suite.inputs(
    "own_arrays", levels(4, 2, 12), levels(4, 2, 12, stride=2), levels(3, 3, 7, stride=2), weight=4
)
test_second_call_is_independent = suite.again(
    "own_arrays", levels(4, 2, 12, again=True), levels(4, 2, 9, again=True), weight=12
)


@suite.test("refused", "values", levels(4, 2, 8), levels(5, 2, 8))
def test_other_worlds_are_refused(case, run):
    """By all ranks, and none waits for a message."""


test_real_mpi = suite.real_ranks("own_arrays", levels(4, 2, 11), weight=2)


@suite.test("two_levels", "communication", levels(12, 4, 1200))
def test_bytes_between_nodes(case, run):
    assert_own_messages(run, case)
    matrix = np.asarray(run.bytes_matrix())
    nodes = np.arange(case.p) // case.ranks_per_node
    for rank, row in enumerate(matrix):
        between = int(row[nodes != nodes[rank]].sum())
        if between > case.most_between:
            raise case.fail(
                f"rank {rank} sent {between} bytes to ranks of other nodes; at most "
                f"{case.most_between} are allowed with {case.ranks_per_node} ranks a node."
            )


@suite.test("bytes", "communication", levels(6, 3, 600), levels(4, 2, 64, "float32"))
def test_bytes_in_all(case, run, ranks):
    assert_own_messages(run, case)
    ranks.record(case, run, {"sent_bytes": [case.most_nbytes] * case.p})
    assert_bytes(run, [case.most_nbytes] * case.p, case)


test_given_communicator_is_used = suite.given_communicator(
    "communicator", *shares(levels(4, 2, 16), levels(4, 2, 15))
)
test_sends_may_wait_for_their_receives = suite.waiting(
    "any_timing", levels(4, 2, 60), levels(6, 3, 59), weight=4
)
test_messages_may_arrive_in_any_order = suite.any_order(
    "any_timing", levels(4, 2, 8), levels(4, 2, 9), weight=18
)


@suite.test("time", "speed", levels(8, 4, 80_000, machine="zaratan"))
def test_time_on_two_and_four_nodes(case, run):
    assert_time(run, case)
