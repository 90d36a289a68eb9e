"""attention.py: whole heads on each rank, and two all-reduces."""

from checks.cases_layers import AttentionLayer, AttentionShard
from checks.network import (
    EVERYTHING,
    SENDS,
    assert_alike,
    assert_bytes,
    assert_cut,
    assert_own_work,
    assert_time,
)
from ringside.checking.suite import Suite, group

suite = Suite("attention")
EVEN = (6, 4, 3, 5)


@suite.test("values", "values", AttentionLayer(2, 2, EVEN), AttentionLayer(4, 4, EVEN), weight=3)
def test_forward_and_backward_on_2_4_and_8_ranks(case, run):
    """Plain sizes: p divides the positions. Only the next test has others."""
    case.check_exactly(run)


@suite.test(
    "uneven",
    "values",
    AttentionLayer(3, 2, (5, 7, 2, 3)),
    AttentionLayer(1, 2, (5, 7, 2, 3)),
    AttentionLayer(4, 3, EVEN),
    AttentionLayer(4, 3, (4, 2, 3, 2)),
    AttentionLayer(3, 4, (6, 4, 3, 3), "float32"),
    weight=11,
)
def test_any_heads_positions_and_dtypes(case, run):
    """p need not divide anything, and a rank may have nothing."""
    case.check_exactly(run)


@suite.test(
    "shards",
    "values",
    AttentionShard(3),
    AttentionShard(2, (6, 4, 3, 1), "float32", order="F"),
    weight=17,
)
def test_parts_of_the_parameters(case, run):
    """New, contiguous arrays."""


@suite.test("inputs", "values", AttentionLayer(3, 3, EVEN, how="gaps"), weight=6)
def test_inputs_stay_as_they_were(case, run):
    """Arrays with gaps, read-only on even ranks, are enough, and results are the caller's."""


@suite.test(
    "calls",
    "values",
    *(
        AttentionLayer(3, 3, (6, 4, 2, 2), how=how)
        for how in ("twice", "updated", "in order", "last first")
    ),
    weight=15,
)
def test_second_call_is_independent(case, run):
    """Nothing is kept from one call to the next."""
    case.check_exactly(run)


test_real_mpi = suite.real_ranks("values", AttentionLayer(3, 2))


@suite.test("alike", "values", AttentionLayer(4, 4, EVEN), checked=False)
def test_replicated_results_are_alike(case, run):
    case.check_form(run, 1)
    assert_alike(run, case)


@suite.test("cut", "communication", AttentionLayer(4, 4, (16, 8, 32, 1)), checked=False)
def test_the_layer_is_cut(case, run):
    case.check_form(run)
    assert_cut(run, case)


@suite.test(
    "bytes",
    "communication",
    group("float64", AttentionLayer(4, 8, (8, 16, 8, 6)), weight=3),
    group("float32", AttentionLayer(3, 6, (8, 16, 8, 6), "float32"), weight=2),
)
def test_bytes_of_two_all_reduces(case, run, ranks):
    """Heads and weights are large beside the rows that may travel."""
    assert_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator(
    "communicator", AttentionLayer(3, 3, (5, 4, 2, 2)), weight=5
)


@suite.test("work", "schedule", AttentionLayer(2, 3, EVEN), checked=False, weight=4)
def test_each_rank_computes_its_own_heads(case, run):
    case.check_form(run)
    assert_own_work(run, case)


test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "messages",
    AttentionLayer(2, 2, EVEN),
    AttentionLayer(4, 2, (6, 5, 2, 2), how="again"),
    kinds=EVERYTHING,
    sends=SENDS,
    weight=8,
)


@suite.test(
    "time",
    "speed",
    group("4 ranks of a node", AttentionLayer(4, 16, (16, 64, 1, 8), machine="gpt")),
    weight=5,
)
def test_speedup_inside_a_node_and_on_64_ranks(case, run):
    """A GPT's attention in miniature: 2048 tokens in 16 sequences, 4096 columns, 64 heads."""
    assert_time(run, case)
