"""route.py: the k best experts, their weights, their room, and how even it is."""

import math

import numpy as np

from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a14_experts.hidden.oracle import examples

route_check, NAMES = examples.route_cases.route_check, examples.route_cases.NAMES
points = points_of("route")


def routed(scores, k, room):
    """Token by token."""
    num_tokens, num_experts = scores.shape
    left, found = [room] * num_experts, ([], [], [])
    for own in scores:
        best = sorted(range(num_experts), key=lambda e: (-own[e], e))[:k]
        shares = [math.exp(float(own[e]) - float(own[best[0]])) for e in best]
        kept = [left[e] > 0 for e in best]
        for e, here in zip(best, kept, strict=True):
            left[e] -= here
        found[0].append(best)
        found[1].append([s / sum(shares) * here for s, here in zip(shares, kept, strict=True)])
        found[2].append(kept)
    shape = num_tokens, k
    return tuple(
        np.array(part, dtype).reshape(shape)
        for part, dtype in zip(found, (np.int64, scores.dtype, bool), strict=True)
    )


def balance(scores, experts):
    """As the docstring has it, in loops."""
    num_tokens, num_experts = scores.shape
    shares = [[math.exp(s - max(own)) for s in own] for own in scores.tolist()]
    means = [sum(own[e] / sum(own) for own in shares) / num_tokens for e in range(num_experts)]
    chosen = [(experts == e).sum() / experts.size for e in range(num_experts)]
    return float(num_experts * sum(f * p for f, p in zip(chosen, means, strict=True)))


def check(ranks, calls, *only):
    rights = [routed(*call) for call in calls]
    route_check(ranks, "route", calls, rights, only or NAMES)


def drawn(rng, *shape, dtype="float64"):
    return rng.standard_normal(shape).round(2).astype(dtype)  # the line shows them


@points(10, "values")
def test_route_capacity(ranks):
    calls = [(100, 8, 2, 1.25), (64, 8, 1, 1.0), (7, 4, 2, 1.0), (0, 4, 1, 1.0), (5, 4, 4, 2.0)]
    right = [32, 8, 4, 0, 10]
    calls += [(8, 4, 0, 1.0), (8, 4, 5, 1.0), (8, 4, 1, 0.0)]
    route_check(ranks, "capacity", calls, [*right, *["ValueError"] * 3])


@points(14, "values")
def test_route_best_experts_where_all_have_room(ranks, rng):
    calls = [(drawn(rng, t, e), k, t) for t, e, k in ((6, 4, 2), (5, 8, 3), (5, 3, 1))]
    check(ranks, calls, "experts")


@points(7, "values")
def test_route_equal_scores(ranks):
    scores = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 2.0, 2.0], [3.0, 1.0, 3.0, 3.0]])
    check(ranks, [(scores, 2, 9), (np.repeat(scores, 9, axis=1), 3, 9)], "experts")


@points(14, "values")
def test_route_weights(ranks, rng):
    small = [(drawn(rng, t, e), k, t) for t, e, k in ((6, 4, 2), (5, 8, 3), (5, 3, 1))]
    large = np.array([[1000.0, 1001.0, -1000.0]])
    tried = [*small, (large, 2, 9), ((800 * drawn(rng, 5, 4)).round(), 2, 9)]
    kinds = ("small scores", "large scores")
    check_kinds(
        tried,
        lambda call: kinds[int(abs(call[0]).max() > 50)],
        lambda call: check(ranks, [call], "weights"),
    )


@points(13, "values")
def test_route_full_experts_drop_later_tokens(ranks, rng):
    one = np.tile(np.array([3.0, 2.0, 1.0, 0.0]), (6, 1))
    check(ranks, [(one, 1, 2), (drawn(rng, 20, 4), 1, 3), (drawn(rng, 20, 5), 1, 2)], "kept")


@points(10, "values")
def test_route_order_is_that_of_tokens_not_of_choices(ranks):
    scores = np.array([[2.0, 1.0, 0.0], [2.0, 1.0, 3.0], [5.0, 4.0, 3.0], [0.0, 9.0, 1.0]])
    check(ranks, [(scores, 2, 2), (scores, 2, 1)], "kept")


@points(7, "values")
def test_route_weights_of_a_token_that_lost_an_expert(ranks):
    scores = np.array([[5.0, 4.0, 0.0], [5.0, 4.0, 0.0], [5.0, 0.0, 4.0]])
    check(ranks, [(scores, 2, 1)], "weights")


@points(5, "values")
def test_route_all_experts_no_room_and_no_tokens(ranks, rng):
    calls = [(drawn(rng, 5, 3), 3, 5), (drawn(rng, 5, 3), 2, 0), (drawn(rng, 0, 3), 2, 4)]
    check(ranks, calls, "kept")


@points(5, "values")
def test_route_dtype_and_inputs(ranks, rng):
    check(ranks, [(drawn(rng, 8, 4), 2, 8), (drawn(rng, 8, 4, dtype="float32"), 2, 8)])


@points(15, "values")
def test_route_balance_loss(ranks, rng):
    calls = []
    for t, e, k in ((12, 4, 1), (9, 5, 2)):
        scores = drawn(rng, t, e)
        calls.append((scores, routed(scores, k, t)[0]))
    calls.append((np.zeros((4, 4)), np.arange(4)[:, None]))
    calls.append((np.tile([50.0, 0, 0, 0], (4, 1)), np.zeros((4, 1), np.int64)))
    scores = (900 * drawn(rng, 6, 4)).round()
    calls.append((scores, routed(scores, 2, 6)[0]))
    kinds = ("small scores", "large scores")

    def right(call):
        route_check(ranks, "balance_loss", [call], [balance(*call)])

    weights = {"small scores": 2.0}
    check_kinds(calls, lambda call: kinds[int(abs(call[0]).max() > 50)], right, weights=weights)
