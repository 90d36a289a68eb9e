"""linear.py: layers cut by columns and by rows."""

from ringside import Machine
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.hidden import oracle, runs

COLUMN, ROW = "column_layer", "row_layer"
BOTH = (COLUMN, ROW)
NAMES = {COLUMN: "columns", ROW: "rows"}

points = points_of("linear")


def cases(rng, layers, sizes, dtype="float64"):
    """Layers for ``(ranks, samples, (d_in, d_out))``."""
    return [runs.draw(rng, layer, *size, dtype) for layer in layers for size in sizes]


def of_each_layer(check):
    """``check(layer)``: a student who has one of the two layers has half of the points."""
    check_kinds(BOTH, lambda layer: f"layers cut by {NAMES[layer]}", check)


# Plain sizes: p divides what travels. Only the second test has others.
EVEN = [(2, 6, (5, 8)), (4, 4, (12, 8)), (8, 8, (16, 24))]


@points(16, "values")
def test_columns_and_rows_on_2_4_and_8_ranks(ranks, rng):
    of_each_layer(lambda layer: runs.check_values(ranks, cases(rng, [layer], EVEN)))


@points(14, "values")
def test_any_widths_samples_and_dtypes(ranks, rng):
    sizes = [(3, 7, (10, 11)), (5, 4, (13, 9)), (1, 4, (3, 5)), (7, 2, (9, 17)), (2, 1, (3, 3))]
    empty = [(4, 4, (2, 3)), (3, 0, (4, 5)), (5, 5, (1, 1))]
    kinds = {}
    for layer in BOTH:
        name = NAMES[layer]
        kinds |= {
            f"{name} that p does not divide": cases(rng, [layer], sizes),
            f"{name} of empty parts or no samples": cases(rng, [layer], empty),
            f"{name} in float32": cases(rng, [layer], [(3, 6, (7, 6)), (2, 4, (8, 4))], "float32"),
        }
    weights = {name: 2 for name in kinds if name.endswith("divide")}
    runs.check_values_of_kinds(ranks, kinds, weights)


@points(6, "values")
def test_parts_of_the_layer(ranks, rng):
    calls = []
    for p, widths, dtype in (
        (1, (3, 4), "float64"), (2, (6, 8), "float32"), (3, (8, 7), "float32"),
        (4, (3, 9), "float64"), (5, (11, 2), "float64"),
    ):  # fmt: skip
        _, W, b, _ = oracle.examples.drawn(COLUMN, 0, widths, rng, dtype)
        calls.append((W, b, p))
    for layer in BOTH:

        def wanted(call, rank, layer=layer):
            W, b, p = call
            whole = (W[:0], W, b, b[None]) if layer == COLUMN else (W[:, :0].T, W, b, b)
            return oracle.examples.parts(layer, whole, p, rank)[1:3]

        runs.check_shards(ranks, f"linear:{layer.removesuffix('_layer')}_shard", calls, wanted)


@points(3, "values")
def test_inputs_stay_as_they_were(ranks, rng):
    sizes = [(2, 4, (5, 6)), (3, 6, (7, 4))]
    of_each_layer(lambda layer: runs.check_inputs_kept(ranks, cases(rng, [layer], sizes)))


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    other, same = (2, (4, (5, 6)), (6, (2, 5))), (3, 3, (4, 4))
    of_each_layer(lambda layer: runs.check_second_calls(ranks, rng, layer, other, same))


@points(5, "reality")
def test_real_mpi(ranks, mpi, rng):
    runs.check_real_mpi(mpi, cases(rng, BOTH, [(3, 6, (7, 8)), (3, 42, (90, 100))]))


@points(4, "values")
def test_whole_results_are_alike(ranks, rng):
    sizes = [(4, 8, (9, 10)), (5, 5, (20, 7))]
    of_each_layer(lambda layer: runs.check_alike(ranks, cases(rng, [layer], sizes)))


@points(8, "communication", essential=True)
def test_the_layer_is_cut(ranks, rng):
    def check(layer):
        widths = (16, 400) if layer == COLUMN else (400, 16)
        runs.check_cut(ranks, runs.draw(rng, layer, 4, 4, widths), 6 * 4 * 6400, 8 * 6400)

    of_each_layer(check)


def allowed(asked):
    p, (d_in, d_out) = asked.case.world_size, asked.widths
    d = d_in if asked.layer == COLUMN else d_out
    unit = 8 if asked.case.dtype == "float64" else 4
    return oracle.all_reduce_elements(asked.case.n, d, p) * unit + 64 * (p - 1)


@points(16, "communication")
def test_bytes_of_columns_and_rows(ranks, rng):
    # Weights, and the other side of the layer, are large beside the rows that may travel.
    sizes = [
        (2, 40, (24, 600)), (4, 24, (16, 400)), (5, 20, (8, 250)), (12, 24, (8, 500)),
        (18, 18, (8, 700)), (3, 30, (200, 900)),
    ]  # fmt: skip
    turned = [(p, n, widths[::-1]) for p, n, widths in sizes]
    floats = cases(rng, [COLUMN], sizes[:1], "float32") + cases(rng, [ROW], turned[:1], "float32")
    kinds = {
        "columns": cases(rng, [COLUMN], sizes), "rows": cases(rng, [ROW], turned),
        "float32": floats,
    }  # fmt: skip
    weights = {"columns": 3, "rows": 3}
    check_kinds(
        kinds, str, lambda kind: runs.check_bytes(ranks, kinds[kind], allowed), weights=weights
    )


@points(3, "communication")
def test_given_communicator_is_used(ranks, rng):
    sizes = [(3, 6, (5, 7)), (2, 4, (6, 4))]
    of_each_layer(lambda layer: runs.check_given_communicator(ranks, cases(rng, [layer], sizes)))


@points(5, "schedule")
def test_each_rank_multiplies_its_own_part(ranks, rng):
    def share(asked, rank):
        p, (d_in, d_out) = asked.case.world_size, asked.widths
        if asked.layer == COLUMN:
            d_out = oracle.part_of(d_out, p, rank)
        else:
            d_in = oracle.part_of(d_in, p, rank)
        return 6 * asked.case.n * d_in * d_out

    sizes = [(2, 6, (6, 8)), (4, 4, (10, 7))]
    of_each_layer(lambda layer: runs.check_work(ranks, cases(rng, [layer], sizes), share))


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    sizes = [(2, 4, (6, 5)), (3, 6, (6, 5)), (5, 5, (6, 5))]
    of_each_layer(lambda layer: runs.check_safety(ranks, cases(rng, [layer], sizes)))


@points(4, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    of_each_layer(lambda layer: runs.check_any_order(ranks, rng, layer, 4, 4, (6, 5)))


@points(8, "speed")
def test_time_inside_a_node_and_across_16(ranks, rng):
    """GPT's widest products, in miniature: 2048 tokens, 4096 to 16384 columns."""
    n, d = 128, 16
    machine = oracle.in_miniature(Machine.load("zaratan"), 2048, 4096, n, d)

    def check(case):
        layer, (p, wide) = case
        hidden = 4 * d * p // wide
        widths = (d, hidden) if layer == COLUMN else (hidden, d)
        asked = runs.draw(rng, layer, p, n, widths)
        flops = 2 * n * d * hidden / p
        steps = [("compute", flops)] * 3 + [("allreduce", 8 * n * d)]
        runs.check_makespan(ranks, asked, machine, steps, 3 * flops * p, wide)

    where = {(4, 4): "on 4 ranks of a node", (8, 64): "on 64 ranks of 16 nodes"}
    check_kinds(
        [(layer, sizes) for sizes in where for layer in BOTH],
        lambda case: f"{NAMES[case[0]]} {where[case[1]]}",
        check,
    )
