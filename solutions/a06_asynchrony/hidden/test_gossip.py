"""gossip.py: values of W^r, messages to neighbours only, and all neighbours at once."""

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_bytes,
    assert_inputs_kept,
    assert_makespan,
    assert_messages,
    assert_pairs,
    assert_ran,
    assert_requests_complete,
    buffered,
    members_of_world,
    on_members,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a06_asynchrony.cases import GOSSIP_REFUSALS, gossip_case, gossip_refusal
from solutions.a06_asynchrony.hidden import oracle, runs
from solutions.a06_asynchrony.hidden.runs import examples, gossiped

points = points_of("gossip")


THREE_A_NODE = buffered().with_(ranks_per_node=3, intra_alpha_s=1e-8)  # between nodes it is 1e-6


def by_graph(case):
    return "rings" if case.graph == "ring" else "other graphs"


@points(4, "communication", essential=True)
def test_values_travel_to_neighbours(ranks, rng):
    case = gossip_case(4, "ring", 3, (8,), rng)
    result = ranks.call("gossip:average", 4, case.arguments_of_ranks(), machine=buffered())
    assert_ran(result, case)
    examples.assert_values_travel(result, case)


@points(13, "values")
def test_ring_on_2_to_5_ranks(ranks, rng):
    for p, num_rounds in ((2, 3), (3, 4), (4, 5), (5, 7)):
        gossiped(ranks, gossip_case(p, "ring", num_rounds, (7,), rng))


@points(9, "values")
def test_wheel(ranks, rng):
    for p, num_rounds in ((4, 1), (5, 4), (8, 3), (11, 2)):
        gossiped(ranks, gossip_case(p, "wheel", num_rounds, (5,), rng))


@points(9, "values")
def test_random_graphs_with_weights_of_their_own(ranks, rng):
    for p, num_rounds in ((3, 2), (5, 6), (7, 3), (10, 4)):
        gossiped(ranks, gossip_case(p, "random", num_rounds, (4,), rng))


@points(5, "values")
def test_any_array(ranks, rng):
    for p, graph, shape, dtype in (
        (3, "ring", (2, 3), "float32"),
        (4, "ring", (), "float64"),
        (3, "ring", (0, 4), "float64"),
        (5, "even", (), "float32"),
    ):
        gossiped(ranks, gossip_case(p, graph, 3, shape, rng, dtype))
    gossiped(ranks, gossip_case(6, "ring", 2, (3,), rng, nan_of=4))


@points(5, "values")
def test_no_rounds_no_neighbours_one_rank_and_wrong_rows(ranks, rng):
    for p, graph, num_rounds in ((4, "apart", 3), (3, "ring", 0), (1, "ring", 4)):
        gossiped(ranks, gossip_case(p, graph, num_rounds, (5,), rng))
    for row in GOSSIP_REFUSALS:
        case = gossip_refusal(*row)
        result = ranks.call("callers:gossip_refused", 2, row)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_gossip_refused(value, rank, case)
        if any(result.sent_messages()):
            raise case.fail("average must raise ValueError before any message.")


@points(5, "values")
def test_inputs_stay_and_a_second_call_is_right(ranks, rng):
    for p, graph, num_rounds in ((3, "ring", 2), (3, "line", 1), (3, "ring", 0)):
        case = gossip_case(p, graph, num_rounds, (3, 2), rng)
        assert_inputs_kept(gossiped(ranks, case), case)
        given = case.arguments_of_ranks()
        case = case.looked_at()
        result = ranks.call("callers:gossip_looked_at", p, given, machine=buffered())
        assert_ran(result, case)
        wanted = examples.gossip_serial(*case.inputs(), num_rounds)
        for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
            compare, seen = examples.assert_near, case.seen_in(result)
            examples.assert_looked_at(value, right, compare, seen, rank, "result")


@points(3, "reality")
def test_real_mpi(mpi, ranks, rng):
    cases = [gossip_case(4, graph, 3, (5,), rng) for graph in ("wheel", "ring")]
    for case in cases:
        gossiped(ranks, case)
    jobs = [("gossip:average", case.world_size, case.arguments_of_ranks()) for case in cases]
    for case, result in zip(cases, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            runs.check_gossiped(result, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


def bytes_of_edges(case):
    """What each rank may send each other one."""
    allowed = np.zeros((case.world_size, case.world_size))
    for rank, own in enumerate(case.neighbours):
        allowed[rank, own] = case.num_rounds * case.nbytes
    return allowed


COUNTED = (
    *((p, "ring", 3, (5,)) for p in (2, 3, 4, 5)),
    (9, "wheel", 2, (3,)),
    (10, "even", 3, (3,)),
    (18, "even", 2, (2,)),
)


@points(7, "communication")
def test_one_message_a_round_and_neighbour(ranks, rng):
    def check(case):
        allowed = [case.num_rounds * len(own) for own in case.neighbours]
        assert_messages(gossiped(ranks, case), allowed, case)

    check_kinds([gossip_case(*counted, rng) for counted in COUNTED], by_graph, check)


@points(12, "communication")
def test_bytes_to_each_neighbour(ranks, rng):
    def check(case):
        result, allowed = gossiped(ranks, case), bytes_of_edges(case)
        in_all = [int(each) for each in allowed.sum(axis=1)]
        ranks.record(case, result, {"sent_bytes": in_all})
        assert_pairs(result, allowed, case)
        assert_bytes(result, in_all, case)

    counted = (*COUNTED, (3, "wheel", 2, (7200,)))
    cases = [gossip_case(*each, rng) for each in counted]
    cases += [gossip_case(4, "ring", 3, (5,), rng, "float32")]
    check_kinds(cases, lambda case: "float32" if case.dtype == "float32" else by_graph(case), check)


@points(6, "communication")
def test_given_communicator_is_used(ranks, rng):
    case = gossip_case(4, "ring", 3, (5,), rng)
    members = members_of_world(rng, 4)
    on_members(lambda **there: gossiped(ranks, case, **there), *members, case)


@points(10, "safety")
def test_sends_may_wait_and_messages_come_in_any_order(ranks, rng):
    def check(case):
        with_waiting_sends(lambda **there: gossiped(ranks, case, **there), case)
        for seed in LATENCY_SEEDS[:2]:
            assert_requests_complete(gossiped(ranks, case, seed=seed), case)
        if case.graph == "line":  # rank 2 waits for rank 3, and rank 0 is a round ahead of it
            gossiped(ranks, case, machine=THREE_A_NODE)

    graphs = (2, "ring"), (5, "ring"), (6, "wheel"), (7, "even"), (4, "line")
    check_kinds([gossip_case(p, graph, 3, (5,), rng) for p, graph in graphs], by_graph, check)


@points(6, "speed")
def test_a_round_on_a_ring_takes_one_latency(ranks, rng):
    machine = buffered()
    for p, n in ((8, 1), (6, 5000)):
        case = gossip_case(p, "ring", 10, (n,), rng)
        result = gossiped(ranks, case, machine=machine)
        assert_makespan(result, oracle.gossip_s(case, machine), case)


@points(6, "speed")
def test_a_hub_talks_to_all_at_once(ranks, rng):
    machine = buffered()
    for p, graph in ((12, "wheel"), (16, "even")):
        case = gossip_case(p, graph, 10, (1,), rng)
        result = gossiped(ranks, case, machine=machine)
        assert_makespan(result, oracle.gossip_s(case, machine), case)
