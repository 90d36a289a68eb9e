"""mlp.py: two products, cut by columns and then by rows, and two all-reduces."""

from checks.cases_layers import KeptByForward, MlpLayer, MlpShard
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

suite = Suite("mlp")


@suite.test("values", "values", MlpLayer(2, 3, (6, 8)), MlpLayer(4, 4, (6, 8)), weight=3)
def test_forward_and_backward_on_2_4_and_8_ranks(case, run):
    """Plain sizes: p divides what travels. Only the next test has others."""
    case.check_exactly(run)


@suite.test(
    "uneven",
    "values",
    MlpLayer(3, 4, (5, 7)),
    MlpLayer(1, 2, (5, 7)),
    MlpLayer(4, 3, (3, 3)),
    # With a few hidden units a rank, right ones miss the bound now and then: by cancellation.
    MlpLayer(3, 6, (7, 48), "float32"),
    weight=12,
)
def test_any_widths_samples_and_dtypes(case, run):
    """p need not divide anything, and a rank may have nothing."""
    case.check_exactly(run)


@suite.test("shards", "values", MlpShard(3), MlpShard(2, (5, 7), "float32", order="F"), weight=8)
def test_parts_of_the_parameters(case, run):
    """New, contiguous arrays."""


@suite.test("inputs", "values", MlpLayer(3, 4, (6, 8), how="gaps"), weight=8)
def test_inputs_stay_as_they_were(case, run):
    """Arrays with gaps, read-only on even ranks, are enough, and results are the caller's."""


@suite.test(
    "calls",
    "values",
    *(MlpLayer(3, 3, (6, 8), how=how) for how in ("twice", "updated", "in order", "last first")),
    weight=15,
)
def test_second_call_is_independent(case, run):
    """Nothing is kept from one call to the next."""
    case.check_exactly(run)


test_real_mpi = suite.real_ranks("values", MlpLayer(3, 4))


@suite.test("alike", "values", MlpLayer(4, 4, (6, 8)), checked=False)
def test_replicated_results_are_alike(case, run):
    case.check_form(run, 1)
    assert_alike(run, case)


@suite.test("cut", "communication", MlpLayer(4, 4, (16, 400)), checked=False)
def test_the_layer_is_cut(case, run):
    case.check_form(run)
    assert_cut(run, case)


@suite.test(
    "bytes",
    "communication",
    group("float64", MlpLayer(4, 24, (8, 200)), weight=3),
    group("float32", MlpLayer(3, 24, (8, 200), "float32"), weight=2),
)
def test_bytes_of_two_all_reduces(case, run, ranks):
    """Weights and hidden units are large beside the rows that may travel."""
    assert_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator(
    "communicator", MlpLayer(3, 4, (6, 8)), weight=5
)


@suite.test("work", "schedule", MlpLayer(2, 3, (6, 8)), checked=False, weight=5)
def test_each_rank_computes_its_own_hidden_units(case, run):
    case.check_form(run)
    assert_own_work(run, case)


@suite.test("memory", "memory", KeptByForward(8, 64, (8, 1024)), checked=False)
def test_what_forward_keeps(case, run):
    """Many samples, where hidden units are large; and few, where weights are."""
    case.check_form(run, 1)
    for rank, value in enumerate(run.values):
        if value["held"] > case.kept_nbytes:
            raise case.fail(
                f"forward on rank {rank} keeps {value['held']} bytes that it has allocated; at "
                f"most {case.kept_nbytes} are allowed."
            )


test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "messages",
    MlpLayer(2, 4, (6, 8)),
    MlpLayer(4, 4, (6, 8), how="again"),
    kinds=EVERYTHING,
    sends=SENDS,
    weight=8,
)


@suite.test(
    "time",
    "speed",
    group("ranks of one node", MlpLayer(4, 128, (16, 64), machine="gpt")),
    weight=4,
)
def test_speedup_inside_a_node_and_across_nodes(case, run):
    """A GPT's MLP in miniature: 2048 tokens, 4096 columns, 16384 hidden units."""
    assert_time(run, case)
