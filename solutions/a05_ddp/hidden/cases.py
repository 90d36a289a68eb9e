"""The cases of the hidden run."""

from checks import test_buckets as buckets
from checks import test_ddp_torch as ddp
from checks import test_overlap as overlap
from checks.cases import SHAPES, AssignBuckets, Average, FinishS, Fusion, Pack, Parts, Step
from checks.cases_torch import Evaluate, Train

from ringside.checking.suite import group, hidden

WIDE = (*SHAPES[:7], (300, 210))


def divided(shapes, count):
    """All parameters, from the last to the first, in ``count`` buckets of about equal length."""
    order, each = list(range(len(shapes)))[::-1], -(-len(shapes) // count)
    return tuple(tuple(order[at : at + each]) for at in range(0, len(order), each))


# -- buckets ---------------------------------------------------------------------------------------

CORNERS = (
    ((400, 40, 4000, 40, 80), 1000),
    ((8,), 8),
    ((), 100),
    ((100, 100, 100, 100), 200),  # exactly full
    ((100, 100, 100), 199),
    ((5, 5, 5, 5, 5), 1),  # all oversize
    ((0, 0, 7, 0), 7),
    ((0, 500, 0, 5), 20),
    ((9000, 1, 1, 1), 10),  # oversize at the end
    ((1, 1, 1, 9000), 10),  # oversize at the begin
    ((10, 60, 10, 60, 10), 70),
    ((1,) * 50, 10**9),
)
DIVISIONS = [AssignBuckets(*corner) for corner in CORNERS]


def drawn(rng):
    """Twelve lists of sizes, and a cap for each."""
    return [
        AssignBuckets(
            tuple(int(size) for size in rng.integers(0, 400, size=int(rng.integers(2, 30)))),
            int(rng.integers(50, 1500)),
        )
        for _ in range(12)
    ]


def drawn_with_two_caps(rng):
    return [
        case.with_(first_bucket_bytes=int(rng.integers(1, 700)))
        for case in [*DIVISIONS, *drawn(rng)]
    ]


hidden(buckets.test_every_parameter_once_in_reverse_order, *DIVISIONS, drawn)
hidden(
    buckets.test_as_few_buckets_as_the_caps_allow,
    group("one cap", *DIVISIONS, drawn),
    group(
        buckets.FIRST,
        AssignBuckets((100,) * 6, 300, 100),
        AssignBuckets((100,) * 6, 200, 400),
        AssignBuckets((5, 500, 5, 5), 20, 10),
        drawn_with_two_caps,
    ),
)
hidden(
    buckets.test_pack_and_unpack_are_opposites,
    group(
        "contiguous arrays",
        Pack(1),
        Pack(1, dtype="float32"),
        Pack(1, shapes=((3, 5),)),  # one array: its copy, no view
    ),
    group("strided ones", Pack(1, strided=True), Pack(1, dtype="float32", strided=True), weight=2),
)
hidden(
    buckets.test_wrong_arguments_are_refused,
    group(
        "caps",
        AssignBuckets((8, 8), 0, raises="ValueError"),
        AssignBuckets((8, 8), -5, raises="ValueError"),
        AssignBuckets((8, 8), 8, 0, raises="ValueError"),
    ),
    group("lengths of buffers", Pack(1)),
)
hidden(
    buckets.test_mean_of_all_ranks,
    group("two ranks", *(Average(2, buckets=divided(SHAPES, n)) for n in (1, 8)), weight=2),
    group(
        "more ranks",
        *(Average(p, buckets=divided(SHAPES, count)) for p, count in ((4, 3), (8, 3), (5, 2))),
        Average(3, dtype="float32", buckets=((5, 1), (0,), (7, 2))),
        weight=3,
    ),
    group("strided gradients", Average(2, strided=True), weight=3),
)
hidden(
    buckets.test_fusion_averages_what_is_ready_everywhere,
    group(
        "contiguous gradients",
        *(Fusion(p, share=share) for p in (3, 5) for share in (0.8, 0.0)),
        Fusion(4, dtype="float32", threshold_bytes=100, share=0.95),
        *(Fusion(p, share=1.0, idle=rank) for p, rank in ((2, 0), (5, 3))),
        weight=3,
    ),
    group("all ready, on two ranks", Fusion(2, share=1.0), Fusion(2, shapes=()), Fusion(1)),
    group("strided gradients", Fusion(2, threshold_bytes=100, strided=True)),
)
hidden(buckets.test_real_mpi, Average(3), Fusion(3, threshold_bytes=100))
hidden(
    buckets.test_one_all_reduce_a_bucket,
    group(
        "float64",
        Average(2, buckets=divided(SHAPES, 1)),
        *(Average(p, buckets=divided(SHAPES, count)) for p, count in ((5, 8), (12, 4), (18, 4))),
        Average(3, WIDE, buckets=divided(WIDE, 4)),
        weight=2,
    ),
    group("float32", Average(3, dtype="float32", buckets=divided(SHAPES, 4))),
)
hidden(
    buckets.test_fusion_agrees_once_and_fuses,
    group(
        "float64",
        *(
            Fusion(p, threshold_bytes=most, share=0.9)
            for p, most in ((2, 1), (4, 100), (5, 10**6), (12, 100), (18, 100))
        ),
        Fusion(3, WIDE, threshold_bytes=100, share=0.9),
        Fusion(2, shapes=()),
        weight=2,
    ),
    # With all gradients ready, this threshold tells four bytes from eight.
    group("float32", Fusion(3, dtype="float32", threshold_bytes=228, share=1.0)),
)
hidden(
    buckets.test_given_communicator_is_used,
    Average(3, buckets=divided(SHAPES, 2)),
    Fusion(3, threshold_bytes=100),
)
hidden(
    buckets.test_ranks_may_be_ready_in_any_order,
    Fusion(4, threshold_bytes=64),
    Average(4, buckets=divided(SHAPES, 4)),
)
LONG = ((2000,),) * 12
hidden(
    buckets.test_one_flat_buffer_at_a_time, Average(2, LONG, buckets=divided(LONG, 6), watched=True)
)
hidden(
    buckets.test_time_of_average_and_fusion,
    group("average", Average(16, buckets.MANY, buckets=buckets.IN_FOURS)),
    group("fusion_cycle", Fusion(16, buckets.MANY, threshold_bytes=640, share=1.0)),
)

# -- overlap ---------------------------------------------------------------------------------------

FOUR = (24,) * 5
ONE_EACH = tuple((index,) for index in range(6))


def permuted(rng):
    order = [int(index) for index in rng.permutation(6)]
    return [Step(2, buckets=(order[:2], order[2:3], order[3:]))]


def drawn_times(rng):
    cases = []
    for _ in range(20):
        n = int(rng.integers(1, 9))
        ready_s = [float(f"{t:.4g}") for t in rng.random(n).cumsum()[::-1]]
        order, count = [int(index) for index in rng.permutation(n)], int(rng.integers(1, n + 1))
        each = -(-n // count)
        parts = tuple(tuple(order[at : at + each]) for at in range(0, n, each))
        bucket_s = tuple(float(f"{2 * t:.4g}") for t in rng.random(len(parts)))
        end_s = float(f"{ready_s[0] + rng.random():.4g}")
        cases.append(FinishS(tuple(ready_s), end_s, parts, bucket_s))
    return cases


hidden(
    overlap.test_gradients_are_the_mean,
    group("two ranks", *(Step(2, cap=cap) for cap in (1, 200, 10**6))),
    group("more ranks", *(Step(p) for p in (4, 8, 5, 1)), Step(3, (4, 2))),
    group("float32", Step(2, dtype="float32")),
)
hidden(overlap.test_gradient_of_the_input, Step(2, steps=2, lr=0.3))
hidden(
    overlap.test_three_steps_equal_serial_training,
    group("one model", Step(3, steps=3, lr=0.3), weight=3),
    group("after a step of another model", Step(4, steps=3, lr=0.3, before=True)),
)
hidden(
    overlap.test_any_division_into_buckets,
    *(Step(2, buckets=each) for each in (overlap.SHUFFLED, ((0, 5), (1, 4), (3, 2)))),
    permuted,
)
hidden(
    overlap.test_gradients_are_parts_of_the_buffers,
    group("float64", Parts(2), Parts(2, cap=1), Parts(2, buckets=overlap.SHUFFLED)),
    group("float32", Parts(2, dtype="float32")),
)
hidden(
    overlap.test_finish_time,
    FinishS((3.0, 2.0, 1.0), 3.0, ((2,), (1,), (0,)), (1.0, 1.0, 1.0)),
    FinishS((3.0, 2.0, 1.0), 3.0, ((2,), (1,), (0,)), (5.0, 1.0, 1.0)),
    FinishS((3.0, 2.0, 1.0), 3.0, ((2, 1, 0),), (2.0,)),
    FinishS((3.0, 2.0, 1.0), 4.0, ((2,), (1,), (0,)), (0.1, 0.2, 0.3)),
    FinishS((3.0, 2.0, 1.0), 3.0, ((0,), (2, 1)), (1.0, 1.0)),  # the first is full last
    FinishS((), 2.0, (), ()),
    drawn_times,
)
hidden(overlap.test_real_mpi, Step(3, lr=0.1))
hidden(
    overlap.test_one_all_reduce_a_bucket,
    group(
        "float64",
        Step(2, cap=1),
        Step(5, cap=10**6),
        Step(12),
        Step(18),
        Step(3, (200, 300, 40)),
        weight=2,
    ),
    group("float32", Step(3, dtype="float32")),
)
hidden(overlap.test_given_communicator_is_used, Step(3))
hidden(
    overlap.test_an_all_reduce_is_under_way_in_the_backward_pass,
    Step(4, FOUR, overlap.BY_LAYERS, announced=True),
)
hidden(
    overlap.test_all_reduces_begin_before_the_next_layer,
    *(
        Step(p, widths, cap=cap, announced=True)
        for p, widths in ((2, (5, 4, 6, 3)), (4, FOUR))
        for cap in (1, 200, 5000)
    ),
)
hidden(
    overlap.test_launches_follow_the_order_of_buckets,
    *(
        Step(2, buckets=each, announced=True)
        for each in (overlap.SHUFFLED, ONE_EACH, ((3, 5), (4,), (0,), (1, 2)))
    ),
)
hidden(overlap.test_gradients_are_not_copied, Step(2, (60,) * 7, cap=60_000, watched=True))
hidden(overlap.test_all_reduces_may_be_slow_and_are_waited_for, Step(2, cap=1))
hidden(overlap.test_time_of_a_step, Step(16, FOUR, cap=5000, balanced=True, announced=True))

# -- ddp_torch -------------------------------------------------------------------------------------

LAYER = ddp.LAYER
A = (((0, 1, 2, 3),), ((3, 1),), ((2, 0, 1),))  # per step, one microbatch
B = (((1, 3),), ((3, 0, 1),), ((1, 0),))
C = (((3, 2, 1, 0),), ((0,),), ((1,),))
ORDERS = ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3))

hidden(
    ddp.test_training_equals_serial_training_on_2_to_5_ranks,
    group("two ranks", Train(2, steps=3), Train(2, cap=1 << 20), weight=3),
    group("more ranks", *(Train(p, steps=3) for p in (3, 4, 5)), weight=4),
    group(
        "zeroed gradients",
        *(Train(p, cap=cap, set_to_none=False) for p, cap in ((2, 1), (1, 400))),
        weight=5,
    ),
)
hidden(
    ddp.test_ranks_begin_with_rank_0s_parameters_and_buffers,
    *(Train(p, 2, buffers=True, frozen=(0,), steps=0) for p in (2, 4)),
)
hidden(
    ddp.test_unused_parameters_and_other_orders_on_each_rank,
    *(Train(2, paths=(A, B), cap=cap) for cap in (1, 400)),
    *(Train(2, paths=(C, A), cap=cap) for cap in (1, 400)),
)
hidden(
    ddp.test_frozen_and_tied_parameters,
    group(
        "frozen parameters",
        *(Train(2, frozen=layers) for layers in ((0,), (1, 3), (3,))),
    ),
    group("tied parameters", Train(2, tied=((0, 3),)), Train(2, tied=((1, 2),))),
)
hidden(
    ddp.test_gradients_add_up_in_no_sync,
    Train(2, microbatches=3),
    Train(2, microbatches=3, nested=True),
    Train(2, microbatches=2, set_to_none=False),
    Train(
        2,
        paths=(
            (((0, 1, 2, 3), (3, 2)), ((1,), (2,))),
            (((2, 1), (0,)), ((0, 1, 2, 3), (3,))),
        ),
    ),
)
hidden(
    ddp.test_buffers_are_rank_0s_in_each_forward,
    group("in each forward", Train(2, 3, buffers=True, steps=3), weight=5),
    group(
        "with no_sync",
        Train(2, 3, buffers=True, microbatches=2, interrupted=True),
        Train(2, 3, buffers=True, microbatches=3),
        weight=2,
    ),
    group("in evaluation mode", Evaluate(2, 3), weight=2),
)
hidden(
    ddp.test_evaluation_changes_nothing,
    group("parameters alone", Train(3, 3, steps=3, between=True), weight=5),
    group("with buffers", Train(2, 3, buffers=True, between=True)),
)
hidden(ddp.test_real_gloo, Train(2))
hidden(
    ddp.test_one_all_reduce_a_bucket,
    group(
        "float64",
        Train(2, cap=1 << 20),
        Train(3, tied=((0, 2),), cap=1),
        Train(4),
        Train(12, cap=1),
        Train(18, cap=1),
        weight=2,
    ),
    group("float32", Train(2, dtype="float32", cap=1 << 20)),
)
hidden(
    ddp.test_nothing_is_sent_in_no_sync,
    Train(2, tied=((0, 2),), frozen=(1,), microbatches=3),
    Train(2, 3, buffers=True, microbatches=3),
)
hidden(ddp.test_given_group_is_used, Train(3, 3, buffers=True))
for test in (
    ddp.test_an_all_reduce_begins_in_the_backward_pass,
    ddp.test_an_all_reduce_is_under_way_in_the_backward_pass,
):
    hidden(test, Train(4, steps=1, cap=LAYER, announced=True))
hidden(
    ddp.test_launches_before_the_last_gradient,
    Train(2, 6, steps=1, cap=LAYER, announced=True),
    Train(3, paths=((((1, 0, 3, 2),),),), cap=LAYER, announced=True),
    Train(2, 4, frozen=(2,), steps=1, cap=LAYER, announced=True),
)
hidden(
    ddp.test_launches_in_one_order_whatever_is_ready_first,
    *(
        Train(
            4,
            paths=tuple(
                ((ORDERS[(rank + seed) % 4],), (ORDERS[(rank + 1) % 4],)) for rank in range(4)
            ),
            cap=cap,
            machine="rendezvous",
            latencies=seed,
        )
        for cap, seed in ((1, 1), (400, 2), (700, 3))
    ),
)
hidden(ddp.test_gradients_exist_once, Train(2, 8, 64, cap=70_000))
hidden(
    ddp.test_time_of_a_step,
    Train(8, 6, steps=1, cap=LAYER, balanced=True, machine=ddp.SLOW, announced=True),
)
