"""compress_torch.py: two thin all-reduces for a matrix, and a residual that loses nothing."""

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
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a06_asynchrony import cases_torch
from solutions.a06_asynchrony.cases_torch import (
    COMPRESS_REFUSALS,
    assert_equal_means,
    compress_case,
    compress_refusal,
    in_turns_case,
    one_call_case,
    ring_all_reduce_s,
)
from solutions.a06_asynchrony.hidden.runs_torch import SLOW_WIRE, compressed, on_gloo, refused

points = points_of("compress_torch")


@points(5, "communication", essential=True)
def test_thin_matrices_travel(ranks, rng):
    case = one_call_case(4, (16, 24), 1, rng)
    result = ranks.call("callers_torch:compressed", 4, case.arguments_of_ranks())
    assert_ran(result, case)
    cases_torch.assert_thin(result, case)


@points(8, "values")
def test_first_call_on_2_to_5_ranks(ranks, rng):
    for p, shape, approx_rank in (
        (2, (6, 9), 1), (3, (9, 5), 2), (4, (7, 7), 3), (5, (4, 12), 2), (3, (3, 6), 2),
    ):  # fmt: skip
        compressed(ranks, one_call_case(p, shape, approx_rank, rng))
    compressed(ranks, one_call_case(1, (4, 6), 2, rng))


@points(15, "values")
def test_what_was_left_out_is_sent_later(ranks, rng):
    for p, shape, approx_rank, kind in ((2, (6, 9), 1, "random"), (3, (8, 5), 2, "steady")):
        compressed(ranks, compress_case(p, shape, approx_rank, rng, num_calls=6, kind=kind))


@points(7, "values")
def test_state_and_results_belong_to_one_gradient(ranks, rng):
    # The second case has the sizes of the first one, and other seeds.
    for p, shape, approx_rank in ((2, (6, 9), 2), (2, (6, 9), 2), (3, (8, 5), 1), (2, (7, 3), 4)):
        case = in_turns_case(compress_case(p, shape, approx_rank, rng))
        arguments = cases_torch.turns_arguments(case)
        result = ranks.call("callers_torch:compressed_in_turns", p, arguments)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            cases_torch.assert_in_turns(value, rank, case, case.seen_in(result))


@points(6, "values")
def test_vectors_and_small_sides_go_uncompressed(ranks, rng):
    for p, shape, approx_rank in (
        (2, (7,), 2), (3, (9, 2), 2), (2, (3, 8), 4), (2, (), 1), (3, (0, 5), 1), (2, (5, 0), 2),
    ):  # fmt: skip
        compressed(ranks, compress_case(p, shape, approx_rank, rng, num_calls=2))


@points(6, "values")
def test_more_dimensions_and_float32(ranks, rng):
    for p, shape, approx_rank in ((2, (4, 3, 3), 2), (3, (5, 2, 2, 2), 1), (2, (2, 3, 4), 2)):
        compressed(ranks, compress_case(p, shape, approx_rank, rng, num_calls=2))
    compressed(ranks, compress_case(3, (6, 8), 2, rng, dtype="float32"))


@points(4, "values")
def test_zeros_lose_nothing(ranks, rng):
    for p, approx_rank in ((2, 2), (3, 1)):
        compressed(ranks, compress_case(p, (6, 7), approx_rank, rng, kind="zeros"))


@points(2, "values")
def test_wrong_arguments_are_refused(ranks, rng):
    compressed(ranks, one_call_case(2, (4, 6), 1, rng))
    for arguments in COMPRESS_REFUSALS:
        case = compress_refusal(*arguments)
        refused(ranks, "callers_torch:compress_refused", arguments, case, check_refused)


def check_refused(value, rank, case):
    if value != "ValueError":
        raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")


@points(4, "reality")
def test_real_gloo(gloo, rng):
    case = one_call_case(2, (6, 9), 2, rng)
    on_gloo(lambda: compressed(gloo, case))


# -- communication ---------------------------------------------------------------------------------


@points(12, "communication")
def test_bytes_in_low_rank(ranks, rng):
    for p, shape, approx_rank, dtype in (
        (2, (6, 9), 1, "float64"), (3, (9, 14), 2, "float64"), (4, (12, 7), 3, "float32"),
        (5, (8, 8), 2, "float64"), (12, (6, 9), 2, "float64"), (18, (6, 9), 1, "float64"),
        (3, (160, 240), 4, "float64"), (3, (6, 2), 2, "float64"),
    ):  # fmt: skip
        case = one_call_case(p, shape, approx_rank, rng, dtype=dtype)
        result = compressed(ranks, case)
        cases_torch.assert_compressed_bytes(result, case)
        itemsize = np.dtype(dtype).itemsize
        bound = 2 * (p - 1) / p * sum(case.lengths) * itemsize
        ranks.record(case, result, {"sent_bytes": [bound] * p})
        assert_moved(result, bound, case)
    case = compress_case(3, (6, 9), 2, rng, num_calls=4, compare="means")
    cases_torch.assert_compressed_bytes(compressed(ranks, case), case)


@points(5, "communication")
def test_means_are_equal_bit_for_bit(ranks, rng):
    for p, shape in ((3, (7, 9)), (5, (9, 7))):
        case = one_call_case(p, shape, 2, rng)
        result = compressed(ranks, case)
        assert_equal_means(result, case)


@points(6, "communication")
def test_given_group_is_used(ranks, rng):
    case = one_call_case(3, (6, 9), 2, rng)
    on_three_members(
        rng, lambda **there: (case, compressed(ranks, case, **there)), comm="the group"
    )


# -- safety, speed ---------------------------------------------------------------------------------


@points(7, "safety")
def test_messages_may_be_slow_and_are_completed(ranks, rng):
    for seed in LATENCY_SEEDS:
        case = one_call_case(4, (6, 9), 2, rng)
        result = compressed(ranks, case, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(13, "speed")
def test_time_of_a_large_and_a_small_matrix(ranks, rng):
    def check(case):
        call_s = sum(ring_all_reduce_s(n, case.world_size, SLOW_WIRE) for n in case.lengths)
        result = compressed(ranks, case, machine=SLOW_WIRE)
        assert_makespan(result, call_s, case)

    sizes = (8, (80, 120), 4), (16, (8, 16), 4)
    cases = [one_call_case(*each, rng) for each in sizes]
    check_kinds(cases, lambda case: f"matrices of {case.n} elements", check)
