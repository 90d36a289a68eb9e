"""node_limited.py: few nodes a token, and one copy of it to each."""

import numpy as np

from checks.cases import sent_of_ranks
from checks.cases_nodes import Choose, OnNodes
from ringside.checking import assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group
from ringside.units import format_count

suite = Suite("node_limited")
FREE, EQUAL = "experts on all nodes", "equal nodes"
IDLE, ONE = "ranks where nothing comes", "one node, and nodes of one rank"
NODES = "zaratan,flop_per_s=1e15"
ONE_GOOD = (
    (9, 0, 0, 0, 4, 4, 4, 4),
)  # its node is worth more than the other, which has more in all
DOCUMENTED = ((5, 0, 4, 3), (1, 1, 1, 1), (0, 0, 0, 1))  # the docstring's scores come first


@suite.test(
    "choice",
    "values",
    Choose(rows=DOCUMENTED, nodes=2, most=1),
    Choose(rows=ONE_GOOD, nodes=2, most=1),
    Choose(5, 16, 4, 4, 2),
    weight=5,
)
def test_node_choice(case, run):
    """The best nodes, and the best experts there."""


@suite.test(
    "choice", "values", group(FREE, Choose(rows=DOCUMENTED, nodes=2, most=2)),
    group(EQUAL, Choose(rows=((1,) * 8,) * 2)), weight=3,
)  # fmt: skip
def test_node_choice_among_equals_and_without_limit(case, run):
    """Of equal ones the lower."""


REFUSED = [
    Choose(2, 8, 3, 4, 2, raises="ValueError"),
    Choose(2, 8, 4, 4, 1, raises="ValueError"),
    Choose(2, 9, 2, 4, 1, raises="ValueError"),
]


@suite.test("choice", "values", *REFUSED)
def test_node_choice_refused(case, run):
    """What doesn't divide, and nodes with too few experts."""


@suite.test("layer", "values", OnNodes(4, (4,), 4, k=3), OnNodes(4, (5, 4, 3, 6), 8), weight=6)
def test_node_layer(case, run):
    """Every token's weighted answers."""


@suite.test(
    "layer", "values", group(IDLE, OnNodes(4, (4, 0, 3, 2), 8, "one")),
    group(ONE, OnNodes(2, (5, 4), 4)), weight=4,
)  # fmt: skip
def test_node_where_nothing_comes_or_crosses(case, run):
    """Everybody takes part in every exchange."""


@suite.test("layer", "values", OnNodes(4, (5, 4, 3, 6), 8, dtype="float32"), weight=2)
def test_node_float32(case, run):
    """The result has the dtype of x."""


test_node_real_mpi = suite.real_ranks("layer", OnNodes(4, (5, 4, 3, 6), 8))


@suite.test("two_levels", "communication", OnNodes(8, (8,), 8, "even", k=4), checked=False)
def test_node_one_rank_of_each_other_node(case, run):
    """Whatever the values are, a row goes to one rank there, which passes it on."""
    sent, node = sent_of_ranks(run), np.arange(case.p) // case.per_node
    for rank, other in np.ndindex(case.p, case.p // case.per_node):
        ranks = np.flatnonzero((node == other) & (sent[rank] > 0))
        if node[rank] != other and len(ranks) != 1:
            raise case.fail(
                f"rank {rank} sent rows to {format_count(len(ranks), 'rank')} of node {other}; "
                "they go to one rank there, which passes them on."
            )


@suite.test(
    "bytes", "communication", OnNodes(8, (8,), 8, "even", 10, 4, per_node=4, dtype="float32"),
    OnNodes(6, (4,), 6, d=10, k=3),
)  # fmt: skip
def test_node_bytes_on_more_ranks(case, run):
    """One row to each other node that needs it, and one back."""
    sent, node = sent_of_ranks(run), np.arange(case.p) // case.per_node
    crossed, most = sent[node[:, None] != node].sum(), case.pair_bytes().sum()
    if crossed > most:
        raise case.fail(
            f"{crossed:,.0f} bytes crossed from node to node; a row to each other node that "
            f"needs it, and one back, are {most:,.0f} at most."
        )


@suite.test("same_place", "communication", OnNodes(6, (4,), 6, "even", k=1))
def test_node_same_place(case, run):
    sent = sent_of_ranks(run)
    node, place = np.divmod(np.arange(case.p), case.per_node)
    wrong = (node[:, None] != node) & (place[:, None] != place) & (sent > 0)
    for source, dest in np.argwhere(wrong)[:1]:
        raise case.fail(
            f"rank {source} sent {sent[source, dest]:,.0f} bytes to rank {dest}, on another "
            "node and at another place."
        )


PLAIN = OnNodes(4, (5, 4, 3, 6), 8, k=1, share=1.0)
test_node_given_communicator = suite.given_communicator("calls", PLAIN)
test_node_sends_may_wait = suite.waiting_sends("any_timing", PLAIN)
test_node_inputs_and_a_second_call = suite.second_call(
    "calls", OnNodes(4, (5, 4, 3, 6), 8, k=1), kind="safety", inputs_kept=True
)


@suite.test("time", "speed", OnNodes(8, (16,), 8, d=1024, k=8, per_node=4, machine=NODES))
def test_node_time_on_four_nodes(case, run):
    """What leaves a node goes through its one port."""
    of_nodes = case.pair_bytes().reshape(-1, case.per_node * case.p).sum(axis=1)
    bound_s = of_nodes.max() * machine_of(case).beta_s_per_byte
    assert_makespan(run, bound_s, case, full=1.7, half=2.4)
