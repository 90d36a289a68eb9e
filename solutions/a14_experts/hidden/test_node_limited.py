"""node_limited.py: few nodes a token, and one copy of it to each."""

import itertools

import numpy as np

from ringside import Machine
from ringside.checking import (
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_ran,
    buffered,
    members_of_world,
    on_members,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a14_experts.hidden.oracle import examples

cases = examples.node_cases
node_case, node_ran, node_check = cases.node_case, cases.node_ran, cases.node_check
points = points_of("node_limited")


def chosen(scores, k, num_nodes, most_nodes):
    """Token by token, in loops."""
    each, found = scores.shape[1] // num_nodes, []
    for own in scores.tolist():
        nodes = [own[n * each : (n + 1) * each] for n in range(num_nodes)]
        worth = [sum(sorted(node)[::-1][: k // most_nodes]) for node in nodes]
        best = sorted(range(num_nodes), key=lambda n, worth=worth: (-worth[n], n))[:most_nodes]
        there = list(itertools.chain(*(range(n * each, (n + 1) * each) for n in best)))
        found.append(sorted(there, key=lambda e, own=own: (-own[e], e))[:k])
    return np.array(found, np.int64).reshape(len(scores), k)


def check(ranks, calls):
    node_check(ranks, calls, [chosen(*call) for call in calls])


def seed(rng):
    return int(rng.integers(2**31))


@points(15, "values")
def test_node_choice(ranks, rng):
    calls = [(rng.random((9, 8)).round(2), 2, 4, 1), (rng.random((5, 16)).round(2), 4, 4, 2)]
    check(ranks, [*calls, (rng.random((4, 24)).round(2), 8, 4, 2)])


@points(8, "values")
def test_node_choice_among_equals_and_without_limit(ranks, rng):
    free = [(rng.random((6, 8)).round(2), 4, 4, 4), (rng.random((6, 8)).round(2), 3, 1, 1)]
    even = [(np.ones((2, 8)), 2, 4, 2), (np.tile([1.0, 2.0, 2.0, 1.0], (3, 2)), 4, 4, 2)]
    even.append((np.array([[0.0, 0.0, 0.0, 1.0]]), 2, 2, 1))
    kinds = {"experts on all nodes": free, "equal nodes": even}
    check_kinds(kinds, lambda kind: kind, lambda kind: check(ranks, kinds[kind]))


@points(4, "values")
def test_node_choice_refused(ranks):
    calls = [(np.ones((2, 8)), 3, 4, 2), (np.ones((2, 8)), 4, 4, 1), (np.ones((2, 9)), 2, 4, 1)]
    node_check(ranks, calls, ["ValueError"] * 3)


@points(17, "values")
def test_node_layer(ranks, rng):
    for tokens, num_experts, g in (((5,) * 4, 4, 2), ((6, 4, 5, 3), 8, 2), ((4,) * 6, 12, 3)):
        node_ran(ranks, node_case(tokens, num_experts, g, k=3, seed=seed(rng)))


@points(8, "values")
def test_node_where_nothing_comes_or_crosses(ranks, rng):
    tried = [((4, 0, 3, 5), 2, "one"), ((4, 2, 3, 5), 2, "none"), ((5, 4), 2, "usual"),
             ((5, 4, 6, 3), 1, "usual"), ((7,), 1, "usual")]  # fmt: skip

    def check(each):
        tokens, g, kind = each
        node_ran(ranks, node_case(tokens, 2 * len(tokens), g, kind, seed=seed(rng)))

    def kind(each):
        nothing = 0 in each[0] or each[2] == "none"
        return "ranks where nothing comes" if nothing else "one node, and nodes of one rank"

    check_kinds(tried, kind, check)


@points(3, "values")
def test_node_float32(ranks, rng):
    node_ran(ranks, node_case((5, 4, 3, 6), 8, 2, seed=seed(rng), dtype="float32"))


@points(3, "reality")
def test_node_real_mpi(mpi, ranks, rng):
    case = node_case((5, 4, 3, 6), 8, 2, seed=seed(rng))
    node_ran(ranks, case)
    (result,) = mpi.call_all([(case.target, 4, case.arguments_of_ranks())])
    try:
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            case.check(rank, value)
    except Verdict as verdict:
        raise Verdict(
            f"under mpiexec: {verdict.sentence}", reproduce=case.real_line, detail=verdict.detail
        ) from None


@points(12, "communication", essential=True)
def test_node_bytes_on_more_ranks(ranks, rng):
    """Its first part asks whether few copies cross to a node at all, whatever the values are."""

    def check(each):
        if each is None:
            case = node_case((8,) * 8, 8, 4, "even", d=100, k=8, seed=seed(rng))
            cases.on_two_levels(ranks, case)
            return
        tokens, num_experts, g, k = each
        case = node_case(tokens, num_experts, g, d=20, k=k, seed=seed(rng))
        cases.assert_once_to_a_node(node_ran(ranks, case), case)

    kinds = "one copy for several experts of a node", "bytes between nodes"
    tried = [None, ((4,) * 12, 24, 4, 6), ((3,) * 18, 18, 3, 4)]
    check_kinds(tried, lambda each: kinds[each is not None], check)


@points(6, "communication")
def test_node_same_place(ranks, rng):
    for tokens, g in (((5,) * 4, 2), ((4,) * 6, 3)):
        case = node_case(tokens, len(tokens), g, d=10, k=3, seed=seed(rng))
        cases.assert_same_place(node_ran(ranks, case), case, str(g))


@points(4, "communication")
def test_node_given_communicator(ranks, rng):
    case = node_case((5, 4, 3, 6), 8, 2, seed=seed(rng))
    members = members_of_world(rng, 4)
    on_members(lambda **there: node_ran(ranks, case, **there), *members, case)


@points(6, "safety")
def test_node_sends_may_wait(ranks, rng):
    case = node_case((5, 4, 3, 6), 8, 2, seed=seed(rng))
    with_waiting_sends(lambda **there: node_ran(ranks, case, **there), case)


@points(4, "safety")
def test_node_inputs_and_a_second_call(ranks, rng):
    case = node_case((5, 4, 3, 6), 8, 2, seed=seed(rng))
    looked = case.via("node_twice", ", twice, with arrays that can't be written to")
    result = ranks.call("callers:node_twice", 4, case.arguments_of_ranks(), machine=buffered())
    assert_ran(result, looked)
    for rank, values in enumerate(result.values):
        for value in values:
            looked.check(rank, value)
    assert_inputs_kept(result, looked)


@points(10, "speed")
def test_node_time_on_four_nodes(ranks, rng):
    machine = Machine.load("zaratan").with_(flop_per_s=1e15)
    case = node_case((16,) * 16, 16, 4, d=1024, k=8, seed=seed(rng))
    result = node_ran(ranks, case, machine=machine)
    nbytes = case.pair_bytes()
    leaves = [nbytes[4 * n : 4 * n + 4].sum() for n in range(4)]
    assert_makespan(result, max(leaves) * machine.beta_s_per_byte, case, full=1.7, half=2.4)
