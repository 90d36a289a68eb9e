"""dualpipev.py: lists of actions whose pairs hide what passes wait for inside a stage."""

from given.actions import Pair

from checks.cases import DualPipeV
from ringside.checking import award, verify
from ringside.checking.suite import Suite, group
from ringside.units import format_count

suite = Suite("dualpipev")
SIZES = ((2, 5), (3, 7), (4, 16))
HALF = 1.05


def each(*sizes, **options):
    """A case of each of these sizes."""
    return [DualPipeV(*size, **options) for size in sizes]


def assert_time(case, run):
    """At most the docstring's T."""
    num_stages, count, wait_s = case.stages, case.microbatches, case.exchange_s
    bound_s = 6 * count + 2 * (num_stages - 1) + 6 * wait_s * num_stages
    case.assert_runs(case.read(run))
    took_s = case.timeline(run).makespan_s
    ratio = took_s / bound_s
    fraction = 1.0 if ratio <= 1 + 1e-9 else 0.5 if ratio <= HALF + 1e-9 else 0.0
    award(
        fraction,
        f"{case}, x = {wait_s:g} s: a step takes {took_s:.6g} s; at most T = {bound_s:.6g} s is "
        f"asked for{' (half the points)' if fraction == 0.5 else ''}.",
    )


@suite.test("complete", "values", *each(*SIZES))
def test_each_pass_is_done_once_and_lists_can_be_run(case, run):
    case.assert_complete(run)


@suite.test("one_stage", "values", *each((1, 2), (1, 5)))
def test_one_stage(case, run):
    """The turn of the V is on the only stage."""
    case.assert_complete(run)


@suite.test("refuses", "values", DualPipeV(2, 4), DualPipeV(2, 3, raises="ValueError"))
def test_fewer_microbatches_than_twice_the_stages_are_refused(case, run):
    """2 S is enough."""


@suite.test("held", "schedule", *each(*SIZES))
def test_few_chunks_are_held(case, run):
    case.assert_few_in_flight(
        run, lambda stage: 2 * case.stages + 1, "holds {} chunks' microbatches"
    )


@suite.test("pairs", "schedule", DualPipeV(3, 12))
def test_many_passes_are_in_pairs(case, run):
    """Whatever their order."""
    for stage, actions in enumerate(case.read(run)):
        count = sum(isinstance(action, Pair) for action in actions)
        verify(
            2 * count >= case.microbatches,
            f"{case.call(stage)} has {format_count(count, 'pair')}; M / 2 = "
            f"{case.microbatches / 2:g} or more are asked for, since what a pair's passes wait for "
            "costs no time.",
        )


@suite.test("bubble", "speed", *each((2, 5), (3, 7), (4, 8)))
def test_time_without_exchange(case, run):
    assert_time(case, run)


@suite.test(
    "hidden", "speed", group("x = 1", *each((2, 8), (4, 16), exchange_s=1.0), weight=2),
    group("x = 0.5", *each((3, 12), exchange_s=0.5)),
)  # fmt: skip
def test_time_with_exchange(case, run):
    assert_time(case, run)
