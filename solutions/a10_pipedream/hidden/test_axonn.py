"""axonn.py: what arrives is computed, backward passes first, and the gradient is the batch's."""

import functools

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_peers,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from solutions.a10_pipedream.axonn_times import message_driven, one_f_one_b
from solutions.a10_pipedream.hidden.axonn_runs import (
    axonn_case,
    axonn_serial,
    driven,
    examples,
    stepped,
)

UNEQUAL = (3, 1, 2, 4, 1, 2, 2, 5)

points = points_of("axonn")


def check_sent(ranks, rng, num_stages, size, dtype="float64"):
    """A message for each activation and gradient of six microbatches, and no more bytes."""
    widths, count = (40, 3, 30), 6
    if num_stages < 6:  # with short messages: those of `size` are on their way for longer
        driven(ranks, rng, num_stages, (2,) * 6)
    case, result = stepped(ranks, rng, num_stages, (size,) * count, dtype=dtype, widths=widths)
    for stage in range(num_stages):
        widths_out = [widths[2 * ((stage + 1) % 2)]] * (stage < num_stages - 1)
        widths_out += [widths[2 * (stage % 2)]] * (stage > 0)
        nbytes = count * size * np.dtype(dtype).itemsize * sum(widths_out)
        examples.axonn_assert_sent(result, case, count * len(widths_out), stage, nbytes)
    return case, result


# -- values ----------------------------------------------------------------------------------------


@points(9, "values")
def test_gradient_on_2_to_5_stages(ranks, rng):
    for num_stages, count in ((2, 6), (3, 8), (4, 10), (5, 10)):
        driven(ranks, rng, num_stages, (2,) * count)


@points(7, "values")
def test_gradient_of_microbatches_of_different_sizes(ranks, rng):
    for num_stages in (2, 3, 4):
        driven(ranks, rng, num_stages, UNEQUAL)


@points(6, "values")
def test_one_stage_and_fewer_microbatches_than_stages(ranks, rng):
    for num_stages, count in ((3, 1), (4, 2), (5, 3), (1, 4), (1, 1)):
        driven(ranks, rng, num_stages, (2,) * count)


@points(5, "values")
def test_limits_from_one_on(ranks, rng):
    for num_stages, limit in ((2, 1), (3, 2), (3, 3), (2, 50)):
        driven(ranks, rng, num_stages, (2,) * 7, limit, to_the_limit=True)


@points(5, "values")
def test_gradient_in_any_order_of_arrival(ranks, rng):
    for seed in LATENCY_SEEDS:
        for num_stages in (3, 4):
            driven(ranks, rng, num_stages, (2,) * 8, seed=seed)


@points(3, "values")
def test_loss_of_the_whole_batch(ranks, rng):
    for num_stages, sizes in ((2, (2,) * 6), (3, UNEQUAL)):
        case, result = driven(ranks, rng, num_stages, sizes)
        right = axonn_serial(case, result.factors)
        for stage, value in enumerate(result.values):
            examples.axonn_check_loss(value, stage, right, case.seen_in(result))


@points(2, "values")
def test_all_that_is_given_stays(ranks, rng):
    for num_stages in (2, 3):
        case, result = driven(ranks, rng, num_stages, (2,) * 6)
        for stage, value in enumerate(result.values):
            examples.axonn_check_kept(value, stage, case.seen_in(result))


@points(3, "values")
def test_float32(ranks, rng):
    driven(ranks, rng, 3, (2,) * 6, dtype="float32")
    check_sent(ranks, rng, 2, 20, dtype="float32")


@points(4, "values")
def test_second_step_is_independent(ranks, rng):
    # Not announced: the passes of both steps have the same names.
    for num_stages in (2, 3):
        stepped(ranks, rng, num_stages, (2,) * 5, second=True, observed=False)


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


@points(6, "communication")
def test_one_message_for_each_activation_and_gradient(ranks, rng):
    for num_stages, size in ((2, 20), (3, 20), (4, 100), (5, 20), (12, 20), (18, 20)):
        case, result = check_sent(ranks, rng, num_stages, size)
        ranks.record(case, result, {"messages of stage 0": 6})


@points(3, "communication")
def test_messages_go_to_neighbours_only(ranks, rng):
    for num_stages in (1, 3, 5):
        case, result = driven(ranks, rng, num_stages, (2,) * 6)
        beside = [{s - 1, s + 1} & set(range(num_stages)) for s in range(num_stages)]
        assert_peers(result, beside, case, "pieces pass arrays to the piece after and before alone")


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(driven, ranks, rng, 3, (2,) * 6))


# -- schedule --------------------------------------------------------------------------------------


@points(9, "schedule")
def test_as_many_in_flight_as_asked(ranks, rng):
    for num_stages, limit in ((2, 2), (3, 2), (4, 4), (3, 6)):
        case, result = driven(ranks, rng, num_stages, (2,) * 10, limit)
        examples.axonn_assert_in_flight(result, case, 10, limit)


@points(12, "schedule")
def test_backward_before_forward(ranks, rng):
    for num_stages in (2, 3, 4):
        case, result = driven(ranks, rng, num_stages, (2,) * 14)
        examples.axonn_assert_backward_first(result, case, 14)


# -- safety ----------------------------------------------------------------------------------------


@points(8, "safety")
def test_every_send_may_wait_for_its_receive(ranks, rng):
    for seed, num_stages in zip(LATENCY_SEEDS, (2, 3, 4), strict=True):
        case, result = driven(ranks, rng, num_stages, (2,) * 8, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case)


# -- speed -----------------------------------------------------------------------------------------


@points(10, "speed")
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
