"""stash.py: one update a minibatch, stashed versions, and an order that the network sees."""

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_own_messages,
    assert_peers,
    assert_ran,
    assert_requests_complete,
    buffered,
    long_wire,
    members_of_world,
    on_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
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


@points(10, "values")
def test_delayed_recursion_on_2_to_5_stages(ranks, rng):
    for p, count in ((2, 5), (3, 7), (4, 9), (5, 8), (3, 3)):
        trained(ranks, rng, stash_case(p, count, rng))


@points(10, "values")
def test_vertical_sync_on_2_to_5_stages(ranks, rng):
    for p, count in ((2, 5), (3, 7), (4, 9), (5, 8)):
        trained(ranks, rng, stash_case(p, count, rng, vertical_sync=True))


@points(6, "values")
def test_fewer_minibatches_than_stages_and_one_stage(ranks, rng):
    def kind(sizes):
        return "one stage" if sizes[0] == 1 else "fewer minibatches than stages"

    # On several stages first: what has no messages shows little.
    trained(ranks, rng, stash_case(2, 4, rng))
    cases = ((2, 1), (4, 2), (5, 3), (3, 0), (1, 4), (1, 1))
    check_kinds(cases, kind, lambda sizes: trained(ranks, rng, stash_case(*sizes, rng)))


@points(6, "values")
def test_minibatches_of_different_sizes_and_float32(ranks, rng):
    def check(asked):
        p, sizes, dtype = asked
        observed = dtype == "float64"
        trained(ranks, rng, stash_case(p, sizes, rng, dtype), observed=observed)

    cases = [(p, 6, "float32") for p in (2, 4)]
    cases += [
        (p, sizes, "float64")
        for p, sizes in ((2, (3, 1, 2, 4)), (3, (1, 4, 2, 3, 1, 2)), (4, (2, 5, 1, 1, 3)))
    ]
    check_kinds(cases, lambda asked: asked[2], check)


@points(3, "values")
def test_losses_of_the_last_stage(ranks, rng):
    for p, count in ((2, 5), (4, 6)):
        case = stash_case(p, count, rng)
        result = trained(ranks, rng, case)
        right = case.right(result.factors)
        for stage, value in enumerate(result.values):
            examples.stash_check_losses(value, stage, right, case.seen_in(result))


@points(4, "values")
def test_second_call_and_all_that_is_given_stays(ranks, rng):
    def check(calls):
        for p in (2, 3):
            case = stash_case(p, (1, 2, 2, 4, 3), rng, calls=calls)
            result = trained(ranks, rng, case, observed=calls == 1)
            if calls == 1:
                for stage, value in enumerate(result.values):
                    examples.stash_check_kept(value, stage, case.seen_in(result))

    check_kinds((2, 1), lambda calls: "a second call" if calls > 1 else "a first call", check)


@points(3, "reality")
def test_real_mpi(mpi, ranks, rng):
    case = stash_case(3, 6, rng)
    trained(ranks, rng, case)
    on_real_ranks(mpi, [case])


# -- what is sent, and in which order --------------------------------------------------------------


@points(5, "communication", essential=True)
def test_stages_compute_their_pieces_and_pass_arrays_on(ranks, rng):
    case = stash_case(4, 8, rng)
    arguments = case.arguments_of_ranks()
    result = ranks.call("callers:stash_trained", 4, arguments, machine=buffered())
    assert_ran(result, case)
    examples.stash_assert_passed_on(result, case)


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


@points(8, "communication")
def test_messages_go_to_neighbours_in_the_given_communicator(ranks, rng):
    def check(asked):
        p, part = asked
        case = stash_case(p, p + 2, rng)
        if part:
            members, world_size = members_of_world(rng, p)

            def run(**there):
                return trained(ranks, rng, case, observed=False, **there)

            on_members(run, members, world_size, case)
            return
        result = trained(ranks, rng, case)
        assert_own_messages(result, case)
        if result.comm_calls:
            raise case.fail("communicators were made; none is allowed.")
        beside = [{rank - 1, rank + 1} & set(range(p)) for rank in range(p)]
        rule = "a stage talks to the one before and the one after"
        assert_peers(result, beside, case, rule)

    def kind(asked):
        return "communicators of a part of the world" if asked[1] else "the whole world"

    check_kinds([*((p, False) for p in (2, 4, 18)), (3, True), (4, True)], kind, check)


@points(11, "schedule")
def test_one_forward_one_backward_in_turn(ranks, rng):
    for p, count in ((2, 5), (3, 6), (4, 9), (5, 7)):
        case = stash_case(p, count, rng)
        examples.stash_assert_order(trained(ranks, rng, case), case)


@points(6, "memory")
def test_versions_are_let_go(ranks, rng):
    def check(vertical_sync):
        case = stash_case(3 if vertical_sync else 5, 14, rng, vertical_sync=vertical_sync, **WIDE)
        result = trained(ranks, rng, case, observed=False)
        examples.stash_assert_held(result, case)

    def kind(vertical_sync):
        return "vertical sync" if vertical_sync else "stages with versions of their own"

    check_kinds((False, True), kind, check, weights={"vertical sync": 0.5})


# -- safety ----------------------------------------------------------------------------------------


@points(10, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for p, count in ((2, 6), (3, 7), (4, 24)):
        case = stash_case(p, count, rng)
        with_waiting_sends(lambda case=case, **there: trained(ranks, rng, case, **there), case)
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


@points(10, "speed")
def test_time_with_free_messages_and_on_a_slow_wire(ranks, rng):
    def check(asked):
        p, count, free = asked
        if free:
            costs = (1e-3, 2e-3)
            case = stash_case(p, count, rng, costs=costs)
            result = timed(ranks, rng, case, FREE)
            assert_makespan(result, (count + p - 1) * sum(costs), case)
            return
        machine, costs = long_wire(), (4e-6, 8e-6)  # a message takes more than half of 4e-6 s
        case = stash_case(p, count, rng, costs=costs, width=8, alike=True)
        result = timed(ranks, rng, case, machine)
        nbytes = 8 * case.batch_sizes[0] * case.width
        assert_makespan(result, ideal(p, count, costs, nbytes, machine), case)

    cases = [(3, 7, True), (4, 10, True), (4, 10, False), (3, 8, False)]
    check_kinds(cases, lambda asked: "free messages" if asked[2] else "a slow wire", check)
