"""local_sgd.py: steps alone, an average after each period, and no bytes between."""

import functools

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_inputs_kept,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    buffered,
    members_of_world,
    on_members,
    with_waiting_sends,
)
from ringside.checking.case_kinds import by_length, check_kinds
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a06_asynchrony.cases import local_sgd_case, local_sgd_refusal
from solutions.a06_asynchrony.hidden import oracle, runs
from solutions.a06_asynchrony.hidden.runs import examples, locally_trained

SHAPES = ((5, 6), (6,), (6, 3), (6,))  # 60 elements, which 2, 3, 4, 5 and 12 divide
LONELY = ((3, 4), (4,), (4, 2), (1,))  # 25 elements
ODD = ((5, 3), (), (0, 2), (1, 2, 3), (1,))
WIDE = ((90, 80), (80,))  # below the bytes from which sends wait

points = points_of("local_sgd")


@points(4, "communication", essential=True)
def test_ranks_meet_once_a_period(ranks, rng):
    case = local_sgd_case(4, 6, 3, SHAPES, rng)
    given = case.arguments_of_ranks()
    result = ranks.call("callers:local_sgd_trained", 4, given, machine=buffered())
    assert_ran(result, case)
    examples.assert_meets(result, case)


@points(14, "values")
def test_serial_recursion_on_2_to_5_ranks(ranks, rng):
    check_kinds(
        [
            local_sgd_case(p, num_steps, period, shapes, rng)
            for shapes in (SHAPES, LONELY)
            for p, num_steps, period in ((2, 6, 3), (3, 8, 2), (4, 15, 5), (5, 8, 4), (2, 12, 6))
            if shapes == SHAPES or p != 5
        ],
        by_length,
        functools.partial(locally_trained, ranks),
    )


@points(12, "values")
def test_last_partial_period_is_averaged(ranks, rng):
    for p, num_steps, period in ((2, 7, 3), (3, 5, 4), (4, 9, 2), (5, 11, 7), (3, 4, 9)):
        locally_trained(ranks, local_sgd_case(p, num_steps, period, SHAPES, rng))


@points(6, "values")
def test_period_1_is_data_parallelism(ranks, rng):
    for p in (2, 3, 5):
        case = local_sgd_case(p, 5, 1, SHAPES, rng)
        result = locally_trained(ranks, case)
        wanted = oracle.data_parallel(case)
        for rank, value in enumerate(result.values):
            what = f"beside data-parallel SGD, rank {rank}'s parameter"
            examples.assert_params(value, wanted, case.seen_in(result), what)


@points(5, "values")
def test_no_steps_one_rank_and_wrong_numbers(ranks, rng):
    for p, num_steps, period in ((3, 0, 2), (2, 0, 1), (1, 6, 3)):
        locally_trained(ranks, local_sgd_case(p, num_steps, period, SHAPES, rng))
    for num_steps, period in ((5, 0), (5, -1), (-1, 2), (0, 0)):
        case = local_sgd_refusal(num_steps, period)
        result = ranks.call("callers:local_sgd_refused", 3, (num_steps, period))
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_local_sgd_refused(value, rank, case)
        if result.collectives or any(result.sent_messages()):
            raise case.fail("train must raise ValueError before any message.")


@points(6, "values")
def test_any_arrays(ranks, rng):
    for p, shapes, dtype in (
        (3, ODD, "float64"),
        (3, SHAPES, "float64"),
        (3, SHAPES[::-1], "float64"),  # as many elements, cut in other places
        (2, SHAPES, "float32"),
        (4, ODD, "float32"),
        (2, [()], "float64"),
    ):
        locally_trained(ranks, local_sgd_case(p, 4, 2, shapes, rng, dtype))
    locally_trained(ranks, local_sgd_case(3, 4, 2, SHAPES, rng, nan_of=1))


@points(4, "values")
def test_params_stay_and_results_are_new(ranks, rng):
    for p, num_steps, period in ((2, 4, 2), (3, 2, 1), (2, 0, 1)):
        case = local_sgd_case(p, num_steps, period, SHAPES, rng)
        assert_inputs_kept(locally_trained(ranks, case), case)
        given = case.arguments_of_ranks()
        result = ranks.call("callers:local_sgd_looked_at", p, given, machine=buffered())
        case = case.looked_at()
        assert_ran(result, case)
        wanted = examples.local_sgd_serial(*case.inputs(), num_steps, period)
        for rank, value in enumerate(result.values):
            compare, seen = examples.assert_params, case.seen_in(result)
            examples.assert_looked_at(value, wanted, compare, seen, rank, "parameter")


@points(3, "reality")
def test_real_mpi(mpi, ranks, rng):
    cases = [local_sgd_case(3, num_steps, 3, SHAPES, rng) for num_steps in (6, 3)]
    for case in cases:
        locally_trained(ranks, case)
    jobs = [("callers:local_sgd_trained", c.world_size, c.arguments_of_ranks()) for c in cases]
    for case, result in zip(cases, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            runs.check_locally_trained(result, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


@points(13, "communication")
def test_bytes_of_one_all_reduce_a_period(ranks, rng):
    cases = [
        local_sgd_case(p, num_steps, period, shapes, rng, dtype)
        for p, num_steps, period, shapes, dtype in (
            *((p, 6, 3, SHAPES, "float64") for p in (2, 3, 4, 5)),
            (12, 4, 2, SHAPES, "float64"),
            (18, 3, 3, SHAPES, "float64"),
            (3, 4, 2, WIDE, "float64"),
            (4, 3, 1, LONELY, "float64"),
            (2, 4, 2, SHAPES, "float32"),
            (5, 4, 2, SHAPES, "float32"),
        )
    ]

    def check(case):
        result, bound = locally_trained(ranks, case), oracle.local_sgd_bytes(case)
        ranks.record(case, result, {"sent_bytes": [bound] * case.world_size})
        examples.assert_averages(result, case, case.rounds, bound)

    check_kinds(
        cases, lambda case: "float32" if case.dtype == "float32" else by_length(case), check
    )


@points(5, "communication")
def test_copies_are_equal_bit_for_bit(ranks, rng):
    for p, period in ((3, 2), (5, 3), (4, 1)):
        case = local_sgd_case(p, 6, period, SHAPES, rng)
        examples.assert_equal_copies(locally_trained(ranks, case), case)


@points(6, "communication")
def test_given_communicator_is_used(ranks, rng):
    for p, period in ((3, 2), (4, 3)):
        case = local_sgd_case(p, 6, period, SHAPES, rng)
        members, world_size = members_of_world(rng, p)
        on_members(
            lambda case=case, **there: locally_trained(ranks, case, **there),
            members,
            world_size,
            case,
        )


@points(8, "safety")
def test_sends_may_wait_and_messages_may_be_slow(ranks, rng):
    for p in (2, 3, 5):
        case = local_sgd_case(p, 4, 2, SHAPES, rng)
        with_waiting_sends(lambda case=case, **there: locally_trained(ranks, case, **there), case)
    for seed in LATENCY_SEEDS:
        case = local_sgd_case(4, 4, 2, SHAPES, rng)
        result = locally_trained(ranks, case, seed=seed)
        kinds = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]
        assert_requests_complete(result, case, kinds)


SLOW_RANKS = "textbook,flop_per_s=1e9"  # a gradient takes time


@points(7, "speed")
def test_time_on_16_ranks(ranks, rng):
    machine = Machine.load(SLOW_RANKS)
    case = local_sgd_case(16, 12, 4, ((120, 200), (200, 80)), rng)
    assert_makespan(
        locally_trained(ranks, case, machine=machine), oracle.local_sgd_s(case, machine), case
    )


@points(7, "speed")
def test_small_arrays_travel_together(ranks, rng):
    machine = Machine.load(SLOW_RANKS)
    case = local_sgd_case(8, 6, 2, [(5, 4), (4,)] * 12, rng)
    assert_makespan(
        locally_trained(ranks, case, machine=machine), oracle.local_sgd_s(case, machine), case
    )
