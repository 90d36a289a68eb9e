"""accumulate.py: several microbatches, one synchronisation."""

from ringside.checking.points import points_of
from solutions.a04_data_parallel.hidden import oracle, runs

points = points_of("accumulate")


def step(rng, *shares, widths=runs.SMALL, dtype="float64"):
    """``shares[step][rank]``: the sizes of a rank's microbatches."""
    return runs.training(rng, runs.ACCUMULATE, shares, widths, dtype)


@points(7, "values")
def test_one_step_of_equal_microbatches(ranks, rng):
    asked = [step(rng, [(b,) * k] * p) for p, k, b in ((2, 3, 4), (4, 2, 2), (8, 3, 1), (3, 1, 5))]
    runs.check_values(ranks, asked)


@points(16, "values")
def test_unequal_microbatches(ranks, rng):
    asked = [
        step(rng, [(5, 2), (1, 3)]),
        step(rng, [(1, 2, 3), (4, 1, 1), (2, 6, 2)]),
        step(rng, [(1,), (2, 3, 1, 1), (4, 2), (3, 3, 3), (1, 1)]),
        step(rng, [(2, 2, 7), (3,), (1, 1), (4,), (2,), (1, 3), (5,)]),
        step(rng, [(), (3, 2)]),
        step(rng, [(2, 0, 1), (0, 0), ()]),
        step(rng, [(), (0,), (1,), ()], widths=runs.DEEP),
    ]
    runs.check_values(ranks, asked)


@points(8, "values")
def test_copies_stay_equal_over_several_steps(ranks, rng):
    asked = [
        step(rng, [(2, 2), (2, 2)], [(1,), (1,)], [(4, 4)] * 2),
        step(rng, *[[(2, 2)] * 4] * 4, widths=runs.DEEP),
        step(rng, [(3, 3)]),
    ]
    runs.check_equal_replicas(ranks, asked)


@points(4, "values")
def test_loss_is_the_mean_over_all_samples(ranks, rng):
    asked = [step(rng, [(3, 3)] * 2), step(rng, [(1, 6), (2, 3, 1)], [(1,), (2,)])]
    runs.check_values(ranks, asked, loss=True)


@points(3, "values")
def test_dtype_is_kept(ranks, rng):
    runs.check_values(ranks, [step(rng, [(2, 2)] * 3, dtype="float32")])


@points(6, "values")
def test_inputs_stay_and_nothing_is_kept(ranks, rng):
    pairs = [
        (step(rng, [(2, 2)] * 2), step(rng, [(3,)] * 2)),
        (step(rng, [(1, 1)] * 2), step(rng, [(3, 3)] * 2, widths=runs.AS_SMALL)),
    ]
    runs.check_kept(ranks, [step(rng, [(3, 3)] * 2), step(rng, [(2, 2)] * 3)], pairs)


@points(4, "reality")
def test_real_mpi(ranks, mpi, rng):
    asked = step(rng, [(3, 3)] * 3, [(2, 2)] * 3)
    runs.trained(ranks, asked)
    runs.check_real_mpi(mpi, [asked], "callers:steps")


@points(10, "schedule", essential=True)
def test_each_rank_works_on_its_own_samples(ranks, rng):
    runs.check_split(ranks, step(rng, [(4, 4)] * 4))


@points(12, "communication")
def test_one_synchronisation_a_step(ranks, rng):
    asked = [
        step(rng, [(2, 2, 2, 2)] * 2, widths=(20, 30, 10)),
        step(rng, [(1, 1, 1)] * 3, [(1,)] * 3, widths=(20, 30, 10)),
        step(rng, [(2, 2)] * 5, widths=(30, 40, 5), dtype="float32"),
        step(rng, [(1, 1)] * 12, widths=(16, 25, 6)),
        step(rng, [(1, 1)] * 18, widths=(16, 25, 6)),
        step(rng, [(2, 2)] * 3, widths=runs.WIDE),
    ]
    runs.check_bytes(ranks, asked)


@points(3, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, [step(rng, [(2, 2)] * 3), step(rng, [(1, 1)] * 2)])


@points(9, "memory")
def test_one_microbatch_at_a_time(ranks, rng):
    for asked in (step(rng, [(4, 4, 4)] * 2), step(rng, [(1,) * 4] * 3, widths=runs.DEEP)):
        result = runs.trained(ranks, asked)
        for rank, sizes in enumerate(asked.shares[0]):
            longest, size = max(sizes), asked.params[0].size
            oracle.examples.assert_at_once(result, asked.case, rank, longest, size)


@points(9, "safety")
def test_sends_may_wait_and_come_in_any_order(ranks, rng):
    runs.check_safety(ranks, [step(rng, [(2, 2)] * p, [(1, 1)] * p) for p in (2, 3, 4, 7)])


@points(9, "speed")
def test_time_on_512_ranks(ranks, rng):
    asked = step(rng, [(12,) * 4] * 8, widths=(64, 128, 10))
    runs.check_stretched_makespan(ranks, asked, 512)
