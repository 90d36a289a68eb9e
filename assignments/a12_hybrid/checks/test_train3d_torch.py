"""train3d_torch.py: the grid, a layer on it, the pipeline, and a step on all axes."""

from checks.cases_torch import (
    MakeGrid,
    RunLayer,
    Step,
    assert_bytes_by_axis,
    assert_passes,
    assert_time,
    assert_trace_agrees,
    bytes_by_axis,
)
from ringside.checking.suite import Suite, group

suite = Suite("train3d_torch")
WORDS, LOSS = "the words", "the loss"
TENSOR, DATA, TWO, ALL = "tensor", "data", "pipeline and data", "all three"
STAGES = Step(3, (1, 2, 1), sizes=(1,) * 4)
EVERYTHING = Step(8, (1, 1), 2, 2, (1, 1, 1))


@suite.test("grid", "values", MakeGrid(8, dp=2, tp=2), MakeGrid(6, dp=3), MakeGrid(6, dp=3, tp=2))
def test_groups_of_the_grid(case, run):
    """Each is ordered by its axis."""


@suite.test("values", "values", RunLayer(2, tp=2), RunLayer(3, tp=3), weight=1)
def test_layer_on_a_tensor_axis(case, run):
    """Output and gradients."""


@suite.test("values", "values", STAGES, weight=1)
def test_pipeline_alone(case, run):
    """One replica."""


@suite.test("values", "values", Step(2, dp=2, words=True), weight=1)
def test_data_axis_alone(case, run):
    """One stage."""


@suite.test(
    "tied", "values", group(WORDS, STAGES.with_(words=True)),
    group(LOSS, STAGES.with_(loss=True), Step(2, dp=2, loss=True)), weight=1,
)  # fmt: skip
def test_tied_words_and_the_loss_on_every_rank(case, run):
    """The first and the last stage share the table of words."""


@suite.test("uneven", "values", Step(2, sizes=(2, 1)), weight=1)
def test_smaller_last_microbatch(case, run):
    """A mean of means is wrong."""


@suite.test("steps", "values", EVERYTHING.with_(steps=2, words=True), weight=1)
def test_all_axes_equal_serial_over_steps(case, run):
    """With momentum."""


test_real_gloo = suite.real_ranks("group", Step(2, dp=2, sizes=(1, 1), announced=False), weight=2)


@suite.test(
    "sparing", "communication", group(TENSOR, Step(2, tp=2)), group(DATA, Step(2, dp=2)), weight=6
)
def test_bytes_of_one_axis_alone(case, run):
    assert_bytes_by_axis(run, case, ("tensor",) if case.tp > 1 else ("data",))


@suite.test(
    "sparing",
    "communication",
    group(TWO, Step(4, (1, 1), 2, sizes=(1, 1))),
    group(ALL, EVERYTHING),
    weight=5,
)
def test_bytes_by_axis_of_all_together(case, run, ranks):
    assert_bytes_by_axis(run, case)
    sent = [sum(bytes_by_axis(case, rank).values()) for rank in range(case.p)]
    ranks.record(case, run, {"sent_bytes": sent})


test_given_group_is_used = suite.given_communicator(
    "group", Step(3, tp=3), comm="the group", weight=9
)


@suite.test("schedule", "schedule", STAGES, STAGES.with_(schedule="gpipe"))
def test_passes_follow_the_actions(case, run):
    assert_passes(run, case)


test_any_order_and_everything_waited_for = suite.slow_messages("waits", STAGES)


@suite.test("time", "speed", Step(2, gpus=8))
def test_time_on_64_ranks(case, run, ranks):
    """A trace is believed that agrees with what the network counts, operation by operation."""
    assert_trace_agrees(case, ranks)
    assert_time(case, ranks)
