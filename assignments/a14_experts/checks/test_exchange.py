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
POWERS, OTHERS = "numbers of ranks that are powers of two", "other numbers of ranks"
NO_ROWS, NO_TOKENS = "experts without rows", "ranks without tokens"
FEW, SEVERAL = "fewer experts than ranks", "several experts on a rank"
NODES = "zaratan,eager_threshold_bytes=0,flop_per_s=1e15"


@suite.test("dispatch", "values", Dispatch(2, (4,), 2, "even", k=1), weight=2)
def test_exchange_even_rows(case, run):
    """What ``dispatch`` gives."""


@suite.test("dispatch", "values", Dispatch(3, (5, 2, 6), 3, k=1), weight=2)
def test_exchange_uneven_rows(case, run):
    """As many as there are."""


@suite.test("order", "values", Dispatch(3, (5, 2, 6), 3, k=1, in_order=True), weight=7)
def test_exchange_rows_stand_in_order(case, run):
    """First those of rank 0, as they stood there."""


@suite.test("several", "values", Dispatch(2, (6, 5), 5), weight=16)
def test_exchange_several_experts_a_rank(case, run):
    """Each expert's rows lie together."""


@suite.test(
    "dispatch", "values", Dispatch(1, experts=3), Dispatch(2, (6, 4), 2, dtype="float32"), weight=2
)
def test_exchange_one_rank_and_float32(case, run):
    """Rows keep their dtype."""


@suite.test("answers", "values", Dispatch(3, (5, 2, 6), 3, k=1, back=True))
def test_exchange_answers_come_back_in_order(case, run):
    """What ``send_back`` gives."""


@suite.test(
    "idle", "values", group(
        NO_ROWS, Dispatch(3, (4, 0, 3), 3, "one", k=1), Backward(3, (4, 2, 3), 3, "one", k=1),
    ),
    group(NO_TOKENS, Forward(2, (4, 0), 2)), group(FEW, Dispatch(3, (4, 3, 2), 2)),
)  # fmt: skip
def test_exchange_where_nothing_comes(case, run):
    """Everybody takes part in every exchange."""


@suite.test(
    "layer", "values", group(POWERS, Forward(2, (6, 4), 2)),
    group(OTHERS, Forward(3, (5, 4, 6), 3)), group(SEVERAL, Forward(2, (6, 4))), weight=2,
)  # fmt: skip
def test_exchange_layer_forward(case, run):
    """Every token's weighted answers."""


@suite.test(
    "gradients", "values", group(POWERS, Backward(2, (6, 4), 2), weight=2),
    group(OTHERS, Backward(3, (5, 4, 6), 3, dtype="float32")), group(SEVERAL, Backward(2, (6, 4))),
)  # fmt: skip
def test_exchange_layer_gradients(case, run):
    """Those of tokens, weights, and experts."""


test_exchange_real_mpi = suite.real_ranks("layer", Forward(2, (6, 4), 2), weight=0.5)


@suite.test("experts_alone", "communication", Dispatch(8, (16,), 8, "even", 40, 1), checked=False)
def test_exchange_rows_go_to_their_experts_alone(case, run):
    """Whatever the values are: 8 exchanges of rows in the place of three are no exchange."""
    most = 9 * case.row_bytes().sum() + 3 * case.count_bytes().sum()
    assert_sent_in_all(run, case, most)


@suite.test(
    "bytes", "communication", group(POWERS, Forward(2, (6, 5), 2, d=40, dtype="float32")),
    group(OTHERS, Forward(3, (4,), 3, "one", 40)), weight=6,
)  # fmt: skip
def test_exchange_no_row_too_many(case, run):
    """What isn't kept isn't sent."""
    assert_sent(run, case, num_counts=5)


@suite.test("counts", "communication", Forward(4, (4,), 4, "even"), weight=3)
def test_exchange_counts_once(case, run):
    assert_exchanges(run, case)
    assert_sent(run, case)


test_exchange_given_communicator = suite.given_communicator(
    "communicator", Dispatch(3, (5, 4, 6), 3), weight=2
)
test_exchange_sends_may_wait = suite.waiting_sends("any_timing", Dispatch(3, (5, 4, 6), 3))
test_exchange_inputs_and_a_second_call = suite.second_call(
    "calls", Forward(2, (5, 4), 2, share=1.0), kind="safety", inputs_kept=True, weight=10
)


@suite.test("time", "speed", Forward(8, (24,), 8, "even", 1024, machine=NODES))
def test_exchange_time_on_two_nodes(case, run):
    """What leaves a node goes through its one port: four times, twice each way."""
    rows = case.row_bytes()
    between = rows[:4, 4:].sum() + rows[4:, :4].sum()
    bound_s = 2 * between * machine_of(case).beta_s_per_byte
    assert_makespan(run, bound_s, case, full=1.6, half=2.2)
