"""train2d.py: serial training on a grid of ranks, and what goes down columns and along rows."""

from checks.cases import (
    FREE,
    Logits,
    Refused,
    Train,
    assert_axis,
    assert_work,
    sent_on_axes,
)
from ringside.checking import assert_makespan
from ringside.checking.suite import Suite, group, right_run, right_twice
from ringside.trace import Kind

suite = Suite("train2d")
WIDTHS, FLOAT32 = "such widths", "float32"
FORWARD, BACKWARD = "forward", "backward"
INPUTS, OTHERS = "inputs", "other grids"


@suite.test("values", "values", Train(6, 2, steps=3), Train(6, 3, steps=3), weight=1)
def test_equal_to_serial_over_several_steps(case, run):
    """Few samples and wide layers: whole weights are more than may be sent."""


@suite.test("values", "values", Train(3, 1), weight=1)
def test_one_row_is_data_parallelism(case, run):
    """Pr = 1."""


@suite.test("column", "values", Train(4, 4, samples=(3,)), weight=1)
def test_one_column_is_tensor_parallelism(case, run):
    """Pc = 1."""


@suite.test("uneven", "values", Train(6, 2, samples=(5, 1, 0)), weight=1)
def test_uneven_batches(case, run):
    """A column may have no samples."""


@suite.test(
    "widths", "values", group(WIDTHS, Train(6, 3, (4, 2, 71, 70, 5)), weight=2),
    group(FLOAT32, Train(4, dtype="float32")), weight=1,
)  # fmt: skip
def test_widths_that_rows_do_not_divide_and_float32(case, run):
    """A part may be empty."""


@suite.test("losses", "values", Train(6, 2, losses=True))
def test_losses_are_means_over_the_global_batch(case, run):
    """The same on all ranks."""


test_real_mpi = suite.real_ranks("calls", Train(4), weight=1)


@suite.test(
    "sparing", "communication", group(FORWARD, Logits(6, 3, (6, 60, 90), (10,), 1)),
    group(BACKWARD, Train(6, 3, (3, 60, 90, 3), (10,), 1)), weight=22,
)  # fmt: skip
def test_bytes_of_a_column(case, run, ranks):
    gathered = [case.gathered(rank) for rank in range(case.p)]
    if isinstance(case, Logits):
        assert_axis(run, case, 0, [most + FREE for most in gathered])
        return
    # Whatever the forward pass sends: the other part looks at that. A sum of the samples' gradients
    # is the test of work's matter.
    through = Logits.of(case)
    forward = sent_on_axes(right_run(ranks, through), through)[0]
    rows = case.grid[0]
    spare = 2 * (rows - 1) * case.of_columns[0] * -(-case.widths[0] // rows) * case.itemsize
    allowed = [
        max(forward[rank], gathered[rank]) + case.scattered(rank) + spare + FREE
        for rank in range(case.p)
    ]
    sent = [most + case.summed(rank) + FREE for rank, most in enumerate(allowed)]
    ranks.record(case, run, {"sent_bytes": sent})
    assert_axis(run, case, 0, allowed)


@suite.test(
    "sparing",
    "communication",
    Train(6, 2, (30, 24, 12), (1,)),
    Train(6, 2, (30, 24, 12), (1,), dtype="float32"),
    weight=9,
)
def test_bytes_of_a_row(case, run):
    assert_axis(run, case, 1, [case.steps * (case.summed(r) + FREE) for r in range(case.p)])


test_given_communicator_is_used = suite.given_communicator("calls", Train(4), weight=7)


@suite.test("work", "schedule", Train(6, 2, (8, 12, 8, 4), (4,)))
def test_each_rank_multiplies_its_own_rows_and_samples(case, run):
    assert_work(run, case)


test_messages_may_wait_and_come_in_any_order = suite.slow_messages(
    "waits", Train(4), kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]
)


@suite.test(
    "calls",
    "safety",
    group(INPUTS, Train(4), weight=2),
    group(OTHERS, Refused(5), Refused(3)),
    weight=7,
)
def test_inputs_stay_and_other_grids_are_refused(case, ranks):
    if isinstance(case, Refused):
        right_run(ranks, case)
        right_run(ranks, Train(4))  # who refuses every grid refuses no other one
    else:
        right_twice(ranks, case, inputs_kept=True)


@suite.test("time", "speed", Train(8, 4, (16, 32, 32, 16), (16,), machine="miniature"))
def test_time_on_two_and_four_nodes(case, run):
    assert_work(run, case, least=True)
    assert_makespan(run, case.time_s(), case)
