"""node_limited.py: few nodes a token, and one copy of it to each."""

import numpy as np

from checks.cases import sent_of_ranks
from checks.cases_nodes import Choose, OnNodes
from ringside.checking import assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group

suite = Suite("node_limited")
FREE, EQUAL = "experts on all nodes", "equal nodes"
IDLE, ONE = "ranks where nothing comes", "one node, and nodes of one rank"
FEW, BYTES = "one copy for several experts of a node", "bytes between nodes"
NODES = "zaratan,flop_per_s=1e15"
DOCUMENTED = ((5, 0, 4, 3), (3, 2, 1, 0), (0, 1, 3, 2))  # the docstring's scores come first
# Elsewhere no scores are equal: which of them an unstable sort puts first depends on the processor.
EQUALS = ((1,) * 8, (1, 2, 2, 1) * 2)


@suite.test(
    "choose",
    "values",
    Choose(rows=DOCUMENTED, nodes=2, most=1),
    Choose(30, 16, 4, 4, 2),
    Choose(9, 8, 2, 4, 1),
    weight=14,
)
def test_node_choice(case, run):
    """The best nodes, and the best experts there."""


@suite.test(
    "equal", "values", group(FREE, Choose(rows=DOCUMENTED, nodes=2, most=2)),
    group(EQUAL, Choose(rows=EQUALS), Choose(2, 400, 40, 4, 2, whole=True)), weight=8,
)  # fmt: skip
def test_node_choice_among_equals_and_without_limit(case, run):
    """Of equal ones the lower."""


REFUSED = [
    Choose(2, 8, 3, 4, 2, raises="ValueError"),
    Choose(2, 8, 4, 4, 1, raises="ValueError"),
    Choose(2, 9, 2, 4, 1, raises="ValueError"),
]


@suite.test("refused", "values", *REFUSED, weight=3)
def test_node_choice_refused(case, run):
    """What doesn't divide, and nodes with too few experts."""


@suite.test("layer", "values", OnNodes(4, (4,), 4, k=3), OnNodes(4, (5, 4, 3, 6), 8), weight=14)
def test_node_layer(case, run):
    """Every token's weighted answers."""


@suite.test(
    "idle", "values", group(IDLE, OnNodes(4, (4, 0, 3, 2), 8, "one"), weight=9),
    group(ONE, OnNodes(2, (5, 4), 4)), weight=18,
)  # fmt: skip
def test_node_where_nothing_comes_or_crosses(case, run):
    """Everybody takes part in every exchange."""


def assert_once_to_a_node(run, case, room=1.0):
    """At most ``room`` times the bytes of one row to each other node that needs it, and back."""
    sent, node = sent_of_ranks(run), np.arange(case.p) // case.per_node
    crossed, most = sent[node[:, None] != node].sum(), room * case.pair_bytes().sum()
    if crossed > most:
        raise case.fail(
            f"{crossed:,.0f} bytes crossed from node to node; at most {most:,.0f} are allowed, "
            f"{'' if room == 1 else f'{room:g} times '}a row to each other node that needs it and "
            "one back."
        )


@suite.test("float32", "values", OnNodes(4, (5, 4, 3, 6), 8, d=20, dtype="float32", share=1.0))
def test_node_float32(case, run):
    """The result has the dtype of x, and so has what travels."""
    assert_once_to_a_node(run, case)


test_node_real_mpi = suite.real_ranks("layer", OnNodes(4, (5, 4, 3, 6), 8, share=1.0), weight=2)


@suite.test(
    "once", "communication", group(FEW, OnNodes(8, (8,), 8, "even", 100, 8, per_node=4)),
    group(BYTES, OnNodes(6, (4,), 6, d=10, k=3, share=1.0)), checked=False,
)  # fmt: skip
def test_node_bytes_on_more_ranks(case, run):
    """Few copies, whatever the values are; and where they are right, one copy."""
    if case.kind == "even":
        assert_once_to_a_node(run, case, 2.2)
    else:
        case.check(run)
        assert_once_to_a_node(run, case)


@suite.test("place", "communication", OnNodes(6, (4,), 6, d=10, k=3, share=1.0))
def test_node_same_place(case, run):
    sent = sent_of_ranks(run)
    node, place = np.divmod(np.arange(case.p), case.per_node)
    wrong = (node[:, None] != node) & (place[:, None] != place) & (sent > 0)
    for source, dest in np.argwhere(wrong)[:1]:
        raise case.fail(
            f"rank {source} sent {sent[source, dest]:,.0f} bytes to rank {dest}, on another "
            "node and at another place."
        )


test_node_given_communicator = suite.given_communicator(
    "communicator", OnNodes(4, (5, 4, 3, 6), 8, share=1.0), weight=8
)
test_node_sends_may_wait = suite.waiting_sends(
    "any_timing", OnNodes(4, (5, 4, 3, 6), 8, share=1.0), weight=10
)
test_node_inputs_and_a_second_call = suite.second_call(
    "inputs", OnNodes(4, (5, 4, 3, 6), 8), kind="safety", inputs_kept=True
)


@suite.test(
    "time", "speed", OnNodes(8, (16,), 8, d=1024, k=8, share=1.0, per_node=4, machine=NODES)
)
def test_node_time_on_four_nodes(case, run):
    """What leaves a node goes through its one port."""
    of_nodes = case.pair_bytes().reshape(-1, case.per_node * case.p).sum(axis=1)
    bound_s = of_nodes.max() * machine_of(case).beta_s_per_byte
    assert_makespan(run, bound_s, case, full=1.7, half=2.4)
