"""ulysses_torch.py: attention of the whole sequence, heads dealt out by all-to-alls."""

from checks.cases_torch import GRADIENTS, RESULT, RefusedUlysses, Ulysses
from ringside.checking import assert_makespan, assert_messages
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

HALVES = "the result", "the gradients"
SINGLE, HALF, GAPS = "float32", "bfloat16", "tensors with gaps"
SUM, TWICE, FEW = "the gradient of a sum", "two calls", "few positions"
VALUES, BYTES = "result and gradients", "the bytes"
WRONG = [RefusedUlysses(2, 3, 3), RefusedUlysses(2, 4, 1)]
SLOW = "name=slow cores,alpha_s=5e-07,beta_s_per_byte=2e-09,flop_per_s=1e9"
suite = Suite("ulysses_torch")


@suite.test(
    "values",
    "values",
    Ulysses(2, batch=2, backward=False),
    Ulysses(3, 2, 2, 3, backward=False),
    weight=1,
)
def test_results_on_2_to_5_ranks(case, run):
    """The forward pass."""


@suite.test(
    "gradients",
    "values",
    Ulysses(2, batch=2, parts=GRADIENTS),
    Ulysses(3, 2, 2, 3, parts=GRADIENTS),
    weight=1,
)
def test_gradients_on_2_to_5_ranks(case, run):
    """Of q, k and v."""


@suite.test(
    "fewer", "values", group(VALUES, Ulysses(2, kv_heads=2), weight=2),
    group(BYTES, Ulysses(2, heads=8, kv_heads=2, backward=False), weight=2), checked=False,
    weight=1,
)  # fmt: skip
def test_fewer_kv_heads(case, run):
    if case.backward:
        case.check_each(run)
    else:
        case.check(run)
        case.check_moved(run)


@suite.test("given", "values", Ulysses(2, sees="near"), checked=False, weight=1)
def test_another_attention(case, run):
    case.check_each(run)


@suite.test(
    "any", "values", group(TWICE, Ulysses(2, how="together"), weight=4),
    group(SINGLE, Ulysses(2, dtype="float32")), group(HALF, Ulysses(2, dtype="bfloat16"), weight=2),
    group(GAPS, Ulysses(2, batch=2, how="gaps"), weight=2),
    group(SUM, Ulysses(2, batch=2, how="sum")),
    group(FEW, Ulysses(4, 1), Ulysses(1, 4, heads=2)), checked=False, weight=1,
)  # fmt: skip
def test_other_dtypes_gaps_sums_and_two_calls(case, run):
    case.check_each(run)


@suite.test("group", "values", Ulysses(2, 2, backward=False), *WRONG, weight=5)
def test_heads_that_cannot_be_shared(case, run):
    if isinstance(case, RefusedUlysses):
        assert_messages(run, [0] * case.p, case)


test_real_gloo = suite.real_ranks("group", Ulysses(2), weight=3)


@suite.test("heads", "communication", Ulysses(4, width=4, backward=False), checked=False)
def test_each_rank_takes_some_of_the_heads(case, run):
    case.check_collectives(run)
    for rank, done in enumerate(run.num_flops()):
        if not 0 < done < 3 / case.p * case.num_flops:
            raise case.fail(
                f"rank {rank} counted {done:.6g} floating-point operations of matrix products; all "
                f"heads have {case.num_flops:.6g}, and each of {case.p} ranks takes its share."
            )


@suite.test(
    "sparing",
    "communication",
    Ulysses(2, backward=False),
    Ulysses(5, 2, heads=5, backward=False),
    Ulysses(2, dtype="float32", backward=False),
    weight=11,
)
def test_bytes_forward(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.allowed_bytes] * case.p})
    case.check_moved(run)


@suite.test(
    "sparing", "communication", Ulysses(2), Ulysses(5, 2, heads=5), checked=False, weight=11
)
def test_bytes_of_both_passes(case, run):
    case.check_each(run)
    case.check_moved(run)


test_given_group_is_used = suite.given_communicator(
    "group", group(HALVES[0], Ulysses(3, 2, heads=3, parts=RESULT)),
    group(HALVES[1], Ulysses(3, 2, heads=3, parts=GRADIENTS)), comm="the group", weight=9,
)  # fmt: skip
test_any_order_and_everything_waited_for = suite.slow_messages(
    "waits", group(HALVES[0], Ulysses(4, 2, parts=RESULT)),
    group(HALVES[1], Ulysses(4, 2, parts=GRADIENTS)),
    kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE],
)  # fmt: skip


@suite.test("time", "speed", Ulysses(2, width=4, parts=RESULT), weight=6)
def test_each_rank_has_its_share_of_the_work(case, run):
    case.check_work(run)


@suite.test("time", "speed", Ulysses(4, 8, heads=8, width=8, machine=SLOW), weight=15)
def test_time_on_8_ranks(case, run):
    case.check_work(run)
    assert_makespan(run, case.takes_s(), case)
