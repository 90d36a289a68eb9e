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
UNEVEN = (3, 4, (5, 7)), (1, 2, (5, 7)), (4, 3, (3, 3))


def turned(*sizes, **fields):
    """Two groups, of ``(p, n, widths)`` each; the widths of rows are turned round."""
    return (
        group(COLUMNS, *(ColumnLayer(*size, **fields) for size in sizes)),
        group(ROWS, *(RowLayer(p, n, widths[::-1], **fields) for p, n, widths in sizes)),
    )


def both(*sizes, **fields):
    """The same cases in no groups."""
    return [case for each in turned(*sizes, **fields) for case in each.table]


@suite.test("values", "values", *turned((2, 3, (6, 8)), (4, 4, (6, 8))), weight=3)
def test_columns_and_rows_on_2_4_and_8_ranks(case, run):
    """Plain sizes: p divides what travels. Only the next test has others."""
    case.check_exactly(run)


@suite.test(
    "uneven",
    "values",
    group(
        COLUMNS,
        *(ColumnLayer(*size) for size in UNEVEN),
        ColumnLayer(3, 4, (6, 8), "float32"),
    ),
    group(
        ROWS,
        *(RowLayer(p, n, widths[::-1]) for p, n, widths in UNEVEN),
        RowLayer(3, 4, (8, 6), "float32"),
    ),
    weight=12,
)
def test_any_widths_samples_and_dtypes(case, run):
    """p need not divide anything, and a rank may have nothing."""
    case.check_exactly(run)


@suite.test(
    "shards",
    "values",
    ColumnShard(3),
    RowShard(3),
    RowShard(2, (5, 7), "float32", order="F"),
    weight=8,
)
def test_parts_of_the_layer(case, run):
    """New, contiguous arrays."""


@suite.test("inputs", "values", *both((3, 3, (4, 4)), how="gaps"), weight=8)
def test_inputs_stay_as_they_were(case, run):
    """Arrays with gaps, read-only on even ranks, are enough, and results are the caller's."""


@suite.test(
    "calls",
    "values",
    *(
        group(
            name,
            kind(3, 3, (4, 4), how="twice", then_dtype="float32"),
            *(kind(3, 3, (4, 4), how=how) for how in ("twice", "updated", *orders)),
        )
        for name, kind, orders in (
            (COLUMNS, ColumnLayer, ("last first",)),
            (ROWS, RowLayer, ("in order",)),
        )
    ),
    weight=14,
)
def test_second_call_is_independent(case, run):
    """Nothing is kept from one call to the next."""
    case.check_exactly(run)


test_real_mpi = suite.real_ranks("values", ColumnLayer(3, 4), RowLayer(3, 4), weight=1)


@suite.test("alike", "values", *turned((4, 4, (6, 8))))
def test_whole_results_are_alike(case, run):
    assert_alike(run, case)


@suite.test("cut", "communication", *turned((4, 4, (16, 400))), checked=False)
def test_the_layer_is_cut(case, run):
    case.check_form(run)
    assert_cut(run, case)


@suite.test(
    "bytes",
    "communication",
    group("columns", ColumnLayer(4, 24, (8, 200)), weight=3),
    group("rows", RowLayer(4, 24, (200, 8)), weight=3),
    group("float32", ColumnLayer(3, 30, (24, 600), "float32"), weight=4),
)
def test_bytes_of_columns_and_rows(case, run, ranks):
    """Weights, and the other side of the layer, are large beside the rows that may travel."""
    assert_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator(
    "communicator", *both((3, 4, (6, 8))), weight=5
)


@suite.test("work", "schedule", *turned((2, 3, (6, 8))), checked=False, weight=4)
def test_each_rank_multiplies_its_own_part(case, run):
    case.check_form(run)
    assert_own_work(run, case)


test_sends_may_wait_for_their_receives = suite.waiting_sends(
    "waits", *turned((2, 4, (6, 8)), (3, 4, (6, 8))), weight=5
)
test_messages_may_arrive_in_any_order = suite.slow_messages(
    "any_order", *turned((4, 4, (6, 8)), how="again"), kinds=EVERYTHING, sends=SENDS, weight=5
)


@suite.test(
    "time",
    "speed",
    *(
        group(f"{cut} on 4 ranks of a node", kind(4, 128, widths, machine="gpt"))
        for cut, kind, widths in (
            ("columns", ColumnLayer, (16, 64)),
            ("rows", RowLayer, (64, 16)),
        )
    ),
    weight=6,
)
def test_time_inside_a_node_and_across_16(case, run):
    """GPT's widest products, in miniature: 2048 tokens, 4096 to 16384 columns."""
    assert_time(run, case)
