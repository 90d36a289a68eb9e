"""dualpipev.py: lists of actions whose pairs hide what passes wait for inside a stage."""

from checks.cases import DualPipeV
from ringside.checking import award, verify
from ringside.checking.suite import Suite, group

suite = Suite("dualpipev")
SIZES = ((2, 5), (3, 7), (4, 16))
HALF = 1.1


def each(*sizes, **options):
    """A case of each of these sizes."""
    return [DualPipeV(*size, **options) for size in sizes]


def assert_time(case, run):
    """At most the docstring's T."""
    num_stages, count, wait_s = case.stages, case.microbatches, case.exchange_s
    bound_s = 6 * count + 2 * (num_stages - 1) + 6 * wait_s * num_stages
    took_s = case.timeline(run).makespan_s
    ratio = took_s / bound_s
    fraction = 1.0 if ratio <= 1 + 1e-9 else 0.5 if ratio <= HALF + 1e-9 else 0.0
    award(
        fraction,
        f"{case}, x = {wait_s:g} s: a step takes {took_s:.6g} s; at most T = {bound_s:.6g} s is "
        f"asked for{' (half the points)' if fraction == 0.5 else ''}.",
    )


@suite.test("values", "values", *each(*SIZES), weight=32)
def test_each_pass_is_done_once_and_lists_can_be_run(case, run):
    """``case`` has looked at it."""


@suite.test("values", "values", *each((1, 2), (1, 5)), weight=6)
def test_one_stage(case, run):
    """The turn of the V is on the only stage."""


@suite.test("values", "values", DualPipeV(2, 4), DualPipeV(2, 3, raises="ValueError"), weight=4)
def test_fewer_microbatches_than_twice_the_stages_are_refused(case, run):
    """2 S is enough."""


@suite.test("schedule", "schedule", *each(*SIZES), weight=16)
def test_few_chunks_are_held(case, run):
    case.assert_few_in_flight(
        run, lambda stage: 2 * case.stages + 1, "holds {} chunks' microbatches"
    )


@suite.test("point", "schedule", DualPipeV(3, 12, exchange_s=1.0), weight=6)
def test_pairs_hide_messages(case, run):
    """Less time than single passes need on any stage, whatever their order."""
    took_s = case.timeline(run).makespan_s
    single_s = (6 + 4 * case.exchange_s) * case.microbatches
    verify(
        took_s < single_s,
        f"{case}, x = {case.exchange_s:g} s: a step takes {took_s:.6g} s. A stage without pairs "
        f"needs 6 M + 4 x M = {single_s:g} s; pairs must hide a part of that.",
    )


@suite.test("speed", "speed", *each((2, 5), (3, 7), (4, 8)), weight=12)
def test_time_without_exchange(case, run):
    assert_time(case, run)


@suite.test(
    "speed", "speed", group("x = 1", *each((2, 8), (4, 16), exchange_s=1.0), weight=2),
    group("x = 0.5", *each((3, 12), exchange_s=0.5)), weight=24,
)  # fmt: skip
def test_time_with_exchange(case, run):
    assert_time(case, run)
