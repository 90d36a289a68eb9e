"""buckets.py: partition under a cap, flat buffers, and tensor fusion by agreement."""

from checks.cases import (
    AssignBuckets,
    Average,
    Fusion,
    Pack,
    assert_all_reduces,
    ring_s,
    started,
)
from ringside.checking import Verdict, assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

FIRST = "a first bucket with a cap of its own"
suite = Suite("buckets")

DIVIDED = (
    AssignBuckets((400, 40, 4000, 40, 80), 1000),
    AssignBuckets((100, 100, 100, 100), 200),
    AssignBuckets((5, 0, 7), 5),
    AssignBuckets((), 10),
)


@suite.test("divided", "values", *DIVIDED)
def test_every_parameter_once_in_reverse_order(case, run):
    """Every division that is right is accepted; ``case`` has looked at it."""


@suite.test(
    "caps", "communication", group("one cap", *DIVIDED),
    group(FIRST, AssignBuckets((100,) * 6, 300, 100)),
)  # fmt: skip
def test_as_few_buckets_as_the_caps_allow(case, run):
    for number, bucket in enumerate(run):
        is_first = number == 0 and case.first_bucket_bytes is not None
        allowed = case.first_bucket_bytes if is_first else case.bucket_bytes
        filled = sum(case.sizes[index] for index in bucket)
        if len(bucket) > 1 and filled > allowed:
            raise Verdict(
                f"{case}: bucket {number} has {len(bucket)} parameters of {filled} bytes together; "
                f"at most {allowed} are allowed."
            )
    fewest = len(case.right())
    if len(run) > fewest:
        raise Verdict(f"{case} makes {len(run)} buckets; {fewest} are enough.")


@suite.test(
    "packed", "values", group("contiguous arrays", Pack(1)),
    group("strided ones", Pack(1, strided=True), weight=2), weight=8,
)  # fmt: skip
def test_pack_and_unpack_are_opposites(case, run):
    """The elements, row by row, to the bit."""


@suite.test(
    "packed", "values", group("caps", AssignBuckets((8,), 0, raises="ValueError")),
    group("lengths of buffers", Pack(1)), weight=4,
)  # fmt: skip
def test_wrong_arguments_are_refused(case, run):
    if isinstance(case, Pack) and run.values[0]["refused"] != 2:
        raise case.fail(
            "unpack must raise ValueError, and write nothing, if the buffer has one element more "
            "or less than the arrays."
        )


@suite.test(
    "averaged", "values", group("two ranks", Average(2), weight=2),
    group("more ranks", Average(3, buckets=((5, 1), (0,), (7, 2))), weight=3),
    group("strided gradients", Average(2, strided=True), weight=3), weight=18,
)  # fmt: skip
def test_mean_of_all_ranks(case, run):
    """Gradients in buckets are means, others stay."""


@suite.test(
    "fused", "values",
    group("contiguous gradients", Fusion(3, threshold_bytes=120), Fusion(3, idle=1), weight=3),
    group("all ready, on two ranks", Fusion(2, share=1.0)),
    group("strided gradients", Fusion(2, strided=True)), weight=11,
)  # fmt: skip
def test_fusion_averages_what_is_ready_everywhere(case, run):
    """All ranks return the same indices, and these have means."""


test_real_mpi = suite.real_ranks("averaged", Average(3), Fusion(3), weight=4)


@suite.test(
    "one_each", "communication",
    group("float64", Average(3, buckets=((7, 6, 5, 4, 3, 2, 1, 0),)), Average(3), weight=2),
    group("float32", Average(3, dtype="float32")),
)  # fmt: skip
def test_one_all_reduce_a_bucket(case, ranks):
    run = started(ranks, case)
    nbytes = [case.nbytes(bucket) for bucket in case.buckets]
    ranks.record(case, run, {"all_reduce_bytes": nbytes})
    assert_all_reduces(run, case, nbytes)


@suite.test(
    "fused_calls", "communication", group("float64", Fusion(3, threshold_bytes=200), weight=2),
    group("float32", Fusion(3, dtype="float32", share=1.0)),
)  # fmt: skip
def test_fusion_agrees_once_and_fuses(case, ranks):
    run = started(ranks, case)
    nbytes = [case.nbytes(bucket) for bucket in case.buckets]
    n = len(case.shapes)
    assert_all_reduces(run, case, nbytes, free=(8 * n,) if n else ())


test_given_communicator_is_used = suite.given_communicator("given", Average(3), Fusion(3))
test_ranks_may_be_ready_in_any_order = suite.slow_messages(
    "fused", Fusion(3, threshold_bytes=64), Average(3), kinds=[Kind.COLLECTIVE], weight=3
)


@suite.test(
    "cost", "memory",
    Average(2, ((2000,),) * 8, buckets=((7, 6), (5, 4), (3, 2), (1, 0)), watched=True), weight=2,
)  # fmt: skip
def test_one_flat_buffer_at_a_time(case, ranks):
    longest = max(case.nbytes(bucket) for bucket in case.buckets)
    for rank, value in enumerate(started(ranks, case).values):
        if value["held"] > 2 * longest + 8192:
            raise case.fail(
                f"rank {rank} held {value['held']} bytes beside the gradients when an all-reduce "
                f"began; two buffers of the longest bucket, {2 * longest} bytes, are enough."
            )


MANY = ((8,),) * 40
IN_FOURS = tuple(tuple(range(end, end - 10, -1)) for end in (39, 29, 19, 9))


@suite.test(
    "cost", "speed", group("average", Average(8, MANY, buckets=IN_FOURS)),
    group("fusion_cycle", Fusion(8, MANY, threshold_bytes=640, share=1.0)), weight=3,
)  # fmt: skip
def test_time_of_average_and_fusion(case, ranks):
    run = started(ranks, case)
    machine = machine_of(case)
    bound_s = sum(ring_s(case.nbytes(bucket), case.p, machine) for bucket in case.buckets)
    if isinstance(case, Fusion):
        bound_s += ring_s(8 * len(case.shapes), case.p, machine)
    assert_makespan(run, bound_s, case)
