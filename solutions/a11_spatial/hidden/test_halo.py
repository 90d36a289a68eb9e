"""halo.py: rows of the neighbours, to the byte, both ways at once."""

import numpy as np

from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_bytes,
    assert_makespan,
    assert_messages,
    assert_own_messages,
    assert_pairs,
    assert_ran,
    assert_requests_complete,
    buffered,
    long_wire,
    members_of_world,
    on_members,
    short_wire,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a11_spatial.hidden.oracle import examples
from solutions.a11_spatial.hidden.parts import checked

cases = examples.halo_cases
halo_case, grid_case, exchanged = cases.halo_case, cases.grid_case, cases.exchanged

BUFFERED_WIRE = short_wire().with_(name="buffered wire", eager_threshold_bytes=4096)

points = points_of("halo")


# -- values ----------------------------------------------------------------------------------------


@points(9, "values")
def test_one_row_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        exchanged(ranks, halo_case((4,) * p, 1, (2, 3, 5), rng))


@points(14, "values")
def test_heights_that_differ_and_wider_halos(ranks, rng):
    def check(tried):
        exchanged(ranks, halo_case(*tried, (1, 2, 4), rng))

    differ = [((2, 5), 1), ((4, 1, 3), 1), ((1, 6, 2, 3, 1), 1)]
    wider = [((4,) * 3, 2), ((5,) * 4, 3), ((3,) * 3, 3)]
    check_kinds([*differ, *wider], by_width, check)


def by_width(tried):
    return "a halo of one row" if tried[1] == 1 else "wider halos"


@points(7, "values")
def test_float32_no_halo_and_one_rank(ranks, rng):
    def float32():
        exchanged(ranks, halo_case((4,) * 3, 1, (2, 3, 5), rng, "float32"))
        exchanged(ranks, halo_case((4,) * 3, 1, (3, 1, 1), rng))

    def no_halo():
        exchanged(ranks, halo_case((3, 3), 1, (1, 2, 4), rng))
        for heights, halo_width in (((3, 3, 3), 0), ((4,), 1), ((1,), 2)):
            case = halo_case(heights, halo_width, (1, 2, 4), rng)
            assert_messages(exchanged(ranks, case), [0] * len(heights), case)

    checked({"float32": float32, "no halo": no_halo})


@points(12, "values")
def test_grid_with_corners(ranks, rng):
    for heights, widths, halo_width in (
        ((3, 3), (4, 4), 1), ((3, 4, 3), (3, 5, 3), 1), ((4, 4), (3, 3, 3), 2), ((3,), (2, 3), 1),
    ):  # fmt: skip
        exchanged(ranks, grid_case(heights, widths, halo_width, (2, 2), rng))


@points(3, "reality")
def test_real_mpi(mpi, ranks, rng):
    heights = [(3, 2, 4), (4, 5, 4)]
    tried = [halo_case(each, k + 1, (2, 2, 4), rng) for k, each in enumerate(heights)]
    for case in tried:
        exchanged(ranks, case)
    jobs = [(case.target, 3, case.arguments_of_ranks()) for case in tried]
    for case, result in zip(tried, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            cases.check_exchanged(result.values, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


# -- communication ---------------------------------------------------------------------------------


def counted(ranks, case):
    """No rank sends another one more than its halo."""
    result, neighbours = exchanged(ranks, case), case.neighbours()
    sent = [sum(own.values()) for own in neighbours]
    ranks.record(case, result, {"sent_bytes": sent})
    assert_pairs(result, cases.bytes_to(case, neighbours), case)
    assert_bytes(result, sent, case)
    return result, neighbours


@points(14, "communication")
def test_bytes_and_messages_to_each_neighbour(ranks, rng):
    def bytes_of_rows():
        for p, height, shape in (
            (2, 4, (2, 3, 5)), (3, 4, (2, 3, 5)), (4, 3, (1, 2, 7)), (5, 3, (1, 2, 7)),
            (12, 3, (1, 2, 3)), (18, 2, (1, 1, 3)), (3, 40, (2, 4, 100)),
        ):  # fmt: skip
            counted(ranks, halo_case((height,) * p, 1, shape, rng))

    def messages():
        for p in (2, 3, 5, 10):
            case = halo_case((4,) * p, 1, (2, 3, 5), rng)
            result = exchanged(ranks, case)
            assert_own_messages(result, case)
            assert_messages(result, [len(own) for own in case.neighbours()], case)

    checked({"bytes": bytes_of_rows, "numbers of messages": messages}, {"bytes": 2})


@points(5, "communication")
def test_given_communicator_is_used(ranks, rng):
    for p in (3, 4):
        case = halo_case((4,) * p, 1, (2, 3, 5), rng)
        members = members_of_world(rng, p)
        on_members(lambda case=case, **there: exchanged(ranks, case, **there), *members, case)


@points(8, "communication")
def test_corners_of_a_grid_need_no_message(ranks, rng):
    for rows, columns in ((2, 2), (3, 3), (2, 5), (5, 4)):
        case = grid_case((3,) * rows, (4,) * columns, 1, (1, 2), rng)
        result, neighbours = counted(ranks, case)
        assert_messages(result, [len(own) for own in neighbours], case)


# -- safety ----------------------------------------------------------------------------------------


@points(9, "safety")
def test_sends_may_wait_and_all_is_completed(ranks, rng):
    def waiting():
        for p in (2, 5):
            case = halo_case((4,) * p, 1, (2, 3, 5), rng)
            with_waiting_sends(lambda case=case, **there: exchanged(ranks, case, **there), case)

    def slow():
        for seed in LATENCY_SEEDS:
            case = halo_case((4,) * 6, 1, (1, 2, 5), rng)
            assert_requests_complete(exchanged(ranks, case, seed=seed), case)

    checked({"sends that wait": waiting, "messages in any order": slow}, {"sends that wait": 2})


@points(3, "safety")
def test_inputs_stay_and_results_are_new(ranks, rng):
    exchanged(ranks, halo_case((4, 4), 1, (2, 3, 5), rng))
    for p in (2, 3):
        case = halo_case((4,) * p, 1, (2, 3, 5), rng)
        given, case = case.arguments_of_ranks(), case.via("halo_looked_at", ", called twice")
        result = ranks.call("callers:halo_looked_at", p, given, machine=buffered())
        assert_ran(result, case)
        for rank, (value, right) in enumerate(zip(result.values, case.rights(), strict=True)):
            examples.halo_assert_looked_at(value, right, rank, case.seen_in(result))


@points(4, "safety")
def test_parts_lower_than_the_halo_are_refused(ranks, rng):
    exchanged(ranks, halo_case((4, 4), 1, (2, 3, 5), rng))
    for heights, halo_width in (((4, 1), 2), ((3, 3, 4, 2, 3, 3, 3), 3), ((3, 3), -1)):
        case = cases.low_case(heights, halo_width, rng)
        rights = case.rights() if halo_width > 0 else [np.zeros(1)] * len(heights)
        given = [
            (*own, right) for own, right in zip(case.arguments_of_ranks(), rights, strict=True)
        ]
        result = ranks.call("callers:halo_refused", len(heights), given)
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            cases.assert_low(value, rank, case, case.seen_in(result))


# -- speed -----------------------------------------------------------------------------------------


def timed(ranks, rng, p, width, machine):
    """Both directions are under way at once."""
    case = halo_case((2,) * p, 1, (1, 1, width), rng)
    result = exchanged(ranks, case, machine=machine)
    nbytes = max(sum(own.values()) for own in case.neighbours())
    bound_s = machine.alpha_s + nbytes * machine.beta_s_per_byte
    assert_makespan(result, bound_s, case)


@points(12, "speed")
def test_both_ways_at_once(ranks, rng):
    def short_rows():
        for p in (4, 9):
            timed(ranks, rng, p, 20, BUFFERED_WIRE)

    def long_rows():
        for p in (4, 8):
            timed(ranks, rng, p, 10_000, long_wire())

    checked({"short rows": short_rows, "long rows": long_rows})
