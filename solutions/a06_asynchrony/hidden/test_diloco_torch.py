"""diloco_torch.py: inner steps alone, an outer step with momentum, fragments in turn."""

from pathlib import Path

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_moved,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.examples import beside
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a06_asynchrony.cases_torch import (
    DILOCO_REFUSALS,
    EVEN,
    assert_equal_params,
    diloco_case,
    diloco_refusal,
    ring_all_reduce_s,
)
from solutions.a06_asynchrony.hidden.runs_torch import SLOW_WIRE, diloco, on_gloo, refused

OUTER = (0.7, 0.9)  # rate and momentum
NO_MOMENTUM = (0.7, 0.0)
examples = beside(Path(__file__).resolve().parents[1] / "diloco_torch.py")

points = points_of("diloco_torch")


@points(11, "values")
def test_serial_recursion_on_2_to_5_ranks(ranks, rng):
    for p, num_steps, period, num_fragments, outer in (
        (2, 9, 3, 1, OUTER), (3, 12, 4, 2, OUTER), (4, 10, 5, 3, OUTER), (5, 8, 4, 4, (0.5, 0.3)),
    ):  # fmt: skip
        case = diloco_case(p, num_steps, period, num_fragments, rng, outer=outer, widths=EVEN)
        diloco(ranks, case)


@points(6, "values")
def test_period_1_is_data_parallelism(ranks, rng):
    for p in (2, 3):
        case = diloco_case(p, 5, 1, 1, rng)
        result = diloco(ranks, case)
        wanted = data_parallel(case)
        for value in result.values:
            for found, right in zip(value[1], wanted, strict=True):
                if not np.allclose(found, right, rtol=0, atol=1e-12):
                    raise case.fail("period 1 does not give what data-parallel SGD gives.")


def data_parallel(case):
    """SGD along the mean of all ranks' gradients."""
    params, batches = case.inputs()
    w1, b1, w2, b2 = params
    for step in range(case.num_steps):
        x, target = (
            np.concatenate(each) for each in zip(*(own[step] for own in batches), strict=True)
        )
        hidden = np.tanh(x @ w1.T + b1)
        dy = (hidden @ w2.T + b2 - target) / len(x)
        dz = dy @ w2 * (1 - hidden**2)
        parts = dz.T @ x, dz.sum(axis=0), dy.T @ hidden, dy.sum(axis=0)
        w1, b1, w2, b2 = (w - 0.1 * each for w, each in zip((w1, b1, w2, b2), parts, strict=True))
    return w1, b1, w2, b2


@points(7, "values")
def test_inner_optimizers_keep_their_state(ranks, rng):
    for p, inner in ((2, "momentum"), (3, "adamw")):
        diloco(ranks, diloco_case(p, 9, 4, 1, rng, outer=OUTER, inner=inner))


@points(7, "values")
def test_last_partial_period_is_averaged(ranks, rng):
    for p, num_steps, period in ((2, 7, 3), (3, 11, 4), (2, 3, 5), (2, 5, 4)):
        diloco(ranks, diloco_case(p, num_steps, period, 1, rng, outer=OUTER))
    diloco(ranks, diloco_case(3, 0, 2, 1, rng))
    diloco(ranks, diloco_case(1, 5, 2, 1, rng, outer=OUTER))


@points(10, "values")
def test_fragments_of_uneven_length_and_empty_ones(ranks, rng):
    for p, period, num_fragments, widths in ((2, 7, 7, (3, 4, 2)), (3, 6, 6, (1, 1, 1))):
        diloco(ranks, diloco_case(p, 9, period, num_fragments, rng, outer=OUTER, widths=widths))


@points(3, "values")
def test_frozen_parameters_and_float32(ranks, rng):
    diloco(ranks, diloco_case(2, 7, 3, 1, rng, outer=OUTER, frozen=True))
    diloco(ranks, diloco_case(3, 5, 2, 1, rng, outer=OUTER, dtype="float32"))


@points(2, "values")
def test_wrong_numbers_are_refused(ranks, rng):
    diloco(ranks, diloco_case(2, 4, 2, 1, rng))
    for numbers in DILOCO_REFUSALS:
        case = diloco_refusal(numbers)
        refused(ranks, "callers_torch:diloco_refused", numbers, case, examples.assert_refused)


@points(4, "reality")
def test_real_gloo(gloo, rng):
    case = diloco_case(2, 7, 3, 1, rng, outer=NO_MOMENTUM)
    on_gloo(lambda: diloco(gloo, case))


# -- communication ---------------------------------------------------------------------------------


@points(12, "communication")
def test_bytes_of_one_all_reduce_a_period(ranks, rng):
    for p, num_steps, period, num_fragments, widths in (
        (2, 8, 4, 1, EVEN), (3, 8, 4, 4, EVEN), (4, 7, 3, 2, EVEN), (5, 6, 3, 3, EVEN),
        (12, 5, 2, 2, EVEN), (18, 4, 2, 1, EVEN), (3, 6, 3, 3, (60, 90, 21)),
    ):  # fmt: skip
        outer = NO_MOMENTUM
        case = diloco_case(p, num_steps, period, num_fragments, rng, outer=outer, widths=widths)
        result = diloco(ranks, case)
        bound = 2 * (p - 1) / p * 8 * sum(case.averages)
        assert bound <= 2 * (p - 1) / p * 8 * case.n * -(-num_steps // period)
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        assert_moved(result, bound, case)


@points(8, "communication")
def test_peak_of_a_step_falls_by_the_number_of_fragments(ranks, rng):
    for p, num_fragments in ((2, 2), (3, 4), (2, 8)):
        case = diloco_case(p, 17, 8, num_fragments, rng, outer=OUTER, widths=EVEN)
        diloco(ranks, case, factors=Factors.drawn(rng))


@points(6, "communication")
def test_given_group_is_used(ranks, rng):
    case = diloco_case(3, 7, 3, 1, rng, outer=NO_MOMENTUM)
    on_three_members(rng, lambda **there: (case, diloco(ranks, case, **there)), comm="the group")


@points(4, "communication")
def test_copies_are_equal_bit_for_bit(ranks, rng):
    case = diloco_case(5, 7, 3, 1, rng, outer=NO_MOMENTUM)
    assert_equal_params(diloco(ranks, case), case)


# -- safety, speed ---------------------------------------------------------------------------------


@points(8, "safety")
def test_messages_may_be_slow_and_are_completed(ranks, rng):
    for seed in LATENCY_SEEDS:
        case = diloco_case(4, 7, 3, 1, rng, outer=NO_MOMENTUM)
        result = diloco(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


def check_time(ranks, case):
    ends = [
        ring_all_reduce_s(length, case.world_size, SLOW_WIRE, np.dtype(case.dtype).itemsize)
        for length in case.averages
    ]
    result = diloco(ranks, case, machine=SLOW_WIRE)
    assert_makespan(result, case.num_steps * case.step_s + sum(ends), case)


@points(6, "speed")
def test_time_of_long_fragments(ranks, rng):
    widths, outer = (40, 50, 30), NO_MOMENTUM
    check_time(ranks, diloco_case(8, 8, 4, 1, rng, outer=outer, widths=widths, step_s=1e-3))


@points(6, "speed")
def test_time_of_short_fragments(ranks, rng):
    check_time(ranks, diloco_case(16, 9, 4, 1, rng, outer=NO_MOMENTUM, step_s=1e-3))
