"""axonn.py: what arrives is computed, backward passes first, and the gradient is the batch's."""

import functools

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_own_messages,
    assert_peers,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a10_pipedream.axonn_times import message_driven, one_f_one_b
from solutions.a10_pipedream.hidden.axonn_runs import (
    axonn_case,
    axonn_serial,
    called,
    driven,
    examples,
    stepped,
)

PART = "communicators of a part of the world"
UNEQUAL = (3, 1, 2, 4, 1, 2, 2, 5)

points = points_of("axonn")


def check_sent(ranks, rng, num_stages, size):
    """A message for each activation and gradient of six microbatches, and no more bytes."""
    widths, count = (40, 3, 30), 6
    case, result = stepped(ranks, rng, num_stages, (size,) * count, widths=widths)
    for stage in range(num_stages):
        widths_out = [widths[2 * ((stage + 1) % 2)]] * (stage < num_stages - 1)
        widths_out += [widths[2 * (stage % 2)]] * (stage > 0)
        nbytes = count * size * 8 * sum(widths_out)
        examples.axonn_assert_sent(result, case, count * len(widths_out), stage, nbytes)
    return case, result


# -- values ----------------------------------------------------------------------------------------


@points(10, "values")
def test_gradient_on_2_to_5_stages_in_any_order_of_arrival(ranks, rng):
    cases = [(2, 6, None), (3, 8, None), (4, 10, None), (5, 10, None)]
    cases += [(p, 8, seed) for seed in LATENCY_SEEDS for p in (3, 4)]

    def kind(asked):
        return "messages that are equally fast" if asked[2] is None else "messages that overtake"

    def check(asked):
        num_stages, count, seed = asked
        stepped(ranks, rng, num_stages, (2,) * count, seed=seed)

    check_kinds(cases, kind, check)


@points(7, "values")
def test_gradient_of_microbatches_of_different_sizes(ranks, rng):
    for num_stages in (2, 3, 4):
        stepped(ranks, rng, num_stages, UNEQUAL)


@points(6, "values")
def test_one_stage_and_fewer_microbatches_than_stages(ranks, rng):
    def kind(asked):
        return "one stage" if asked[0] == 1 else "fewer microbatches than stages"

    def check(asked):
        driven(ranks, rng, asked[0], (2,) * asked[1])

    check_kinds(((3, 1), (4, 2), (5, 3), (1, 4), (1, 1)), kind, check)


@points(5, "values")
def test_limits_from_one_on(ranks, rng):
    for num_stages, limit in ((2, 1), (3, 2), (3, 3), (2, 50)):
        driven(ranks, rng, num_stages, (2,) * 7, limit, to_the_limit=True)


@points(5, "values")
def test_loss_of_the_whole_batch_and_all_that_is_given_stays(ranks, rng):
    def check(what):
        unequal = (3, (2, 4, 1, 2)) if what == "the loss" else (3, (2,) * 4)
        for num_stages, sizes in ((2, (2,) * 6), unequal):
            case, result = stepped(ranks, rng, num_stages, sizes)
            right, seen = axonn_serial(case, result.factors), case.seen_in(result)
            for stage, value in enumerate(result.values):
                if what == "the loss":
                    examples.axonn_check_loss(value, stage, right, seen)
                else:
                    examples.axonn_check_kept(value, stage, seen)

    check_kinds(("the loss", "what is given"), str, check)


@points(6, "values")
def test_float32_and_a_second_step(ranks, rng):
    def check(what):
        for num_stages in (2, 3):
            if what == "float32":
                stepped(ranks, rng, num_stages, (2,) * 6, dtype="float32")
            else:  # not announced: the passes of both steps have the same names
                stepped(ranks, rng, num_stages, (2,) * 5, second=True, observed=False)

    check_kinds(("float32", "a second step"), str, check)


@points(4, "reality")
def test_real_mpi(mpi, rng):
    cases = [axonn_case(3, (2,) * 5, limit, rng) for limit in (3, 6)]
    jobs = [("callers:axonn_step", 3, case.arguments_of_ranks()) for case in cases]
    for case, result in zip(cases, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            right = axonn_serial(case)
            for stage, value in enumerate(result.values):
                examples.axonn_check_values(value, stage, right, case)
        except Verdict as verdict:
            raise Verdict(
                f"{verdict.sentence} This was under mpiexec.",
                detail=verdict.detail,
                reproduce=case.reproduce,
            ) from None


# -- messages --------------------------------------------------------------------------------------


@points(7, "communication")
def test_one_message_for_each_activation_and_gradient(ranks, rng):
    for num_stages, size in ((2, 20), (3, 20), (4, 100), (5, 20), (12, 20), (18, 20)):
        case, result = check_sent(ranks, rng, num_stages, size)
        ranks.record(case, result, {"messages of stage 0": 6})


@points(7, "communication")
def test_messages_go_to_neighbours_in_the_given_communicator(ranks, rng):
    def check(num_stages):
        if num_stages == PART:
            on_three_members(rng, functools.partial(stepped, ranks, rng, 3, (2,) * 6))
            return
        case, result = stepped(ranks, rng, num_stages, (2,) * 6)
        assert_own_messages(result, case)
        beside = [{s - 1, s + 1} & set(range(num_stages)) for s in range(num_stages)]
        assert_peers(result, beside, case, "pieces pass arrays to the piece after and before alone")

    def kind(num_stages):
        return PART if num_stages == PART else "the whole world"

    check_kinds((3, 5, 1, PART), kind, check)


# -- schedule --------------------------------------------------------------------------------------


@points(6, "schedule", essential=True)
def test_no_stage_waits_while_there_is_work(ranks, rng):
    case, result = called(ranks, rng, 4, (2,) * 8)
    examples.axonn_assert_driven(result, case, 8, 1)


@points(9, "schedule")
def test_as_many_in_flight_as_asked(ranks, rng):
    for num_stages, limit in ((2, 2), (3, 2), (4, 4), (3, 6)):
        case, result = stepped(ranks, rng, num_stages, (2,) * 10, limit)
        examples.axonn_assert_in_flight(result, case, 10, limit)


@points(11, "schedule")
def test_backward_before_forward(ranks, rng):
    for num_stages in (2, 3, 4):
        case, result = stepped(ranks, rng, num_stages, (2,) * 14)
        examples.axonn_assert_backward_first(result, case, 14)


# -- safety ----------------------------------------------------------------------------------------


@points(8, "safety")
def test_every_send_may_wait_for_its_receive(ranks, rng):
    for seed, num_stages in zip(LATENCY_SEEDS, (2, 3, 4), strict=True):
        case, result = stepped(ranks, rng, num_stages, (2,) * 8, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case)


# -- speed -----------------------------------------------------------------------------------------


@points(9, "speed")
def test_faster_than_1f1b_where_times_vary(ranks, rng):
    steps = []
    for num_stages, count in ((4, 24), (4, 24), (4, 24), (6, 24)):
        case, result = stepped(ranks, rng, num_stages, (1,) * count)
        examples.axonn_assert_each_once(result, case, count)
        *_, forward_s, backward_s = case.inputs()
        message_s = result.machine.alpha_s
        by_rule_s = message_driven(forward_s, backward_s, case.limit, message_s)
        steps.append((result, case, by_rule_s, one_f_one_b(forward_s, backward_s, message_s)))
    examples.axonn_assert_fast(steps)
