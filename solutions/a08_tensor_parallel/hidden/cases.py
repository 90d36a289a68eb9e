"""The cases of the hidden run."""

from itertools import pairwise

from checks import test_attention as attention
from checks import test_cost as cost
from checks import test_cross_entropy as cross_entropy
from checks import test_linear as linear
from checks import test_linear_torch as linear_torch
from checks import test_mlp as mlp
from checks import test_sequence_torch as sequence_torch
from checks.cases import ColumnLayer, ColumnShard, RowLayer, RowShard
from checks.cases_cost import BestGrid, Crossover, DataBytes, HybridBytes, ModelBytes, PairedBytes
from checks.cases_layers import (
    AttentionLayer,
    AttentionShard,
    KeptByForward,
    LossLayer,
    MlpLayer,
    MlpShard,
)
from checks.cases_sequence import Block, Gather, KeptForBackward, Scatter
from checks.cases_torch import CopyToGroup, Pair, ReduceFromGroup, TwoGroups

from ringside.checking.suite import group, hidden


def shards(kind, *table):
    """Parts for ``(ranks, widths, dtype)``, of arrays by rows and by columns in turn."""
    return [kind(*row, order="CF"[number % 2]) for number, row in enumerate(table)]


def second_calls(kind, p, other, same, small=("twice", "last first")):
    """A second layer: of another shape, of the same one, and of the same one in float32.

    Args:
        other: ``(n, widths)`` of a first and a second layer.
        same: ``(n, widths)`` of both.
        small: how those are called whose second layer is in float32.
    """
    (n, widths), (then_n, then_widths) = other
    apart = {"then": (then_n, *then_widths)}
    return [
        *(kind(2, n, widths, how=how, **apart) for how in ("twice", "in order", "last first")),
        *(kind(p, *same, how=how) for how in ("twice", "in order", "last first", "updated")),
        *(kind(p, *same, how=how, then_dtype="float32") for how in small),
    ]


# -- linear ----------------------------------------------------------------------------------------

COLUMNS, ROWS, turned = linear.COLUMNS, linear.ROWS, linear.turned
UNEVEN = ((3, 7, (10, 11)), (5, 4, (13, 9)), (1, 4, (3, 5)), (7, 2, (9, 17)), (2, 1, (3, 3)))
EMPTY = ((4, 4, (2, 3)), (3, 0, (4, 5)), (5, 5, (1, 1)))
LARGE = (
    (2, 40, (24, 600)), (4, 24, (16, 400)), (5, 20, (8, 250)), (12, 24, (8, 500)),
    (18, 18, (8, 700)), (3, 30, (200, 900)),
)  # fmt: skip


def of_each(*sizes, **fields):
    """Two groups: a layer cut by columns and one by rows, of ``(p, n, widths)`` each."""
    return (
        group(COLUMNS, *(ColumnLayer(*size, **fields) for size in sizes)),
        group(ROWS, *(RowLayer(*size, **fields) for size in sizes)),
    )


def flat(*sizes, **fields):
    """The same cases in no groups."""
    return [case for each in of_each(*sizes, **fields) for case in each.table]


hidden(
    linear.test_columns_and_rows_on_2_4_and_8_ranks,
    *of_each((2, 6, (5, 8)), (4, 4, (12, 8)), (8, 8, (16, 24))),
)
hidden(
    linear.test_any_widths_samples_and_dtypes,
    *of_each(*UNEVEN, *EMPTY, (3, 6, (7, 6), "float32"), (2, 4, (8, 4), "float32")),
)
hidden(
    linear.test_parts_of_the_layer,
    *(
        case
        for kind in (ColumnShard, RowShard)
        for case in shards(
            kind,
            (1, (3, 4)), (2, (6, 8), "float32"), (3, (8, 7), "float32"), (4, (3, 9)), (5, (11, 2)),
        )
    ),
)  # fmt: skip
hidden(
    linear.test_inputs_stay_as_they_were,
    *flat((2, 4, (5, 6)), how="gaps"),
    *flat((3, 6, (7, 4)), how="gaps by columns"),
)
hidden(
    linear.test_second_call_is_independent,
    *(
        group(name, *second_calls(kind, 3, ((4, (5, 6)), (6, (2, 5))), (3, (4, 4))))
        for name, kind in ((COLUMNS, ColumnLayer), (ROWS, RowLayer))
    ),
)
hidden(
    linear.test_real_mpi,
    *(
        kind(3, n, widths)
        for kind in (ColumnLayer, RowLayer)
        for n, widths in ((6, (7, 8)), (42, (90, 100)))
    ),
)
hidden(linear.test_whole_results_are_alike, *of_each((4, 8, (9, 10)), (5, 5, (20, 7))))
hidden(linear.test_the_layer_is_cut, *turned((4, 4, (16, 400))))
hidden(
    linear.test_bytes_of_columns_and_rows,
    group("columns", *(ColumnLayer(*size) for size in LARGE), weight=3),
    group("rows", *(RowLayer(p, n, widths[::-1]) for p, n, widths in LARGE), weight=3),
    group(
        "float32",
        ColumnLayer(3, 42, (24, 600), "float32"),
        RowLayer(3, 42, (600, 24), "float32"),
        weight=4,
    ),
)
hidden(linear.test_given_communicator_is_used, *flat((3, 6, (5, 7)), (2, 4, (6, 4))))
hidden(linear.test_each_rank_multiplies_its_own_part, *of_each((2, 6, (6, 8)), (4, 4, (10, 7))))
hidden(
    linear.test_sends_may_wait_for_their_receives,
    *of_each((2, 4, (6, 5)), (3, 6, (6, 5)), (5, 5, (6, 5))),
)
hidden(linear.test_messages_may_arrive_in_any_order, *of_each((4, 4, (6, 5)), how="again"))
hidden(
    linear.test_time_inside_a_node_and_across_16,
    *(
        group(
            f"{name} {where}",
            kind(p, 128, (16, hidden_units)[::turn], machine="gpt", wide=wide),
        )
        for where, p, hidden_units, wide in (
            ("on 4 ranks of a node", 4, 64, 0),
            ("on 64 ranks of 16 nodes", 8, 8, 64),
        )
        for name, kind, turn in (("columns", ColumnLayer, 1), ("rows", RowLayer, -1))
    ),
)

# -- mlp -------------------------------------------------------------------------------------------

hidden(
    mlp.test_forward_and_backward_on_2_4_and_8_ranks,
    MlpLayer(2, 6, (5, 8)),
    MlpLayer(4, 4, (6, 16)),
    MlpLayer(8, 8, (7, 24)),
)
hidden(
    mlp.test_any_widths_samples_and_dtypes,
    *(
        MlpLayer(p, n, widths)
        for p, n, widths in (
            (3, 7, (5, 11)), (5, 4, (6, 9)), (1, 4, (3, 5)), (7, 2, (4, 17)), (2, 1, (3, 3)),
            (4, 4, (5, 3)), (3, 0, (4, 5)), (5, 5, (2, 1)),
        )
    ),
    # With a few hidden units a rank, right ones miss the bound now and then: by cancellation.
    MlpLayer(3, 6, (7, 48), "float32"),
    MlpLayer(2, 4, (8, 39), "float32"),
)  # fmt: skip
hidden(
    mlp.test_parts_of_the_parameters,
    *shards(
        MlpShard,
        (1, (3, 4)), (2, (6, 8), "float32"), (3, (8, 7), "float32"), (4, (3, 9)), (5, (4, 2)),
    ),
)  # fmt: skip
hidden(
    mlp.test_inputs_stay_as_they_were,
    MlpLayer(2, 4, (5, 6), how="gaps"),
    MlpLayer(3, 6, (7, 4), how="gaps by columns"),
)
hidden(
    mlp.test_second_call_is_independent,
    *second_calls(MlpLayer, 3, ((4, (5, 6)), (6, (2, 5))), (3, (6, 48))),
)
hidden(mlp.test_real_mpi, MlpLayer(3, 6, (7, 8)), MlpLayer(3, 42, (60, 100)))
hidden(mlp.test_replicated_results_are_alike, MlpLayer(4, 8, (9, 10)), MlpLayer(5, 5, (20, 7)))
hidden(mlp.test_the_layer_is_cut, MlpLayer(4, 4, (16, 400)))
hidden(
    mlp.test_bytes_of_two_all_reduces,
    group(
        "float64",
        *(
            MlpLayer(p, n, widths)
            for p, n, widths in (
                (2, 40, (24, 480)), (4, 32, (16, 400)), (5, 50, (8, 400)), (12, 48, (8, 720)),
                (18, 54, (8, 900)), (3, 30, (100, 1600)),
            )
        ),
        weight=3,
    ),
    group("float32", MlpLayer(3, 42, (24, 480), "float32"), weight=2),
)  # fmt: skip
hidden(mlp.test_given_communicator_is_used, MlpLayer(3, 6, (5, 7)), MlpLayer(2, 4, (6, 4)))
hidden(
    mlp.test_each_rank_computes_its_own_hidden_units,
    MlpLayer(2, 6, (6, 8)),
    MlpLayer(4, 4, (5, 7)),
)
hidden(
    mlp.test_what_forward_keeps,
    *(
        KeptByForward(p, n, widths)
        for p, n, widths in ((2, 64, (8, 1024)), (8, 64, (8, 1024)), (2, 8, (128, 512)))
    ),
)
hidden(
    mlp.test_sends_may_wait_and_come_in_any_order,
    MlpLayer(2, 4, (6, 5)),
    MlpLayer(3, 6, (6, 5)),
    MlpLayer(5, 5, (6, 5)),
    MlpLayer(4, 4, (6, 5), how="again"),
)
hidden(
    mlp.test_speedup_inside_a_node_and_across_nodes,
    group("ranks of one node", *(MlpLayer(p, 128, (16, 64), machine="gpt") for p in (2, 4))),
    group(
        "8 to 64 ranks",
        MlpLayer(8, 128, (16, 64), machine="gpt"),
        MlpLayer(8, 128, (16, 8), machine="gpt", wide=64),
    ),
)

# -- attention -------------------------------------------------------------------------------------


def attentions(*sizes, **fields):
    return [AttentionLayer(*size, **fields) for size in sizes]


hidden(
    attention.test_forward_and_backward_on_2_4_and_8_ranks,
    *attentions((2, 3, (5, 2, 3, 4)), (4, 4, (6, 8, 2, 3)), (8, 2, (7, 8, 3, 4))),
)
hidden(
    attention.test_any_heads_positions_and_dtypes,
    *attentions(
        (3, 2, (5, 7, 2, 3)), (5, 5, (6, 6, 3, 4)), (1, 2, (3, 5, 1, 2)), (2, 2, (4, 3, 4, 1)),
        (3, 2, (5, 6, 2, 2)), (4, 1, (7, 4, 2, 3)), (4, 4, (5, 3, 2, 3)), (3, 0, (4, 5, 2, 3)),
        (3, 2, (7, 4, 2, 3), "float32"),
    ),
)  # fmt: skip
hidden(
    attention.test_parts_of_the_parameters,
    *shards(
        AttentionShard,
        (1, (3, 2, 2, 1)), (2, (6, 4, 3, 1), "float32"), (3, (5, 7, 2, 1), "float32"),
        (4, (3, 3, 4, 1)),
    ),
)  # fmt: skip
hidden(
    attention.test_inputs_stay_as_they_were,
    *attentions((2, 2, (5, 3, 2, 3)), how="gaps"),
    *attentions((3, 3, (4, 6, 2, 2)), how="gaps by columns"),
)
hidden(
    attention.test_second_call_is_independent,
    *second_calls(AttentionLayer, 3, ((2, (5, 4, 2, 3)), (2, (3, 3, 1, 2))), (3, (7, 4, 2, 2))),
)
hidden(attention.test_real_mpi, *attentions((3, 2, (7, 4, 3, 3)), (3, 3, (40, 9, 8, 16))))
hidden(
    attention.test_replicated_results_are_alike,
    *attentions((4, 2, (9, 5, 2, 4)), (5, 1, (20, 5, 2, 5))),
)
hidden(attention.test_the_layer_is_cut, *attentions((4, 4, (16, 8, 32, 1))))
hidden(
    attention.test_bytes_of_two_all_reduces,
    group(
        "float64",
        *attentions(
            (2, 8, (16, 12, 8, 4)), (4, 8, (8, 16, 8, 4)), (5, 5, (7, 15, 8, 6)),
            (12, 6, (8, 24, 8, 6)), (18, 6, (8, 36, 4, 6)), (3, 4, (240, 90, 8, 6)),
        ),
        weight=3,
    ),
    group("float32", *attentions((3, 6, (16, 12, 8, 4), "float32")), weight=2),
)  # fmt: skip
hidden(
    attention.test_given_communicator_is_used,
    *attentions((3, 3, (5, 4, 2, 2)), (2, 1, (6, 2, 3, 2))),
)
hidden(
    attention.test_each_rank_computes_its_own_heads,
    *attentions((2, 2, (6, 4, 3, 5)), (4, 4, (5, 7, 2, 3))),
)
hidden(
    attention.test_sends_may_wait_and_come_in_any_order,
    *attentions(*((p, p, (6, 5, 2, 2)) for p in (2, 3, 5))),
    *attentions((4, 2, (6, 5, 2, 2)), how="again"),
)
hidden(
    attention.test_speedup_inside_a_node_and_on_64_ranks,
    group("4 ranks of a node", *attentions((4, 16, (16, 64, 1, 8)), machine="gpt")),
    group("64 ranks of 16 nodes", *attentions((8, 16, (16, 8, 1, 8)), machine="gpt", wide=64)),
)

# -- cross_entropy ---------------------------------------------------------------------------------


def losses(*sizes, **fields):
    """Losses for ``(ranks, samples, words)``."""
    return [LossLayer(p, n, (words,), **fields) for p, n, words in sizes]


hidden(
    cross_entropy.test_losses_and_gradients_on_2_4_and_8_ranks,
    *losses((2, 6, 10), (4, 8, 12), (8, 8, 32)),
)
hidden(
    cross_entropy.test_any_vocabulary_samples_and_dtypes,
    group(
        "words and samples that p does not divide",
        *losses((3, 6, 11), (5, 10, 23), (7, 7, 30), (3, 7, 12), (1, 4, 5), (4, 9, 8)),
        weight=5,
    ),
    group(
        "ranks without words and no samples",
        *losses((4, 4, 3), (3, 0, 5), (5, 5, 1)),
        *losses((5, 6, 3), logits="rows"),
        weight=4,
    ),
    group("float32", *losses((3, 6, 12), (2, 4, 8), dtype="float32")),
)
hidden(
    cross_entropy.test_large_logits,
    group(
        "exponentials that are infinite or 0",
        *losses((2, 6, 8), (3, 6, 9), (4, 8, 4), logits="rows"),
        *losses((2, 6, 8), (3, 6, 9), (4, 8, 16), logits="slopes"),
        weight=5,
    ),
    group("logits of -1e10", *losses((2, 4, 6), logits="low")),
)
hidden(
    cross_entropy.test_inputs_stay_as_they_were,
    *losses((2, 4, 8), how="gaps"),
    *losses((3, 6, 6), how="gaps by columns"),
)
hidden(
    cross_entropy.test_second_call_is_independent,
    *second_calls(LossLayer, 3, ((4, (8,)), (6, (6,))), (6, (9,)), ()),
)
hidden(cross_entropy.test_real_mpi, *losses((3, 6, 12), (3, 42, 501)))
hidden(cross_entropy.test_losses_are_alike, *losses((4, 12, 20), (5, 10, 25)))
hidden(cross_entropy.test_logits_stay_on_their_ranks, *losses((4, 8, 1000)))
hidden(
    cross_entropy.test_bytes_of_three_numbers_a_row,
    group(
        "float64",
        *losses(
            (2, 40, 60), (4, 64, 100), (5, 60, 120), (12, 96, 300), (18, 90, 396), (3, 300, 600)
        ),
        weight=3,
    ),
    group("float32", *losses((3, 45, 60), dtype="float32"), weight=2),
)
hidden(cross_entropy.test_given_communicator_is_used, *losses((3, 6, 12), (2, 6, 8)))
hidden(
    cross_entropy.test_sends_may_wait_and_come_in_any_order,
    *losses((2, 6, 14), (3, 6, 15), (5, 10, 15)),
    *losses((4, 8, 8), how="again"),
)
hidden(
    cross_entropy.test_time_of_many_and_of_few_samples,
    group("many samples", *losses((4, 256, 8), machine="long wire")),
    group("few samples", *losses((8, 8, 16), machine="textbook")),
)

# -- cost ------------------------------------------------------------------------------------------

SCATTER, REDUCE = cost.SCATTER, cost.REDUCE
NETWORKS = (
    ((6, 8), 4), ((7, 5, 9), 3), ((16, 16, 16, 16, 16), 8), ((3, 1, 4, 1, 5), 11),
    ((4096,) * 9, 2048), ((9216, 4096, 4096, 1000), 256), ((12288, 49152, 12288), 4096),
)  # fmt: skip
RANKS = (1, 2, 3, 5, 8, 12, 64, 1000)
TRACED = (
    (2, (6, 8, 5), 4), (3, (7, 5, 9, 4, 6), 5), (4, (8, 12, 8), 6), (5, (4, 9, 3, 11, 2), 7),
)  # fmt: skip


def priced(case):
    """The case with its number of bytes."""
    size, widths = case.itemsize or 8, case.widths
    weights = sum(d_in * d_out for d_in, d_out in pairwise(widths))
    rows = sum(widths[1:]) + (2 if getattr(case, "backward", "") == REDUCE else 1) * sum(
        widths[1:-1]
    )
    if isinstance(case, PairedBytes):
        elements = 2 * (case.ranks - 1) * case.batch * (sum(widths[2::2]) + sum(widths[2:-1:2]))
    elif isinstance(case, DataBytes):
        elements = 2 * (case.ranks - 1) * weights
    elif isinstance(case, ModelBytes):
        elements = (case.ranks - 1) * case.batch * rows
    else:
        elements = (case.model_size - 1) * case.batch * rows + 2 * (case.data_size - 1) * weights
    return case.with_(gives=elements * size)


def mistaken(of, words):
    """For ``wrong``: a usual mistake's bytes, where ``of(case)`` gives their number."""
    return lambda case: {words: of(case)}


DataBytes.wrong = mistaken(
    lambda case: case.right() // 2,
    "This is what a reduce-scatter sends; an all-reduce sends twice as much.",
)
ModelBytes.wrong = mistaken(
    lambda case: case.right() + (case.ranks - 1) * case.batch * case.widths[0]
    * (case.itemsize or 8) * (2 if case.backward == REDUCE else 1),
    "This has a gradient of X_0, too, which nobody needs.",
)  # fmt: skip
PairedBytes.wrong = mistaken(
    lambda case: case.right() + 2 * (case.ranks - 1) * case.batch * case.widths[0]
    * (case.itemsize or 8),
    "This has a gradient of the first pair's input, too, which nobody needs.",
)  # fmt: skip


def crossing(case):
    """The case with its batch."""
    data = priced(DataBytes(case.widths, 1, 2)).gives
    return case.with_(gives=data / priced(ModelBytes(case.widths, 1, 2, case.backward)).gives)


def best(case):
    """The case with all grids that send least."""
    grids = [
        (case.ranks // q, q)
        for q in range(1, min(case.ranks, case.batch) + 1)
        if case.ranks % q == 0
    ]
    sent = [priced(HybridBytes(case.widths, case.batch, *g, case.backward)).gives for g in grids]
    least = tuple(g for g, each in zip(grids, sent, strict=True) if each == min(sent))
    return case.with_(gives=least)


def networks(rng, layers=1):
    """Fixed networks and two drawn ones, with a batch each; ``layers`` divides their number."""
    found = [each for each in NETWORKS if (len(each[0]) - 1) % layers == 0]
    for _ in range(2):
        count = layers * int(rng.integers(1, 7))
        widths = tuple(int(d) for d in rng.integers(1, 3000, size=count + 1))
        found.append((widths, int(rng.integers(1, 999))))
    return found


def on_ranks(kind, *more, layers=1, most=None):
    """Cases for all networks on some numbers of ranks, given a generator."""

    def drawn(rng):
        found = networks(rng, layers)
        return [priced(kind(*each, p, *more)) for each in found for p in RANKS[:most]]

    return drawn


def on_grids(grids, *more):
    def drawn(rng):
        return [
            priced(HybridBytes(*each, *grid, *more))
            for each in networks(rng)
            for grid in grids
            if grid[1] <= each[1]
        ]

    return drawn


def of_elements(kind, *sizes, forms=((),)):
    """A drawn network with elements of 1, 2 and 4 bytes."""

    def drawn(rng):
        widths, batch = networks(rng, 4)[-1]
        return [
            priced(kind(widths, batch, *sizes, *form, itemsize))
            for form in forms
            for itemsize in (1, 2, 4)
        ]

    return drawn


GRIDS = (2, 3), (4, 4), (3, 8), (16, 32)


def divided(ask, exactly):
    """Cases of weights that p divides, or of others."""

    def drawn(rng):
        cases = [(case, sum(a * b for a, b in pairwise(case.widths))) for case in ask(rng)]
        return [case for case, weights in cases if (weights % case.ranks == 0) == exactly]

    return drawn


hidden(
    cost.test_data_parallelism,
    group("weights that p divides", divided(on_ranks(DataBytes), True), weight=2),
    group("weights that p does not divide", divided(on_ranks(DataBytes), False)),
)
hidden(
    cost.test_model_parallelism_with_reduce_scatter,
    on_ranks(ModelBytes, SCATTER),
    on_ranks(ModelBytes, most=3),
)
hidden(cost.test_model_parallelism_with_all_reduce, on_ranks(ModelBytes, REDUCE))
hidden(cost.test_layers_in_pairs, on_ranks(PairedBytes, layers=2))
hidden(
    cost.test_both_at_once,
    group("one of the two alone", on_grids(((1, 1), (1, 6), (6, 1)))),
    group(SCATTER, on_grids(GRIDS), on_grids(GRIDS, SCATTER)),
    group(REDUCE, on_grids(GRIDS, REDUCE)),
)
BOTH = ((SCATTER,), (REDUCE,))
hidden(
    cost.test_bytes_of_an_element,
    group("data_bytes", of_elements(DataBytes, 5)),
    group("paired_bytes", of_elements(PairedBytes, 5)),
    group("model_bytes", of_elements(ModelBytes, 5, forms=BOTH)),
    group("hybrid_bytes", of_elements(HybridBytes, 5, 2, forms=BOTH)),
)


def crossings(*forms):
    def drawn(rng):
        found = [*(widths for widths, _ in networks(rng)), (4096,) * 41]
        return [crossing(Crossover(widths, form)) for widths in found for form in forms]

    return drawn


def grids(*forms):
    def drawn(rng):
        found = [*networks(rng), ((1000, 1000, 1000), 3), ((64, 64), 100_000)]
        return [
            best(BestGrid(*each, p, form))
            for each in found
            for p in (1, 2, 6, 16, 60, 512, 997)
            for form in forms
        ]

    return drawn


hidden(
    cost.test_crossover,
    group(SCATTER, crossings(SCATTER, "")),
    group(REDUCE, crossings(REDUCE)),
)
hidden(cost.test_best_grid, group(SCATTER, grids(SCATTER, "")), group(REDUCE, grids(REDUCE)))
hidden(
    cost.test_traced_bytes_of_data_and_model_parallelism,
    group("data_bytes", *(DataBytes(w, b, p) for p, w, b in TRACED)),
    *(
        group(form, *(ModelBytes(w, b, p, form) for p, w, b in TRACED))
        for form in (SCATTER, REDUCE)
    ),
)
hidden(
    cost.test_traced_bytes_of_pairs_and_grids,
    group("paired_bytes", *(PairedBytes(w, b, p) for p, w, b in TRACED)),
    *(
        group(
            form, *(HybridBytes((7, 5, 9, 4), 7, *each, form) for each in ((2, 2), (3, 2), (2, 3)))
        )
        for form in (SCATTER, REDUCE)
    ),
)

# -- linear_torch ----------------------------------------------------------------------------------

SMALL, WIDE, NARROW = linear_torch.SMALL, linear_torch.WIDE, (4, 3, 6)
FORMS = (
    (2, (4, 4)), (3, (2, 3, 4), "float32"), (4, (8,)), (1, (3, 2)),
)  # fmt: skip

hidden(
    linear_torch.test_f_and_g_and_their_gradients,
    group("f", *(CopyToGroup(*form) for form in FORMS)),
    group("g", *(ReduceFromGroup(*form) for form in FORMS)),
    group(
        "tensors with gaps",
        *(e for how in ("gaps", "sum") for e in linear_torch.both((3, (6, 4)), how=how)),
    ),
)
hidden(
    linear_torch.test_incoming_gradients_and_inputs_stay,
    group(
        "operators",
        *linear_torch.both((2, (6, 4)), (3, (6, 4)), how="shared"),
        *linear_torch.both((3, (6, 4)), how="beside"),
        weight=3,
    ),
    group("layers", Pair(2, 4, SMALL)),
)
hidden(
    linear_torch.test_layers_equal_serial_on_2_to_8_ranks,
    *(Pair(p, n, WIDE) for p, n in ((2, 4), (3, 6), (4, 8), (8, 8))),
    Pair(1, 3, SMALL),
)
hidden(
    linear_torch.test_other_parts_shapes_and_frozen_parameters,
    group(
        "parts of unequal length",
        *(
            Pair(p, n, widths)
            for p, n, widths in ((2, 5, (5, 7, 4)), (3, 4, (5, 7, 4)), (4, 6, NARROW))
        ),
        weight=3,
    ),
    group(
        "other shapes and dtypes",
        Pair(2, 4, SMALL, (2, 2)),
        Pair(3, 6, WIDE, dtype="float32"),
        Pair(2, 4, SMALL, biases=False),
        Pair(3, 9, WIDE, (3, 3), how="gaps"),
    ),
    group(
        "frozen parameters",
        *(Pair(2, 4, SMALL, needs=each) for each in ("x", "biases")),
    ),
)  # fmt: skip
hidden(
    linear_torch.test_gradients_add_up,
    Pair(2, 4, SMALL, steps=3),
    Pair(2, 4, SMALL, steps=3, how="together"),
)
hidden(linear_torch.test_replicas_are_equal_bit_for_bit, Pair(3, 6, WIDE), Pair(4, 8, WIDE))
hidden(linear_torch.test_real_gloo, Pair(2, 5, (5, 7, 4), steps=2))
hidden(linear_torch.test_the_layers_are_cut, Pair(4, 4, (16, 400, 16)))
hidden(
    linear_torch.test_bytes_of_a_pair,
    group(
        "inputs that need a gradient",
        *(Pair(p, n, WIDE) for p, n in ((2, 4), (5, 5), (8, 8), (12, 12), (18, 18))),
        Pair(3, 6, (240, 900, 24)),
        Pair(2, 4, SMALL, steps=3),
        weight=3,
    ),
    group(
        "inputs that need none",
        Pair(4, 8, WIDE, needs="none"),
        Pair(2, 12, SMALL, needs="weights"),
        Pair(4, 20, SMALL, needs="weights"),
        weight=3,
    ),
    group("float32", Pair(3, 6, WIDE, dtype="float32"), weight=2),
)
hidden(
    linear_torch.test_given_groups_are_used,
    group("some ranks of a larger world", Pair(3, 6, (5, 7, 4))),
    group("two groups in one graph", TwoGroups()),
)
hidden(
    linear_torch.test_a_layer_keeps_its_parts,
    Pair(2, 4, WIDE, measure=True),
    Pair(4, 4, (40, 94, 24), measure=True),
)
hidden(linear_torch.test_any_order_and_everything_waited_for, Pair(4, 8, SMALL))
BUSY = Pair(8, 64, (64, 128, 64), machine="slow cores")
hidden(
    linear_torch.test_time_on_8_and_64_ranks,
    group("8 ranks", BUSY),
    group("64 ranks", BUSY.with_(wide=64)),
)

# -- sequence_torch --------------------------------------------------------------------------------

both, LONG = sequence_torch.both, (20, 48)
SEQUENCES = ((2, 3, 4), (4, 1), (1, 3, 2))

hidden(
    sequence_torch.test_gather_and_reduce_scatter_and_their_gradients,
    group(
        "gather_sequence",
        *(both(*each)[0] for each in SEQUENCES),
        Gather(3, (2, 3, 4), "float32"),
    ),
    group(
        "reduce_scatter_sequence",
        *(both(*each)[1] for each in SEQUENCES),
        Scatter(3, (6, 3, 4), "float32"),
    ),
    group("tensors with gaps", *both(3, 3, 4, how="gaps"), *both(3, 3, 4, how="sum")),
)
hidden(
    sequence_torch.test_incoming_gradients_and_inputs_stay,
    group(
        "operators",
        *both(2, 3, 4, how="shared"),
        *both(3, 3, 4, how="beside"),
        weight=3,
    ),
    group("blocks", Block(2, 8)),
)
hidden(
    sequence_torch.test_block_equals_serial,
    *(Block(p, n, LONG) for p, n in ((2, 6), (3, 9), (4, 8), (8, 8))),
    Block(1, 3),
)
hidden(
    sequence_torch.test_dropout_by_position,
    Block(2, 8, rate=0.4),
    Block(4, 12, rate=0.4),
    Block(2, 6, rate=0.4, training=False),
)
hidden(
    sequence_torch.test_gradients_of_replicated_parameters,
    Block(2, 6, LONG, finished=True),
    Block(3, 9, LONG, finished=True),
    Block(4, 8, LONG, 0.2, finished=True),
    Block(2, 6, LONG, dtype="float32", finished=True),
)
hidden(
    sequence_torch.test_gradients_add_up,
    Block(2, 6, steps=3, finished=True),
    Block(2, 6, steps=2, finished=True, how="together"),
    Block(3, 6, steps=2, before=1, finished=True),
)
hidden(
    sequence_torch.test_each_step_has_its_mask,
    Block(3, 6, rate=0.2, steps=2),
    Block(2, 6, rate=0.3, steps=2, before=1),
)
hidden(sequence_torch.test_real_gloo, Block(2, 6, steps=2, finished=True))
hidden(sequence_torch.test_the_layers_are_cut, Block(4, 4, (16, 400)))
hidden(
    sequence_torch.test_bytes_of_operators_and_blocks,
    group(
        "gather_sequence and reduce_scatter_sequence",
        *(each for p, own in ((2, 8), (3, 9), (4, 8)) for each in both(p, own, 16)),
        weight=3,
    ),
    group(
        "blocks",
        *(
            Block(p, n, LONG, 0.1, forward=forward)
            for p, n in ((2, 16), (4, 16), (24, 48), (12, 24))
            for forward in (True, False)
        ),
        weight=3,
    ),
    group("float32", Block(3, 12, LONG, 0.1, "float32"), weight=2),
)  # fmt: skip
hidden(sequence_torch.test_given_group_is_used, Block(3, 6, rate=0.3, finished=True))
hidden(
    sequence_torch.test_activations_of_norm_and_dropout_are_cut,
    KeptForBackward(8, 512, (64, 32), 0.1),
)
hidden(
    sequence_torch.test_a_block_keeps_its_parts,
    *(Block(p, n, LONG, measure=True) for p, n in ((2, 6), (4, 8))),
)
hidden(sequence_torch.test_any_order_and_everything_waited_for, Block(4, 8))
hidden(
    sequence_torch.test_time_on_8_ranks,
    Block(8, 64, (64, 256), machine="slow links"),
)
