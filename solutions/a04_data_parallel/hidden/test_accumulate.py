"""accumulate.py: several microbatches, one synchronisation."""

from ringside.checking.points import points_of
from solutions.a04_data_parallel.hidden import oracle, runs

points = points_of("accumulate")


def step(rng, *shares, widths=runs.SMALL, dtype="float64"):
    """``shares[step][rank]``: the sizes of a rank's microbatches."""
    return runs.training(rng, runs.ACCUMULATE, shares, widths, dtype)


@points(9, "values")
def test_one_step_of_equal_microbatches(ranks, rng):
    asked = [step(rng, [(b,) * k] * p) for p, k, b in ((2, 3, 4), (4, 2, 2), (8, 3, 1), (3, 1, 5))]
    runs.check_values(ranks, asked)


@points(9, "values")
def test_unequal_microbatches(ranks, rng):
    asked = [
        step(rng, [(5, 2), (1, 3)]),
        step(rng, [(1, 2, 3), (4, 1, 1), (2, 6, 2)]),
        step(rng, [(1,), (2, 3, 1, 1), (4, 2), (3, 3, 3), (1, 1)]),
        step(rng, [(2, 2, 7), (3,), (1, 1), (4,), (2,), (1, 3), (5,)]),
    ]
    runs.check_values(ranks, asked)


@points(6, "values")
def test_ranks_without_microbatches(ranks, rng):
    asked = [
        step(rng, [(), (3, 2)]),
        step(rng, [(2, 0, 1), (0, 0), ()]),
        step(rng, [(), (0,), (1,), ()], widths=runs.DEEP),
    ]
    runs.check_values(ranks, asked)


@points(6, "values")
def test_velocity_over_several_steps(ranks, rng):
    asked = [
        step(rng, [(2, 1), (3,)], [(1,), (1, 1, 2)], [(4,), (2, 2)]),
        step(rng, [(1, 2), (), (3, 1)], [(2,), (2, 2), (0,)], widths=runs.DEEP),
        step(rng, [(3, 2)]),
    ]
    runs.check_values(ranks, asked)


@points(4, "values")
def test_loss_is_the_mean_over_all_samples(ranks, rng):
    asked = [step(rng, [(1, 6), (2, 3, 1)]), step(rng, [(4,), (), (1, 2)], [(1,), (5, 1), (2,)])]
    runs.check_values(ranks, [*asked, step(rng, [(3, 1)])], loss=True)


@points(3, "values")
def test_dtype_is_kept(ranks, rng):
    runs.check_values(ranks, [step(rng, [(3, 1), (2,), (1, 2)], dtype="float32")])


@points(4, "values")
def test_copies_stay_equal(ranks, rng):
    shares = [(3, 1), (2, 2, 1), (4,), (1, 2)]
    runs.check_equal_replicas(ranks, [step(rng, *[shares] * 4)])


@points(3, "values")
def test_inputs_stay_as_they_were(ranks, rng):
    runs.check_inputs_kept(ranks, [step(rng, [(2, 3), (1,)]), step(rng, [(1,), (2, 2), ()])])


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    pairs = [
        (step(rng, [(2,), (3, 1)]), step(rng, [(1, 1), (4,)])),
        (step(rng, [(1, 2), (2,)]), step(rng, [(3,), (1, 2)], widths=runs.DEEP)),
    ]
    runs.check_second_call(ranks, pairs)


@points(4, "reality")
def test_real_mpi(ranks, mpi, rng):
    asked = step(rng, [(5, 2), (), (3, 4, 1)], [(1,), (2, 2), (6,)])
    runs.trained(ranks, asked)
    runs.check_real_mpi(mpi, [asked], "callers:steps")


@points(13, "communication")
def test_one_synchronisation_a_step(ranks, rng):
    asked = [
        step(rng, [(2, 1, 2, 1), (1, 1, 1, 1)], widths=(20, 30, 10)),
        step(rng, [(1, 1), (2,), (1, 1, 1)], [(1,), (3, 1), (2,)], widths=(20, 30, 10)),
        step(rng, [(1, 2)] * 5, widths=(30, 40, 5), dtype="float32"),
        step(rng, [(1,) * 6] * 8, widths=(16, 25, 6)),
        step(rng, [(1, 2), (3,)] * 6, widths=(16, 25, 6)),
        step(rng, [(1, 2), (3,)] * 9, widths=(16, 25, 6)),
        step(rng, [(1, 2), (3,), (2, 2)], widths=runs.WIDE),
        step(rng, [(9, 9)] * 4, widths=runs.DEEP, dtype="float32"),
    ]
    runs.check_bytes(ranks, asked)


@points(3, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, [step(rng, [(4, 1), (2,)]), step(rng, [(2,), (1, 1)])])


@points(6, "schedule")
def test_each_sample_goes_through_once(ranks, rng):
    asked = [step(rng, [(3, 5), (6, 1)]), step(rng, [(4,), (), (2, 1, 1)], widths=runs.DEEP)]
    runs.check_work(ranks, asked)


@points(8, "memory")
def test_one_microbatch_at_a_time(ranks, rng):
    for asked in (
        step(rng, [(3, 5, 2), (4, 4, 4)]),
        step(rng, [(1, 1, 1, 1), (2, 2), ()], widths=runs.DEEP),
    ):
        result = runs.trained(ranks, asked)
        for rank, sizes in enumerate(asked.shares[0]):
            longest, size = max((0, *sizes)), asked.params[0].size
            oracle.examples.assert_at_once(result, asked.case, rank, longest, size)


@points(4, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    runs.check_rendezvous(ranks, [step(rng, [(2, 1)] * p) for p in range(2, 9)])


@points(3, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    runs.check_any_order(ranks, [step(rng, [(2, 1), (1,), (), (3, 1)])])


@points(12, "speed")
def test_time_on_512_ranks(ranks, rng):
    asked = step(rng, [(8,) * 4] * 8, widths=(64, 128, 10))
    runs.check_stretched_makespan(ranks, asked, 512)
