"""The cases of the hidden run."""

import itertools

from checks import test_hsdp_torch as hsdp
from checks import test_lowbit as lowbit
from checks import test_memory as memory
from checks import test_offload as offload
from checks import test_partition as partition
from checks import test_zero1 as zero1
from checks import test_zero2 as zero2
from checks import test_zero3_torch as zero3
from checks.cases import (
    SHAPES,
    ActivationBytes,
    Backward,
    FewestRanks,
    Flatten,
    Layout,
    MostLayers,
    Pieces,
    Recomputed,
    Schedule,
    StateBytes,
    StepBytes,
    Steps,
    TrackedActivations,
    TrackedState,
    Views,
    layout,
)
from checks.cases_lowbit import Gathered, Scattered
from checks.cases_torch import Alone, Gather, Refused, StepOf, Synchronise, Train

from ringside.checking.suite import group, hidden, oracle

# -- partition -------------------------------------------------------------------------------------

PSI = 42  # elements of SHAPES


def shapes_drawn(rng, count):
    return tuple(
        tuple(int(k) for k in rng.integers(1, 5, size=rng.integers(0, 4))) for _ in range(count)
    )


def layouts(divide):
    """Layouts of drawn shapes, on numbers of ranks that divide their elements, or don't."""

    def drawn(rng):
        cases = [
            Layout(shapes_drawn(rng, 5), dtype="float32", world_size=p)
            for p in (int(rng.integers(1, 9)) for _ in range(8))
        ]
        return [case for case in cases if divide == (divides(case))]

    def divides(case):
        _, ones = layout(case.shapes, case.order, 1)
        return ones % case.world_size == 0

    return drawn


def tied(rng):
    cases = []
    for p in (1, 2, 3, 6):  # which divide PSI
        order = (*(int(k) for k in rng.integers(0, 5, size=4)), 4, 3, 2, 1, 0)
        cases += [Layout(SHAPES, (0, 1, 0, 2, 3, 4, 1, 0), world_size=p)]
        cases += [Layout(SHAPES, order, world_size=p)]
    return cases


def flattened(rng):
    cases = []
    for p, dtype in ((1, "float64"), (2, "float32"), (4, "float64"), (7, "float64")):
        shapes = shapes_drawn(rng, 4)
        starts, shard_size = layout(shapes, range(4), p)
        cases.append(Flatten(shapes, starts=tuple(starts), length=p * shard_size, dtype=dtype))
    return cases


def viewed(rng):
    cases = []
    for p in (1, 3, 4):
        shapes = (*shapes_drawn(rng, 3), (), (0, 2))
        starts, shard_size = layout(shapes, range(5), p)
        dtype = "float32" if p == 3 else "float64"
        cases.append(Views(p * shard_size, (*starts, starts[0]), (*shapes, shapes[0]), dtype))
    return cases


def cut(rng):
    cases = []
    for p in (1, 2, 3, 4, 7, 13):
        shapes = list(shapes_drawn(rng, 6))
        order = [0, 1, 2, 3, 4, 5]
        if p > 2:  # one is tied
            shapes[4], order[4] = shapes[1], 1
        starts, shard_size = layout(shapes, order, p)
        cases += [Pieces(tuple(starts), tuple(shapes), shard_size, rank) for rank in range(p)]
    return cases


hidden(
    partition.test_starts_and_shard_size,
    *(Layout(world_size=p) for p in (1, 2, 3, 6, 7)),
    layouts(True),
)
hidden(
    partition.test_shards_are_rounded_up,
    *(Layout(world_size=p) for p in (4, 64)),
    layouts(False),
)
hidden(
    partition.test_tied_weights_stand_once,
    tied,
    Layout(((2, 3), (2, 3), (4,)), (0, 1, 2, 0), world_size=2, equal=True),
)
hidden(
    partition.test_empty_lists_and_arrays,
    Layout((), world_size=3),
    Layout(((0,), (2, 0), (4,)), world_size=2),
    Flatten(((0,), (3,), (0, 4)), starts=(0, 0, 3), length=3),
    Pieces((0, 0, 2), ((0,), (2,), (3,)), 2, 0),
)
hidden(
    partition.test_flatten_pads_with_zeros,
    flattened,
    Flatten(((2, 3), (4,)), (0, 1, 0), starts=(0, 6, 0), length=12),
)
hidden(
    partition.test_flatten_of_any_layout_in_memory,
    Flatten(((4, 3), (3, 3), (8, 6)), starts=(0, 12, 21), length=69, spread=True),
)
hidden(partition.test_views_share_memory_with_the_flat_vector, viewed)
hidden(partition.test_pieces_of_a_shard, cut)
hidden(
    partition.test_what_cannot_be_right_is_refused,
    Layout(((2, 3),), world_size=0, raises="ValueError"),
    Layout(((2, 3),), world_size=-2, raises="ValueError"),
    Layout(((2, 3), (4,)), world_size=2, mixed=True, raises="ValueError"),
    Flatten(((2, 3),), starts=(0,), length=5, raises="ValueError"),
    Flatten(((2, 3), (2, 3)), starts=(0, 7), length=12, raises="ValueError"),
    Views(6, (0,), ((7,),), raises="ValueError"),
    Views(6, (4,), ((3,),), raises="ValueError"),
)

# -- zero1 -----------------------------------------------------------------------------------------

hidden(zero1.test_one_step_on_2_4_and_8_ranks, Steps(2, 10), Steps(4, 12), Steps(8, 40))
hidden(
    zero1.test_any_length_on_any_number_of_ranks,
    group(
        zero1.LENGTHS,
        *(Steps(p, n) for p, n in ((4, 11), (2, 1), (8, 13), (8, 5))),
    ),
    group(zero1.WORLDS, *(Steps(p, n) for p, n in ((3, 9), (5, 20), (7, 14), (1, 5)))),
)
hidden(
    zero1.test_several_steps_from_saved_states,
    group(zero1.CLIPPED, Steps(5, 13, steps=4), Steps(3, 8, steps=3, clip=0.5)),
    group(
        zero1.DECAYED, Steps(2, 8, steps=2),
        lambda rng: [Steps(4, 12, steps=3, decay=round(rng.uniform(0.1, 1), 3))],
    ),
)  # fmt: skip
hidden(
    zero1.test_weight_decay,
    lambda rng: [Steps(p, n, decay=round(rng.uniform(0.1, 1), 3)) for p, n in ((2, 8), (4, 12))],
)
hidden(
    zero1.test_clipping_takes_the_norm_of_all_shards,
    *(
        Steps(p, n, steps=3, clip=clip)
        for p, n, clip in ((2, 8, 0.5), (4, 12, 1.0), (2, 30, 0.1), (4, 8, 1e9))
    ),
)
hidden(
    zero1.test_norm_is_that_of_the_whole_mean_gradient, Steps(2, 8), Steps(4, 12, clip=0.5),
    Steps(8, 400, steps=4), Steps(4, 60, steps=4),
)  # fmt: skip
hidden(zero1.test_float32, *(Steps(p, n, dtype="float32") for p, n in ((2, 40), (4, 80))))
hidden(zero1.test_real_mpi, Steps(4, 12))
hidden(zero1.test_state_is_that_of_a_shard, Steps(4, 1000), Steps(16, 64))
hidden(
    zero1.test_state_to_the_byte, group("float32", Steps(2, 100, dtype="float32"), weight=4),
    group(zero1.WORLDS, Steps(5, 1000)), group(zero1.LENGTHS, Steps(4, 1003)),
)  # fmt: skip
hidden(
    zero1.test_bytes_per_rank,
    group(
        zero1.PLAIN, *(Steps(p, n) for p, n in ((2, 10), (16, 96), (4, 20_000)))
    ),
    group("float32", Steps(4, 120, dtype="float32"), weight=4),
    group(zero1.WORLDS, *(Steps(p, n) for p, n in ((3, 9), (5, 100), (18, 90)))),
    group(zero1.LENGTHS, Steps(4, 103)),
)  # fmt: skip
hidden(zero1.test_given_communicator_is_used, Steps(4, 16))
hidden(zero1.test_messages_may_wait_and_come_in_any_order, Steps(4, 16))
hidden(zero1.test_inputs_stay_as_they_were, Steps(4, 12), Steps(2, 8, steps=2))
hidden(
    zero1.test_time_on_8_and_32_ranks,
    group("8 ranks", Steps(8, 16_000, machine=zero1.WORK)),
    group("32 ranks", Steps(32, 32_000, machine=f"{zero1.WORK},alpha_s=1e-5")),
)

# -- zero2 -----------------------------------------------------------------------------------------

EQUAL, MIXED, LONG = zero2.EQUAL, zero2.MIXED, zero2.LONG

hidden(
    zero2.test_shards_on_2_and_4_ranks, *(Backward(p, EQUAL) for p in (2, 4)),
    Backward(4, (6, 6, 6), announced=True),
)  # fmt: skip
hidden(zero2.test_shards_on_3_and_5_ranks, Backward(3, EQUAL), Backward(5, (6,) * 6))
hidden(
    zero2.test_layers_with_several_owners_and_owners_of_several_layers,
    Backward(8, LONG),
    Backward(2, (1, 1, 1, 1, 1, 1, 9, 2)),
)
hidden(
    zero2.test_padding,
    group(zero2.PADDED, Backward(4, MIXED), Backward(4, (5, 3, 4)), weight=2),
    group(zero2.EMPTY, Backward(4, (1, 1)), Backward(16, (1, 2, 1))),
)
hidden(zero2.test_float32, Backward(4, EQUAL, dtype="float32"))
hidden(zero2.test_real_mpi, Backward(4, EQUAL))
hidden(
    zero2.test_bytes_per_rank,
    group(
        zero2.WHOLE, *(Backward(p, EQUAL) for p in (2, 4)),
        Backward(4, (100,) * 5), Backward(4, EQUAL, dtype="float32"),
        Backward(16, (8,) * 17), weight=3,
    ),
    group(
        zero2.OTHER,
        *(
            Backward(p, widths)
            for p, widths in ((3, LONG), (5, (8, 7, 6, 5)), (12, (8, 7, 6, 5)), (18, (8, 7, 6)))
        ),
    ),
)  # fmt: skip
hidden(zero2.test_gradients_leave_layer_by_layer, Backward(4, EQUAL, announced=True))
hidden(
    zero2.test_gradients_leave_before_the_next_layer,
    *(Backward(p, EQUAL, announced=True) for p in (2, 4)),
)
hidden(zero2.test_given_communicator_is_used, Backward(4, (6,) * 5))
hidden(
    zero2.test_no_rank_holds_the_whole_gradient,
    Backward(4, (60,) * 13, watched=True),
)
hidden(zero2.test_messages_may_wait_and_come_in_any_order, Backward(4, EQUAL))

# -- zero3_torch -----------------------------------------------------------------------------------

WIDTHS = (5, 12, 24, 12, 12)  # 2, 3 and 4 ranks divide each layer's elements
UNEVEN = (5, 7, 4, 6, 3)
BLOCKS = {"widths": (4, 6, 12, 6, 6, 12), "blocks": (2, 1, 2)}
SEVEN = (4, 3, 6, 3, 6, 12, 3)

hidden(
    zero3.test_training_equals_serial_training_on_2_to_18_ranks,
    group(zero3.TWO, Train(2, WIDTHS, steps=3)),
    group(
        zero3.MORE, *(Train(p, WIDTHS, steps=3) for p in (3, 4)), Train(12, (5, 12, 12), steps=1),
        Train(18, (5, 18, 18), steps=1),
    ),
)  # fmt: skip
hidden(
    zero3.test_a_whole_training,
    Train(3, UNEVEN, steps=3, microbatches=2, evaluate=True, dtype="float32"),
)
hidden(
    zero3.test_layers_of_any_length, Train(5, UNEVEN), Train(4, (1, 1, 2, 5), bias=False),
    Train(3, (2, 1, 1)), Train(2, (4, 3)), Train(2, (40, 60, 50), steps=1),
)  # fmt: skip
hidden(
    zero3.test_gradients_add_up,
    Train(2, WIDTHS, microbatches=3),
    Train(2, WIDTHS, keep_zeros=True, microbatches=2),
)
hidden(
    zero3.test_evaluation_in_between,
    *(Train(2, widths, steps=3, evaluate=True) for widths in (WIDTHS, (3, 4, 6, 2))),
)
hidden(
    zero3.test_layers_that_a_function_names, Train(2, **BLOCKS, by_layer=True), Train(3, **BLOCKS)
)
hidden(
    zero3.test_other_optimizers_and_float32,
    Train(2, WIDTHS, optimizer="adam", steps=3, second=True),
    Train(3, WIDTHS, dtype="float32"),
)
hidden(zero3.test_real_gloo, Train(2, WIDTHS))
hidden(
    zero3.test_bytes_of_a_step,
    group(
        zero3.DIVIDES, Train(2, WIDTHS),
        Train(3, WIDTHS, evaluate=True), Train(4, dtype="float32"),
        *(
            Train(p, widths, steps=1)
            for p, widths in ((12, (5, 12, 12)), (18, (5, 18, 18)), (2, (40, 60, 48)))
        ),
        weight=2,
    ),
    group(zero3.DOES_NOT, Train(4, (1, 1, 2, 5)), Train(5, UNEVEN)),
)  # fmt: skip
hidden(zero3.test_given_group_is_used, Train(3, WIDTHS))
hidden(zero3.test_layers_are_gathered_one_by_one, Train(4, (12,) * 8, steps=1, announced=True))
hidden(
    zero3.test_one_layer_is_gathered_ahead,
    Train(2, WIDTHS, announced=True), Train(2, **BLOCKS, announced=True),
    Train(3, SEVEN, evaluate=True, announced=True),
)  # fmt: skip
hidden(
    zero3.test_gradients_are_reduced_while_the_next_layer_computes,
    Train(2, WIDTHS, announced=True),
    Train(3, SEVEN, microbatches=2, announced=True),
)
hidden(zero3.test_everything_is_waited_for, Train(3, WIDTHS))
hidden(
    zero3.test_two_layers_at_a_time,
    *(Alone(4, zero3.DEEP, evaluate=each) for each in (False, True)),
)
hidden(
    zero3.test_time_of_a_step_on_8_to_64_ranks,
    *(
        zero3.STEP.with_(
            costs=(share * zero3.BACKWARD_S / 2, share * zero3.BACKWARD_S), stretched=p
        )
        for share, p in ((2, 8), (2, 64), (1, 8), (1, 32))
    ),
)

# -- hsdp_torch ------------------------------------------------------------------------------------

LAYERS = (3, 1, 5)  # elements of a part
NODES = ((2, 4), (3, 4), (4, 5))  # replicas and shards


def both(function, *grids, **more):
    return [function(r * s, r, **more) for r, s in grids]


for test, function in (
    (hsdp.test_gather, Gather),
    (hsdp.test_mean_of_gradients, Synchronise),
):
    hidden(
        test,
        group(
            hsdp.SEVERAL, *both(function, (2, 2), (2, 3), parts=LAYERS),
            function(4, 2, parts=LAYERS, dtype="float32"), weight=3,
        ),
        group(hsdp.ONE, *both(function, (3, 1), (1, 3), parts=LAYERS)),
    )  # fmt: skip
hidden(
    hsdp.test_inputs_stay_and_other_lengths,
    group("gather", *(Gather(4, 2, parts=parts) for parts in ((), (3, 0, 5)))),
    group(
        "synchronise",
        *(Synchronise(4, 2, parts=parts) for parts in ((), (3, 0, 5))),
    ),
    group("what can't be cut", Refused(4, 2)),
)
hidden(hsdp.test_real_gloo, Gather(2, 1, parts=LAYERS), Synchronise(2, 2, parts=LAYERS))
hidden(
    hsdp.test_bytes_inside, group("gather", *both(Gather, *NODES, parts=LAYERS)),
    group(
        "synchronise", Synchronise(8, 2, parts=LAYERS),
        Synchronise(6, parts=LAYERS, dtype="float32"), weight=3,
    ),
)  # fmt: skip
hidden(
    hsdp.test_bytes_between, *both(Synchronise, (4, 2), (3, 4), (4, 5), parts=LAYERS),
    *(Synchronise(4, 2, parts=parts) for parts in ((8, 4), (5000, 3))),
)  # fmt: skip
for test, weight in ((hsdp.test_given_groups_are_used, 3), (hsdp.test_everything_is_waited_for, 1)):
    hidden(
        test, group("gather", Gather(4, 2, parts=LAYERS)),
        group("synchronise", Synchronise(4, 2, parts=LAYERS), weight=weight),
    )  # fmt: skip
hidden(hsdp.test_both_levels_work_at_once, hsdp.AT_ONCE)
hidden(hsdp.test_a_step_beats_plain_sharding_over_slow_links, StepOf(8, 2, machine=hsdp.ZARATAN))

# -- memory ----------------------------------------------------------------------------------------


def parameters(sizes):
    """Matrices, biases and norms."""
    num_layers, h, _, s, vocabulary = sizes
    layer = 3 * h * h + 3 * h + h * h + h + 8 * h * h + 5 * h + 4 * h
    return num_layers * layer + vocabulary * h + s * h + 2 * h


def state(psi, n, stage, dtypes=(2, 2, 12)):
    shard = psi // n + (psi % n > 0)
    held = {0: (psi, psi, psi), 1: (psi, psi, shard), 2: (psi, shard, shard), 3: (shard,) * 3}
    return sum(count * nbytes for count, nbytes in zip(held[stage], dtypes, strict=True))


def activations(sizes, batch, recompute=False, element_bytes=2, dropout=True):
    """The table of ``given/gpt_memory.py``, line by line: elements, and bytes of each."""
    num_layers, h, a, s, vocabulary = sizes
    row, scores, w = s * batch * h, a * s * s * batch, element_bytes
    table = [(row, w)] * 2 + [(3 * row, w), (scores, w), (row, w)]
    table += [(row, w)] * 2 + [(4 * row, w)] * 2
    if dropout:
        table += [(scores, 1), (scores, w), (row, 1), (row, 1)]
    layer = sum(count * nbytes for count, nbytes in table)
    ends = 2 * row * w + row * dropout + s * batch * vocabulary * w
    return ends + layer + (num_layers - 1) * (row * w if recompute else layer)


def step(sizes, batch, n, stage, recompute=False):
    return state(parameters(sizes), n, stage) + activations(sizes, batch, recompute)


@oracle(StateBytes)
def state_bytes(case):
    return state(case.num_parameters, case.world_size, case.stage, case.dtypes or (2, 2, 12))


def wrong_states(case):
    """By the sentence that names the mistake."""
    psi, n, stage, dtypes = case.num_parameters, case.world_size, case.stage, case.dtypes
    dtypes = dtypes or (2, 2, 12)
    later = state(psi, n, 2, dtypes) if stage == 1 else None
    return {
        "A shard is rounded down here; it has ceil(Psi / N) elements on every rank.": state(
            psi // n * n, n, stage, dtypes
        )
        + sum(dtypes[: (3, 2, 1, 0)[stage]]) * (psi % n),
        "Here the gradients are in shards, too: that is stage 2.": later,
    }


StateBytes.wrong = wrong_states


@oracle(ActivationBytes)
def activation_bytes(case):
    return activations(case.sizes, case.batch, **case.options)


GPT3 = (96, 12_288, 96, 2048, 51_200)
SIZES = (memory.TINY, (1, 8, 2, 5, 11), (24, 1024, 16, 1024, 50_257), memory.SEVEN, GPT3)


def sizes_drawn(rng, count=3):
    """Sizes of no pattern; the heads divide the width."""
    return [
        (
            int(rng.integers(1, 60)),
            int(heads * rng.integers(1, 40)),
            int(heads),
            int(rng.integers(1, 300)),
            int(rng.integers(1, 3000)),
        )
        for heads in rng.integers(1, 9, size=count)
    ]


def each_of(make):
    """What ``make`` gives for each of some sizes, fixed ones and drawn ones."""
    return lambda rng: [case for sizes in (*SIZES, *sizes_drawn(rng)) for case in make(sizes)]


def stages(*pairs, dtypes=(), only=range(4)):
    return [StateBytes(psi, n, stage, dtypes) for psi, n in pairs for stage in only]


def even_states(rng):
    psi, n = int(rng.integers(10**6, 10**9)), int(rng.integers(2, 2000))
    return stages((n * psi, n), only=(1, 2))


def odd_states(rng):
    return stages((int(rng.integers(10**6, 10**8)) * 6 + 5, 6), only=(0, 3))


def long_states(rng):
    psi = 10**17 + 2 * int(rng.integers(10**6)) + 1
    return [StateBytes(psi, n, 3) for n in (2, 3, 1024)]


def dtypes_drawn(rng):
    several = [(4, 4, 8), (8, 8, 16), (2, 4, 6), tuple(rng.integers(1, 20, size=3).tolist())]
    return [case for dtypes in several for case in stages((1200, 4), dtypes=dtypes)]


def steps_drawn(rng):
    return [
        StepBytes(sizes, 2, n, stage)
        for sizes in (*SIZES[1:], *sizes_drawn(rng, 1))
        for n, stage in ((1, 0), (7, 1), (64, 2), (100, 3))
    ]


SPARE = (-1, 0, 1)  # where an answer changes: exactly as much as needed, a byte more, one less


def layers_drawn(rng):
    models = (
        ((64, 4, 32, 100), 2, 1, 0, False),
        ((64, 4, 32, 100), 2, 5, 1, False),
        ((4096, 32, 2048, 51_200), 1, 64, 3, True),
    )
    return [
        MostLayers(0, (1, *sizes), batch, n, stage, recompute=recompute, edge=(depth, spare))
        for sizes, batch, n, stage, recompute in models
        for depth in (2, 13, int(rng.integers(20, 300)))
        for spare in SPARE
    ]


def ranks_drawn(rng):
    return [
        FewestRanks(0, memory.SEVEN, 1, stage, recompute=recompute, edge=(n, spare))
        for stage, recompute in itertools.product((1, 2, 3), (False, True))
        for n in (2, 6, int(rng.integers(20, 200)))
        for spare in SPARE
    ]


def tracked(rng):
    width, tokens = 32 * int(rng.integers(4, 7)), 8 * int(rng.integers(6, 11))
    sizes = (4, width, 4, tokens, 300)
    return [
        TrackedActivations(sizes, 2),
        TrackedActivations(sizes, 2, element_bytes=4, dropout=False),
        TrackedActivations(sizes, 2, recompute=True),
        *(TrackedState(sizes, parameters(sizes), stage) for stage in (0, 3)),
    ]


hidden(memory.test_state_of_every_stage, *stages((7_500_000_000, 64), (12, 3), (0, 4), only=(0, 3)))
hidden(
    memory.test_state_of_stages_1_and_2,
    *stages(*((7_500_000_000, n) for n in (1, 4, 64)), (12, 3), (0, 4), only=(1, 2)),
    even_states,
)
hidden(
    memory.test_state_where_ranks_do_not_divide_the_parameters,
    *stages((7, 2), (1, 3), (5, 9), (10**6 + 1, 7), only=(0, 3)),
    odd_states,
)
hidden(memory.test_state_of_more_parameters_than_a_float_holds, long_states)
hidden(memory.test_state_of_other_dtypes, dtypes_drawn)
hidden(memory.test_activations, each_of(lambda sizes: [ActivationBytes(sizes, b) for b in (1, 3)]))
hidden(
    memory.test_activations_without_dropout_and_in_other_dtypes,
    group(
        memory.DTYPES,
        each_of(lambda sizes: [ActivationBytes(sizes, 2, element_bytes=w) for w in (4, 8)]),
    ),
    group(
        memory.NO_DROPOUT,
        each_of(
            lambda sizes: [
                ActivationBytes(sizes, 2, element_bytes=w, dropout=False) for w in (2, 4)
            ]
        ),
    ),
)
hidden(
    memory.test_activations_with_recomputation,
    group("layers", each_of(lambda sizes: [Recomputed(sizes, b) for b in (1, 3)]), weight=4),
    group(
        memory.DTYPES,
        each_of(lambda sizes: [ActivationBytes(sizes, 2, recompute=True, element_bytes=4)]),
    ),
)
hidden(memory.test_step, steps_drawn)
hidden(memory.test_most_layers, layers_drawn)
hidden(memory.test_fewest_ranks, ranks_drawn)
ONE = (1, *memory.TINY[1:])
# 16 Psi on one rank, and 4 Psi + 12 on any number: much less never fits.
FLOOR = step(SIZES[1], 1, parameters(SIZES[1]), 1)
hidden(
    memory.test_refuses_what_is_not_there_and_what_does_not_fit,
    StateBytes(10, 2, -1, raises="ValueError"),
    StateBytes(10, 2, 4, raises="ValueError"),
    StateBytes(10, 0, 1, raises="ValueError"),
    MostLayers(step(ONE, 1, 2, 1) // 4, memory.TINY, 1, 2, 1, raises="ValueError"),
    FewestRanks(step(memory.TINY, 1, 1, 0) // 4, memory.TINY, 1, 0, raises="ValueError"),
    FewestRanks(FLOOR // 4, SIZES[1], 1, 1, raises="ValueError"),
)
hidden(memory.test_as_torchs_tracker_counts_it, tracked)

# -- offload ---------------------------------------------------------------------------------------


def drawn(rng, num_layers, host=None):
    """Layers, a capacity between one of them and all, and a link about as fast as the GPU.

    Args:
        host: the link's speed, in what the forward pass makes in a second.
    """
    layers = tuple(
        tuple(int(rng.integers(1, top)) for top in (10, 19, 31)) for _ in range(num_layers)
    )
    total, most = sum(n for *_, n in layers), max(n for *_, n in layers)
    capacity = max(most, int(total * rng.uniform(0.25, 0.8)))
    pace = total / sum(forward_s for forward_s, *_ in layers)
    host = host or float(rng.choice([0.2, 0.4, 0.8, 1.5]))
    return Schedule(layers, capacity, round(max(0.01, pace * host), 2))


def loose_and_tight(rng):
    cases = [drawn(rng, n, 4.0) for n in (3, 5, 6, 7, 12)]
    return [*cases, *(case.with_(capacity_bytes=max(case.num_bytes)) for case in cases)]


def pays_later(rng):
    """Five layers for which the best plan of the first ones isn't part of the best plan of all."""
    pace = int(rng.integers(1, 5))
    layers = ((3, 5, 10), (5, 10, 3), (8, 11, 23), (1, 12, 14), (3, 13, 12))
    return [Schedule(tuple((pace * f, pace * b, n) for f, b, n in layers), 47, 0.62 / pace)]


def alike(rng):
    forward_s, backward_s, nbytes = (int(each) for each in rng.integers(2, 9, size=3))
    layers = ((forward_s, backward_s, nbytes),) * 7
    return [Schedule(layers, 3 * nbytes, 1.5), Schedule(layers, 2 * nbytes + 1, 4.0)]


def too_short(rng):
    case = drawn(rng, 5)
    case = case.with_(capacity_bytes=max(case.num_bytes) - 1, raises="ValueError")
    return [case, case.with_(layers=case.layers[::-1])]


hidden(offload.test_plans_fit, loose_and_tight)
hidden(
    offload.test_as_short_as_any_plan,
    lambda rng: [drawn(rng, n) for n in (2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8)],
    pays_later,
)
hidden(
    offload.test_keeps_everything_where_it_fits,
    lambda rng: [
        case.with_(capacity_bytes=sum(case.num_bytes))
        for case in (drawn(rng, n) for n in (1, 4, 8, 16))
    ],
)
hidden(
    offload.test_with_a_fast_and_a_slow_link,
    group(offload.FAST, lambda rng: [drawn(rng, 6, 20.0) for _ in range(2)]),
    group(offload.SLOW, lambda rng: [drawn(rng, 6, 0.01) for _ in range(2)]),
)
hidden(
    offload.test_equal_layers_and_layers_without_activations,
    alike,
    Schedule(((3, 6, 10), (2, 4, 0), (5, 9, 12), (1, 1, 0), (4, 8, 7)), 15, 3.0),
    Schedule((), 5, 1.0),
)
hidden(
    offload.test_refuses_where_nothing_fits,
    too_short,
    Schedule(((1, 2, 9),), 8, 1.0, raises="ValueError"),
)
hidden(
    offload.test_time_of_long_models,
    lambda rng: [drawn(rng, n, host) for n, host in ((9, 0.4), (14, 0.8), (19, 0.4), (24, 0.4))],
)

# -- lowbit ----------------------------------------------------------------------------------------

hidden(lowbit.test_codes_travel, *lowbit.both([Gathered(4, 640)], [Scattered(4, 2560)]))
hidden(lowbit.test_all_gather, Gathered(4), Gathered(5, 96, 4, 32), Gathered(2, 4000, 4, 128))
hidden(lowbit.test_all_ranks_have_the_same_bits, Gathered(4, 64), Gathered(3, bits=4))
hidden(lowbit.test_reduce_scatter, Scattered(5, 240, per_node=5), Scattered(4, 256, 4, per_node=4))
hidden(
    lowbit.test_reduce_scatter_on_two_levels, Scattered(6, 288, per_node=3), Scattered(6, 192, 4),
    Scattered(8, 4096, 4, 128, per_node=4), Scattered(4, 256, 4, per_node=1),
)  # fmt: skip
hidden(
    lowbit.test_each_block_has_a_scale,
    *lowbit.both(
        [Gathered(3, 96, 4, kind="uneven")],
        [Scattered(3, 288, kind="uneven", per_node=3), Scattered(2, 96, 4, kind="uneven")],
    ),
)
hidden(
    lowbit.test_any_length,
    *lowbit.both(
        [*(Gathered(3, n, 4, 8) for n in (0, 1, 7, 21)), Gathered(2, 5)],
        [Scattered(p, n, 4, 8, per_node=p) for p, n in ((4, 0), (2, 1), (3, 37), (2, 83))],
    ),
)
hidden(
    lowbit.test_zeros_nan_and_infinities,
    *(
        group(f"{name}, {function}", case.with_(kind=numbers), weight=weight)
        for name, numbers, weight in lowbit.KINDS
        for function, case in (
            (lowbit.GATHER, Gathered(3, 40, 4)),
            (lowbit.SCATTER, Scattered(2, 100, 8 if numbers == "zeros" else 4)),
        )
    ),
)
hidden(
    lowbit.test_error_of_a_sum_grows_as_in_two_hops,
    Scattered(10, 10 * 500, 4, kind="alike", per_node=10),
)
hidden(lowbit.test_real_mpi, Gathered(3, 22, 4), Scattered(2, 32))
hidden(
    lowbit.test_bytes_of_codes_and_scales,
    *lowbit.both(
        [
            *(Gathered(p, n, 4) for p, n in ((2, 34), (4, 50_000))),
            *(Gathered(p, n) for p, n in ((5, 100), (12, 32), (18, 32))),
        ],
        [Scattered(p, 64 * p, 4, per_node=p) for p in (2, 3, 5)],
    ),
)
hidden(
    lowbit.test_bytes_on_each_level,
    *(Scattered(p, 64 * p, per_node=g) for p, g in ((3, 3), (5, 1), (12, 4), (18, 3))),
    *(Scattered(4, n, 4, 64) for n in (400, 100_000)),
)
hidden(
    lowbit.test_given_communicator_is_used,
    *lowbit.both([Gathered(4)], [Scattered(3, 48, per_node=3)]),
)
hidden(
    lowbit.test_messages_may_wait_and_come_in_any_order,
    *lowbit.both([Gathered(5)], [Scattered(3, 48, per_node=3)]),
)
hidden(
    lowbit.test_inputs_stay_and_a_second_call_is_right,
    *lowbit.both([Gathered(4)], [Scattered(3, 48, per_node=3)]),
)
hidden(
    lowbit.test_time,
    *lowbit.both(
        [Gathered(12, 20_000, machine="long wire")],
        [Scattered(16, 160_000, machine=lowbit.NODES, per_node=4)],
    ),
)
