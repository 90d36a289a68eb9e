"""warmup.py: linear scaling, warm-up and decay."""

from checks.cases import LrAt, Scale, Schedule
from ringside.checking.suite import Suite

suite = Suite("warmup")


@suite.test(12, "values", Scale(32, 8, 256), Scale(64, 8, 256), Scale(3, 5, 10))
def test_scale_is_the_global_batch_over_the_base(case, run):
    """Whole or not."""


@suite.test(16, "values", *(LrAt(step) for step in (0, 3, 4, 5)))
def test_ends_of_the_warm_up(case, run):
    """Its first step, its last, and those behind it."""


@suite.test(12, "values", *(LrAt(step) for step in range(6)))
def test_a_straight_line_between_them(case, run):
    """Step by step."""


@suite.test(8, "values", LrAt(0, warmup_steps=0), LrAt(7, warmup_steps=0))
def test_no_warm_up(case, run):
    """The first step has the scaled rate."""


@suite.test(8, "values", *(LrAt(step, k=0.5, warmup_steps=2) for step in range(4)))
def test_small_batches_scale_down(case, run):
    """k is below 1."""


@suite.test(
    14, "schedule", *(LrAt(step, 0.1, 4.0, 2, (10, 20)) for step in (9, 10, 20)),
    LrAt(12, 0.1, 4.0, 2, (20, 10), 0.5), LrAt(12, 0.1, 4.0, 2, (5, 5)),
)  # fmt: skip
def test_milestones(case, run):
    """In any order; one that is listed twice counts twice."""


@suite.test(12, "schedule", Schedule(warmup_epochs=1), Schedule(5, local_batch_size=8))
def test_schedule_has_a_rate_for_each_step(case, run):
    """The last step of an epoch takes what is left."""


@suite.test(12, "schedule", Schedule(base_batch_size=4, warmup_epochs=1), Schedule(warmup_epochs=2))
def test_schedule_is_scaled_by_the_global_batch(case, run):
    """And warmed up for whole epochs."""


@suite.test(6, "schedule", Schedule(warmup_epochs=1, milestone_epochs=(2,)))
def test_schedule_decays_at_the_start_of_epochs(case, run):
    """From their first step on."""
