"""diloco_torch.py: inner steps alone, an outer step with momentum, fragments in turn."""

import functools
from pathlib import Path

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.examples import beside
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a06_asynchrony.cases_torch import (
    DILOCO_REFUSALS,
    EVEN,
    assert_equal_params,
    assert_meets,
    diloco_case,
    diloco_refusal,
    ring_all_reduce_s,
)
from solutions.a06_asynchrony.hidden.runs_torch import SLOW_WIRE, diloco, on_gloo, refused

OUTER = (0.7, 0.9)  # rate and momentum
NO_MOMENTUM = (0.7, 0.0)
examples = beside(Path(__file__).resolve().parents[1] / "diloco_torch.py")

points = points_of("diloco_torch")


def by_fragments(case):
    return "one fragment" if case.num_fragments == 1 else "several fragments"


@points(4, "communication", essential=True)
def test_ranks_meet_once_a_period(ranks, rng):
    case = diloco_case(4, 6, 3, 1, rng, outer=NO_MOMENTUM, widths=EVEN)
    result = ranks.call("callers_torch:diloco_trained", 4, case.arguments_of_ranks())
    assert_ran(result, case)
    assert_meets(result, case)


@points(15, "values")
def test_serial_recursion_on_2_to_5_ranks(ranks, rng):
    cases = [
        diloco_case(p, num_steps, period, num_fragments, rng, outer=outer, widths=EVEN)
        for p, num_steps, period, num_fragments, outer in (
            (2, 5, 1, 1, (1.0, 0.0)), (2, 9, 3, 1, OUTER), (5, 8, 4, 1, (0.5, 0.3)),
            (3, 12, 4, 2, OUTER), (4, 10, 5, 3, OUTER), (5, 8, 4, 4, (0.5, 0.3)),
        )
    ]  # fmt: skip
    check_kinds(cases, by_fragments, functools.partial(diloco, ranks))


@points(8, "values")
def test_inner_optimizers_keep_their_state(ranks, rng):
    for p, inner in ((2, "momentum"), (3, "adamw")):
        diloco(ranks, diloco_case(p, 9, 4, 1, rng, outer=OUTER, inner=inner))


@points(8, "values")
def test_last_partial_period_is_averaged(ranks, rng):
    for p, num_steps, period in ((2, 7, 3), (3, 11, 4), (2, 3, 5), (2, 5, 4)):
        diloco(ranks, diloco_case(p, num_steps, period, 1, rng, outer=OUTER))


@points(10, "values")
def test_fragments_of_uneven_length_and_empty_ones(ranks, rng):
    for p, period, num_fragments, widths in ((2, 7, 7, (3, 4, 2)), (3, 6, 6, (1, 1, 1))):
        diloco(ranks, diloco_case(p, 9, period, num_fragments, rng, outer=OUTER, widths=widths))


@points(4, "values")
def test_frozen_parameters_and_float32(ranks, rng):
    diloco(ranks, diloco_case(2, 7, 3, 1, rng, outer=OUTER, frozen=True), turns=True)
    diloco(ranks, diloco_case(3, 5, 2, 1, rng, outer=OUTER, dtype="float32"), turns=True)


@points(4, "values")
def test_no_steps_one_rank_and_wrong_numbers(ranks, rng):
    diloco(ranks, diloco_case(3, 0, 2, 1, rng))
    diloco(ranks, diloco_case(1, 5, 2, 1, rng, outer=OUTER))
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
    cases = [
        diloco_case(p, num_steps, period, num_fragments, rng, outer=NO_MOMENTUM, widths=widths)
        for p, num_steps, period, num_fragments, widths in (
            (2, 8, 4, 1, EVEN), (3, 8, 4, 4, EVEN), (4, 7, 3, 2, EVEN), (5, 6, 3, 1, EVEN),
            (12, 5, 2, 2, EVEN), (18, 4, 2, 1, EVEN), (3, 6, 3, 3, (60, 90, 21)),
        )
    ]  # fmt: skip

    def check(case):
        result = diloco(ranks, case, turns=True)
        bound = 2 * (case.world_size - 1) / case.world_size * 8 * sum(case.averages)
        ranks.record(case, result, {"sent_bytes": [bound] * case.world_size})
        assert_moved(result, bound, case)

    check_kinds(cases, by_fragments, check)


@points(7, "communication")
def test_peak_of_a_step_falls_by_the_number_of_fragments(ranks, rng):
    for p, num_fragments in ((2, 2), (3, 4), (2, 8)):
        case = diloco_case(p, 17, 8, num_fragments, rng, outer=OUTER, widths=EVEN)
        diloco(ranks, case, turns=True, factors=Factors.drawn(rng))


@points(6, "communication")
def test_given_group_is_used(ranks, rng):
    case = diloco_case(3, 7, 3, 1, rng, outer=NO_MOMENTUM)
    on_three_members(rng, lambda **there: (case, diloco(ranks, case, **there)), comm="the group")


@points(4, "communication")
def test_copies_are_equal_bit_for_bit(ranks, rng):
    case = diloco_case(5, 7, 3, 1, rng, outer=NO_MOMENTUM)
    assert_equal_params(diloco(ranks, case), case)


# -- safety, speed ---------------------------------------------------------------------------------


@points(6, "safety")
def test_messages_may_be_slow_and_are_completed(ranks, rng):
    for seed in LATENCY_SEEDS:
        case = diloco_case(4, 7, 3, 1, rng, outer=NO_MOMENTUM)
        result = diloco(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(8, "speed")
def test_time_of_long_and_short_fragments(ranks, rng):
    def check(case):
        itemsize = np.dtype(case.dtype).itemsize
        averages_s = [
            ring_all_reduce_s(length, case.world_size, SLOW_WIRE, itemsize)
            for length in case.averages
        ]
        result = diloco(ranks, case, machine=SLOW_WIRE)
        assert_makespan(result, case.num_steps * case.step_s + sum(averages_s), case)

    sizes = (8, 8, (40, 50, 30)), (16, 9, (3, 4, 2))
    cases = [
        diloco_case(p, num_steps, 4, 1, rng, outer=NO_MOMENTUM, widths=widths, step_s=1e-3)
        for p, num_steps, widths in sizes
    ]
    check_kinds(cases, lambda case: f"fragments of {case.n} elements", check)
