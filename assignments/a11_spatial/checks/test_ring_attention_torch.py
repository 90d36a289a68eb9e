"""ring_attention_torch.py: keys and values round the ring, blocks joined, gradients home."""

from checks.cases_ring_torch import GRADIENTS, RESULT, Kept, LongRing, Refused, RingAttention
from ringside.checking.suite import Suite, group

HALVES = "the result", "the gradients"
VALUES, WORK, BYTES = "result and gradients", "the work", "the bytes"
LARGE, SINGLE, GAPS = "large scores", "float32", "tensors with gaps"
FORWARD, BOTH = "the forward pass", "both passes"
DIRECTIONS = "forward", "backward"
INPUTS, REFUSED = "inputs", "refusals"
PLAIN = RingAttention(3, announced=True)
ONLY = [PLAIN.with_(parts=parts) for parts in (RESULT, GRADIENTS)]
suite = Suite("ring_attention_torch")


@suite.test(
    "values", "values", *(RingAttention(p, how="forward", announced=True) for p in (2, 3)), weight=1
)
def test_result_on_2_to_5_ranks(case, run):
    """The forward pass alone."""


@suite.test(
    "gradients", "values", RingAttention(1, parts=GRADIENTS),
    *(RingAttention(p, parts=GRADIENTS, announced=True) for p in (2, 3)), weight=1,
)  # fmt: skip
def test_gradients_on_2_to_5_ranks(case, run):
    """Of q, k and v."""


@suite.test(
    "causal", "values", group(VALUES, PLAIN.with_(causal=True), weight=2),
    group(WORK, RingAttention(3, (8,), causal=True, parts=RESULT), weight=2), checked=False,
    weight=1,
)  # fmt: skip
def test_causal_attention(case, run):
    if case.parts == RESULT:
        case.check(run)
        case.check_skipped(run)
    else:
        case.check_each(run)


@suite.test(
    "uneven", "values", RingAttention(3, (4, 1, 3), announced=True), checked=False, weight=1
)
def test_uneven_parts(case, run):
    case.check_each(run)


@suite.test(
    "heads", "values", group(VALUES, RingAttention(2, heads=6, kv_heads=2), weight=2),
    group(BYTES, RingAttention(2, heads=6, kv_heads=2, parts=RESULT), weight=2), checked=False,
    weight=1,
)  # fmt: skip
def test_fewer_heads_of_keys(case, run):
    """Without factors: they belong to the heads of keys, and repeated ones would look wrong."""
    if case.parts == RESULT:
        case.check(run)
        case.check_volume(run)
    else:
        case.check_each(run)


@suite.test(
    "any", "values", group(LARGE, RingAttention(2, spread=40.0), weight=3),
    group(SINGLE, RingAttention(2, dtype="float32", announced=True), weight=2),
    group(GAPS, RingAttention(2, how="gaps")), checked=False,
)  # fmt: skip
def test_large_scores_float32_and_gaps(case, run):
    """Exponentials of large scores overflow; logarithms of sums don't."""
    case.check_each(run)


@suite.test("graph", "values", RingAttention(2, how="together"), checked=False)
def test_two_calls_in_one_graph(case, run):
    case.check_each(run)


test_real_gloo = suite.real_ranks("group", RingAttention(3), weight=4)


@suite.test(
    "sparing", "communication",
    group(
        FORWARD, *(RingAttention(p, (4,), how="forward") for p in (2, 4)),
        RingAttention(3, (4,), how="forward", dtype="float32"),
    ),
    group(BOTH, *(RingAttention(p, (4,)) for p in (2, 4))), weight=8,
)  # fmt: skip
def test_bytes_of_both_passes(case, run, ranks):
    case.check_volume(run)
    ranks.record(case, run, {"sent_bytes": [case.allowed_bytes] * case.p})


test_given_group_is_used = suite.given_communicator(
    "group",
    *(group(name, case) for name, case in zip(HALVES, ONLY, strict=True)),
    comm="the group",
    weight=8,
)


@suite.test(
    "overlap", "schedule",
    *(group(name, case.with_(lengths=(4,))) for name, case in zip(DIRECTIONS, ONLY, strict=True)),
    weight=9,
)  # fmt: skip
def test_keys_travel_on_while_their_block_is_computed(case, run):
    case.check_travelling(run, DIRECTIONS[case.parts == GRADIENTS])


test_any_order_and_everything_waited_for = suite.slow_messages(
    "waits", *(group(name, case) for name, case in zip(HALVES, ONLY, strict=True))
)


@suite.test(
    "inputs", "safety", group(INPUTS, RingAttention(2, announced=True)),
    group(REFUSED, RingAttention(2, parts=RESULT), Refused(2)),
)  # fmt: skip
def test_inputs_stay_and_wrong_lengths_are_refused(case, run):
    if isinstance(case, RingAttention) and case.announced:
        case.check_kept(run)


@suite.test("sparing", "memory", Kept(8, (4,)), weight=9)
def test_no_keys_of_others_are_kept(case, run):
    case.check_memory(run)


@suite.test("overlap", "speed", LongRing(2, (4,)), weight=15)
def test_time_of_a_long_sequence_on_8_to_64_ranks(case, run, ranks):
    """A trace is believed that agrees with what the network counts, operation by operation."""
    case.check_trace(ranks)
    case.check_time(ranks)
