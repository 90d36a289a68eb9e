"""stash.py: one update a minibatch, stashed versions, and an order that the network sees."""

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_own_messages,
    assert_peers,
    assert_requests_complete,
    long_wire,
    members_of_world,
    on_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from solutions.a10_pipedream.hidden import stash_runs
from solutions.a10_pipedream.hidden.stash_runs import (
    examples,
    ideal,
    on_real_ranks,
    stash_case,
    trained,
)

FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)
WIDE = {"width": 64, "hidden": 256, "alike": True, "memory": True}

points = points_of("stash")


# -- values ----------------------------------------------------------------------------------------


@points(11, "values")
def test_delayed_recursion_on_2_to_5_stages(ranks, rng):
    for p, count in ((2, 5), (3, 7), (4, 9), (5, 8), (3, 3)):
        trained(ranks, rng, stash_case(p, count, rng))


@points(9, "values")
def test_vertical_sync_on_2_to_5_stages(ranks, rng):
    for p, count in ((2, 5), (3, 7), (4, 9), (5, 8)):
        trained(ranks, rng, stash_case(p, count, rng, vertical_sync=True))


@points(5, "values")
def test_fewer_minibatches_than_stages(ranks, rng):
    for p, count in ((2, 1), (4, 2), (5, 3), (3, 0)):
        trained(ranks, rng, stash_case(p, count, rng))


@points(3, "values")
def test_one_stage_is_gradient_descent(ranks, rng):
    for count in (4, 1):
        trained(ranks, rng, stash_case(1, count, rng))
    trained(ranks, rng, stash_case(2, 4, rng))


@points(4, "values")
def test_minibatches_of_different_sizes(ranks, rng):
    for p, sizes in ((2, (3, 1, 2, 4)), (3, (1, 4, 2, 3, 1, 2)), (4, (2, 5, 1, 1, 3))):
        trained(ranks, rng, stash_case(p, sizes, rng))


@points(3, "values")
def test_losses_of_the_last_stage(ranks, rng):
    for p, count in ((2, 5), (4, 6)):
        case = stash_case(p, count, rng)
        result = trained(ranks, rng, case)
        right = case.right(result.factors)
        for stage, value in enumerate(result.values):
            examples.stash_check_losses(value, stage, right, case.seen_in(result))


@points(3, "values")
def test_float32(ranks, rng):
    for p in (2, 4):
        trained(ranks, rng, stash_case(p, 6, rng, "float32"), observed=False)


@points(2, "values")
def test_second_call_is_independent(ranks, rng):
    for p in (2, 3):
        trained(ranks, rng, stash_case(p, 5, rng, calls=2), observed=False)


@points(2, "values")
def test_all_that_is_given_stays_and_results_are_new(ranks, rng):
    for p, count in ((3, 5), (2, 4)):
        case = stash_case(p, count, rng)
        result = trained(ranks, rng, case)
        for stage, value in enumerate(result.values):
            examples.stash_check_kept(value, stage, case.seen_in(result))


@points(3, "reality")
def test_real_mpi(mpi, ranks, rng):
    case = stash_case(3, 6, rng)
    trained(ranks, rng, case)
    on_real_ranks(mpi, [case])


# -- what is sent, and in which order --------------------------------------------------------------


@points(8, "communication")
def test_two_messages_for_each_minibatch_and_boundary(ranks, rng):
    for p, count, fields in (
        (2, 4, {}), (3, 5, {}), (4, 6, {}), (5, 6, {}), (12, 13, {}), (18, 19, {}),
        (3, 4, {"width": 900, "hidden": 2}),
    ):  # fmt: skip
        case = stash_case(p, count, rng, **fields)
        result = trained(ranks, rng, case)
        counts, nbytes = examples.stash_allowed(case)
        ranks.record(case, result, {"messages": counts, "bytes": nbytes})
        examples.stash_assert_sent(result, case)


@points(4, "communication")
def test_messages_go_to_neighbours_only(ranks, rng):
    for p in (2, 4, 18):
        case = stash_case(p, p + 2, rng)
        result = trained(ranks, rng, case)
        assert_own_messages(result, case)
        if result.comm_calls:
            raise case.fail("communicators were made; none is allowed.")
        beside = [{rank - 1, rank + 1} & set(range(p)) for rank in range(p)]
        rule = "a stage talks to the one before and the one after"
        assert_peers(result, beside, case, rule)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    for p in (3, 4):
        case = stash_case(p, 6, rng)
        members, world_size = members_of_world(rng, p)
        on_members(
            lambda case=case, **there: trained(ranks, rng, case, observed=False, **there),
            members,
            world_size,
            case,
        )


@points(8, "schedule")
def test_one_forward_one_backward_in_turn(ranks, rng):
    for p, count in ((2, 5), (3, 6), (4, 9), (5, 7)):
        case = stash_case(p, count, rng)
        examples.stash_assert_order(trained(ranks, rng, case), case)


@points(4, "memory")
def test_at_most_s_minus_s_versions_are_kept(ranks, rng):
    case = stash_case(5, 14, rng, **WIDE)
    result = trained(ranks, rng, case, observed=False)
    examples.stash_assert_held(result, case)


@points(2, "memory")
def test_versions_of_vertical_sync_are_let_go(ranks, rng):
    case = stash_case(3, 14, rng, vertical_sync=True, **WIDE)
    result = trained(ranks, rng, case, observed=False)
    examples.stash_assert_held(result, case)


# -- safety ----------------------------------------------------------------------------------------


@points(6, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for p, count in ((2, 6), (3, 7), (4, 24)):
        case = stash_case(p, count, rng)
        with_waiting_sends(lambda case=case, **there: trained(ranks, rng, case, **there), case)


@points(4, "safety")
def test_messages_may_be_slow_and_are_completed(ranks, rng):
    for seed in LATENCY_SEEDS:
        case = stash_case(4, 6, rng)
        result = trained(ranks, rng, case, seed=seed, machine=rendezvous())
        assert_requests_complete(result, case)


# -- speed -----------------------------------------------------------------------------------------


def timed(ranks, rng, case, machine):
    """A run whose passes take the time that they were made to take."""
    result = trained(ranks, rng, case, machine=machine)
    examples.stash_assert_work(result, case)
    return result


@points(6, "speed")
def test_time_with_free_messages(ranks, rng):
    for p, count in ((3, 7), (4, 10)):
        costs = (1e-3, 2e-3)
        case = stash_case(p, count, rng, costs=costs)
        result = timed(ranks, rng, case, FREE)
        assert_makespan(result, (count + p - 1) * sum(costs), case)


@points(5, "speed")
def test_time_on_a_slow_wire(ranks, rng):
    machine, costs = long_wire(), (4e-6, 8e-6)  # a message takes more than half of 4e-6 s
    for p, count in ((4, 10), (3, 8)):
        case = stash_case(p, count, rng, costs=costs, width=8, alike=True)
        result = timed(ranks, rng, case, machine)
        nbytes = 8 * case.batch_sizes[0] * case.width
        assert_makespan(result, ideal(p, count, costs, nbytes, machine), case)


@points(4, "speed")
def test_time_of_a_gpt_on_32_gpus(ranks, rng):
    p, count, width = 32, 36, 8
    costs, machine = stash_runs.gpt(width)
    case = stash_case(p, count, rng, costs=costs, width=width, alike=True)
    result = timed(ranks, rng, case, machine)
    assert_makespan(result, ideal(p, count, costs, 2 * 8 * width, machine), case)
