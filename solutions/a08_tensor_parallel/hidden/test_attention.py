"""attention.py: whole heads on each rank, and two all-reduces."""

from ringside import Machine
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.hidden import oracle, runs

ATTENTION = "attention_layer"

points = points_of("attention")


def cases(rng, sizes, dtype="float64"):
    """Layers for ``(ranks, samples, (d, heads, head_dim, length))``."""
    return [runs.draw(rng, ATTENTION, *size, dtype) for size in sizes]


@points(14, "values")
def test_forward_and_backward_on_2_4_and_8_ranks(ranks, rng):
    sizes = [(2, 3, (5, 2, 3, 4)), (4, 2, (6, 8, 2, 3)), (8, 1, (7, 8, 3, 5))]
    runs.check_values(ranks, cases(rng, sizes))


@points(9, "values")
def test_heads_that_no_rank_number_divides(ranks, rng):
    sizes = [(3, 2, (5, 7, 2, 3)), (5, 1, (6, 6, 3, 4)), (1, 2, (3, 5, 1, 2)), (2, 2, (4, 3, 4, 1))]
    runs.check_values(ranks, cases(rng, sizes))


@points(3, "values")
def test_ranks_without_heads_and_no_samples(ranks, rng):
    runs.check_values(ranks, cases(rng, [(4, 2, (5, 3, 2, 3)), (3, 0, (4, 5, 2, 3))]))


@points(3, "values")
def test_dtype_is_kept(ranks, rng):
    runs.check_values(ranks, cases(rng, [(3, 2, (7, 4, 2, 3))], "float32"))


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
    runs.check_inputs_kept(ranks, cases(rng, [(2, 2, (5, 3, 2, 3)), (3, 2, (4, 6, 2, 2))]))


@points(4, "values")
def test_second_call_is_independent(ranks, rng):
    for p, sizes in (
        (2, [(2, (5, 4, 2, 3)), (1, (3, 3, 1, 2))]),
        (3, [(2, (4, 3, 2, 2)), (2, (4, 3, 2, 2))]),
    ):
        pair = tuple(runs.draw(rng, ATTENTION, p, *size) for size in sizes)
        runs.check_second_call(ranks, [pair])


@points(5, "reality")
def test_real_mpi(ranks, mpi, rng):
    runs.check_real_mpi(mpi, cases(rng, [(3, 2, (7, 4, 3, 4)), (3, 3, (40, 9, 8, 16))]))


@points(5, "values")
def test_replicated_results_are_alike(ranks, rng):
    runs.check_alike(ranks, cases(rng, [(4, 2, (9, 5, 2, 3)), (5, 1, (20, 5, 2, 2))]))


def allowed(asked):
    """Two all-reduces of B T rows of d."""
    p, (d, _, _, length) = asked.case.world_size, asked.widths
    unit = 8 if asked.case.dtype == "float64" else 4
    return 2 * (unit * (oracle.all_reduce_elements(asked.case.n * length, d, p) + 8 * d) + 64 * p)


@points(20, "communication")
def test_bytes_of_two_all_reduces(ranks, rng):
    # Heads and weights are large beside the rows that may travel.
    sizes = [
        (2, 8, (16, 12, 8, 4)),
        (4, 8, (8, 16, 8, 4)),
        (8, 4, (8, 16, 8, 8)),
        (3, 5, (7, 9, 8, 6)),
        (5, 5, (7, 15, 8, 6)),
        (12, 6, (8, 24, 8, 6)),
        (18, 6, (8, 36, 4, 6)),
        (3, 4, (240, 90, 8, 6)),
    ]
    runs.check_bytes(ranks, cases(rng, sizes) + cases(rng, sizes[:1], "float32"), allowed)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, cases(rng, [(3, 2, (5, 4, 2, 3)), (2, 1, (6, 2, 3, 2))]))


@points(6, "schedule")
def test_each_rank_computes_its_own_heads(ranks, rng):
    def share(asked, rank):
        d, heads, head_dim, length = asked.widths
        own = oracle.part_of(heads, asked.case.world_size, rank)
        products = 4 * d * head_dim * length + 2 * length * length * head_dim
        return 6 * asked.case.n * own * products

    runs.check_work(
        ranks, cases(rng, [(2, 2, (6, 4, 3, 5)), (4, 1, (5, 7, 2, 3))]), share, spare=1 / 3
    )


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    runs.check_safety(ranks, cases(rng, [(p, 2, (6, 5, 2, 2)) for p in (2, 3, 4, 5)]))


@points(4, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    runs.check_any_order(ranks, cases(rng, [(4, 2, (6, 5, 2, 2))]))


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


@points(4, "speed")
def test_speedup_inside_a_node(ranks, rng):
    timed(ranks, rng, 4)


@points(5, "speed")
def test_speedup_on_64_ranks(ranks, rng):
    timed(ranks, rng, 8, 64)
