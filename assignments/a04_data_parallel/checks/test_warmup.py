"""warmup.py: linear scaling, warm-up and decay."""

from checks.cases import LrAt, Scale, Schedule
from ringside.checking.suite import Suite

suite = Suite("warmup")


@suite.test(
    "scale", "values", Scale(32, 8, 256, gives=1.0),
    Scale(64, 8, 256, gives=2.0), Scale(3, 5, 10, gives=1.5),
)  # fmt: skip
def test_scale_is_the_global_batch_over_the_base(case, run):
    """Whole or not."""


def warming_up(*steps, rates=(0.1, 0.2, 0.3, 0.4, 0.5, 0.5), **options):
    """The rates of some steps, of those that are written down."""
    return [LrAt(step, **options, gives=rates[step]) for step in steps]


@suite.test("ramp", "values", *warming_up(0, 3, 4, 5), weight=10)
def test_ends_of_the_warm_up(case, run):
    """Its first step, its last, and those behind it."""


@suite.test("ramp", "values", *warming_up(*range(6)), weight=14)
def test_a_straight_line_between_them(case, run):
    """Step by step."""


@suite.test(
    "no_warm_up", "values", LrAt(0, warmup_steps=0, gives=0.5), LrAt(7, warmup_steps=0, gives=0.5)
)
def test_no_warm_up(case, run):
    """The first step has the scaled rate."""


@suite.test(
    "small", "values", *warming_up(*range(4), rates=(0.1, 0.075, 0.05, 0.05), k=0.5, warmup_steps=2)
)
def test_small_batches_scale_down(case, run):
    """k is below 1."""


@suite.test(
    "milestones", "schedule", LrAt(9, 0.1, 4.0, 2, (10, 20), gives=0.4),
    LrAt(10, 0.1, 4.0, 2, (10, 20), gives=0.04), LrAt(20, 0.1, 4.0, 2, (10, 20), gives=0.004),
    LrAt(12, 0.1, 4.0, 2, (20, 10), 0.5, gives=0.2), LrAt(12, 0.1, 4.0, 2, (5, 5), gives=0.004),
)  # fmt: skip
def test_milestones(case, run):
    """In any order; one that is listed twice counts twice."""


@suite.test(
    "schedule", "schedule",
    Schedule(8, warmup_epochs=1, gives=[0.1, 0.15, *[0.2] * 4]),
    Schedule(5, local_batch_size=8, gives=[0.1, 0.24, 0.38]), weight=10,
)  # fmt: skip
def test_schedule_has_a_rate_for_each_step(case, run):
    """The last step of an epoch takes what is left."""


@suite.test(
    "schedule", "schedule",
    Schedule(base_batch_size=4, warmup_epochs=1, gives=[0.1] * 9),
    Schedule(8, warmup_epochs=2, gives=[0.1, 0.125, 0.15, 0.175, 0.2, 0.2]), weight=9,
)  # fmt: skip
def test_schedule_is_scaled_by_the_global_batch(case, run):
    """And warmed up for whole epochs."""


@suite.test("schedule", "schedule", Schedule(
    8, warmup_epochs=1, milestone_epochs=(2,), gives=[0.1, 0.15, 0.2, 0.2, 0.02, 0.02],
), weight=7)  # fmt: skip
def test_schedule_decays_at_the_start_of_epochs(case, run):
    """From their first step on."""
