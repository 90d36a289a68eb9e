"""bubble.py: closed forms, against runs of our schedules and in other words."""

import math
from fractions import Fraction

from ringside import Machine
from ringside.checking import Verdict
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a09_pipeline import replayed
from solutions.a09_pipeline.hidden import oracle, runs

SIZES = ((1, 1), (1, 5), (2, 1), (2, 8), (3, 4), (4, 8), (8, 3), (16, 64), (64, 512))
NAMES = ("gpipe", "one_f_one_b", "interleaved")
SMALL = ((2, 4), (3, 6), (4, 4), (4, 8))

points = points_of("bubble")


def check_numbers(ranks, function, calls, right):
    """The function's results are the right numbers, to 1e-9."""
    found = runs.answers(ranks, "several", f"bubble:{function}", calls)
    for call, (value, error) in zip(calls, found, strict=True):
        wanted = right(*call)
        where = f"{function}({', '.join(map(repr, call))})"
        said = f"raised {error}" if error else f"is {value!r}"
        good = type(value) in (int, float) and math.isclose(
            value, wanted, rel_tol=1e-9, abs_tol=1e-15
        )
        if not good:
            raise Verdict(
                f"{where} {said}; it must be {wanted:.10g}.",
                reproduce=runs.typed("bubble", where),
            )


def drawn(rng, count=4):
    return [(int(rng.integers(2, 40)), int(rng.integers(1, 90))) for _ in range(count)]


def lists(name, *case):
    return runs.lists_of(getattr(oracle, name), *case)


@points(16, "values")
def test_makespan(ranks, rng):
    costs = [(1.0, 2.0), (0.25, 0.5), (3.0, 1.0), tuple(rng.uniform(0.1, 4, size=2).tolist())]
    calls = [(*size, *each) for size in (*SIZES, *drawn(rng)) for each in costs]

    def right(s, m, forward_s, backward_s):
        if s * m > 64:
            return m * (forward_s + backward_s) + (s - 1) * (forward_s + backward_s)
        return replayed.timeline(lists("one_f_one_b", s, m), 1, forward_s, backward_s).makespan_s

    check_numbers(ranks, "makespan_s", calls, right)


@points(10, "values")
def test_makespan_of_chunks(ranks, rng):
    calls = [(*size, 1.0, 2.0, v) for size in SMALL for v in (1, 2, 4)]
    calls += [(*size, 0.5, 1.0, v) for size in drawn(rng) for v in (2, 3)]

    def right(s, m, forward_s, backward_s, v):
        if m % s:
            return m * (forward_s + backward_s) + (s - 1) * (forward_s / v + backward_s / v)
        ours = lists("interleaved", s, m, v)
        return replayed.timeline(ours, v, forward_s / v, backward_s / v).makespan_s

    check_numbers(ranks, "makespan_s", calls, right)


@points(14, "values")
def test_bubble_fraction(ranks, rng):
    calls = [*SIZES, *drawn(rng), *((*size, v) for size in SIZES for v in (1, 2, 5))]

    def right(s, m, v=1):
        return 1 - m * v / (m * v + s - 1)

    check_numbers(ranks, "bubble_fraction", calls, right)


@points(12, "values")
def test_fewest_microbatches(ranks):
    # Only shares that a float holds exactly are met exactly: elsewhere rounding would decide.
    calls = [(s, most) for s in (1, 2, 4, 8, 33) for most in (0.9, 0.5, 0.25, 0.21, 0.11, 0.031)]
    calls += [(s, most, v) for s in (2, 5, 8) for most in (0.5, 0.21, 0.06) for v in (1, 2, 4)]

    def right(s, most, v=1):
        return next(m for m in range(1, 10**4) if s - 1 <= Fraction(most) * (m * v + s - 1))

    check_numbers(ranks, "fewest_microbatches", calls, right)


@points(10, "communication")
def test_gpipe_with_latency(ranks, rng):
    calls = [
        (*size, 1.0, 2.0, c)
        for size in (*SMALL, (1, 3), (5, 2), (2, 1), (3, 1))
        for c in (0.0, 0.5, 0.125)
    ]
    calls += [(*size, 0.5, 1.0, 1e-3) for size in drawn(rng, 2)]

    def right(s, m, forward_s, backward_s, latency_s):
        machine = Machine("latency", alpha_s=latency_s, beta_s_per_byte=0.0)
        return replayed.timeline(
            lists("gpipe", s, m), 1, forward_s, backward_s, 8, machine
        ).makespan_s

    check_numbers(ranks, "gpipe_s", calls, right)


@points(12, "communication")
def test_number_of_messages(ranks, rng):
    calls = [*SIZES, *drawn(rng), *((*size, v) for size in (*SIZES[:6], (1, 4)) for v in (1, 2, 3))]

    def right(s, m, v=1):
        return sum(2 * m for piece in range(1, s * v) if piece % s != (piece - 1) % s)

    check_numbers(ranks, "num_messages", calls, right)


@points(14, "memory")
def test_microbatches_in_flight(ranks, rng):
    sizes = [*SIZES[:7], *((s, m) for s, m in drawn(rng, 2))]
    calls = [
        (name, s, m, stage)
        for name in ("gpipe", "one_f_one_b")
        for s, m in sizes
        for stage in {0, s // 2, s - 1}
    ]
    calls += [("interleaved", s, m, k, v) for s, m in ((1, 4), *SMALL) if m % s == 0
              for k in range(s) for v in (1, 2, 3)]  # fmt: skip

    def right(name, s, m, stage, *chunks):
        return replayed.most_in_flight(getattr(oracle, name)(s, m, stage, *chunks))

    def check(name):
        if name in NAMES:
            check_numbers(ranks, "in_flight", [call for call in calls if call[0] == name], right)
            return
        ((_, error),) = runs.answers(ranks, "several", "bubble:in_flight", [("1f1b", 2, 2, 0)])
        if error != "ValueError":
            call = "in_flight('1f1b', 2, 2, 0)"
            raise Verdict(
                f"{call} must raise ValueError: there is no such schedule.",
                reproduce=runs.typed("bubble", call),
            )

    check_kinds([*NAMES, "other names"], str, check, weights={"other names": 0.5})


@points(12, "memory")
def test_bytes_of_activations(ranks, rng):
    calls = [
        (name, s, m, stage, 1000, 50, *again)
        for name in ("gpipe", "one_f_one_b")
        for s, m in (*SIZES[:7], *drawn(rng, 2))
        for stage in {0, s - 1}
        for again in ((), (False,), (True,))
    ]

    def right(name, s, m, stage, saved, given, again=False):
        most = replayed.most_in_flight(getattr(oracle, name)(s, m, stage))
        return saved + (most - 1) * (given if again else saved)

    check_numbers(ranks, "activation_bytes", calls, right)
