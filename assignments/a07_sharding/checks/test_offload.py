"""offload.py: plans that fit, and that are as short as any."""

from checks.cases import Schedule
from ringside.checking import Verdict, award
from ringside.checking.suite import Suite, group

suite = Suite("offload")
SIX = ((4, 8, 20), (2, 5, 12), (7, 9, 8), (3, 3, 25), (1, 4, 16), (5, 9, 10))
TWELVE = (
    (1, 7, 12), (4, 2, 19), (5, 11, 3), (8, 16, 22), (2, 4, 30), (6, 6, 9),
    (3, 9, 27), (9, 5, 14), (1, 1, 6), (7, 12, 25), (4, 8, 17), (2, 3, 11),
)  # fmt: skip
FAST, SLOW = "a fast link", "a slow link"


@suite.test("fits", "memory", *(Schedule(SIX, capacity, 40.0) for capacity in (25, 40, 60)))
def test_plans_fit(case, run):
    """And they are shorter than recomputing every layer."""
    time_s, again_s = case.time_s(run), case.time_s(["recompute"] * len(case.layers))
    if time_s >= again_s:
        raise Verdict(
            f"The makespan of the {case} is {time_s:.6g} s; to recompute every layer takes "
            f"{again_s:.6g} s."
        )


def assert_shortest(case, run):
    time_s, best_s = case.time_s(run), case.shortest_s
    if time_s > best_s * (1 + 1e-9):
        raise Verdict(
            f"The makespan of the {case} is {time_s:.6g} s; the shortest is {best_s:.6g} s."
        )


@suite.test(
    "shortest", "values", Schedule(SIX, 50, 4.0), Schedule(SIX, 30, 4.0),
    Schedule(TWELVE[:7], 60, 5.0),
)  # fmt: skip
def test_as_short_as_any_plan(case, run):
    assert_shortest(case, run)


@suite.test("keep", "values", Schedule(TWELVE, 195, 1.0))
def test_keeps_everything_where_it_fits(case, run):
    assert_shortest(case, run)


@suite.test(
    "links", "values", group(FAST, Schedule(SIX, 40, 100.0)), group(SLOW, Schedule(SIX, 40, 0.1))
)
def test_with_a_fast_and_a_slow_link(case, run):
    assert_shortest(case, run)


@suite.test(
    "edges", "values", Schedule((), 5, 1.0), Schedule(((3, 6, 10), (2, 4, 0), (5, 9, 12)), 15, 3.0)
)
def test_equal_layers_and_layers_without_activations(case, run):
    assert_shortest(case, run)


@suite.test(
    "edges", "safety", Schedule(SIX, 24, 4.0, raises="ValueError"),
    Schedule(((1, 2, 9),), 8, 1.0, raises="ValueError"),
)  # fmt: skip
def test_refuses_where_nothing_fits(case, run):
    """One layer alone is larger than the capacity."""


@suite.test("long", "speed", Schedule(TWELVE, 70, 2.0))
def test_time_of_long_models(case, run):
    """Keeping what fits takes 159 s."""
    time_s, best_s = case.time_s(run), case.reference_s
    award(
        1.0 if time_s <= 1.05 * best_s else 0.5 if time_s <= 1.5 * best_s else 0.0,
        f"The makespan of the {case} is {time_s:.6g} s, {time_s / best_s:.3f} times the "
        f"reference's of {best_s:.6g} s; at most 1.05 times that earns all points, and at most "
        "1.5 times half of them.",
    )
