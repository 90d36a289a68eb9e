"""linear.py: layers cut by columns and by rows."""

from checks.cases import ColumnLayer, ColumnShard, RowLayer, RowShard
from checks.network import (
    EVERYTHING,
    SENDS,
    assert_alike,
    assert_bytes,
    assert_cut,
    assert_own_work,
    assert_time,
)
from ringside.checking.suite import Suite, group

suite = Suite("linear")
COLUMNS, ROWS = "layers cut by columns", "layers cut by rows"


def turned(*sizes, **fields):
    """Two groups, of ``(p, n, widths)`` each; the widths of rows are turned round."""
    return (
        group(COLUMNS, *(ColumnLayer(*size, **fields) for size in sizes)),
        group(ROWS, *(RowLayer(p, n, widths[::-1], **fields) for p, n, widths in sizes)),
    )


@suite.test("values", "values", *turned((2, 3, (6, 8)), (4, 4, (6, 8))), weight=16)
def test_columns_and_rows_on_2_4_and_8_ranks(case, run):
    """Plain sizes: p divides what travels. Only the next test has others."""


@suite.test(
    "values",
    "values",
    group("columns that p does not divide", ColumnLayer(3, 4, (5, 7)), ColumnLayer(1, 2, (5, 7))),
    group("columns of empty parts or no samples", ColumnLayer(4, 3, (3, 3))),
    group("columns in float32", ColumnLayer(3, 4, (6, 8), "float32")),
    group("rows that p does not divide", RowLayer(3, 4, (7, 5)), RowLayer(1, 2, (7, 5))),
    group("rows of empty parts or no samples", RowLayer(4, 3, (3, 3))),
    group("rows in float32", RowLayer(3, 4, (8, 6), "float32")),
    weight=14,
)
def test_any_widths_samples_and_dtypes(case, run):
    """p need not divide anything, and a rank may have nothing."""


@suite.test(
    "values",
    "values",
    ColumnShard(3),
    RowShard(3),
    RowShard(2, (5, 7), "float32", order="F"),
    weight=6,
)
def test_parts_of_the_layer(case, run):
    """New, contiguous arrays."""


@suite.test("values", "values", *turned((3, 4, (6, 8)), how="gaps"), weight=3)
def test_inputs_stay_as_they_were(case, run):
    """Arrays with gaps, read-only on even ranks, are enough, and results are the caller's."""


@suite.test(
    "values",
    "values",
    group(
        COLUMNS,
        *(ColumnLayer(3, 3, (4, 4), how=how) for how in ("twice", "updated", "last first")),
    ),
    group(
        ROWS,
        RowLayer(3, 3, (4, 4), how="twice", then_dtype="float32"),
        *(RowLayer(3, 3, (4, 4), how=how) for how in ("twice", "updated", "in order")),
    ),
    weight=3,
)
def test_second_call_is_independent(case, run):
    """Nothing is kept from one call to the next."""


test_real_mpi = suite.real_ranks("reality", ColumnLayer(3, 4), RowLayer(3, 4), weight=5)


@suite.test("values", "values", *turned((4, 4, (6, 8))), weight=4)
def test_whole_results_are_alike(case, run):
    assert_alike(run, case)


@suite.test("point", "communication", *turned((4, 4, (16, 400))), weight=8)
def test_the_layer_is_cut(case, run):
    assert_cut(run, case)


@suite.test(
    "communication",
    "communication",
    group("columns", ColumnLayer(4, 24, (8, 200)), weight=3),
    group("rows", RowLayer(4, 24, (200, 8)), weight=3),
    group("float32", ColumnLayer(2, 40, (24, 600), "float32")),
    weight=16,
)
def test_bytes_of_columns_and_rows(case, run, ranks):
    """Weights, and the other side of the layer, are large beside the rows that may travel."""
    assert_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator(
    "group", *turned((3, 4, (6, 8))), weight=3
)


@suite.test("schedule", "schedule", *turned((2, 3, (6, 8))), weight=5)
def test_each_rank_multiplies_its_own_part(case, run):
    assert_own_work(run, case)


test_sends_may_wait_for_their_receives = suite.waiting_sends(
    "safety", *turned((2, 4, (6, 8)), (3, 4, (6, 8))), weight=5
)
test_messages_may_arrive_in_any_order = suite.slow_messages(
    "safety", *turned((4, 4, (6, 8)), how="again"), kinds=EVERYTHING, sends=SENDS, weight=4
)


@suite.test(
    "speed",
    "speed",
    *(
        group(f"{cut} on 4 ranks of a node", kind(4, 128, widths, machine="gpt"))
        for cut, kind, widths in (
            ("columns", ColumnLayer, (16, 64)),
            ("rows", RowLayer, (64, 16)),
        )
    ),
    weight=8,
)
def test_time_inside_a_node_and_across_16(case, run):
    """GPT's widest products, in miniature: 2048 tokens, 4096 to 16384 columns."""
    assert_time(run, case)
