"""linear.py: layers cut by columns and by rows."""

from ringside import Machine
from ringside.checking import Case, assert_ran, buffered
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.hidden import oracle, runs

COLUMN, ROW = "column_layer", "row_layer"
BOTH = (COLUMN, ROW)

points = points_of("linear")


def cases(rng, layers, sizes, dtype="float64"):
    """Layers for ``(ranks, samples, (d_in, d_out))``."""
    return [runs.draw(rng, layer, *size, dtype) for layer in layers for size in sizes]


EVEN = [(2, 6, (5, 8)), (4, 5, (12, 8)), (8, 3, (16, 24))]


@points(7, "values")
def test_columns_on_2_4_and_8_ranks(ranks, rng):
    runs.check_values(ranks, cases(rng, [COLUMN], EVEN))


@points(7, "values")
def test_rows_on_2_4_and_8_ranks(ranks, rng):
    runs.check_values(ranks, cases(rng, [ROW], EVEN))


@points(7, "values")
def test_any_widths_on_any_number_of_ranks(ranks, rng):
    sizes = [(3, 7, (10, 11)), (5, 4, (13, 9)), (1, 4, (3, 5)), (7, 2, (9, 17)), (2, 1, (3, 3))]
    runs.check_values(ranks, cases(rng, BOTH, sizes))


@points(4, "values")
def test_empty_parts_and_no_samples(ranks, rng):
    runs.check_values(ranks, cases(rng, BOTH, [(4, 3, (2, 3)), (3, 0, (4, 5)), (5, 2, (1, 1))]))


@points(3, "values")
def test_dtype_is_kept(ranks, rng):
    runs.check_values(ranks, cases(rng, BOTH, [(3, 5, (7, 6)), (2, 4, (8, 4))], "float32"))


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
    runs.check_inputs_kept(ranks, cases(rng, BOTH, [(2, 4, (5, 6)), (3, 5, (7, 4))]))


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    for layer in BOTH:
        for p, sizes in ((2, [(4, (5, 6)), (3, (2, 5))]), (3, [(2, (4, 4)), (2, (4, 4))])):
            runs.check_second_call(
                ranks, [tuple(runs.draw(rng, layer, p, *size) for size in sizes)]
            )


@points(5, "reality")
def test_real_mpi(ranks, mpi, rng):
    runs.check_real_mpi(mpi, cases(rng, BOTH, [(3, 5, (7, 8)), (3, 40, (90, 100))]))


@points(5, "values")
def test_whole_results_are_alike(ranks, rng):
    runs.check_alike(ranks, cases(rng, BOTH, [(4, 6, (9, 10)), (5, 3, (20, 7))]))


def allowed(asked):
    p, (d_in, d_out) = asked.case.world_size, asked.widths
    d = d_in if asked.layer == COLUMN else d_out
    unit = 8 if asked.case.dtype == "float64" else 4
    return oracle.all_reduce_elements(asked.case.n, d, p) * unit + 64 * (p - 1)


# Weights, and the other side of the layer, are large beside the rows that may travel.
COLUMN_SIZES = [
    (2, 40, (24, 600)), (4, 24, (16, 400)), (8, 16, (16, 640)), (3, 10, (7, 300)),
    (5, 20, (8, 250)), (12, 20, (8, 500)), (18, 20, (8, 700)), (3, 30, (200, 900)),
]  # fmt: skip
ROW_SIZES = [(p, n, widths[::-1]) for p, n, widths in COLUMN_SIZES]


@points(11, "communication")
def test_bytes_of_columns(ranks, rng):
    asked = cases(rng, [COLUMN], COLUMN_SIZES) + cases(rng, [COLUMN], COLUMN_SIZES[:1], "float32")
    runs.check_bytes(ranks, asked, allowed)


@points(11, "communication")
def test_bytes_of_rows(ranks, rng):
    asked = cases(rng, [ROW], ROW_SIZES) + cases(rng, [ROW], ROW_SIZES[:1], "float32")
    runs.check_bytes(ranks, asked, allowed)


@points(3, "communication")
def test_silent_passes_send_nothing(ranks, rng):
    for layer, function in ((COLUMN, "column_forward"), (ROW, "row_backward")):
        asked = runs.draw(rng, layer, 3, 4, (5, 6))
        runs.run(ranks, asked)
        case = Case(f"linear:{function}", 3, 4, options=asked.case.options)
        arguments = [asked.arguments(rank) for rank in range(3)]
        chosen = [args[:3] if layer == COLUMN else (*args[:2], args[3]) for args in arguments]
        result = ranks.call(case.target, 3, chosen, machine=buffered())
        assert_ran(result, case)
        if any(result.sent_messages()) or result.collectives or result.comm_calls:
            raise asked.case.fail(f"{function} must send nothing, and call no collective.")


@points(3, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, cases(rng, BOTH, [(3, 4, (5, 7)), (2, 3, (6, 4))]))


@points(5, "schedule")
def test_each_rank_multiplies_its_own_part(ranks, rng):
    def share(asked, rank):
        p, (d_in, d_out) = asked.case.world_size, asked.widths
        if asked.layer == COLUMN:
            d_out = oracle.part_of(d_out, p, rank)
        else:
            d_in = oracle.part_of(d_in, p, rank)
        return 6 * asked.case.n * d_in * d_out

    runs.check_work(ranks, cases(rng, BOTH, [(2, 5, (6, 8)), (4, 3, (10, 7))]), share)


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    runs.check_safety(ranks, cases(rng, BOTH, [(2, 4, (6, 5)), (3, 4, (6, 5)), (5, 4, (6, 5))]))


@points(4, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    runs.check_any_order(ranks, cases(rng, BOTH, [(4, 4, (6, 5))]))


def timed(ranks, rng, p, wide):
    """GPT's widest products, in miniature: 2048 tokens, 4096 to 16384 columns."""
    n, d = 128, 16
    machine = oracle.in_miniature(Machine.load("zaratan"), 2048, 4096, n, d)
    for layer in BOTH:
        hidden = 4 * d * p // wide
        widths = (d, hidden) if layer == COLUMN else (hidden, d)
        asked = runs.draw(rng, layer, p, n, widths)
        flops = 2 * n * d * hidden / p
        steps = [("compute", flops)] * 3 + [("allreduce", 8 * n * d)]
        runs.check_makespan(ranks, asked, machine, steps, 3 * flops * p, wide)


@points(4, "speed")
def test_time_on_4_ranks_of_a_node(ranks, rng):
    timed(ranks, rng, 4, 4)


@points(4, "speed")
def test_time_on_64_ranks_of_16_nodes(ranks, rng):
    timed(ranks, rng, 8, 64)
