"""cross_entropy.py: a loss over a cut vocabulary, of three numbers a row."""

import math

import numpy as np

from ringside import Machine
from ringside.checking import Verdict, assert_makespan
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.hidden import oracle, runs

LOSS = "loss_layer"

points = points_of("cross_entropy")


def cases(rng, sizes, dtype="float64"):
    """Losses for ``(ranks, samples, V)``."""
    return [runs.draw(rng, LOSS, p, n, (words,), dtype) for p, n, words in sizes]


@points(12, "values")
def test_losses_and_gradients_on_2_4_and_8_ranks(ranks, rng):
    runs.check_values(ranks, cases(rng, [(2, 6, 10), (4, 5, 12), (8, 7, 32)]))


@points(7, "values")
def test_vocabularies_that_no_rank_number_divides(ranks, rng):
    runs.check_values(ranks, cases(rng, [(3, 7, 11), (5, 12, 23), (1, 4, 5), (7, 9, 30)]))


@points(4, "values")
def test_ranks_without_words_and_no_samples(ranks, rng):
    runs.check_values(ranks, cases(rng, [(4, 3, 3), (3, 0, 5), (5, 2, 1)]))


@points(3, "values")
def test_dtype_is_kept(ranks, rng):
    runs.check_values(ranks, cases(rng, [(3, 5, 11), (2, 4, 8)], "float32"))


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


@points(9, "values")
def test_exponentials_that_are_infinite_or_0(ranks, rng):
    def rows(logits):
        return np.array([1000.0, -1000.0, 5000.0, -5000.0])[np.arange(len(logits)) % 4, None]

    asked = cases(rng, [(2, 5, 9), (3, 4, 7), (4, 8, 4)])
    check_shifted(ranks, asked, rows)
    check_shifted(ranks, cases(rng, [(3, 4, 8)], "float32"), rows)
    # No finite number is small enough to stand for "no maximum yet".
    check_shifted(ranks, cases(rng, [(2, 3, 6)]), lambda logits: -1e10)


@points(6, "values")
def test_maxima_on_one_rank_only(ranks, rng):
    def slopes(logits):
        steep = np.linspace(-1500, 1500, logits.shape[1])
        return np.where(np.arange(len(logits))[:, None] % 2, steep, -steep)

    asked = cases(rng, [(2, 5, 9), (3, 4, 7), (4, 6, 17)])
    check_shifted(ranks, asked, slopes)


@points(3, "values")
def test_inputs_stay_as_they_were(ranks, rng):
    runs.check_inputs_kept(ranks, cases(rng, [(2, 4, 9), (3, 5, 6)]))


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    for p, sizes in ((2, [(4, 9), (3, 6)]), (3, [(4, 8), (4, 8)])):
        pair = tuple(runs.draw(rng, LOSS, p, n, (words,)) for n, words in sizes)
        runs.check_second_call(ranks, [pair])


@points(5, "reality")
def test_real_mpi(ranks, mpi, rng):
    runs.check_real_mpi(mpi, cases(rng, [(3, 5, 11), (3, 40, 500)]))


@points(4, "values")
def test_losses_are_alike(ranks, rng):
    runs.check_alike(ranks, cases(rng, [(4, 9, 19), (5, 6, 23)]))


def allowed(asked):
    p, unit = asked.case.world_size, 8 if asked.case.dtype == "float64" else 4
    return 6 * (p - 1) * math.ceil(asked.case.n / p) * unit + 64 * (p - 1)


@points(24, "communication")
def test_bytes_of_three_numbers_a_row(ranks, rng):
    sizes = [(2, 40, 60), (4, 64, 100), (8, 96, 200), (3, 60, 50), (18, 96, 400)]
    sizes += [(5, 60, 120), (12, 96, 300), (3, 300, 600)]
    runs.check_bytes(ranks, cases(rng, sizes) + cases(rng, sizes[:1], "float32"), allowed)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, cases(rng, [(3, 4, 10), (2, 5, 7)]))


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    runs.check_safety(ranks, cases(rng, [(p, 6, 13) for p in (2, 3, 4, 5)]))


@points(4, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    runs.check_any_order(ranks, cases(rng, [(4, 5, 9)]))


def timed(ranks, rng, p, machine, n):
    asked = runs.draw(rng, LOSS, p, n, (2 * p,))
    result = runs.run(ranks, asked, machine=machine)
    nbytes = 8 * n
    bound_s = oracle.makespan_s([("allreduce", nbytes)] * 3, p, machine)
    gathered_s = (p - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    beside = f" Gathering {p} words of each row would take {gathered_s * 1e6:.1f} µs at least."
    assert_makespan(result, bound_s, asked.case, beside=beside)


@points(4, "speed")
def test_time_of_many_samples(ranks, rng):
    timed(ranks, rng, 4, Machine("long wire", alpha_s=1e-6, beta_s_per_byte=1e-7), 256)


@points(3, "speed")
def test_time_of_few_samples(ranks, rng):
    timed(ranks, rng, 8, Machine.load("textbook"), 8)
