"""The cases of the hidden run."""

import functools
import itertools
import math

from checks import test_conv as conv
from checks import test_conv_torch as conv_torch
from checks import test_cost as cost
from checks import test_halo as halo
from checks import test_ring_attention as ring
from checks import test_ring_attention_torch as ring_torch
from checks import test_ulysses_torch as ulysses
from checks import test_zigzag_torch as zigzag
from checks.cases import Both, Exchange, ExchangeGrid, Forward, Refused
from checks.cases_cost import (
    WAYS,
    Best,
    DataBytes,
    DataS,
    DomainBytes,
    DomainS,
    FilterBytes,
    FilterS,
)
from checks.cases_ring import Attention
from checks.cases_ring_torch import (
    Kept,
    LongRing,
    LongZigzag,
    Orders,
    RingAttention,
    ZigzagAttention,
)
from checks.cases_ring_torch import (
    Refused as RefusedLengths,
)
from checks.cases_torch import GRADIENTS, IMAGES, RESULT, WEIGHTS, Conv2d, Ulysses
from given.conv_sizes import Layer, halving

from ringside import Machine
from ringside.checking.suite import group, hidden
from solutions.a11_spatial import cost as reference

# -- halo ------------------------------------------------------------------------------------------

SOME = (2, 3, 5)
WIRES = ((20, halo.SHORT_WIRE, (4, 9), "short rows"), (10_000, "long wire", (4, 8), "long rows"))

hidden(halo.test_one_row_on_2_to_5_ranks, *(Exchange(p, shape=SOME) for p in (2, 3, 4, 5)))
hidden(
    halo.test_heights_that_differ_and_wider_halos,
    group(
        halo.ONE_ROW,
        *(Exchange(len(each), each) for each in ((2, 5), (4, 1, 3), (1, 6, 2, 3, 1))),
    ),
    group(halo.WIDER, Exchange(3, (4,), 2), Exchange(4, (5,), 3), Exchange(3, (3,), 3)),
)
hidden(
    halo.test_float32_no_halo_and_one_rank,
    group(
        "float32", Exchange(3, shape=SOME, dtype="float32"), Exchange(3, shape=(3, 1, 1)), weight=3
    ),
    group(
        "no halo", Exchange(2, (3,)), Exchange(3, (3,), 0), Exchange(1, (4,)), Exchange(1, (1,), 2)
    ),
)
hidden(
    halo.test_grid_with_corners,
    ExchangeGrid(4, (3, 3), 1, (2, 2)),
    ExchangeGrid(9, (3, 4, 3), 1, (2, 2), widths=(3, 5, 3)),
    ExchangeGrid(6, (4, 4), 2, (2, 2), widths=(3,)),
    ExchangeGrid(2, (3,), 1, (2, 2), widths=(2, 3)),
)
hidden(
    halo.test_real_mpi, Exchange(3, (3, 2, 4), 1, (2, 2, 4)), Exchange(3, (4, 5, 4), 2, (2, 2, 4))
)
hidden(
    halo.test_bytes_and_messages_to_each_neighbour,
    *(
        Exchange(p, (height,), 1, shape)
        for p, height, shape in (
            (2, 4, SOME), (3, 4, SOME), (4, 3, (1, 2, 7)), (5, 3, (1, 2, 7)), (12, 3, (1, 2, 3)),
            (18, 2, (1, 1, 3)), (3, 40, (2, 4, 100)),
        )
    ),
    Exchange(4, (3,), shape=SOME, dtype="float32"),
)  # fmt: skip
hidden(halo.test_given_communicator_is_used, *(Exchange(p, shape=SOME) for p in (3, 4)))
hidden(
    halo.test_corners_of_a_grid_need_no_message,
    *(
        ExchangeGrid(rows * columns, (3,) * rows)
        for rows, columns in ((2, 2), (3, 3), (2, 5), (5, 4))
    ),
)
hidden(halo.test_sends_may_wait_and_all_is_completed, *(Exchange(p, shape=SOME) for p in (2, 6)))
hidden(halo.test_inputs_stay_and_results_are_new, *(Exchange(p, shape=SOME) for p in (2, 3)))
hidden(
    halo.test_parts_lower_than_the_halo_are_refused,
    Refused(2, (4, 1), 2),
    Refused(7, (3, 3, 4, 2, 3, 3, 3), 3),
    Refused(2, (3,), -1),
)
hidden(
    halo.test_both_ways_at_once,
    *(
        group(name, *(Exchange(p, (2,), 1, (1, 1, width), machine=wire) for p in worlds))
        for width, wire, worlds, name in WIRES
    ),
)

# -- conv ------------------------------------------------------------------------------------------

BACK = conv.OF_INPUTS + conv.OF_FILTERS

hidden(conv.test_forward_on_2_to_5_ranks, *(Forward(p) for p in (2, 3, 4, 5)))
hidden(conv.test_gradient_of_the_images, *(Both(p, parts=conv.OF_INPUTS) for p in (2, 3, 4, 5)))
hidden(
    conv.test_gradients_of_filters_and_biases, *(Both(p, parts=conv.OF_FILTERS) for p in (2, 3, 4))
)
hidden(
    conv.test_kernels_of_1_5_and_7,
    group(conv.SMALL, *(Both(p, (3,), 1) for p in (2, 4))),
    group(
        conv.LARGE,
        *(Both(p, (8,), k, shape=(1, 2, 3, 9)) for k, p in ((5, 2), (5, 4), (7, 3))),
        weight=3,
    ),
)
hidden(
    conv.test_heights_that_differ_and_float32,
    group(
        conv.DIFFER,
        *(Both(len(each), each) for each in ((2, 5, 3), (1, 4, 1), (1, 1), (3, 1, 1, 2, 6))),
    ),
    group(conv.SINGLE, Both(3, dtype="float32")),
)
hidden(
    conv.test_stride_2,
    *(
        Both(len(each), each, k, 2, (2, 2, 3, 6))
        for each, k in (((4, 4), 3), ((3, 5, 4), 3), ((1, 2, 1, 3), 3), ((5, 4, 6), 5))
    ),
)
hidden(conv.test_real_mpi, Both(3), Both(3, (3, 5, 4)))
hidden(
    conv.test_bytes_of_halos,
    *(
        Both(p, (height,), shape=shape)
        for p, height, shape in (
            (2, 4, (2, 3, 2, 5)), (3, 4, (2, 2, 3, 5)), (4, 3, (1, 1, 2, 7)), (5, 3, (1, 2, 1, 7)),
            (10, 3, (1, 1, 1, 6)), (18, 2, (1, 1, 1, 5)), (3, 20, (1, 3, 2, 200)),
        )
    ),
    Both(3, dtype="float32"),
)  # fmt: skip
hidden(
    conv.test_one_all_reduce_of_filters_and_biases,
    *(Both(p, (3,), parts=conv.OF_FILTERS) for p in (2, 4, 9)),
)
hidden(
    conv.test_given_communicator_is_used,
    group(conv.FORWARD, Forward(3)),
    group(conv.BACKWARD, Both(3, parts=BACK)),
)
hidden(
    conv.test_rows_without_halo_do_not_wait, *(Forward(p, (6,), announced=True) for p in (2, 3, 5))
)
hidden(
    conv.test_messages_may_wait_and_come_in_any_order,
    group(conv.FORWARD, Forward(4)),
    group(conv.BACKWARD, Both(4, parts=BACK)),
)
hidden(conv.test_inputs_stay_and_results_are_new, *(Both(p) for p in (2, 3)))
hidden(
    conv.test_forward_hides_the_halo,
    *(
        Forward(
            p, (10,), shape=conv.NARROW, machine=f"{conv.ALONG},alpha_s={alpha_s}", announced=True
        )
        for p, alpha_s in ((4, 0.0007), (8, 0.0005))
    ),
)
hidden(
    conv.test_backward_hides_halo_and_all_reduce,
    *(
        Both(p, (24,), shape=conv.NARROW, machine=f"{conv.TALL},alpha_s={alpha_s}", announced=True)
        for p, alpha_s in ((4, 0.00013), (6, 8e-05))
    ),
)

# -- cost ------------------------------------------------------------------------------------------

MACHINES = ("textbook", "zaratan", cost.SLOW)
SIZES = (1, 2, 3, 5, 8, 64)


def plain(layers):
    """Layers as a case has them."""
    return tuple(map(tuple, layers))


NETWORKS = (
    (cost.LAYERS, 3),
    (plain(halving(64, (3, 16, 32, 64))), 8),
    (plain(halving(2048, (3, 16, 32, 64, 64))), 1),
    (((12, 20, 3, 8, 5, 5), (12, 20, 8, 8, 1, 1), (6, 10, 8, 5, 7, 7)), 5),
)
TRACED = (
    (((8, 16, 2, 8, 3, 3), (8, 8, 8, 8, 5, 5)), 3, (2, 8)),
    (((16, 4, 8, 8, 3, 3), (8, 4, 8, 16, 1, 1), (8, 4, 16, 8, 3, 3)), 2, (4,)),
)


loaded = functools.cache(Machine.load)


def answered(case):
    """The case with its value, or several that are right."""
    layers = [Layer(*each) for each in case.layers]
    given = [loaded(each) if isinstance(each, str) else each for each in case.arguments()[1:]]
    if not isinstance(case, Best):
        return case.with_(gives=getattr(reference, case.function)(layers, *given))
    times = step_times(layers, *given)
    gives = tuple((way, float(f"{1e3 * time:.12g}")) for way, time in times.items())
    return case.with_(gives=gives) if gives else case.with_(raises="ValueError")


def step_times(layers, batch, p, machine):
    """Seconds of a step in each way that is possible."""
    parts = {
        "data": [(batch, 1)] * len(layers),
        "filter": [(layer.out_channels, 1) for layer in layers],
        "domain": [(layer.height, max(1, layer.kernel_h // 2)) for layer in layers],
    }
    times = {}
    for way in WAYS:
        if any(count // p < least for count, least in parts[way]):
            continue
        flops = 0.0
        for k, (layer, (count, _)) in enumerate(zip(layers, parts[way], strict=True)):
            work = 2 * batch * layer.weights * layer.height * layer.width
            flops += (3 if k else 2) * work * math.ceil(count / p) / count
        messages_s = getattr(reference, f"{way}_s")(layers, batch, p, machine)
        times[way] = messages_s + flops / machine.flop_per_s
    return times


def drawn(rng, num_layers=3):
    """A network of sizes that no number of ranks divides, and a batch."""
    sizes = rng.integers(3, 99, size=(num_layers, 4)).tolist()
    kernels = (2 * rng.integers(0, 4, size=num_layers) + 1).tolist()
    layers = tuple((*s, k, k) for s, k in zip(sizes, kernels, strict=True))
    return layers, int(rng.integers(1, 99))


def sized(kind, sizes=SIZES, wires=(), change=lambda layers: layers):
    """Cases of all networks on so many ranks, on these machines."""

    def cases(rng):
        networks = [*NETWORKS, drawn(rng), drawn(rng, 1)]
        return [
            answered(kind(change(layers), batch, p, **wire))
            for layers, batch in networks
            for p in sizes
            for wire in [{"wire": each} for each in wires] or [{}]
        ]

    return cases


def with_halos(layers):
    """The same where each layer has a halo: filters of one row get five."""
    return tuple((*each[:4], each[4] if each[4] > 1 else 5, each[5]) for each in layers)


def with_equal_channels(layers):
    """As many channels out as in, so that the halos of both passes are equally large."""
    return tuple((*each[:3], each[2], *each[4:]) for each in layers)


def flat_and_not(rng):
    """The first layer and the third have no halo."""
    layers, batch = drawn(rng)
    kernels = zip(with_equal_channels(layers), (1, 3, 1), strict=True)
    layers = tuple((*each[:4], k, each[5]) for each, k in kernels)
    return [answered(DomainS(layers, batch, p, wire=w)) for p in (3, 5, 8) for w in MACHINES]


def of_other_elements(kind):
    def cases(rng):
        layers, batch = drawn(rng)
        return [answered(kind(layers, batch, 4, size)) for size in (2, 8)]

    return cases


def traced(*kinds):
    names = (cost.DATA, cost.FILTER, cost.DOMAIN)
    return [
        group(name, *(kind(layers, batch, p) for layers, batch, sizes in TRACED for p in sizes))
        for name, kind in zip(names, kinds, strict=True)
    ]


BYTES, TIMES = (DataBytes, FilterBytes, DomainBytes), (DataS, FilterS, DomainS)


def data_wrong(case):
    words = "These are the gradients of each image; those of the whole batch are summed, once."
    return {words: case.batch * case.right()} if case.batch > 1 else {}


def filter_wrong(case):
    image = case.batch * Layer(*case.layers[0]).inputs * case.itemsize
    words = "The image's gradient is in it, which nobody needs."
    return {words: case.right() + (case.ranks - 1) * image}


def domain_wrong(case):
    layers = [Layer(*each) for each in case.layers]
    summed = reference.data_bytes(layers, case.batch, case.ranks, case.itemsize)
    halos = case.right() - summed
    found = {"The sum of the filters' gradients is missing.": halos}
    if case.ranks > 1:
        words = "The first and the last rank have one neighbour, and not two."
        found[words] = halos * case.ranks // (case.ranks - 1) + summed
    return found


def data_s_wrong(case):
    steps, machine = 2 * (case.ranks - 1), loaded(case.wire)
    spared = max(0, steps - 1) * machine.alpha_s * len(case.layers)
    return {"Each step of a ring pays a latency, and not each ring.": case.right() - spared}


for kind, wrong in (
    (DataBytes, data_wrong),
    (FilterBytes, filter_wrong),
    (DomainBytes, domain_wrong),
    (DataS, data_s_wrong),
):
    kind.wrong = wrong


def resolutions(rng):
    """Large images and small ones, and many channels."""
    cases = [
        Best(plain(halving(resolution, (3, 32, 64, 128))), batch, p, wire=wire)
        for resolution, batch, p, wire in itertools.product(
            (32, 128, 512, 2048), (1, 4, 64), (1, 2, 4, 16), MACHINES[:2]
        )
    ]
    cases += [Best(cost.WIDE, batch, p) for batch in (1, 2, 8) for p in (2, 3, 4)]
    return [case for case in map(answered, cases) if not case.raises]


hidden(cost.test_bytes_of_data_parallelism, sized(DataBytes))
hidden(cost.test_bytes_of_filter_parallelism, sized(FilterBytes))
hidden(cost.test_bytes_of_domain_parallelism, sized(DomainBytes))
hidden(
    cost.test_kernels_that_are_not_square,
    *(answered(DomainBytes(cost.OBLONG, 3, p)) for p in (2, 3, 6)),
)
hidden(
    cost.test_bytes_of_an_element,
    *(
        group(name, of_other_elements(kind))
        for name, kind in zip((cost.DATA, cost.FILTER, cost.DOMAIN), BYTES, strict=True)
    ),
)
hidden(cost.test_time_of_data_parallelism, sized(DataS, wires=MACHINES))
hidden(cost.test_time_of_filter_parallelism, sized(FilterS, wires=MACHINES))
hidden(cost.test_time_of_domain_parallelism, sized(DomainS, (1, 3, 5, 8, 64), MACHINES, with_halos))
hidden(cost.test_halo_without_rows_takes_no_time, flat_and_not)
hidden(
    cost.test_two_ranks_have_one_neighbour_each,
    sized(DomainS, (2,), MACHINES, lambda layers: with_halos(with_equal_channels(layers))),
)
hidden(cost.test_traced_bytes, *traced(*BYTES))
hidden(cost.test_traced_times, *traced(*TIMES))
hidden(
    cost.test_best_for_a_resolution,
    resolutions,
    # Some ranks have two of 12 filters and some one, and those with two take longest.
    *(answered(Best(cost.FEW, 8, 8, wire=f"textbook,flop_per_s={x}")) for x in ("1e8", "1e12")),
)
hidden(
    cost.test_best_where_none_is_possible,
    answered(Best(plain(halving(16, (3, 8, 8))), 4, 16)),
    answered(Best(((8, 8, 3, 4, 3, 3),), 1, 9)),
)

# -- ring_attention --------------------------------------------------------------------------------

UNEVEN = ((3, 5), (4, 1, 6), (2, 7, 1, 3))
KINDS = {"announced": True, "width": 8, "machine": ring.QUICK}

hidden(
    ring.test_attention_on_2_to_5_ranks,
    *(
        Attention(p, (n,), batch, heads, width=5, announced=True)
        for p, n, batch, heads in ((2, 4, 1, 2), (3, 5, 2, 1), (4, 3, 1, 3), (5, 4, 2, 2))
    ),
)
hidden(
    ring.test_causal,
    group(
        ring.EQUAL,
        *(
            Attention(p, (n,), batch, causal=True, announced=True)
            for p, n, batch in ((2, 4, 1), (3, 5, 2), (4, 3, 1), (5, 4, 1))
        ),
    ),
    group(
        ring.DIFFER, *(Attention(len(each), each, causal=True, announced=True) for each in UNEVEN)
    ),
)
hidden(
    ring.test_scores_of_thousands,
    *(Attention(p, (n,), 2, kind="thousands", announced=True) for p, n in ((2, 5), (3, 4), (5, 3))),
)
hidden(ring.test_uneven_parts, *(Attention(len(each), each, announced=True) for each in UNEVEN))
hidden(
    ring.test_fewer_kv_heads,
    *(
        Attention(p, heads=heads, kv_heads=kv_heads, announced=True)
        for p, heads, kv_heads in ((2, 4, 2), (3, 6, 2), (4, 3, 1), (4, 6, 3))
    ),
)
hidden(
    ring.test_float32_nan_short_parts_and_wrong_arguments,
    group(
        ring.SINGLE,
        *(Attention(p, (4,), causal=p == 4, dtype="float32") for p in (2, 4)),
    ),
    group(ring.NAN, Attention(4, nan_of=2)),
    group(ring.SHORT, Attention(3, (1,)), Attention(2, (1,)), Attention(1, (5,))),
    group(ring.REFUSED, Attention(2, (2,)), *ring.WRONG),
)
hidden(ring.test_inputs_stay_and_results_are_new, Attention(2), Attention(3))
hidden(ring.test_real_mpi, Attention(3, (4,)), Attention(3, (2, 5, 1), causal=True))
hidden(ring.test_each_rank_computes_with_its_own_queries, Attention(4, (4,), announced=True))
hidden(
    ring.test_keys_and_values_are_sent_once_round_a_ring,
    *(
        Attention(p, (n,), width=width, machine=ring.EAGER)
        for p, n, width in (
            (2, 4, 4), (3, 4, 4), (4, 3, 4), (5, 3, 4), (9, 3, 4), (12, 2, 4), (18, 1, 4),
            (3, 64, 40),
        )
    ),
    Attention(4, dtype="float32"),
)  # fmt: skip
hidden(ring.test_given_communicator_is_used, Attention(4))
hidden(
    ring.test_the_next_block_travels_while_one_is_computed,
    *(Attention(p, announced=True) for p in (3, 4, 7)),
)
hidden(
    ring.test_no_rank_makes_room_for_all_keys,
    group(ring.IN_ORDER, *(Attention(p, (2,), announced=True) for p in (6, 9))),
    group(ring.HELD, ring.MUCH, weight=2),
)
hidden(ring.test_sends_may_wait_and_all_is_completed, *(Attention(p) for p in (2, 3, 6)))
hidden(
    ring.test_blocks_and_messages_hide_behind_each_other,
    group(ring.LONG_BLOCKS, *(Attention(p, (8,), **KINDS) for p in (4, 8))),
    group(ring.LONG_MESSAGES, *(Attention(p, (4,), **KINDS) for p in (5, 32))),
)

# -- conv_torch ------------------------------------------------------------------------------------

FOUR_SIZES = ((2, 4, 1, (2, 3)), (3, 3, 2, (1, 2)), (4, 5, 1, (3, 3)), (5, 2, 2, (3, 1)))
SHAPES = (
    (2, 4, (2, 3), 5), (3, 4, (3, 2), 5), (4, 3, (2, 3), 5), (5, 3, (3, 2), 5),
    (12, 2, (2, 1), 4), (18, 2, (2, 1), 4), (3, 24, (8, 8), 40),
)  # fmt: skip


def rows(*heights, **options):
    """Cases of parts of these heights."""
    return [Conv2d(len(each), each, **options) for each in heights]


hidden(
    conv_torch.test_rows_and_gradients_on_2_to_5_ranks,
    *(Conv2d(p, (h,), *others, parts=IMAGES) for p, h, *others in FOUR_SIZES),
)
hidden(
    conv_torch.test_gradients_of_weights_and_biases,
    *(Conv2d(p, (h,), *others, parts=WEIGHTS) for p, h, *others in FOUR_SIZES),
    *rows((4, 1, 6), parts=WEIGHTS),
)
hidden(
    conv_torch.test_kernels_of_1_and_5,
    group(conv_torch.SMALL, *(Conv2d(p, (3,), kernel=1) for p in (2, 3, 4))),
    group(
        conv_torch.LARGE,
        *(Conv2d(p, (h,), kernel=5) for p, h in ((2, 4), (3, 3), (4, 4))),
        weight=2,
    ),
)
hidden(
    conv_torch.test_uneven_heights_and_low_parts,
    group(conv_torch.DIFFER, *rows((3, 5), (4, 1, 6), (2, 7, 1, 3), parts=IMAGES), weight=2),
    group(conv_torch.LOW, *rows((1, 1, 1), (1, 1), (4,), parts=IMAGES)),
    group(conv_torch.REFUSED, Conv2d(2, parts=IMAGES), *conv_torch.WRONG),
)
hidden(
    conv_torch.test_float32_and_bfloat16,
    group(conv_torch.SINGLE, *(Conv2d(p, dtype="float32") for p in (2, 3))),
    group(conv_torch.HALF, Conv2d(3, dtype="bfloat16")),
)
hidden(
    conv_torch.test_gaps_sums_no_bias_and_two_calls,
    group(conv_torch.GAPS, Conv2d(3, batch=2, how="gaps")),
    group(conv_torch.SUM, Conv2d(3, batch=2, how="sum")),
    group(conv_torch.NO_BIAS, Conv2d(3, bias=False)),
    group(conv_torch.TWICE, *(Conv2d(p, how="together") for p in (2, 3)), weight=8),
)
hidden(conv_torch.test_real_gloo, Conv2d(3))
hidden(conv_torch.test_rows_go_from_neighbour_to_neighbour, Conv2d(4, needs="none"))
hidden(
    conv_torch.test_bytes_of_the_halos_forward,
    *(
        Conv2d(p, (h,), channels=channels, width=width, needs="none")
        for p, h, channels, width in SHAPES
    ),
)
hidden(
    conv_torch.test_bytes_of_both_passes,
    *(Conv2d(p, (h,), channels=channels, width=width) for p, h, channels, width in SHAPES),
    Conv2d(4, (3,), dtype="float32"),
)
hidden(
    conv_torch.test_gradients_that_nobody_asked_for_send_nothing,
    group(conv_torch.DATA, Conv2d(3, needs="weights")),
    group(conv_torch.FROZEN, Conv2d(3, needs="x")),
    group(conv_torch.BIAS, Conv2d(3, needs="bias")),
)
hidden(
    conv_torch.test_given_group_is_used,
    *(
        group(name, Conv2d(4, (3,), parts=parts))
        for name, parts in zip(conv_torch.BOTH, (IMAGES, WEIGHTS), strict=True)
    ),
)
hidden(
    conv_torch.test_sends_may_wait_and_all_is_completed,
    *(Conv2d(p, (3,), parts=IMAGES) for p in (2, 5)),
)
hidden(
    conv_torch.test_time_of_a_halo_and_of_both_passes,
    group("one halo", *(Conv2d(p, needs="none", machine=conv_torch.FAR) for p in (3, 6))),
    group("both passes", Conv2d(8, channels=(8, 8), width=16, machine=conv_torch.SLOW)),
)

# -- ulysses_torch ---------------------------------------------------------------------------------

WORLDS = ((2, 3, 4), (3, 2, 3), (4, 2, 8), (5, 2, 5))  # ranks, positions, heads
HEADS = ((2, 3, 4, 3), (3, 2, 3, 3), (4, 2, 4, 3), (5, 2, 5, 3), (12, 1, 12, 2), (18, 1, 18, 2),
         (2, 24, 4, 24))  # fmt: skip

hidden(
    ulysses.test_results_on_2_to_5_ranks,
    *(Ulysses(p, n, 2, heads, backward=False) for p, n, heads in WORLDS),
)
hidden(
    ulysses.test_gradients_on_2_to_5_ranks,
    *(Ulysses(p, n, 2, heads, parts=GRADIENTS) for p, n, heads in WORLDS),
)
hidden(
    ulysses.test_fewer_kv_heads,
    group(
        ulysses.VALUES,
        *(Ulysses(p, heads=h, kv_heads=k) for p, h, k in ((2, 4, 2), (3, 6, 3), (2, 8, 4))),
        weight=2,
    ),
    group(
        ulysses.BYTES,
        *(Ulysses(p, heads=8, kv_heads=k, backward=False) for p, k in ((2, 2), (4, 4))),
        weight=2,
    ),
)
hidden(ulysses.test_another_attention, *(Ulysses(p, sees="near") for p in (2, 4)))
hidden(
    ulysses.test_other_dtypes_gaps_sums_and_two_calls,
    group(ulysses.TWICE, Ulysses(2, how="together"), weight=4),
    group(ulysses.SINGLE, Ulysses(4, 2, dtype="float32")),
    group(ulysses.HALF, Ulysses(2, dtype="bfloat16"), weight=2),
    group(ulysses.GAPS, Ulysses(2, batch=2, how="gaps"), weight=2),
    group(ulysses.SUM, Ulysses(2, batch=2, how="sum")),
    group(ulysses.FEW, Ulysses(4, 1), Ulysses(1, 5)),
)
hidden(ulysses.test_heads_that_cannot_be_shared, Ulysses(2, 2, backward=False), *ulysses.WRONG)
hidden(ulysses.test_real_gloo, Ulysses(2))
hidden(ulysses.test_each_rank_takes_some_of_the_heads, Ulysses(4, width=4, backward=False))
hidden(
    ulysses.test_bytes_forward,
    *(Ulysses(p, n, heads=heads, width=width, backward=False) for p, n, heads, width in HEADS),
    Ulysses(4, dtype="float32", backward=False),
)
hidden(
    ulysses.test_bytes_of_both_passes,
    *(Ulysses(p, n, heads=heads, width=width) for p, n, heads, width in HEADS),
)
hidden(
    ulysses.test_given_group_is_used,
    *(
        group(name, Ulysses(3, 2, heads=3, parts=parts))
        for name, parts in zip(ulysses.HALVES, (RESULT, GRADIENTS), strict=True)
    ),
)
hidden(
    ulysses.test_any_order_and_everything_waited_for,
    *(
        group(name, Ulysses(4, 2, parts=parts))
        for name, parts in zip(ulysses.HALVES, (RESULT, GRADIENTS), strict=True)
    ),
)
hidden(
    ulysses.test_each_rank_has_its_share_of_the_work,
    *(Ulysses(p, width=4, parts=RESULT) for p in (2, 4)),
)
hidden(ulysses.test_time_on_8_ranks, Ulysses(8, 8, heads=8, width=8, machine=ulysses.SLOW))

# -- ring_attention_torch --------------------------------------------------------------------------

BYTES_OF = (
    ((2, 8), (3, 8), (4, 8), (9, 2)),
    ((2, 8), (3, 8), (4, 8), (5, 4), (9, 2), (17, 2), (2, 100)),
)


def moved(kind, names):
    """Groups of cases on ranks with so many positions, of the forward pass and of both."""
    return [
        group(
            name,
            *(kind(p, (n,), batch=1, how=how, announced=True) for p, n in sizes),
            kind(3, (4,), how=how, dtype="float32"),
        )
        for name, how, sizes in zip(names, ("forward", "plain"), BYTES_OF, strict=True)
    ]


def each_half(names, case, *worlds):
    """Groups of a case on so many ranks, of which the result is compared, or the gradients."""
    parts = zip(names, (ring_torch.RESULT, ring_torch.GRADIENTS), strict=True)
    return [group(name, *(case.with_(p=p, parts=own) for p in worlds)) for name, own in parts]


hidden(
    ring_torch.test_result_on_2_to_5_ranks,
    *(RingAttention(p, how="forward", announced=True) for p in (2, 3, 4, 5)),
)
hidden(
    ring_torch.test_gradients_on_2_to_5_ranks,
    *(ring_torch.ONLY[1].with_(p=p) for p in (2, 3, 4, 5)),
    RingAttention(1, (4,), parts=ring_torch.GRADIENTS),
)
hidden(
    ring_torch.test_causal_attention,
    group(
        ring_torch.VALUES, *(RingAttention(p, causal=True, announced=True) for p in (2, 3, 5)),
        weight=2,
    ),
    group(
        ring_torch.WORK,
        RingAttention(4, (8,), causal=True, parts=ring_torch.RESULT, announced=True), weight=2),
)  # fmt: skip
hidden(
    ring_torch.test_uneven_parts,
    *(RingAttention(len(each), each, announced=True) for each in ((2, 5), (4, 1, 3), (1, 1, 6, 2))),
)
hidden(
    ring_torch.test_fewer_heads_of_keys,
    group(
        ring_torch.VALUES,
        RingAttention(2, heads=4, kv_heads=2),
        RingAttention(3, (2,), heads=3, kv_heads=1),
        weight=2,
    ),
    group(
        ring_torch.BYTES,
        RingAttention(3, (4,), heads=6, kv_heads=1, width=8, parts=ring_torch.RESULT),
        weight=2,
    ),
)
hidden(
    ring_torch.test_large_scores_float32_and_gaps,
    group(ring_torch.LARGE, RingAttention(3, spread=40.0), weight=3),
    group(ring_torch.SINGLE, RingAttention(3, dtype="float32", announced=True), weight=2),
    group(ring_torch.GAPS, RingAttention(3, (4,), how="gaps", announced=True)),
)
hidden(ring_torch.test_two_calls_in_one_graph, RingAttention(3, how="together"))
hidden(ring_torch.test_real_gloo, RingAttention(3))
hidden(
    ring_torch.test_bytes_of_both_passes,
    *moved(RingAttention, (ring_torch.FORWARD, ring_torch.BOTH)),
)
hidden(ring_torch.test_given_group_is_used, *each_half(ring_torch.HALVES, ring_torch.PLAIN, 3))
hidden(
    ring_torch.test_keys_travel_on_while_their_block_is_computed,
    *each_half(ring_torch.DIRECTIONS, RingAttention(2, (4,), announced=True), 2, 4),
)
hidden(
    ring_torch.test_any_order_and_everything_waited_for,
    *each_half(ring_torch.HALVES, ring_torch.PLAIN, 4),
)
hidden(
    ring_torch.test_inputs_stay_and_wrong_lengths_are_refused,
    group(ring_torch.INPUTS, RingAttention(2, announced=True)),
    group(
        ring_torch.REFUSED,
        RingAttention(2, parts=ring_torch.RESULT),
        RefusedLengths(2),
        RefusedLengths(2, (3,)),
    ),
)
hidden(ring_torch.test_no_keys_of_others_are_kept, Kept(8, (4,)))
hidden(
    ring_torch.test_time_of_a_long_sequence_on_8_to_64_ranks,
    *(LongRing(4, (4,), gpus=gpus) for gpus in (64, 8)),
)

# -- zigzag_torch ----------------------------------------------------------------------------------


def cut(positions, ranks):
    """A case that says which positions each rank gets."""
    size = positions // (2 * ranks)
    starts = [(rank * size, positions - (rank + 1) * size) for rank in range(ranks)]
    parts = ([*range(a, a + size), *range(b, b + size)] for a, b in starts)
    return Orders(positions, ranks, tuple(map(tuple, parts)))


hidden(
    zigzag.test_split_and_merge,
    group(
        zigzag.CUT, *(cut(*each) for each in ((4, 2), (12, 3), (10, 1), (32, 8))),
        weight=3,
    ),
    group(
        zigzag.OTHER, Orders(4, 2, ((0, 3), (1, 2))), Orders(6, 2), Orders(5, 1), Orders(20, 3),
        Orders(0, 2, ((), ())),
    ),
)  # fmt: skip
hidden(zigzag.test_result_on_2_to_5_ranks, *(zigzag.TWO.with_(p=p) for p in (2, 3, 4, 5)))
hidden(
    zigzag.test_gradients_on_2_to_5_ranks,
    *(zigzag.ONLY[1].with_(p=p) for p in (2, 3, 4, 5)),
    ZigzagAttention(1, parts=zigzag.GRADIENTS),
)
hidden(
    zigzag.test_fewer_heads_large_scores_float32_and_gaps,
    group(zigzag.FEW, ZigzagAttention(3, heads=4, kv_heads=2), weight=3),
    group(zigzag.LARGE, ZigzagAttention(3, spread=40.0), weight=3),
    group(zigzag.SINGLE, ZigzagAttention(3, dtype="float32", announced=True), weight=2),
    group(zigzag.GAPS, ZigzagAttention(3, how="gaps", announced=True)),
)
hidden(zigzag.test_two_calls_in_one_graph, ZigzagAttention(3, how="together"))
hidden(zigzag.test_real_gloo, ZigzagAttention(3))
hidden(zigzag.test_bytes_of_both_passes, *moved(ZigzagAttention, (zigzag.FORWARD, zigzag.BOTH)))
hidden(zigzag.test_given_group_is_used, *each_half(zigzag.HALVES, zigzag.PLAIN, 3))
hidden(
    zigzag.test_keys_travel_on_while_their_block_is_computed,
    *each_half(zigzag.DIRECTIONS, zigzag.PLAIN, 2, 4),
)
hidden(
    zigzag.test_all_ranks_have_the_same_work,
    *(ZigzagAttention(p, (8,), parts=zigzag.RESULT, announced=True) for p in (3, 4)),
)
hidden(zigzag.test_any_order_and_everything_waited_for, *each_half(zigzag.HALVES, zigzag.PLAIN, 4))
hidden(zigzag.test_inputs_and_incoming_gradient_stay, ZigzagAttention(2, announced=True))
hidden(zigzag.test_time_of_a_long_sequence_on_8_ranks, LongZigzag(4, gpus=8))
