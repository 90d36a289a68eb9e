"""cross_entropy.py: a loss over a cut vocabulary, of three numbers a row."""

import math

import numpy as np

from ringside import Machine
from ringside.checking import Verdict, assert_makespan, assert_moved
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.hidden import oracle, runs

LOSS = "loss_layer"

points = points_of("cross_entropy")


def cases(rng, sizes, dtype="float64"):
    """Losses for ``(ranks, samples, V)``."""
    return [runs.draw(rng, LOSS, p, n, (words,), dtype) for p, n, words in sizes]


@points(14, "values")
def test_losses_and_gradients_on_2_4_and_8_ranks(ranks, rng):
    # Plain sizes: p divides samples and words. Only the next test has others.
    runs.check_values(ranks, cases(rng, [(2, 6, 10), (4, 8, 12), (8, 8, 32)]))


@points(14, "values")
def test_any_vocabulary_samples_and_dtypes(ranks, rng):
    kinds = {
        "words that p does not divide": cases(rng, [(3, 6, 11), (5, 10, 23), (7, 7, 30)]),
        "samples that p does not divide": cases(rng, [(3, 7, 12), (1, 4, 5), (4, 9, 8)]),
        "ranks without words and no samples": cases(rng, [(4, 4, 3), (3, 0, 5), (5, 5, 1)]),
        "float32": cases(rng, [(3, 6, 12), (2, 4, 8)], "float32"),
    }
    runs.check_values_of_kinds(ranks, kinds, weights={"words that p does not divide": 2})


def shifted(asked, by):
    """Rows that are far up or down, as a whole or on one rank only."""
    logits, words, *rest = asked.whole
    logits = logits + by(logits)
    asked.whole = (logits.astype(asked.case.dtype), words, *rest)
    return asked


def check_shifted(ranks, asked, by):
    """Values of shifted logits; says which, since drawn ones would not show it."""
    for each in asked:
        logits = shifted(each, by).whole[0]
        try:
            runs.check_values(ranks, [each])
        except Verdict as verdict:
            if verdict.sentence.startswith("not run"):
                raise
            raise Verdict(
                f"with logits from {logits.min():.3g} to {logits.max():.3g}: {verdict.sentence}",
                detail=verdict.detail,
            ) from None


@points(15, "values")
def test_large_logits(ranks, rng):
    def rows(logits):
        return np.array([1000.0, -1000.0, 5000.0, -5000.0])[np.arange(len(logits)) % 4, None]

    def slopes(logits):
        steep = np.linspace(-1500, 1500, logits.shape[1])
        return np.where(np.arange(len(logits))[:, None] % 2, steep, -steep)

    def infinite():
        check_shifted(ranks, cases(rng, [(2, 6, 9), (3, 6, 7), (4, 8, 4)]), rows)
        check_shifted(ranks, cases(rng, [(3, 6, 8)], "float32"), rows)
        # No finite number is small enough to stand for "no maximum yet".
        check_shifted(ranks, cases(rng, [(2, 4, 6)]), lambda logits: -1e10)

    def steep():
        check_shifted(ranks, cases(rng, [(2, 6, 9), (3, 6, 7), (4, 8, 17)]), slopes)

    checks = {"exponentials that are infinite or 0": infinite, "maxima on one rank only": steep}
    check_kinds(checks, str, lambda kind: checks[kind]())


@points(3, "values")
def test_inputs_stay_as_they_were(ranks, rng):
    runs.check_inputs_kept(ranks, cases(rng, [(2, 4, 9), (3, 6, 6)]))


@points(4, "values")
def test_second_call_is_independent(ranks, rng):
    runs.check_second_calls(ranks, rng, LOSS, (2, (4, (9,)), (6, (6,))), (3, 6, (8,)))


@points(5, "reality")
def test_real_mpi(ranks, mpi, rng):
    runs.check_real_mpi(mpi, cases(rng, [(3, 6, 11), (3, 42, 500)]))


@points(4, "values")
def test_losses_are_alike(ranks, rng):
    runs.check_alike(ranks, cases(rng, [(4, 12, 19), (5, 10, 23)]))


@points(8, "communication", essential=True)
def test_logits_stay_on_their_ranks(ranks, rng):
    (asked,) = cases(rng, [(4, 8, 1000)])
    result = runs.run(ranks, asked)
    assert_moved(result, 8 * 8 * 1000 / 2, asked.case, "logits stay on their ranks")


def allowed(asked):
    p, unit = asked.case.world_size, 8 if asked.case.dtype == "float64" else 4
    return 6 * (p - 1) * math.ceil(asked.case.n / p) * unit + 64 * (p - 1)


@points(16, "communication")
def test_bytes_of_three_numbers_a_row(ranks, rng):
    sizes = [(2, 40, 60), (4, 64, 100), (5, 60, 120), (12, 96, 300), (18, 90, 400), (3, 300, 600)]
    runs.check_bytes(ranks, cases(rng, sizes) + cases(rng, sizes[:1], "float32"), allowed)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, cases(rng, [(3, 6, 10), (2, 6, 7)]))


@points(7, "safety")
def test_sends_may_wait_and_come_in_any_order(ranks, rng):
    runs.check_safety(ranks, cases(rng, [(2, 6, 13), (3, 6, 13), (5, 10, 13)]))
    runs.check_any_order(ranks, rng, LOSS, 4, 8, (9,))


def timed(ranks, rng, p, machine, n):
    asked = runs.draw(rng, LOSS, p, n, (2 * p,))
    result = runs.run(ranks, asked, machine=machine)
    nbytes = 8 * n
    bound_s = oracle.makespan_s([("allreduce", nbytes)] * 3, p, machine)
    gathered_s = (p - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    beside = f" Gathering {p} words of each row would take {gathered_s * 1e6:.1f} µs at least."
    assert_makespan(result, bound_s, asked.case, beside=beside)


@points(6, "speed")
def test_time_of_many_and_of_few_samples(ranks, rng):
    wire = Machine("long wire", alpha_s=1e-6, beta_s_per_byte=1e-7)
    sizes = {"many samples": (4, wire, 256), "few samples": (8, Machine.load("textbook"), 8)}
    check_kinds(sizes, str, lambda kind: timed(ranks, rng, *sizes[kind]))
