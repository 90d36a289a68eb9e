"""conv.py: the values of one rank with the whole image, and messages beside the computing."""

import functools

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_moved,
    assert_pairs,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a11_spatial.hidden.oracle import examples
from solutions.a11_spatial.hidden.parts import checked

cases = examples.conv_cases
conv_case, convolved = cases.conv_case, cases.convolved
bytes_to = examples.halo_cases.bytes_to

points = points_of("conv")


# -- values ----------------------------------------------------------------------------------------


@points(9, "values")
def test_forward_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        convolved(ranks, conv_case((4,) * p, rng), caller="conv_forward")


@points(9, "values")
def test_gradient_of_the_images(ranks, rng):
    for p in (2, 3, 4, 5):
        convolved(ranks, conv_case((4,) * p, rng), parts=["dx"])


@points(8, "values")
def test_gradients_of_filters_and_biases(ranks, rng):
    for p in (2, 3, 4):
        convolved(ranks, conv_case((4,) * p, rng), parts=["dw", "db"])


@points(8, "values")
def test_kernels_of_1_5_and_7(ranks, rng):
    def no_halo(case, result):
        assert_pairs(result, bytes_to(case, case.halo_bytes()), case)

    small = [conv_case((3,) * p, rng, 1) for p in (2, 4)]
    large = [conv_case((8,) * p, rng, k, shape=(1, 2, 3, 9)) for k, p in ((5, 2), (5, 4), (7, 3))]
    checked(
        parts_of(ranks, small, " where k is 1", no_halo)
        | parts_of(ranks, large, " where k is 5 or 7")
    )


@points(7, "values")
def test_heights_that_differ_and_float32(ranks, rng):
    some = [conv_case(heights, rng) for heights in ((2, 5, 3), (1, 4, 1), (1, 1), (3, 1, 1, 2, 6))]
    single = [conv_case((4,) * 3, rng, dtype="float32")]
    checked(
        parts_of(ranks, some, " of heights that differ") | parts_of(ranks, single, " in float32")
    )


@points(6, "values")
def test_stride_2(ranks, rng):
    tried = ((4, 4), 3), ((3, 5, 4), 3), ((1, 2, 1, 3), 3), ((5, 4, 6), 5)
    checked(parts_of(ranks, [conv_case(each, rng, k, 2, (2, 2, 3, 6)) for each, k in tried]))


PARTS = {"y": ["y"], "dx": ["dx"], "dw and db": ["dw", "db"]}


def parts_of(ranks, some, where="", also=lambda case, result: None):
    """Checks of y, of dx, and of dw with db, each by itself: of the same runs."""

    @functools.cache
    def runs():
        seen = [convolved(ranks, case, parts=[]) for case in some]
        for each in seen:
            also(*each)
        return seen

    def check(parts):
        for case, result in runs():
            cases.check_values(result.values, case, case.seen_in(result), parts)

    return {f"{name}{where}": functools.partial(check, parts) for name, parts in PARTS.items()}


@points(2, "reality")
def test_real_mpi(mpi, ranks, rng):
    tried = [conv_case((4, 4, 4), rng), conv_case((4, 4, 4), rng)]
    for case in tried:
        convolved(ranks, case)
    jobs = [("callers:conv_both", 3, case.arguments_of_ranks()) for case in tried]
    for case, result in zip(tried, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            cases.check_values(result.values, case, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


# -- communication and schedule --------------------------------------------------------------------


@points(11, "communication")
def test_bytes_of_halos(ranks, rng):
    def to_the_byte(case, result):
        ranks.record(case, result, {"sent_bytes": case.allowed_bytes})
        assert_pairs(result, bytes_to(case, case.halo_bytes()), case)

    some = [
        conv_case((height,) * p, rng, shape=shape)
        for p, height, shape in (
            (2, 4, (2, 3, 2, 5)), (3, 4, (2, 2, 3, 5)), (4, 3, (1, 1, 2, 7)), (5, 3, (1, 2, 1, 7)),
            (10, 3, (1, 1, 1, 6)), (18, 2, (1, 1, 1, 5)), (3, 20, (1, 3, 2, 200)),
        )
    ]  # fmt: skip
    checked(parts_of(ranks, some, also=to_the_byte))


@points(5, "communication")
def test_one_all_reduce_of_filters_and_biases(ranks, rng):
    for p in (2, 4, 9):
        case, result = convolved(ranks, conv_case((3,) * p, rng), parts=["dw", "db"])
        cases.assert_one_all_reduce(result, case)
        halo = max(sum(own.values()) for own in case.halo_bytes())
        ring = 2 * (p - 1) / p * case.num_weights * case.itemsize
        assert_moved(result, halo + ring, case)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    case = conv_case((4,) * 3, rng)

    def check(options):
        on_three_members(rng, functools.partial(convolved, ranks, case, **options))

    checked({name: functools.partial(check, each) for name, each in BOTH.items()})


BOTH = {
    "the forward pass": {"caller": "conv_forward"},
    "the backward pass": {"parts": ["dx", "dw", "db"]},
}


@points(8, "schedule")
def test_rows_without_halo_do_not_wait(ranks, rng):
    for p in (2, 3, 5):
        case = conv_case((6,) * p, rng)
        case, result = convolved(ranks, case, rng, "conv_forward")
        cases.assert_interior_first(result, case, [case.interior(rank) for rank in range(p)])


# -- safety ----------------------------------------------------------------------------------------


@points(6, "safety")
def test_messages_may_wait_and_come_in_any_order(ranks, rng):
    case = conv_case((4,) * 4, rng)

    def check(own):
        def run(**options):
            seen, result = convolved(ranks, case, **own, **options)
            assert_requests_complete(result, seen, [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE])

        with_waiting_sends(run, case.via(own.get("caller", "conv_both")))
        for seed in LATENCY_SEEDS:
            run(machine=rendezvous(), seed=seed)

    checked({name: functools.partial(check, each) for name, each in BOTH.items()})


@points(3, "safety")
def test_inputs_stay_and_results_are_new(ranks, rng):
    convolved(ranks, conv_case((4, 4), rng))
    for p in (2, 3):
        case = conv_case((4,) * p, rng)
        given, case = case.arguments_of_ranks(), case.via("conv_looked_at", ", called twice")
        result = ranks.call("callers:conv_looked_at", p, given, machine=buffered())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.conv_check_value("conv_looked_at", value, rank, case, case.seen_in(result))


# -- speed -----------------------------------------------------------------------------------------


def machine_of(case, halo_s, flops_s=1e-3):
    """A machine on which one pass of a rank's rows takes ``flops_s``, and its halo ``halo_s``."""
    textbook = Machine.load("textbook")
    one_s = cases.rows_s(case, textbook, max(case.heights))
    return textbook.with_(
        name="slow wire", flop_per_s=textbook.flop_per_s * one_s / flops_s, alpha_s=halo_s
    )


@points(7, "speed")
def test_forward_hides_the_halo(ranks, rng):
    for p, share in ((4, 0.7), (8, 0.5)):
        case = conv_case((10,) * p, rng, shape=(1, 2, 2, 6))
        machine = machine_of(case, share * 1e-3)
        case, result = convolved(ranks, case, rng, "conv_forward", machine=machine)
        halo_us = 1e6 * cases.halo_s(case, machine, "forward")
        beside = f" The halo alone takes {halo_us:.0f} µs."
        assert_makespan(result, cases.forward_s(case, machine), case, beside=beside)


@points(7, "speed")
def test_backward_hides_halo_and_all_reduce(ranks, rng):
    for p, share in ((4, 0.13), (6, 0.08)):
        case = conv_case((24,) * p, rng, shape=(1, 2, 2, 6))
        machine = machine_of(case, share * 1e-3)
        _, forward = convolved(ranks, case, rng, "conv_forward", machine=machine)
        case, result = convolved(ranks, case, rng, machine=machine)
        bound_s = forward.makespan_s + cases.backward_s(case, machine)
        beside = f" Of this the forward pass takes {1e6 * forward.makespan_s:.0f} µs."
        assert_makespan(result, bound_s, case, beside=beside)
