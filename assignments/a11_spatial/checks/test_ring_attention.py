"""ring_attention.py: values of the whole softmax, a ring of blocks, and transfers under way."""

from checks.cases import assert_kept, assert_shares
from checks.cases_ring import (
    Attention,
    Held,
    Refused,
    assert_overlap,
    assert_ring,
    assert_room,
    assert_shared,
)
from ringside.checking import assert_bytes, assert_makespan, assert_messages
from ringside.checking.suite import Suite, group, right_run

EQUAL, DIFFER = "equal parts", "parts that differ"
SINGLE, NAN, SHORT = "float32", "a key that is not a number", "one position or one rank"
REFUSED = "arguments that are refused"
IN_ORDER, HELD = "messages", "memory"
LONG_BLOCKS, LONG_MESSAGES = "long blocks", "long messages"
# 8 positions a rank: a block takes 4.1 µs, and its keys and values 2.5 µs; 4: 1.0 µs and 1.5 µs.
QUICK = "name=quick wire,alpha_s=5e-07,beta_s_per_byte=1e-09,flop_per_s=1e9"
# Sends don't wait there, however large: that is a test of its own.
EAGER = "buffered,eager_threshold_bytes=10000000"
MUCH = Held(16, (16,), heads=1, width=256, machine=EAGER)
WRONG = [Refused(2, (2,), wrong=wrong) for wrong in ("heads", "lengths", "positions")]
suite = Suite("ring_attention")


@suite.test(
    "softmax",
    "values",
    Attention(2, (4,), announced=True),
    Attention(3, (5,), 2, 1, announced=True),
    Attention(4, (3,), 1, 3, announced=True),
    weight=1,
)
def test_attention_on_2_to_5_ranks(case, run):
    """Not causal."""


@suite.test(
    "causal", "values",
    group(
        EQUAL, *(Attention(p, (n,), 2, causal=True, announced=True) for p, n in ((2, 4), (4, 3))),
    ),
    group(
        DIFFER,
        *(Attention(len(n), n, causal=True, announced=True) for n in ((5, 2), (4, 1, 6))),
    ),
    weight=1,
)  # fmt: skip
def test_causal(case, run):
    """Positions count in the whole sequence."""


@suite.test(
    "scores",
    "values",
    Attention(2, (5,), kind="thousands", announced=True),
    Attention(4, (4,), kind="thousands", announced=True),
    weight=1,
)
def test_scores_of_thousands(case, run):
    """``exp`` of them is infinite, or 0."""


@suite.test(
    "uneven",
    "values",
    Attention(2, (5, 2), announced=True),
    Attention(3, (4, 1, 6), announced=True),
    weight=1,
)
def test_uneven_parts(case, run):
    """Not causal."""


@suite.test(
    "heads",
    "values",
    Attention(2, heads=4, kv_heads=2, announced=True),
    Attention(3, heads=6, kv_heads=2, announced=True),
    weight=1,
)
def test_fewer_kv_heads(case, run):
    bounds = [case.allowed_bytes] * case.p
    assert_shares((1, lambda: case.check(run)), (1, lambda: assert_bytes(run, bounds, case)))


@suite.test(
    "arguments", "values",
    group(SINGLE, *(Attention(3, (4,), causal=c, dtype="float32") for c in (False, True))),
    group(NAN, Attention(3, nan_of=1)), group(SHORT, Attention(2, (1,)), Attention(1, (5,))),
    group(REFUSED, Attention(2, (2,)), *WRONG),
)  # fmt: skip
def test_float32_nan_short_parts_and_wrong_arguments(case, run):
    if isinstance(case, Refused):
        assert_messages(run, [0] * case.p, case)


@suite.test("anew", "values", Attention(3), weight=1)
def test_inputs_stay_and_results_are_new(case, ranks):
    right_run(ranks, case.with_(announced=True))
    assert_kept(case, ranks)


test_real_mpi = suite.real_ranks("calls", Attention(3, (2,)), weight=4)


@suite.test(
    "softmax", "communication", Attention(3, announced=True), checked=False
, weight=19)  # fmt: skip
def test_each_rank_computes_with_its_own_queries(case, run):
    assert_shared(run, case)


@suite.test(
    "ring", "communication",
    Attention(2, (4,)), Attention(5), Attention(3, (40,), width=20, machine=EAGER),
    Attention(3, dtype="float32"),
)  # fmt: skip
def test_keys_and_values_are_sent_once_round_a_ring(case, run, ranks):
    bounds = [case.allowed_bytes] * case.p
    ranks.record(case, run, {"sent_bytes": bounds})
    assert_shares((1, lambda: assert_bytes(run, bounds, case)), (2, lambda: assert_ring(run, case)))


test_given_communicator_is_used = suite.given_communicator("calls", Attention(3), weight=7)


@suite.test(
    "overlap", "schedule", Attention(3, announced=True), Attention(6, announced=True), weight=1
)
def test_the_next_block_travels_while_one_is_computed(case, run):
    assert_overlap(run, case)


@suite.test(
    "memory", "memory", group(IN_ORDER, Attention(6, announced=True)), group(HELD, MUCH, weight=2)
)
def test_no_rank_makes_room_for_all_keys(case, run):
    if not isinstance(case, Held):
        assert_room(run, case)


test_sends_may_wait_and_all_is_completed = suite.slow_messages("waits", Attention(2), Attention(5))


@suite.test(
    "overlap", "speed",
    group(LONG_BLOCKS, Attention(6, (8,), width=8, machine=QUICK, announced=True)),
    group(LONG_MESSAGES, Attention(6, (4,), width=8, machine=QUICK, announced=True)), weight=14,
)  # fmt: skip
def test_blocks_and_messages_hide_behind_each_other(case, run):
    assert_makespan(run, case.takes_s(), case)
