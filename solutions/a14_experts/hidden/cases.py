"""The cases of the hidden run."""

import math

from checks import test_exchange as exchange
from checks import test_moe_torch as moe
from checks import test_node_limited as node
from checks import test_route as route
from checks.cases import Backward, Dispatch, Forward
from checks.cases_nodes import Choose, OnNodes
from checks.cases_route import BalanceLoss, Capacity, Route
from checks.cases_torch import Gradients, Passes

from ringside.checking.suite import group, hidden, oracle

# -- route -----------------------------------------------------------------------------------------

SIZES = ((6, 4, 2), (5, 8, 3), (5, 3, 1))
FOUR = ((2, 1, 0), (2, 1, 3), (5, 4, 3), (0, 9, 1))


@oracle(Capacity)
def capacity(case):
    return math.ceil(case.factor * case.k * case.num_tokens / case.num_experts)


Capacity.wrong = lambda case: {
    "It is rounded down; it must be rounded up.": int(
        case.factor * case.k * case.num_tokens / case.num_experts
    )
}

hidden(
    route.test_route_capacity,
    Capacity(factor=1.25),
    Capacity(64, 8, 1),
    Capacity(7, 4, 2),
    Capacity(0, 4, 1),
    Capacity(5, 4, 4, 2.0),
    Capacity(8, 4, 0, raises="ValueError"),
    Capacity(8, 4, 5, raises="ValueError"),
    Capacity(8, 4, 1, 0.0, raises="ValueError"),
)
hidden(route.test_route_best_experts_where_all_have_room, *(Route(*size) for size in SIZES))
hidden(
    route.test_route_equal_scores,
    Route(rows=route.EQUAL),
    Route(rows=route.DOCUMENTED, room=3),
    Route(4, 300, 3, whole=True),
)
hidden(
    route.test_route_weights,
    group("small scores", *(Route(*size) for size in SIZES), weight=2),
    group("large scores", Route(rows=route.LARGE), Route(5, scale=800.0), weight=3),
)
hidden(
    route.test_route_full_experts_drop_later_tokens,
    Route(rows=route.ONE, k=1, room=2),
    Route(20, 4, 1, 3),
    Route(20, 5, 1, 2),
)
hidden(
    route.test_route_order_is_that_of_tokens_not_of_choices,
    Route(rows=FOUR, room=2),
    Route(rows=FOUR, room=1),
)
hidden(
    route.test_route_weights_of_a_token_that_lost_an_expert,
    Route(rows=((5, 4, 0), (5, 4, 0), (5, 0, 4)), room=1),
)
hidden(
    route.test_route_all_experts_no_room_and_no_tokens,
    Route(5, 3, 3),
    Route(5, 3, room=0),
    Route(0, 3, room=4),
)
hidden(
    route.test_route_dtype_and_inputs,
    Route(8, may_change=False),
    Route(8, dtype="float32", may_change=False),
)
hidden(
    route.test_route_balance_loss,
    group(
        "small scores",
        BalanceLoss(12, 4, 1),
        BalanceLoss(9, 5, 2),
        BalanceLoss(rows=route.EVEN, chosen=((0,), (1,), (2,), (3,))),
        weight=2,
    ),
    group(
        "large scores",
        BalanceLoss(rows=((50, 0, 0, 0),) * 4, chosen=((0,),) * 4),
        BalanceLoss(scale=900.0),
    ),
)

# -- exchange --------------------------------------------------------------------------------------

hidden(
    exchange.test_exchange_even_rows,
    *(Dispatch(p, (2 * p,), p, "even", k=1) for p in (2, 4)),
)
UNEVEN_ROWS = Dispatch(2, (5, 2), 2, k=1), Dispatch(4, (3, 9, 2, 6), k=1)
hidden(exchange.test_exchange_uneven_rows, *UNEVEN_ROWS)
hidden(
    exchange.test_exchange_rows_stand_in_order, *(case.with_(in_order=True) for case in UNEVEN_ROWS)
)
hidden(
    exchange.test_exchange_answers_come_back_in_order,
    *(case.with_(back=True) for case in UNEVEN_ROWS),
)
hidden(
    exchange.test_exchange_several_experts_a_rank,
    Dispatch(2, (6, 5), 5),
    Dispatch(4, (4, 7, 3, 2), 10),
)
hidden(
    exchange.test_exchange_where_nothing_comes,
    group(exchange.NO_ROWS, Backward(4, (4, 3, 5, 2), 4, "one", 3, 1)),
    *(
        group(name, Dispatch(*case), Forward(*case))
        for name, case in (
            (exchange.NO_ROWS, (4, (4, 3, 5, 2), 4, "one", 3, 1)),
            (exchange.NO_ROWS, (2, (4, 3), 2, "usual", 3, 2, 0.0)),
            (exchange.NO_TOKENS, (4, (4, 0, 5, 2), 4)),
            (exchange.FEW, (4, (4, 3, 5, 2), 2)),
        )
    ),
)
hidden(
    exchange.test_exchange_one_rank_and_float32,
    Dispatch(1, experts=3),
    Dispatch(2, (6, 4), 2),
    Dispatch(2, (6, 4), 2, dtype="float32"),
)
hidden(
    exchange.test_exchange_layer_forward,
    group(exchange.POWERS, Forward(2, experts=2), Forward(4, (4,))),
    group(exchange.OTHERS, Forward(3, (5,), 3), Forward(5, (2, 4, 3, 2, 3), 5)),
    group(exchange.SEVERAL, Forward(3, (5, 2, 4), 7)),
)
hidden(
    exchange.test_exchange_layer_gradients,
    group(exchange.POWERS, Backward(2, experts=2), Backward(4, (4,)), weight=2),
    group(
        exchange.OTHERS,
        Backward(3, (5,), 3, dtype="float32"),
        Backward(5, (2, 4, 3, 2, 3), 5),
    ),
    group(exchange.SEVERAL, Backward(3, (5, 2, 4), 7)),
)
hidden(exchange.test_exchange_real_mpi, Forward(2, (6, 4), 2), Forward(2, (6, 4), 2, "even"))
hidden(exchange.test_exchange_rows_go_to_their_experts_alone, Dispatch(8, (16,), 8, "even", 40, 1))
hidden(
    exchange.test_exchange_no_row_too_many,
    group(
        exchange.POWERS,
        Forward(2, experts=2, d=40, dtype="float32"),
        Forward(4, (4,), 4, "one", 40),
        Forward(4, (9, 1, 1, 1), 4, "uneven", 40),
        Forward(16, (2,), 16, d=40),
    ),
    group(
        exchange.OTHERS,
        Forward(3, (5, 8, 3), 3, d=40),
        *(Forward(p, (2,), p, d=40) for p in (12, 18)),
    ),
)
hidden(
    exchange.test_exchange_counts_once,
    Forward(2, experts=2, kind="even"),
    *(Forward(4, (4,), experts, "even") for experts in (4, 8)),
)
hidden(exchange.test_exchange_given_communicator, Dispatch(4, (5, 4, 6, 3)))
hidden(exchange.test_exchange_sends_may_wait, Dispatch(4, (5, 4, 6, 3)))
hidden(exchange.test_exchange_inputs_and_a_second_call, Forward(4, (5, 4, 6, 3), share=1.0))
hidden(
    exchange.test_exchange_time_on_two_nodes,
    *(Forward(8, (24,), 8, kind, 1024, machine=exchange.NODES) for kind in ("even", "usual")),
)

# -- moe_torch -------------------------------------------------------------------------------------

WORLDS = ((2, (6,), 2), (3, (4, 7, 3), 3), (4, (5,), 4))

hidden(moe.test_moe_forward, *(Passes(*world, k=1, how="forward") for world in WORLDS))
for test in (moe.test_moe_gradients_of_experts, moe.test_moe_gradients_of_tokens_and_gate):
    hidden(
        test,
        group(moe.ONCE, *(Gradients(*world) for world in WORLDS), weight=2),
        group(moe.TWICE, Gradients(*WORLDS[1], how="twice"), weight=4.5),
        group(moe.SEVERAL, Gradients(3, (4, 7, 3), 8), weight=2),
        group(moe.PART, Gradients(3, (5, 4, 6), 3).in_part()),
    )
hidden(moe.test_moe_several_experts_a_rank, Passes(2, (6, 5), 5), Passes(3, (4, 7, 3), 8))
hidden(
    moe.test_moe_where_nothing_comes,
    Passes(3, (4, 3, 5), 3, "one", k=1),
    Passes(3, (4, 0, 5), 3),
    Passes(3, (4, 0, 5), 3, "one", k=1),
)
hidden(
    moe.test_moe_one_rank_and_float32, Passes(1, experts=3), Passes(2, (6, 4), 2, dtype="float32")
)
hidden(moe.test_moe_real_gloo, Passes(2, (6, 4), 2))
hidden(
    moe.test_moe_rows_go_to_their_experts_alone,
    Passes(4, (16,), 4, "even", 40, 1, how="forward"),
)
hidden(
    moe.test_moe_no_row_too_many,
    Passes(2, experts=2, d=40, dtype="float32"),
    Passes(3, (5, 8, 3), 3, d=40),
    Passes(3, (4,), 3, "one", 40),
    Passes(12, (2,), 12, d=40),
    Passes(17, (1,), 17, d=40),
)
hidden(moe.test_moe_counts_once, Passes(2, experts=2, d=40), Passes(4, (4,), 4, d=40))
hidden(moe.test_moe_given_group, Passes(3, (5, 4, 6), 3))
hidden(moe.test_moe_everything_is_waited_for, Passes(3, (4, 5, 3), 3).in_part())
hidden(
    moe.test_moe_exchange_is_hidden_forward,
    *(
        Passes(p, (4 * p,), p, "even", 16, 1, hidden=32, how="forward", machine=moe.SLOW)
        for p in (4, 8)
    ),
)
hidden(
    moe.test_moe_exchange_is_hidden_in_both_passes,
    *(Passes(p, (4 * p,), p, "even", 16, 1, hidden=32, machine=moe.SLOW) for p in (4, 16)),
)

# -- node_limited ----------------------------------------------------------------------------------

UNEVEN = (5, 4, 3, 6)

hidden(
    node.test_node_choice, Choose(9, 8, 2, 4, 1), Choose(30, 16, 4, 4, 2), Choose(20, 24, 8, 4, 2)
)
hidden(
    node.test_node_choice_among_equals_and_without_limit,
    group(node.FREE, Choose(6, 8, 4, 4, 4), Choose(6, 8, 3, 1, 1)),
    group(
        node.EQUAL,
        Choose(rows=((1,) * 8,) * 2),
        Choose(rows=((1, 2, 2, 1) * 2,) * 3, k=4),
        Choose(rows=((0, 0, 0, 1),), nodes=2, most=1),
        Choose(2, 400, 40, 4, 2, whole=True),
    ),
)
hidden(node.test_node_choice_refused, *node.REFUSED)
hidden(
    node.test_node_layer,
    OnNodes(4, (5,), 4, k=3),
    OnNodes(4, (6, 4, 5, 3), 8, k=3),
    OnNodes(6, (4,), 12, k=3, per_node=3),
)
hidden(
    node.test_node_where_nothing_comes_or_crosses,
    group(
        node.IDLE,
        OnNodes(4, (4, 0, 3, 5), 8, "one"),
        OnNodes(4, (4, 2, 3, 5), 8, share=0.0),
        weight=9,
    ),
    group(
        node.ONE,
        OnNodes(2, (5, 4), 4),
        OnNodes(4, (5, 4, 6, 3), 8, per_node=1),
        OnNodes(1, (7,), 2, per_node=1),
    ),
)
hidden(node.test_node_float32, OnNodes(4, UNEVEN, 8, d=20, dtype="float32", share=1.0))
hidden(node.test_node_real_mpi, OnNodes(4, UNEVEN, 8, share=1.0))
hidden(
    node.test_node_bytes_on_more_ranks,
    group(node.FEW, OnNodes(8, (8,), 8, "even", 100, 8, per_node=4)),
    group(
        node.BYTES,
        OnNodes(12, (4,), 24, d=20, k=6, share=1.0, per_node=4),
        OnNodes(18, (3,), 18, d=20, k=4, share=1.0, per_node=3),
    ),
)
hidden(
    node.test_node_same_place,
    OnNodes(4, (5,), 4, d=10, k=3, share=1.0),
    OnNodes(6, (4,), 6, d=10, k=3, share=1.0, per_node=3),
)
hidden(node.test_node_given_communicator, OnNodes(4, UNEVEN, 8, share=1.0))
hidden(node.test_node_sends_may_wait, OnNodes(4, UNEVEN, 8, share=1.0))
hidden(node.test_node_inputs_and_a_second_call, OnNodes(4, UNEVEN, 8))
hidden(
    node.test_node_time_on_four_nodes,
    OnNodes(16, (16,), 16, d=1024, k=8, share=1.0, per_node=4, machine=node.NODES),
)
