"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and groups. The oracle is the same computation of all ranks on one.
"""

import cases_torch
import examples
import numpy as np
from cases_torch import (
    COMPRESS_REFUSALS,
    DILOCO_REFUSALS,
    assert_equal_means,
    assert_equal_params,
    compress_case,
    compress_refusal,
    diloco_case,
    diloco_refusal,
    ring_all_reduce_s,
)

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors
from ringside.trace import Kind

SLOW_WIRE = Machine("slow wire", alpha_s=1e-4, beta_s_per_byte=1e-6)

# -- diloco_torch ----------------------------------------------------------------------------------

OUTER = (0.7, 0.9)  # rate and momentum


def diloco(ranks, case, **options):
    """``diloco_torch.train``; checks parameters, and what was all-reduced after each step."""
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:diloco_trained", world_size, given, **options)
    assert_ran(result, case)
    cases_torch.assert_diloco(result, case)
    return result


@points(15, "values", "diloco_torch")
def test_diloco_serial_recursion(ranks, rng):
    for p, num_steps, period, num_fragments in ((2, 6, 3, 1), (3, 8, 4, 2)):
        diloco(ranks, diloco_case(p, num_steps, period, num_fragments, rng, outer=OUTER))


@points(5, "values", "diloco_torch")
def test_diloco_of_period_1(ranks, rng):
    diloco(ranks, diloco_case(2, 3, 1, 1, rng))


@points(10, "values", "diloco_torch")
def test_diloco_inner_optimizers_keep_their_state(ranks, rng):
    for inner in ("momentum", "adamw"):
        diloco(ranks, diloco_case(2, 6, 3, 1, rng, outer=OUTER, inner=inner))


@points(10, "values", "diloco_torch")
def test_diloco_last_partial_period_is_averaged(ranks, rng):
    for p, num_steps, period, num_fragments in ((2, 8, 3, 1), (2, 10, 4, 3), (2, 2, 4, 2)):
        diloco(ranks, diloco_case(p, num_steps, period, num_fragments, rng, outer=OUTER))
    diloco(ranks, diloco_case(2, 0, 2, 1, rng))


@points(5, "values", "diloco_torch")
def test_diloco_uneven_and_empty_fragments(ranks, rng):
    diloco(ranks, diloco_case(2, 6, 5, 5, rng, outer=OUTER))
    diloco(ranks, diloco_case(2, 7, 6, 6, rng, outer=OUTER, widths=(1, 1, 1)))


@points(5, "values", "diloco_torch")
def test_diloco_frozen_parameters_and_float32(ranks, rng):
    diloco(ranks, diloco_case(2, 4, 2, 2, rng, outer=OUTER, frozen=True))
    diloco(ranks, diloco_case(2, 4, 2, 1, rng, outer=OUTER, dtype="float32"))


@points(5, "values", "diloco_torch")
def test_diloco_wrong_numbers_are_refused(ranks, rng):
    diloco(ranks, diloco_case(2, 2, 2, 1, rng))
    for numbers in DILOCO_REFUSALS[::2]:
        case = diloco_refusal(numbers)
        result = ranks.call("callers_torch:diloco_refused", 2, numbers)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_refused(value, rank, case)


@points(12, "communication", "diloco_torch")
def test_diloco_bytes_of_one_all_reduce_a_period(ranks, rng):
    for p, num_steps, period, num_fragments in ((2, 6, 3, 3), (3, 5, 2, 1)):
        case = diloco_case(p, num_steps, period, num_fragments, rng, outer=OUTER)
        result = diloco(ranks, case)
        bound = 2 * (p - 1) / p * 8 * sum(case.averages)
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        assert_moved(result, bound, case)


@points(8, "communication", "diloco_torch")
def test_diloco_peak_falls_by_the_number_of_fragments(ranks, rng):
    case = diloco_case(2, 9, 4, 4, rng, outer=OUTER)
    diloco(ranks, case, factors=Factors.drawn(rng))


@points(5, "communication", "diloco_torch")
def test_diloco_uses_the_given_group(ranks, rng):
    diloco(ranks, diloco_case(3, 5, 2, 2, rng), world_size=5, members=[3, 1, 4])


@points(5, "communication", "diloco_torch")
def test_diloco_copies_are_equal_bit_for_bit(ranks, rng):
    case = diloco_case(3, 5, 2, 2, rng, outer=OUTER)
    assert_equal_params(diloco(ranks, case), case)


@points(5, "safety", "diloco_torch")
def test_diloco_where_messages_are_slow(ranks, rng):
    case = diloco_case(3, 5, 2, 2, rng, outer=OUTER)
    for seed in LATENCY_SEEDS:
        result = diloco(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(10, "speed", "diloco_torch")
def test_time_of_diloco(ranks, rng):
    case = diloco_case(8, 6, 3, 1, rng, outer=OUTER, widths=(9, 9, 9), step_s=1e-3)
    averages_s = sum(ring_all_reduce_s(length, 8, SLOW_WIRE) for length in case.averages)
    assert_makespan(diloco(ranks, case, machine=SLOW_WIRE), 6e-3 + averages_s, case)


# -- compress_torch --------------------------------------------------------------------------------


def compressed(ranks, case, **options):
    """``compress_torch.all_reduce``, called several times; checks values and bytes."""
    world_size = options.pop("world_size", case.world_size)
    given = case.arguments_of_ranks()
    result = ranks.call("callers_torch:compressed", world_size, given, **options)
    assert_ran(result, case)
    check = cases_torch.assert_zeros if case.kind == "zeros" else cases_torch.assert_compressed
    check(result, case)
    return result


@points(15, "values", "compress_torch")
def test_compress_a_first_call(ranks, rng):
    for p, shape, approx_rank in ((2, (6, 9), 1), (3, (9, 5), 2)):
        compressed(ranks, compress_case(p, shape, approx_rank, rng, num_calls=1))


@points(10, "values", "compress_torch")
def test_compress_sends_later_what_was_left_out(ranks, rng):
    compressed(ranks, compress_case(2, (5, 8), 2, rng, num_calls=4))


@points(5, "values", "compress_torch")
def test_compress_states_and_results_belong_to_one_gradient(ranks, rng):
    case = cases_torch.in_turns_case(compress_case(2, (6, 9), 2, rng))
    arguments = cases_torch.turns_arguments(case)
    result = ranks.call("callers_torch:compressed_in_turns", 2, arguments)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        cases_torch.assert_in_turns(value, rank, case, case.seen_in(result))


@points(10, "values", "compress_torch")
def test_compress_sends_vectors_and_small_sides_whole(ranks, rng):
    for shape, approx_rank in (((7,), 2), ((9, 2), 2), ((3, 8), 4), ((), 1), ((0, 5), 1)):
        compressed(ranks, compress_case(2, shape, approx_rank, rng, num_calls=2))


@points(5, "values", "compress_torch")
def test_compress_more_dimensions_and_float32(ranks, rng):
    compressed(ranks, compress_case(2, (4, 3, 3), 2, rng, num_calls=2))
    compressed(ranks, compress_case(2, (6, 8), 2, rng, dtype="float32"))


@points(5, "values", "compress_torch")
def test_compress_zeros(ranks, rng):
    compressed(ranks, compress_case(2, (6, 7), 2, rng, kind="zeros"))


@points(5, "values", "compress_torch")
def test_compress_converges_on_least_squares(ranks, rng):
    case = cases_torch.least_squares_case(compress_case(2, (6, 8), 1, rng), 60)
    arguments, best = cases_torch.least_squares(case, 60)
    result = ranks.call("callers_torch:compress_trained", 2, arguments)
    assert_ran(result, case)
    for rank, weight in enumerate(result.values):
        cases_torch.assert_converged(weight, rank, best, case.seen_in(result))
    cases_torch.assert_compressed_bytes(result, case)


@points(5, "values", "compress_torch")
def test_compress_refuses_wrong_arguments(ranks, rng):
    compressed(ranks, compress_case(2, (4, 6), 2, rng, num_calls=1))
    for arguments in COMPRESS_REFUSALS[::2]:
        case = compress_refusal(*arguments)
        result = ranks.call("callers_torch:compress_refused", 2, arguments)
        assert_ran(result, case)
        if result.values != ["ValueError"] * 2:
            raise case.fail(f"the ranks raised {result.values}; it must be ValueError.")


@points(15, "communication", "compress_torch")
def test_compress_bytes(ranks, rng):
    for p, shape, approx_rank, dtype in ((2, (9, 14), 2, "float64"), (3, (12, 7), 1, "float32")):
        case = compress_case(p, shape, approx_rank, rng, num_calls=2, dtype=dtype)
        result = compressed(ranks, case)
        itemsize = np.dtype(dtype).itemsize
        bound = 2 * (p - 1) / p * 2 * sum(case.lengths) * itemsize
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        assert_moved(result, bound, case)


@points(5, "communication", "compress_torch")
def test_compress_means_are_equal_bit_for_bit(ranks, rng):
    case = compress_case(3, (7, 9), 2, rng)
    result = compressed(ranks, case)
    assert_equal_means(result, case)


@points(5, "communication", "compress_torch")
def test_compress_uses_the_given_group(ranks, rng):
    case = compress_case(3, (6, 9), 2, rng, num_calls=2)
    compressed(ranks, case, world_size=5, members=[3, 1, 4])


@points(5, "safety", "compress_torch")
def test_compress_where_messages_are_slow(ranks, rng):
    case = compress_case(3, (6, 9), 2, rng, num_calls=2)
    for seed in LATENCY_SEEDS:
        result = compressed(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(10, "speed", "compress_torch")
def test_time_of_compress(ranks, rng):
    case = compress_case(8, (24, 16), 2, rng, num_calls=2)
    call_s = sum(ring_all_reduce_s(length, 8, SLOW_WIRE) for length in case.lengths)
    assert_makespan(compressed(ranks, case, machine=SLOW_WIRE), 2 * call_s, case)
