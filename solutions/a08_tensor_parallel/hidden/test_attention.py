"""attention.py: whole heads on each rank, and two all-reduces."""

from ringside import Machine
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.hidden import oracle, runs

ATTENTION = "attention_layer"

points = points_of("attention")


def cases(rng, sizes, dtype="float64"):
    """Layers for ``(ranks, samples, (d, heads, head_dim, length))``."""
    return [runs.draw(rng, ATTENTION, *size, dtype) for size in sizes]


@points(16, "values")
def test_forward_and_backward_on_2_4_and_8_ranks(ranks, rng):
    # Plain sizes: p divides the positions. Only the next test has others.
    sizes = [(2, 3, (5, 2, 3, 4)), (4, 4, (6, 8, 2, 3)), (8, 2, (7, 8, 3, 4))]
    runs.check_values(ranks, cases(rng, sizes))


@points(12, "values")
def test_any_heads_positions_and_dtypes(ranks, rng):
    heads = [(3, 2, (5, 7, 2, 3)), (5, 5, (6, 6, 3, 4)), (1, 2, (3, 5, 1, 2)), (2, 2, (4, 3, 4, 1))]
    positions = [(3, 2, (5, 6, 2, 2)), (4, 1, (7, 4, 2, 3))]
    empty = [(4, 4, (5, 3, 2, 3)), (3, 0, (4, 5, 2, 3))]
    kinds = {
        "heads that p does not divide": cases(rng, heads),
        "positions that p does not divide": cases(rng, positions),
        "ranks without heads and no samples": cases(rng, empty),
        "float32": cases(rng, [(3, 2, (7, 4, 2, 3))], "float32"),
    }
    runs.check_values_of_kinds(ranks, kinds, weights={"heads that p does not divide": 2})


@points(6, "values")
def test_parts_of_the_parameters(ranks, rng):
    calls = []
    for p, widths, dtype in (
        (1, (3, 2, 2, 1), "float64"), (2, (6, 4, 3, 1), "float32"), (3, (5, 7, 2, 1), "float32"),
        (4, (3, 3, 4, 1), "float64"),
    ):  # fmt: skip
        _, params, head_dim, _ = oracle.examples.drawn(ATTENTION, 0, widths, rng, dtype)
        calls.append((params, head_dim, p))

    def wanted(call, rank):
        params, head_dim, p = call
        return oracle.examples.parts(ATTENTION, (None, params, head_dim, None), p, rank)[1]

    runs.check_shards(ranks, "attention:shard", calls, wanted)


@points(3, "values")
def test_inputs_stay_as_they_were(ranks, rng):
    runs.check_inputs_kept(ranks, cases(rng, [(2, 2, (5, 3, 2, 3)), (3, 3, (4, 6, 2, 2))]))


@points(4, "values")
def test_second_call_is_independent(ranks, rng):
    other = (2, (2, (5, 4, 2, 3)), (2, (3, 3, 1, 2)))
    runs.check_second_calls(ranks, rng, ATTENTION, other, (3, 3, (7, 4, 2, 2)))


@points(5, "reality")
def test_real_mpi(ranks, mpi, rng):
    runs.check_real_mpi(mpi, cases(rng, [(3, 2, (7, 4, 3, 3)), (3, 3, (40, 9, 8, 16))]))


@points(5, "values")
def test_replicated_results_are_alike(ranks, rng):
    runs.check_alike(ranks, cases(rng, [(4, 2, (9, 5, 2, 4)), (5, 1, (20, 5, 2, 5))]))


@points(8, "communication", essential=True)
def test_the_layer_is_cut(ranks, rng):
    asked = runs.draw(rng, ATTENTION, 4, 4, (16, 8, 32, 1))
    runs.check_cut(ranks, asked, 24 * 4 * 16 * 256, 8 * 4 * 16 * 256)


def allowed(asked):
    """Two all-reduces of B T rows of d."""
    p, (d, _, _, length) = asked.case.world_size, asked.widths
    unit = 8 if asked.case.dtype == "float64" else 4
    return 2 * (unit * (oracle.all_reduce_elements(asked.case.n * length, d, p) + 8 * d) + 64 * p)


@points(14, "communication")
def test_bytes_of_two_all_reduces(ranks, rng):
    # Heads and weights are large beside the rows that may travel.
    sizes = [
        (2, 8, (16, 12, 8, 4)), (4, 8, (8, 16, 8, 4)), (5, 5, (7, 15, 8, 6)),
        (12, 6, (8, 24, 8, 6)), (18, 6, (8, 36, 4, 6)), (3, 4, (240, 90, 8, 6)),
    ]  # fmt: skip
    runs.check_bytes(ranks, cases(rng, sizes) + cases(rng, sizes[:1], "float32"), allowed)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, cases(rng, [(3, 3, (5, 4, 2, 2)), (2, 1, (6, 2, 3, 2))]))


@points(6, "schedule")
def test_each_rank_computes_its_own_heads(ranks, rng):
    def share(asked, rank):
        d, heads, head_dim, length = asked.widths
        own = oracle.part_of(heads, asked.case.world_size, rank)
        products = 4 * d * head_dim * length + 2 * length * length * head_dim
        return 6 * asked.case.n * own * products

    runs.check_work(
        ranks, cases(rng, [(2, 2, (6, 4, 3, 5)), (4, 4, (5, 7, 2, 3))]), share, spare=1 / 3
    )


@points(8, "safety")
def test_sends_may_wait_and_come_in_any_order(ranks, rng):
    runs.check_safety(ranks, cases(rng, [(p, p, (6, 5, 2, 2)) for p in (2, 3, 5)]))
    runs.check_any_order(ranks, rng, ATTENTION, 4, 2, (6, 5, 2, 2))


def timed(ranks, rng, p, wide=None):
    """A GPT's attention in miniature: 2048 tokens in 16 sequences, 4096 columns, 64 heads."""
    n, length, d, many = 16, 8, 16, wide or p
    machine = oracle.in_miniature(Machine.load("zaratan"), 2048, 4096, n * length, d)
    heads = 64 * p // many
    asked = runs.draw(rng, ATTENTION, p, n, (d, heads, 1, length))
    products = n * length * (4 * d + 2 * length) * heads / p
    moved = ("allreduce", 8 * n * length * d)
    # Four products forward, eight backward, each started once.
    steps = [*[("compute", products / 2)] * 4, moved, *[("compute", products / 2)] * 8, moved]
    runs.check_makespan(ranks, asked, machine, steps, 6 * products * p, wide, spare=1 / 3)


@points(9, "speed")
def test_speedup_inside_a_node_and_on_64_ranks(ranks, rng):
    sizes = {"4 ranks of a node": (4,), "64 ranks of 16 nodes": (8, 64)}
    check_kinds(sizes, str, lambda kind: timed(ranks, rng, *sizes[kind]))
