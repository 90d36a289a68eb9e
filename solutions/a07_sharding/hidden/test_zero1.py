"""zero1.py: each rank keeps the state of its shard, and updates nothing else."""

import functools

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_makespan,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a07_sharding.hidden import oracle
from solutions.a07_sharding.hidden.oracle import examples

points = points_of("zero1")

PLAIN = "powers of two, which divide the length"
PLAIN_FIRST = {PLAIN: 2.0}  # weights of kinds of cases


def drawn(rng, p, n, dtype="float64", steps=1, decay=0.0, clip=None, driver="zero1_steps"):
    """The case, and a training as its line makes it."""
    options = {"steps": steps} if steps > 1 else {}
    options |= {"decay": decay} if decay else {}
    options |= {"clip": clip} if clip is not None else {}
    case = Case("zero1:step", p, n, dtype, options).called_by(f"callers:{driver}")
    case.drawn.append(int(rng.integers(2**31)))
    return case, examples.Training(p, n, dtype, case.drawn[0], steps, decay, clip)


def trained(
    ranks, rng, p, n, dtype="float64", steps=1, decay=0.0, clip=None, between=False, **options
):
    """Make the steps: the last one, if there are several, from states that were saved and loaded.

    Parameters are compared with one rank's.
    """
    case, training = drawn(rng, p, n, dtype, steps, decay, clip)
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", p)
    before = [None] * p
    if steps > 1:
        first = [_some(training.arguments(rank), 0, steps - 1) for rank in range(p)]
        result = ranks.call("callers:zero1_steps", world_size, first, **options)
        assert_ran(result, case)
        before = list(result.values)
        if between:  # another training, before the states are loaded
            other = [(params, [-g for g in gs], *rest) for params, gs, *rest in first]
            ranks.call("callers:zero1_steps", world_size, other, **options)
    last = []
    for rank in range(p):
        params, *rest = _some(training.arguments(rank), steps - 1, steps)
        state = None
        if before[rank] is not None:
            params, state, _ = before[rank]
        last.append((params, *rest, state))
    result = ranks.call("callers:zero1_steps", world_size, last, **options)
    assert_ran(result, case)
    seen = case.seen_in(result)
    for rank, value in enumerate(result.values):
        examples.assert_trained(value, training, seen, rank)
        value[2][:0] = before[rank][2] if before[rank] is not None else []
    return case, result, training


def _some(arguments, first, end):
    params, gradients, lrs, *rest = arguments
    return (params, gradients[first:end], lrs[first:end], *rest)


# -- values ----------------------------------------------------------------------------------------


@points(5, "values")
def test_one_step_on_2_4_and_8_ranks(ranks, rng):
    for p, n in ((2, 10), (4, 12), (8, 40)):
        trained(ranks, rng, p, n)


@points(14, "values")
def test_any_length_on_any_number_of_ranks(ranks, rng):
    check_kinds(
        [(4, 11), (2, 1), (8, 13), (3, 9), (5, 20), (7, 14), (5, 3), (1, 5)],
        lambda each: worlds_and_lengths(*each),
        lambda each: trained(ranks, rng, *each),
        weights={PLAIN: 0.5},
    )


def worlds_and_lengths(p, n):
    if n % p:
        return "lengths that p does not divide"
    return PLAIN if p in (2, 4, 8, 16) else "other worlds"


@points(7, "values")
def test_several_steps_from_saved_states(ranks, rng):
    for p, n, steps in ((2, 8, 2), (4, 16, 4), (4, 8, 3)):
        trained(ranks, rng, p, n, steps=steps, between=True)


@points(4, "values")
def test_weight_decay(ranks, rng):
    for p, n in ((2, 8), (4, 12)):
        trained(ranks, rng, p, n, decay=float(rng.uniform(0.1, 1)))


@points(7, "values")
def test_clipping_takes_the_norm_of_all_shards(ranks, rng):
    for p, n, clip in ((2, 8, 0.5), (4, 12, 1.0), (2, 30, 0.1), (4, 8, 1e9)):
        # Of a first step Adam takes the direction alone, so the second one shows the length.
        trained(ranks, rng, p, n, steps=3, clip=clip)


@points(5, "values")
def test_norm_is_that_of_the_whole_mean_gradient(ranks, rng):
    for p, n, clip in ((2, 8, None), (4, 12, 0.5), (8, 400, None), (4, 11, None)):
        case, result, training = trained(ranks, rng, p, n, clip=clip)
        for rank, value in enumerate(result.values):
            examples.assert_norms(value, training, case.seen_in(result), rank)
        examples.assert_alike(result, case)


@points(3, "values")
def test_float32(ranks, rng):
    for p, n in ((2, 8), (4, 32)):
        trained(ranks, rng, p, n)
        trained(ranks, rng, p, n, "float32")
        trained(ranks, rng, p, n)


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    trained(ranks, rng, 2, 8)
    case, training = drawn(rng, 4, 12)
    arguments = [training.arguments(rank) for rank in range(4)]
    (result,) = mpi.call_all([("callers:zero1_steps", 4, arguments)])
    try:
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_trained(value, training, case, rank)
    except Verdict as verdict:
        raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


# -- communication ---------------------------------------------------------------------------------


@points(8, "memory", essential=True)
def test_state_is_that_of_a_shard(ranks, rng):
    """Whoever keeps all of m and v on every rank has no ZeRO; values are looked at elsewhere."""

    def check(each):
        case, training = drawn(rng, *each)
        arguments = [training.arguments(rank) for rank in range(each[0])]
        result = ranks.call("callers:zero1_steps", each[0], arguments, machine=buffered())
        assert_ran(result, case)
        examples.assert_state(result, case)

    cases = [(4, 1000), (16, 64), (5, 1000), (4, 1003), (2, 100, "float32")]
    check_kinds(cases, lambda each: worlds_and_lengths(*each[:2]), check, weights=PLAIN_FIRST)


@points(15, "communication")
def test_bytes_per_rank(ranks, rng):
    def check(each):
        p, n, dtype = each
        case, result, _ = trained(ranks, rng, p, n, dtype)
        allowed = oracle.step_bytes(n, p, np.dtype(dtype).itemsize)
        ranks.record(case, result, {"bytes": allowed})
        assert_moved(result, allowed, case)

    cases = [
        (2, 10, "float64"), (4, 12, "float32"), (16, 96, "float64"), (4, 20_000, "float64"),
        (3, 9, "float64"), (5, 100, "float64"), (18, 90, "float64"), (4, 103, "float64"),
    ]  # fmt: skip
    check_kinds(cases, lambda each: worlds_and_lengths(*each[:2]), check)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(trained, ranks, rng, 3, 12))


# -- safety ----------------------------------------------------------------------------------------


@points(10, "safety")
def test_messages_may_wait_and_come_in_any_order(ranks, rng):
    def run(**options):
        case, result, _ = trained(ranks, rng, 4, 12, **options)
        kinds = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]
        assert_requests_complete(result, case, kinds)

    with_waiting_sends(run, drawn(rng, 4, 12)[0])
    for seed in LATENCY_SEEDS:
        run(machine=rendezvous(), seed=seed)


@points(4, "safety")
def test_inputs_stay_as_they_were(ranks, rng):
    for p, n in ((4, 12), (2, 8)):
        driver = "zero1_looked_at"
        case, training = drawn(rng, p, n, driver=driver)
        arguments = [training.arguments(rank) for rank in range(p)]
        result = ranks.call(f"callers:{driver}", p, arguments, machine=buffered())
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_trained(value, training, case.seen_in(result), rank)
            examples.assert_kept(value, case.seen_in(result), rank)


# -- speed -----------------------------------------------------------------------------------------


@points(10, "speed")
def test_time_on_8_and_32_ranks(ranks, rng):
    """The update of all elements would take as long as all messages."""

    def check(each):
        p, n, changes = each
        machine = Machine.load(f"textbook,flop_per_s=1e9{changes}")
        case, result, _ = trained(ranks, rng, p, n, machine=machine)
        bound_s = oracle.step_seconds(n, p, 8, machine)
        whole_s = examples.update_s(n, machine)
        beside = f" The update of all {n} elements takes {whole_s * 1e6:.1f} µs."
        assert_makespan(result, bound_s, case, beside=beside)

    cases = [(8, 16_000, ""), (32, 32_000, ",alpha_s=1e-5")]
    check_kinds(cases, lambda each: f"{each[0]} ranks", check)
