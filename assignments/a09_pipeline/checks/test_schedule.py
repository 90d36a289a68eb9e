"""schedule.py: lists of actions, run by an interpreter of ours (``given/replayed.py``)."""

from given import replayed

from checks.cases import Gpipe, Interleaved, OneFOneB, assert_time
from ringside.checking import Verdict
from ringside.checking.suite import Suite, group

suite = Suite("schedule")
LATE = "name=latency_0.5_s,alpha_s=0.5,beta_s_per_byte=0"
COSTS = ((1.0, 2.0), (1.0, 1.0), (3.0, 2.0))
SIZES = ((2, 4), (3, 5), (4, 8))
SHORT = ((3, 1), (4, 2), (1, 3))


def both(case, *sizes):
    """A case of each of these sizes."""
    return [case(*size) for size in sizes]


def assert_few_in_flight(case, run):
    """1F1B's bound."""
    case.assert_few_in_flight(
        run, lambda s: min(case.microbatches, case.stages - s), "has {} microbatches in flight"
    )


def assert_free_time(case, run):
    """The docstrings' bounds, where messages take no time."""
    for costs in COSTS:
        bound_s = (case.microbatches + (case.stages - 1) / case.num_chunks) * sum(costs)
        where = f"where messages are free (tf = {costs[0]:g} s, tb = {costs[1]:g} s)"
        assert_time(case, case.timeline(run, costs).makespan_s, bound_s, where, full=1.0)


# -- values: every pass once, and it can be run ----------------------------------------------------


@suite.test("gpipe", "values", *both(Gpipe, *SIZES))
def test_gpipe_is_complete_and_can_be_run(case, run):
    """``case`` has looked at it."""


@suite.test("one_f_one_b", "values", *both(OneFOneB, *SIZES, (10, 24)))
def test_1f1b_is_complete_and_can_be_run(case, run):
    """The large one, too."""


@suite.test(
    "any_size", "values", group("gpipe", *both(Gpipe, *SHORT)),
    group("one_f_one_b", *both(OneFOneB, *SHORT), weight=3),
)  # fmt: skip
def test_fewer_microbatches_than_stages_and_one_stage(case, run):
    """The warm-up ends with the last microbatch."""
    if isinstance(case, OneFOneB):
        assert_few_in_flight(case, run)
    assert_free_time(case, run)


@suite.test("interleaved", "values", Interleaved(2, 4), Interleaved(3, 3), Interleaved(3, 6, 3))
def test_interleaved_is_complete_and_can_be_run(case, run):
    """Backward passes begin with the last chunk."""


@suite.test("refuses", "values", Interleaved(3, 3), Interleaved(2, 3, raises="ValueError"))
def test_interleaved_refuses_other_numbers_of_microbatches(case, run):
    """M is no multiple of S."""


# -- what is kept ----------------------------------------------------------------------------------


@suite.test("gpipe", "schedule", *both(Gpipe, *SIZES))
def test_gpipes_forward_passes_come_first(case, run):
    for stage, actions in enumerate(case.read(run)):
        kinds = [replayed.kind(action) for action in actions]
        if replayed.FORWARD in kinds[case.microbatches :]:
            raise Verdict(f"{case.call(stage)} has a Forward after a backward action.")


@suite.test("one_f_one_b", "schedule", *both(OneFOneB, *SIZES), weight=2)
def test_1f1b_keeps_few_microbatches_in_flight_and_loses_no_time(case, run):
    """GPipe is as fast, and one microbatch after another keeps as few: 1F1B does both."""
    assert_few_in_flight(case, run)
    assert_free_time(case, run)


@suite.test("interleaved", "schedule", Interleaved(2, 8), Interleaved(3, 6, 3))
def test_interleaved_keeps_few_chunks_in_flight(case, run):
    def allowed(stage):
        warm_up = 2 * (case.stages - stage - 1) + (case.chunks - 1) * case.stages
        return min(case.chunks * case.microbatches, warm_up + 1)

    case.assert_few_in_flight(run, allowed, "has {} microbatches in flight")


# -- time ------------------------------------------------------------------------------------------


@suite.test("gpipe", "speed", *both(Gpipe, *SIZES), weight=2)
def test_time_of_gpipe_with_free_messages(case, run):
    assert_free_time(case, run)


@suite.test("interleaved", "speed", Interleaved(4, 8), Interleaved(3, 6, 3))
def test_time_of_interleaved_with_free_messages(case, run):
    assert_free_time(case, run)


@suite.test(
    "messages", "speed", group("gpipe", Gpipe(4, 8, machine=LATE, nbytes=8, within_s=36.0)),
    group("one_f_one_b", OneFOneB(4, 8, machine=LATE, nbytes=8, within_s=41.0)),
    group("interleaved", Interleaved(4, 8, machine=LATE, nbytes=8, within_s=35.5)),
)  # fmt: skip
def test_time_with_messages_that_take_time(case, run):
    """At most 1.02 times the published schedule's."""
    line = case.timeline(run)
    where = f"on machine {line.machine_name!r}"
    assert_time(case, line.makespan_s, case.within_s, where)
