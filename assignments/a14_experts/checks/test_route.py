"""route.py: the k best experts, their weights, their room, and how even it is."""

import numpy as np

from checks.cases_route import BalanceLoss, Capacity, Route
from ringside.checking.cases import assert_like
from ringside.checking.suite import Suite, group

suite = Suite("route")
DOCUMENTED = ((2, 1, 0), (2, 1, 3), (5, 4, 4))  # the docstring's scores
# Elsewhere no scores are equal: which of them an unstable sort puts first depends on the processor.
UNEQUAL = ((2, 1, 0), (2, 1, 3), (5, 4, 3))
EQUAL = ((1, 1, 1, 1), (0, 2, 2, 2), (3, 1, 3, 3))
LARGE = ((1000, 1001, -1000),)
ONE = ((3, 2, 1, 0),) * 6  # everybody's best expert is expert 0
EVEN = tuple((0,) * 4 for _ in range(4))


@suite.test(
    "capacity", "values", Capacity(factor=1.25, gives=32),
    Capacity(16, 4, 1, gives=4), Capacity(7, 4, 2, gives=4),
    Capacity(8, 4, 0, raises="ValueError"), Capacity(8, 4, 1, 0.0, raises="ValueError"),
)  # fmt: skip
def test_route_capacity(case, run):
    """Rounded up; what is wrong is refused."""


@suite.test("best", "values", Route(rows=UNEQUAL, room=3), Route(5, 8, 3))
def test_route_best_experts_where_all_have_room(case, run):
    case.check_experts(run)


@suite.test(
    "equal", "values", Route(rows=DOCUMENTED, room=3), Route(rows=EQUAL), Route(2, 300, whole=True),
)  # fmt: skip
def test_route_equal_scores(case, run):
    """Sorts of a few numbers may be stable by chance, those of many aren't."""
    case.check_experts(run)


@suite.test(
    "weights", "values",
    group("small scores", Route(rows=UNEQUAL, room=3), Route(5, 8, 3), weight=2),
    group("large scores", Route(rows=LARGE), weight=3), weight=14,
)  # fmt: skip
def test_route_weights(case, run):
    case.check_by_expert("weights", run)


@suite.test("room", "values", Route(rows=ONE, k=1, room=2), Route(20, 4, 1, 3), weight=14)
def test_route_full_experts_drop_later_tokens(case, run):
    case.check_by_expert("kept", run)


@suite.test("order", "values", Route(rows=UNEQUAL, room=2), Route(rows=UNEQUAL, room=1), weight=12)
def test_route_order_is_that_of_tokens_not_of_choices(case, run):
    case.check_by_expert("kept", run)


@suite.test("lost", "values", Route(rows=UNEQUAL, room=2), weight=10)
def test_route_weights_of_a_token_that_lost_an_expert(case, run):
    case.check_by_expert("weights", run)


@suite.test("edges", "values", Route(5, 3, 3), Route(5, 3, room=0), Route(0, 3), weight=4)
def test_route_all_experts_no_room_and_no_tokens(case, run):
    case.check_by_expert("kept", run)


@suite.test(
    "arrays", "values", Route(may_change=False), Route(dtype="float32", may_change=False),
)  # fmt: skip
def test_route_dtype_and_inputs(case, run):
    for name, array, right in zip(("experts", "weights", "kept"), run, case.right(), strict=True):
        assert_like(array, np.asarray(right), case, name)


@suite.test(
    "loss", "values",
    group(
        "small scores", BalanceLoss(12, 4, 1), BalanceLoss(9, 5, 2),
        BalanceLoss(rows=EVEN, chosen=((0,), (1,), (2,), (3,))), weight=2,
    ),
    group("large scores", BalanceLoss(rows=((1000, 0, 0, 0),) * 4, chosen=((0, 1),) * 4)),
)  # fmt: skip
def test_route_balance_loss(case, run):
    """Shares of choices times mean probabilities, times E."""
