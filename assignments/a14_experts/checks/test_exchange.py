"""exchange.py: rows to their experts and back, no row too many, gradients by the same way."""

from checks.cases import (
    Backward,
    Dispatch,
    Forward,
    assert_exchanges,
    assert_sent,
    assert_sent_in_all,
)
from ringside.checking import assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group

suite = Suite("exchange")
ALONE = "rows that go to their experts alone"
POWERS, OTHERS = "numbers of ranks that are powers of two", "other numbers of ranks"
NO_ROWS, NO_TOKENS = "experts without rows", "ranks without tokens"
FEW = "fewer experts than ranks"
NODES = "zaratan,eager_threshold_bytes=0,flop_per_s=1e15"


@suite.test("values", "values", Dispatch(2, (4,), 2, "even", k=1, back=False), weight=7)
def test_exchange_even_rows(case, run):
    """What ``dispatch`` gives."""


@suite.test("values", "values", Dispatch(3, (5, 2, 6), 3, k=1), weight=7)
def test_exchange_uneven_rows(case, run):
    """There and back."""


@suite.test("values", "values", Dispatch(2, (6, 5), 5), weight=9)
def test_exchange_several_experts_a_rank(case, run):
    """Each expert's rows lie together."""


@suite.test(
    "values", "values", group(NO_ROWS, Dispatch(3, (4, 0, 3), 3, "one", k=1)),
    group(NO_TOKENS, Forward(2, (4, 0), 2)), group(FEW, Dispatch(3, (4, 3, 2), 2)), weight=8,
)  # fmt: skip
def test_exchange_where_nothing_comes(case, run):
    """Everybody takes part in every exchange."""


@suite.test("values", "values", Dispatch(1, experts=3), Dispatch(2, (6, 4), 2, dtype="float32"), weight=3)
def test_exchange_one_rank_and_float32(case, run):
    """Rows keep their dtype."""


@suite.test("values", "values", group(POWERS, Forward(2, (6, 4))), group(OTHERS, Forward(3, (5, 4, 6), 3)), weight=7)
def test_exchange_layer_forward(case, run):
    """Every token's weighted answers."""


@suite.test(
    "values", "values", group(POWERS, Backward(2, (6, 4)), weight=2),
    group(OTHERS, Backward(3, (5, 4, 6), 3, dtype="float32")), weight=9,
)  # fmt: skip
def test_exchange_layer_gradients(case, run):
    """Those of tokens, weights, and experts."""


test_exchange_real_mpi = suite.real_ranks("reality", Forward(2, (6, 4), 2), weight=4)


@suite.test(
    "point", "communication", group(ALONE, Dispatch(8, (16,), 8, "even", 40, 1)),
    group(POWERS, Forward(2, (6, 5), d=40)), group(OTHERS, Forward(3, (4,), 3, "one", 40)), checked=False, weight=12,
)  # fmt: skip
def test_exchange_no_row_too_many(case, run):
    """Alone: whatever the values are, 8 exchanges of rows in the place of three are no exchange."""
    if isinstance(case, Dispatch):
        most = 9 * case.row_bytes().sum() + 3 * case.count_bytes().sum()
        assert_sent_in_all(run, case, most)
    else:
        case.check(run)
        assert_sent(run, case, num_counts=5)


@suite.test("communication", "communication", Forward(4, (4,), 4, "even"), weight=8)
def test_exchange_counts_once(case, run):
    assert_exchanges(run, case)
    assert_sent(run, case)


test_exchange_given_communicator = suite.given_communicator("group", Dispatch(3, (5, 4, 6), 6), weight=4)
test_exchange_sends_may_wait = suite.waiting_sends("safety", Dispatch(3, (5, 4, 6), 6), weight=10)
test_exchange_inputs_and_a_second_call = suite.second_call(
    "safety", Forward(2, (5, 4), share=1.0), kind="safety", inputs_kept=True, weight=4
)


@suite.test("speed", "speed", Forward(8, (24,), 8, "even", 1024, machine=NODES), weight=8)
def test_exchange_time_on_two_nodes(case, run):
    """What leaves a node goes through its one port: four times, twice each way."""
    rows = case.row_bytes()
    between = rows[:4, 4:].sum() + rows[4:, :4].sum()
    bound_s = 2 * between * machine_of(case).beta_s_per_byte
    assert_makespan(run, bound_s, case, full=1.6, half=2.2)
