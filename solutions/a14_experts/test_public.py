"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators.
"""

import numpy as np
from exchange_cases import assert_exchanges, assert_sent, dispatched, exchange_case, exchanged
from exchange_cases import sent_to_experts as exchange_sent_to_experts
from moe_cases import assert_all_to_all, moe_case, moe_ran, sent_to_experts
from node_cases import (
    assert_once_to_a_node,
    assert_same_place,
    node_case,
    node_check,
    node_ran,
    on_two_levels,
)
from route_cases import route_check

from ringside import Machine
from ringside.checking import (
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points
from ringside.trace import Kind

# -- route -----------------------------------------------------------------------------------------
ROUTE_SCORES = np.array([[2.0, 1.0, 0.0], [2.0, 1.0, 3.0], [5.0, 4.0, 4.0]])  # the docstring's


def routing(experts, weights, kept, dtype="float64"):
    """What is expected."""
    return np.array(experts, np.int64), np.array(weights, dtype), np.array(kept, bool)


@points(10, "values", "route")
def test_route_capacity(ranks):
    calls = [(100, 8, 2, 1.25), (16, 4, 1, 1.0), (8, 4, 0, 1.0), (8, 4, 1, 0.0)]
    route_check(ranks, "capacity", calls, [32, 4, "ValueError", "ValueError"])


@points(25, "values", "route")
def test_route_of_the_example_with_room(ranks):
    high = 1 / (1 + np.exp(-1.0))
    weights = [[high, 1 - high]] * 3
    right = routing([[0, 1], [2, 0], [0, 1]], weights, np.ones((3, 2)))
    route_check(ranks, "route", [(ROUTE_SCORES, 2, 3)], [right])
    more = ROUTE_SCORES + 1000.0
    route_check(ranks, "route", [(more, 2, 3)], [right])


@points(25, "values", "route")
def test_route_of_the_example_where_an_expert_is_full(ranks):
    high = 1 / (1 + np.exp(-1.0))
    weights = [[high, 1 - high], [high, 1 - high], [0.0, 1 - high]]
    kept = [[True, True], [True, True], [False, True]]
    right = routing([[0, 1], [2, 0], [0, 1]], weights, kept)
    route_check(ranks, "route", [(ROUTE_SCORES, 2, 2)], [right])


@points(10, "values", "route")
def test_route_equal_scores(ranks):
    right = routing([[0], [1]], [[1.0], [1.0]], [[True], [True]])
    route_check(ranks, "route", [(np.array([[1.0, 1.0], [0.0, 2.0]]), 1, 2)], [right])


@points(10, "values", "route")
def test_route_dtype_and_no_tokens(ranks):
    right = routing([[1]], [[1.0]], [[True]], "float32")
    route_check(ranks, "route", [(np.array([[1.0, 2.0]], np.float32), 1, 2)], [right])
    none = routing(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2)))
    route_check(ranks, "route", [(np.zeros((0, 3)), 2, 1)], [none])


@points(20, "values", "route")
def test_route_balance_loss(ranks):
    even, one = np.arange(4)[:, None], np.zeros((4, 1), np.int64)
    calls = [(np.zeros((4, 4)), even), (np.zeros((4, 4)), one),
             (np.tile([1000.0, 0, 0, 0], (4, 1)), one),
             (np.tile([1000.0, 0, 0, 0], (4, 1)), np.tile([0, 1], (4, 1)))]  # fmt: skip
    route_check(ranks, "balance_loss", calls, [1.0, 1.0, 4.0, 2.0])


# -- exchange --------------------------------------------------------------------------------------


@points(15, "values", "exchange")
def test_exchange_rows_to_their_experts_and_back(ranks):
    dispatched(ranks, exchange_case((4, 4), 2, "even", k=1))
    dispatched(ranks, exchange_case((5, 2, 6), 3, k=1))


@points(10, "values", "exchange")
def test_exchange_several_experts_a_rank(ranks):
    dispatched(ranks, exchange_case((6, 5), 5))


@points(10, "values", "exchange")
def test_exchange_where_nothing_comes(ranks):
    dispatched(ranks, exchange_case((4, 0, 3), 3, "one", k=1))
    dispatched(ranks, exchange_case((4, 3, 2), 2))
    exchanged(ranks, exchange_case((4, 0), 2), forward=False)


@points(20, "values", "exchange")
def test_exchange_layer(ranks):
    exchanged(ranks, exchange_case((6, 4), 4), forward=False)
    exchanged(ranks, exchange_case((5, 4, 6), 3, dtype="float32"), forward=False)


@points(10, "communication", "exchange", essential=True)
def test_exchange_rows_go_to_their_experts_alone(ranks):
    case = exchange_case((16,) * 8, 8, "even", d=40, k=1)
    exchange_sent_to_experts(ranks, case, machine=buffered())


@points(10, "communication", "exchange")
def test_exchange_no_row_too_many(ranks):
    for case in (exchange_case((6, 5), 4, d=40), exchange_case((4, 4, 4), 3, "one", d=40)):
        assert_sent(exchanged(ranks, case), case, num_counts=5)


@points(10, "communication", "exchange")
def test_exchange_counts_once(ranks):
    case = exchange_case((4, 4, 4, 4), 4, "even")
    result = exchanged(ranks, case)
    assert_exchanges(result, case)
    assert_sent(result, case)


@points(5, "communication", "exchange")
def test_exchange_on_members(ranks, rng):
    case = exchange_case((5, 4, 6), 6)
    on_three_members(rng, lambda **there: (case, exchanged(ranks, case, **there)))


@points(5, "safety", "exchange")
def test_exchange_sends_may_wait(ranks):
    case = exchange_case((5, 4, 6), 6)
    with_waiting_sends(lambda **there: exchanged(ranks, case, **there), case)


@points(5, "safety", "exchange")
def test_exchange_inputs_and_a_second_call(ranks):
    case = exchange_case((5, 4), 4)
    looked = case.via("exchange_twice", ", three times, with arrays that can't be written to")
    given = case.arguments_of_ranks()
    result = ranks.call("callers:exchange_twice", 2, given, machine=buffered())
    assert_ran(result, looked)
    for rank, values in enumerate(result.values):
        for value in values:
            looked.check(rank, value)


# -- moe_torch -------------------------------------------------------------------------------------


@points(15, "values", "moe_torch")
def test_moe_forward(ranks):
    moe_ran(ranks, moe_case((6, 4), 2, how="forward", k=1))
    moe_ran(ranks, moe_case((4, 7, 3), 3, how="forward"))


@points(15, "values", "moe_torch")
def test_moe_gradients(ranks):
    moe_ran(ranks, moe_case((6, 4), 2), forward=False)
    moe_ran(ranks, moe_case((4, 7, 3), 6, dtype="float32"), forward=False)


@points(5, "values", "moe_torch")
def test_moe_second_forward_pass_before_the_backward_pass(ranks):
    moe_ran(ranks, moe_case((6, 4), 2, how="twice"), forward=False)


@points(15, "values", "moe_torch")
def test_moe_where_nothing_comes(ranks):
    moe_ran(ranks, moe_case((4, 0, 3), 3, "one", k=1))


@points(5, "communication", "moe_torch", essential=True)
def test_moe_rows_go_to_their_experts_alone(ranks):
    sent_to_experts(ranks, moe_case((16,) * 4, 4, "even", d=40, k=1, how="forward"))


@points(10, "communication", "moe_torch")
def test_moe_no_row_too_many(ranks):
    case = moe_case((6, 5), 4, d=40)
    result = moe_ran(ranks, case)
    assert_all_to_all(result, case)
    assert_sent(result, case)
    assert_exchanges(result, case)


@points(5, "communication", "moe_torch")
def test_moe_on_members(ranks, rng):
    case = moe_case((5, 4, 6), 3)
    on_three_members(rng, lambda **there: (case, moe_ran(ranks, case, **there)))


@points(10, "safety", "moe_torch")
def test_moe_everything_is_waited_for(ranks):
    case = moe_case((4, 5, 3), 3)
    result = moe_ran(ranks, case, machine=rendezvous())
    assert_requests_complete(result, case, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])


@points(20, "speed", "moe_torch")
def test_moe_exchange_is_hidden(ranks):
    machine = Machine(
        "slow links", alpha_s=1e-6, beta_s_per_byte=1e-8, flop_per_s=1e9, memory_bytes_per_s=1e15
    )
    case = moe_case((16,) * 4, 4, "even", d=16, k=1, hidden=32)
    result = moe_ran(ranks, case, machine=machine)
    exchange_s = 3 * (1e-6 + 4 * 16 * 8 * 1e-8)
    work_s = 3 * 16 * (2 * 4 * 16 * 32 + 2 * 16 * 4) / 1e9
    assert_makespan(result, work_s + 3 * (1e-6 + 8e-8) + 2 * exchange_s, case, half=1.1)


# -- node_limited ----------------------------------------------------------------------------------


@points(20, "values", "node_limited")
def test_node_choice(ranks):
    scores = np.array([[5.0, 0, 4, 3], [1, 1, 1, 1], [0, 0, 0, 1]])
    rights = [[[2, 3], [0, 1], [3, 2]], [[0, 2], [0, 1], [3, 0]]]
    node_check(ranks, [(scores, 2, 2, 1), (scores, 2, 2, 2)], rights)


@points(5, "values", "node_limited")
def test_node_choice_refused(ranks):
    calls = [(np.ones((2, 8)), 3, 4, 2), (np.ones((2, 8)), 4, 4, 1), (np.ones((2, 9)), 2, 4, 1)]
    node_check(ranks, calls, ["ValueError"] * 3)


@points(25, "values", "node_limited")
def test_node_layer(ranks):
    node_ran(ranks, node_case((4, 4, 4, 4), 4, 2, k=3))
    node_ran(ranks, node_case((5, 4, 3, 6), 8, 2, dtype="float32"))


@points(5, "values", "node_limited")
def test_node_where_nothing_comes(ranks):
    node_ran(ranks, node_case((4, 0, 3, 2), 4, 2, "one"))


@points(10, "communication", "node_limited", essential=True)
def test_node_few_copies_of_a_token(ranks):
    on_two_levels(ranks, node_case((8,) * 8, 8, 4, "even", d=100, k=8))


@points(10, "communication", "node_limited")
def test_node_same_place_and_no_row_too_many(ranks):
    case = node_case((4,) * 6, 6, 2, d=10, k=3)
    result = node_ran(ranks, case)
    assert_same_place(result, case, "2")
    assert_once_to_a_node(result, case)


@points(5, "communication", "node_limited")
def test_node_on_members(ranks, rng):
    case = node_case((5, 4, 6), 6, 1)
    on_three_members(rng, lambda **there: (case, node_ran(ranks, case, **there)))


@points(5, "safety", "node_limited")
def test_node_sends_may_wait(ranks):
    case = node_case((5, 4, 3, 6), 8, 2)
    with_waiting_sends(lambda **there: node_ran(ranks, case, **there), case)


@points(5, "safety", "node_limited")
def test_node_inputs_and_a_second_call(ranks):
    case = node_case((5, 4, 3, 6), 8, 2)
    looked = case.via("node_twice", ", twice, with arrays that can't be written to")
    result = ranks.call("callers:node_twice", 4, case.arguments_of_ranks(), machine=buffered())
    assert_ran(result, looked)
    for rank, values in enumerate(result.values):
        for value in values:
            looked.check(rank, value)


@points(10, "speed", "node_limited")
def test_node_time_on_two_nodes(ranks):
    machine = Machine.load("zaratan").with_(flop_per_s=1e15)
    case = node_case((16,) * 8, 8, 4, d=1024, k=8)
    result = node_ran(ranks, case, machine=machine)
    nbytes = case.pair_bytes()
    leaves = max(nbytes[:4].sum(), nbytes[4:].sum())
    assert_makespan(result, leaves * machine.beta_s_per_byte, case, full=1.7, half=2.4)
