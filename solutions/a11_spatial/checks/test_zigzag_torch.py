"""zigzag_torch.py: chunks r and 2 P - 1 - r, and the same work for all under a causal mask."""

from checks.cases_ring_torch import GRADIENTS, RESULT, LongZigzag, Orders, ZigzagAttention
from ringside.checking.suite import Suite, group

HALVES = "the result", "the gradients"
CUT, OTHER = "lengths that can be cut", "other lengths"
FEW, SINGLE, GAPS = "fewer heads of keys", "float32", "tensors with gaps"
LARGE = "large scores"
FORWARD, BOTH = "the forward pass", "both passes"
DIRECTIONS = "forward", "backward"
PLAIN = ZigzagAttention(3, announced=True)
ONLY = [PLAIN.with_(parts=parts) for parts in (RESULT, GRADIENTS)]
TWO = ZigzagAttention(2, how="forward", announced=True)  # only a ring's orders count
suite = Suite("zigzag_torch")


@suite.test(
    "order", "values",
    group(
        CUT, Orders(4, 2, ((0, 3), (1, 2))),
        Orders(12, 3, ((0, 1, 10, 11), (2, 3, 8, 9), (4, 5, 6, 7))), weight=3,
    ),
    group(OTHER, Orders(4, 2, ((0, 3), (1, 2))), Orders(6, 2)),
)  # fmt: skip
def test_split_and_merge(case, run):
    """Parts, and the whole again."""


@suite.test("values", "values", TWO, TWO.with_(p=3), weight=1)
def test_result_on_2_to_5_ranks(case, run):
    """The forward pass alone."""


@suite.test(
    "gradients", "values", ZigzagAttention(1, parts=GRADIENTS),
    *(ZigzagAttention(p, parts=GRADIENTS, announced=True) for p in (2, 3)), weight=1,
)  # fmt: skip
def test_gradients_on_2_to_5_ranks(case, run):
    """Of q, k and v."""


@suite.test(
    "any", "values", group(FEW, ZigzagAttention(2, heads=4, kv_heads=2), weight=3),
    group(LARGE, ZigzagAttention(2, spread=40.0), weight=3),
    group(SINGLE, ZigzagAttention(2, dtype="float32", announced=True), weight=2),
    group(GAPS, ZigzagAttention(2, how="gaps", announced=True)), checked=False,
)  # fmt: skip
def test_fewer_heads_large_scores_float32_and_gaps(case, run):
    case.check_each(run)


@suite.test("graph", "values", ZigzagAttention(2, how="together"), checked=False)
def test_two_calls_in_one_graph(case, run):
    case.check_each(run)


test_real_gloo = suite.real_ranks("calls", ZigzagAttention(3), weight=4)


@suite.test(
    "sparing", "communication",
    group(FORWARD, *(ZigzagAttention(3, how="forward", dtype=d) for d in ("float64", "float32"))),
    group(BOTH, ZigzagAttention(3)),
)  # fmt: skip
def test_bytes_of_both_passes(case, run, ranks):
    case.check_volume(run)
    ranks.record(case, run, {"sent_bytes": [case.allowed_bytes] * case.p})


test_given_group_is_used = suite.given_communicator(
    "calls",
    *(group(name, case) for name, case in zip(HALVES, ONLY, strict=True)),
    comm="the group",
    weight=9,
)


@suite.test(
    "overlap",
    "schedule",
    *(group(name, case) for name, case in zip(DIRECTIONS, ONLY, strict=True)),
    weight=3,
)
def test_keys_travel_on_while_their_block_is_computed(case, run):
    case.check_travelling(run, DIRECTIONS[case.parts == GRADIENTS])


@suite.test("balance", "schedule", ZigzagAttention(3, (8,), parts=RESULT))
def test_all_ranks_have_the_same_work(case, run):
    case.check_balanced(run)


test_any_order_and_everything_waited_for = suite.slow_messages(
    "waits", *(group(name, case) for name, case in zip(HALVES, ONLY, strict=True))
)


@suite.test("calls", "safety", ZigzagAttention(2, announced=True), weight=7)
def test_inputs_and_incoming_gradient_stay(case, run):
    case.check_kept(run)


@suite.test("overlap", "speed", LongZigzag(2, gpus=4), weight=14)
def test_time_of_a_long_sequence_on_8_ranks(case, run, ranks):
    """A trace is believed that agrees with what the network counts, operation by operation."""
    case.check_trace(ranks)
    case.check_time(ranks)
