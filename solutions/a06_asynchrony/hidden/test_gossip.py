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
from ringside.checking.points import points_of
from solutions.a06_asynchrony.cases import GOSSIP_REFUSALS, gossip_case, gossip_refusal
from solutions.a06_asynchrony.hidden import oracle, runs
from solutions.a06_asynchrony.hidden.runs import examples, gossiped

points = points_of("gossip")


@points(10, "values")
def test_ring_on_2_to_5_ranks(ranks, rng):
    for p, num_rounds in ((2, 3), (3, 4), (4, 5), (5, 7)):
        gossiped(ranks, gossip_case(p, "ring", num_rounds, (7,), rng))


@points(8, "values")
def test_wheel(ranks, rng):
    for p, num_rounds in ((4, 1), (5, 4), (8, 3), (11, 2)):
        gossiped(ranks, gossip_case(p, "wheel", num_rounds, (5,), rng))


@points(8, "values")
def test_random_graphs_with_weights_of_their_own(ranks, rng):
    for p, num_rounds in ((3, 2), (5, 6), (7, 3), (10, 4)):
        gossiped(ranks, gossip_case(p, "random", num_rounds, (4,), rng))


@points(5, "values")
def test_error_shrinks_by_the_second_eigenvalue_and_the_mean_stays(ranks, rng):
    for p, num_rounds in ((5, 9), (12, 6)):
        wave, eigenvalue = oracle.slowest_wave(p)
        case = gossip_case(p, "ring", num_rounds, (3,), rng)
        gossiped(ranks, case)
        x, neighbours, weights = case.inputs()
        x = [amplitude * np.array([1.0, 2.0, -3.0]) + 5 for amplitude in wave]
        rows = [(*row, num_rounds) for row in zip(x, neighbours, weights, strict=True)]
        result = ranks.call("gossip:average", p, rows, machine=buffered())
        assert_ran(result, case)
        mixed = np.array(result.values)
        if not np.allclose(mixed.mean(axis=0), 5, rtol=0, atol=1e-12):
            raise case.fail(f"the mean of all ranks was 5; it became {mixed.mean(axis=0)[0]:.6g}.")
        error = np.abs(mixed - 5).max() / np.abs(np.array(x) - 5).max()
        if not abs(error - abs(eigenvalue) ** num_rounds) <= 1e-12:
            raise case.fail(
                f"the distance from the mean shrank to {error:.6g} of what it was; with the second "
                f"eigenvalue {eigenvalue:.6g} it must be {abs(eigenvalue) ** num_rounds:.6g}."
            )


@points(4, "values")
def test_any_array(ranks, rng):
    for p, graph, shape, dtype in (
        (3, "ring", (2, 3), "float32"),
        (4, "ring", (), "float64"),
        (3, "ring", (0, 4), "float64"),
        (5, "even", (), "float32"),
    ):
        gossiped(ranks, gossip_case(p, graph, 3, shape, rng, dtype))
    gossiped(ranks, gossip_case(6, "ring", 2, (3,), rng, nan_of=4))


@points(3, "values")
def test_no_rounds_no_neighbours_and_one_rank(ranks, rng):
    for p, graph, num_rounds in ((4, "apart", 3), (3, "ring", 0), (1, "ring", 4)):
        gossiped(ranks, gossip_case(p, graph, num_rounds, (5,), rng))


@points(4, "values")
def test_inputs_stay_and_results_are_new(ranks, rng):
    for p, num_rounds in ((3, 2), (4, 1), (3, 0)):
        case = gossip_case(p, "ring", num_rounds, (3, 2), rng)
        assert_inputs_kept(gossiped(ranks, case), case)
        given = case.arguments_of_ranks()
        result = ranks.call("callers:gossip_looked_at", p, given, machine=buffered())
        case = case.looked_at()
        assert_ran(result, case)
        wanted = examples.gossip_serial(*case.inputs(), num_rounds)
        for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
            compare, seen = examples.assert_near, case.seen_in(result)
            examples.assert_looked_at(value, right, compare, seen, rank, "result")


@points(2, "values")
def test_wrong_rows_are_refused(ranks, rng):
    gossiped(ranks, gossip_case(3, "ring", 1, (2,), rng))
    for row in GOSSIP_REFUSALS:
        case = gossip_refusal(*row)
        result = ranks.call("callers:gossip_refused", 2, row)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_gossip_refused(value, rank, case)
        if any(result.sent_messages()):
            raise case.fail("average must raise ValueError before any message.")


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


@points(10, "communication")
def test_one_message_a_round_and_neighbour(ranks, rng):
    for p, graph, num_rounds, shape in COUNTED:
        case = gossip_case(p, graph, num_rounds, shape, rng)
        allowed = [num_rounds * len(own) for own in case.neighbours]
        assert_messages(gossiped(ranks, case), allowed, case)


@points(8, "communication")
def test_bytes_to_each_neighbour(ranks, rng):
    for p, graph, num_rounds, shape in (*COUNTED, (3, "wheel", 2, (7200,))):
        case = gossip_case(p, graph, num_rounds, shape, rng)
        result, allowed = gossiped(ranks, case), bytes_of_edges(case)
        in_all = [int(each) for each in allowed.sum(axis=1)]
        ranks.record(case, result, {"sent_bytes": in_all})
        assert_pairs(result, allowed, case)
        assert_bytes(result, in_all, case)


@points(2, "communication")
def test_float32_travels_as_float32(ranks, rng):
    case = gossip_case(4, "ring", 3, (5,), rng, "float32")
    assert_pairs(gossiped(ranks, case), bytes_of_edges(case), case)


@points(8, "communication")
def test_given_communicator_is_used(ranks, rng):
    for graph in ("ring", "wheel"):
        case = gossip_case(4, graph, 3, (5,), rng)
        members = members_of_world(rng, 4)
        on_members(lambda case=case, **there: gossiped(ranks, case, **there), *members, case)


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for p, graph in ((2, "ring"), (5, "ring"), (6, "wheel"), (8, "even")):
        case = gossip_case(p, graph, 3, (5,), rng)
        with_waiting_sends(lambda case=case, **there: gossiped(ranks, case, **there), case)


@points(5, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    for seed in LATENCY_SEEDS:
        for p, graph in ((7, "even"), (6, "wheel")):
            case = gossip_case(p, graph, 5, (3,), rng)
            assert_requests_complete(gossiped(ranks, case, seed=seed), case)


@points(8, "speed")
def test_a_round_on_a_ring_takes_one_latency(ranks, rng):
    machine = buffered()
    for p, n in ((8, 1), (6, 5000)):
        case = gossip_case(p, "ring", 10, (n,), rng)
        result = gossiped(ranks, case, machine=machine)
        assert_makespan(result, oracle.gossip_s(case, machine), case)


@points(7, "speed")
def test_a_hub_talks_to_all_at_once(ranks, rng):
    machine = buffered()
    for p, graph in ((12, "wheel"), (16, "even")):
        case = gossip_case(p, graph, 10, (1,), rng)
        result = gossiped(ranks, case, machine=machine)
        assert_makespan(result, oracle.gossip_s(case, machine), case)
