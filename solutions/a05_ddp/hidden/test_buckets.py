"""buckets.py: partition under a cap, flat buffers, and tensor fusion by agreement."""

import functools

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_makespan,
    assert_ran,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from solutions.a05_ddp.cases import average_call, drawn, fusion_call, ring_s
from solutions.a05_ddp.hidden import oracle, runs
from solutions.a05_ddp.hidden.runs import examples

ASSIGN = "buckets:assign_buckets"
SHAPES = [(3, 4), (4,), (4, 5), (5,), (), (0, 3), (2, 3, 2), (1,)]
WIDE = [*SHAPES[:7], (300, 210)]

points = points_of("buckets")


# -- assign_buckets --------------------------------------------------------------------------------


def sizes_and_caps(rng):
    """Literal cases with known corners, and drawn ones."""
    calls = [
        ([400, 40, 4000, 40, 80], 1000),
        ([8], 8),
        ([], 100),
        ([100, 100, 100, 100], 200),  # exactly full
        ([100, 100, 100], 199),
        ([5, 5, 5, 5, 5], 1),  # all oversize
        ([0, 0, 7, 0], 7),
        ([0, 500, 0, 5], 20),
        ([9000, 1, 1, 1], 10),  # oversize at the end
        ([1, 1, 1, 9000], 10),  # oversize at the begin
        ([10, 60, 10, 60, 10], 70),
        ([1] * 50, 10**9),
    ]
    for _ in range(12):
        n = int(rng.integers(2, 30))
        sizes = [int(size) for size in rng.integers(0, 400, size=n)]
        calls.append((sizes, int(rng.integers(50, 1500))))
    return calls


def assigned(ranks, calls, *, kept=False):
    """The buckets for each call, after a look whether they are a partition in reverse order."""
    found = []
    answers = runs.answers(ranks, ASSIGN, calls, kept=kept)
    for call, (value, error) in zip(calls, answers, strict=True):
        shown, line = f"assign_buckets{call!r}", runs.typed(ASSIGN, call)
        if error:
            raise Verdict(f"{shown} raised {error}.", reproduce=line)
        lists = isinstance(value, list) and all(isinstance(each, list) for each in value)
        if not lists or not all(value):
            raise Verdict(f"{shown} must be a list of lists, none of them empty.", reproduce=line)
        order = [index for bucket in value for index in bucket]
        wanted = list(range(len(call[0])))[::-1]
        if order != wanted:
            raise Verdict(
                f"{shown}: read one after another, the buckets hold {order[:12]}; "
                f"it must be {wanted[:12]}: every parameter once, the last first.",
                reproduce=line,
            )
        found.append(value)
    return found


def check_caps(call, buckets):
    sizes, cap, first = (*call, None)[:3]
    for number, bucket in enumerate(buckets):
        allowed = first if number == 0 and first is not None else cap
        filled = sum(sizes[index] for index in bucket)
        if len(bucket) > 1 and filled > allowed:
            raise Verdict(
                f"assign_buckets{call!r}: bucket {number} has {len(bucket)} parameters of "
                f"{filled} bytes together; at most {allowed} are allowed.",
                reproduce=runs.typed(ASSIGN, call),
            )


def check_count(call, buckets):
    fewest = len(oracle.assign(*call))
    if len(buckets) > fewest:
        raise Verdict(
            f"assign_buckets{call!r} makes {len(buckets)} buckets; {fewest} are enough.",
            reproduce=runs.typed(ASSIGN, call),
        )


@points(7, "values")
def test_every_parameter_once_in_reverse_order(ranks, rng):
    assigned(ranks, sizes_and_caps(rng), kept=True)


@points(14, "communication")
def test_as_few_buckets_as_the_caps_allow(ranks, rng):
    calls = sizes_and_caps(rng)
    two = [([100] * 6, 300, 100), ([100] * 6, 200, 400), ([5, 500, 5, 5], 20, 10)]
    two += [(*call, int(rng.integers(1, 700))) for call in sizes_and_caps(rng)]

    def check(calls):
        for call, buckets in zip(calls, assigned(ranks, calls), strict=True):
            check_caps(call, buckets)
            check_count(call, buckets)

    runs.check_each(
        {
            "one cap": functools.partial(check, calls),
            "a first bucket with a cap of its own": functools.partial(check, two),
        },
        **{"one cap": 2},
    )


def check_caps_refused(ranks):
    """Caps below 1 are errors."""
    calls = [([8, 8], 0), ([8, 8], -5), ([8, 8], 8, 0)]
    for call, (_, error) in zip(calls, runs.answers(ranks, ASSIGN, calls), strict=True):
        if error != "ValueError":
            raise Verdict(
                f"assign_buckets{call!r} raised {error or 'nothing'}; it must be ValueError.",
                reproduce=runs.typed(ASSIGN, call),
            )


# -- pack and unpack -------------------------------------------------------------------------------


def packed(ranks, rng, dtype, strided, shapes=SHAPES):
    """One run of pack and unpack; checks the elements, and returns what was seen."""
    arrays = drawn(shapes, rng, dtype)
    case = average_call(1, [array.size for array in arrays], [], dtype)
    result = ranks.call("callers:packed", 1, [(arrays, strided)])
    assert_ran(result, case)
    flat, shared, changed, doubled, refused, spoilt = result.values[0]
    of = f"of shapes {', '.join(map(str, shapes))}{', not contiguous' if strided else ''}"
    whole = np.concatenate([array.reshape(-1) for array in arrays])
    if not isinstance(flat, np.ndarray) or flat.dtype != whole.dtype or flat.shape != whole.shape:
        raise Verdict(f"pack {of}: not one array of {whole.size} elements and dtype {dtype}.")
    if not np.array_equal(flat, whole):
        at = int(np.argmax(flat != whole))
        raise Verdict(f"pack {of}: element {at} is {flat[at]}; it must be {whole[at]}.")
    for number, (after, array) in enumerate(zip(doubled, arrays, strict=True)):
        if not np.array_equal(after, 2 * array):
            raise Verdict(f"unpack {of}: array {number} does not hold what the buffer held.")
    if shared or changed or spoilt:
        what = "shares memory with" if shared else "changed" if changed else "wrote beside"
        raise Verdict(f"pack or unpack {of} {what} its input.")
    return refused


@points(7, "values")
def test_pack_and_unpack_are_opposites(ranks, rng):
    for dtype in ("float64", "float32"):
        for strided in (False, True):
            packed(ranks, rng, dtype, strided)
    packed(ranks, rng, "float64", False, [(3, 5)])  # one array: its copy, no view


@points(3, "values")
def test_wrong_arguments_are_refused(ranks, rng):
    def lengths():
        if packed(ranks, rng, "float64", False) != 2:
            raise Verdict(
                "unpack must raise ValueError, and write nothing, if the buffer has one element "
                "more or less than the arrays."
            )

    runs.check_each(
        {"caps": functools.partial(check_caps_refused, ranks), "lengths of buffers": lengths}
    )


# -- average and fusion_cycle ----------------------------------------------------------------------


def averaged(ranks, rng, p, shapes, buckets, dtype="float64", *, strided=False, **options):
    """Run ``average`` and check the means; returns case and result."""
    contributions = [drawn(shapes, rng, dtype) for _ in range(p)]
    case = average_call(p, [int(np.prod(shape)) for shape in shapes], buckets, dtype)
    world_size = options.pop("world_size", p)
    arguments = [("average", own, (buckets,), strided) for own in contributions]
    result = ranks.call("callers:averaged", world_size, arguments, **options)
    inside = {index for bucket in buckets for index in bucket}
    check_means(result, contributions, inside, case)
    return case, result


def check_means(result, contributions, inside, case):
    """Gradients in ``inside`` are means, the others as they were; the list is the same."""
    assert_ran(result, case)
    case = case.seen_in(result)
    for rank, (_, gradients, kept, spoilt) in enumerate(result.values):
        examples.assert_means(gradients, rank, contributions, inside, case)
        if not kept or spoilt:
            what = "replaced entries of the list" if not kept else "wrote beside an array"
            raise case.fail(f"rank {rank} {what}; the arrays themselves must be written to.")


def some_buckets(shapes, count):
    """All parameters, from the last to the first, in ``count`` lists of about equal length."""
    parts = np.array_split(np.arange(len(shapes))[::-1], count)
    return [[int(index) for index in part] for part in parts]


@points(12, "values")
def test_mean_of_all_ranks(ranks, rng):
    def contiguous():
        for p, count in ((2, 1), (2, 8), (4, 3), (8, 3), (5, 2)):
            averaged(ranks, rng, p, SHAPES, some_buckets(SHAPES, count))
        averaged(ranks, rng, 3, SHAPES, [[5, 1], [0], [7, 2]], "float32")

    def strided():
        averaged(ranks, rng, 2, SHAPES, some_buckets(SHAPES, 3), strided=True)

    runs.check_each({"contiguous gradients": contiguous, "strided ones": strided}, **{
        "contiguous gradients": 3,
    })  # fmt: skip


def fused(ranks, rng, p, shapes, ready, threshold, dtype="float64", *, strided=False, **options):
    """Run ``fusion_cycle`` and check agreement and means; returns case, result and the agreed."""
    contributions = [drawn(shapes, rng, dtype) for _ in range(p)]
    case = fusion_call(p, [int(np.prod(shape)) for shape in shapes], threshold, dtype)
    agreed = [index for index in range(len(shapes))[::-1] if all(own[index] for own in ready)]
    world_size = options.pop("world_size", p)
    arguments = [
        ("fusion_cycle", own, (np.array(mine, dtype=bool), threshold), strided)
        for own, mine in zip(contributions, ready, strict=True)
    ]
    result = ranks.call("callers:averaged", world_size, arguments, **options)
    assert_ran(result, case)
    case = case.seen_in(result)
    for rank, value in enumerate(result.values):
        examples.assert_agreed(value[0], rank, agreed, case)
    check_means(result, contributions, set(agreed), case)
    return case, result, agreed


def drawn_ready(rng, p, n, share=0.8):
    return [[bool(each) for each in rng.random(n) < share] for _ in range(p)]


@points(9, "values")
def test_fusion_averages_what_is_ready_everywhere(ranks, rng):
    n = len(SHAPES)
    for p in (2, 3, 5):
        for ready in (drawn_ready(rng, p, n), [[True] * n] * p, [[False] * n] * p):
            fused(ranks, rng, p, SHAPES, ready, 150)
    one_late = [[True] * n for _ in range(4)]
    one_late[2][1] = False
    fused(ranks, rng, 4, SHAPES, one_late, 100, "float32")
    fused(ranks, rng, 3, SHAPES, drawn_ready(rng, 3, n), 100, strided=True)
    fused(ranks, rng, 2, [], [[], []], 100)
    fused(ranks, rng, 1, SHAPES, drawn_ready(rng, 1, n), 150)


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    p = 3
    ready = drawn_ready(rng, p, len(SHAPES))
    contributions = [drawn(SHAPES, rng) for _ in range(p)]
    buckets = some_buckets(SHAPES, 3)
    calls = [
        ("average", (buckets,), {i for b in buckets for i in b}),
        ("fusion_cycle", None, {i for i in range(len(SHAPES)) if all(own[i] for own in ready)}),
    ]
    jobs = []
    for function, given, _ in calls:
        arguments = [given or (np.array(own), 100) for own in ready]
        own = zip(contributions, arguments, strict=True)
        jobs.append(("callers:averaged", p, [(function, a, more, False) for a, more in own]))
    for (function, given, inside), result in zip(calls, mpi.call_all(jobs), strict=True):
        case = average_call(p, [int(np.prod(shape)) for shape in SHAPES], given or buckets)
        try:
            check_means(result, contributions, inside, case)
        except Verdict as verdict:
            raise Verdict(f"{function} under mpiexec: {verdict.sentence}") from None


@points(11, "communication")
def test_one_all_reduce_a_bucket(ranks, rng):
    for p, shapes, count, dtype in (
        (2, SHAPES, 1, "float64"), (3, SHAPES, 4, "float32"), (5, SHAPES, 8, "float64"),
        (12, SHAPES, 4, "float64"), (18, SHAPES, 4, "float64"), (3, WIDE, 4, "float64"),
    ):  # fmt: skip
        buckets = some_buckets(shapes, count)
        case, result = averaged(ranks, rng, p, shapes, buckets, dtype)
        unit = np.dtype(dtype).itemsize
        nbytes = [unit * sum(int(np.prod(shapes[i])) for i in each) for each in buckets]
        ranks.record(case, result, {"all_reduce_bytes": nbytes})
        runs.check_all_reduces(result, nbytes, case)


@points(8, "communication")
def test_fusion_agrees_once_and_fuses(ranks, rng):
    n = len(SHAPES)
    for p, shapes, threshold, dtype in (
        (2, SHAPES, 1, "float64"), (4, SHAPES, 100, "float64"), (5, SHAPES, 10**6, "float64"),
        (3, SHAPES, 228, "float32"), (12, SHAPES, 100, "float64"), (18, SHAPES, 100, "float64"),
        (3, WIDE, 100, "float64"),
    ):  # fmt: skip
        # With all gradients ready, the threshold of float32 tells four bytes from eight.
        ready = drawn_ready(rng, p, n, 0.9 if dtype == "float64" else 1.0)
        case, result, agreed = fused(ranks, rng, p, shapes, ready, threshold, dtype)
        unit = np.dtype(dtype).itemsize
        sizes = [unit * int(np.prod(shapes[index])) for index in agreed[::-1]]
        buckets = oracle.assign(sizes, threshold)
        nbytes = [sum(sizes[place] for place in bucket) for bucket in buckets]
        runs.check_all_reduces(result, nbytes, case, free=(8 * n,))
    case, result, _ = fused(ranks, rng, 2, [], [[], []], 100)
    runs.check_all_reduces(result, [], case)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    ready = drawn_ready(rng, 3, len(SHAPES))
    buckets = some_buckets(SHAPES, 2)
    for call in (
        functools.partial(averaged, ranks, rng, 3, SHAPES, buckets),
        functools.partial(fused, ranks, rng, 3, SHAPES, ready, 100),
    ):
        on_three_members(rng, call)


@points(4, "safety")
def test_ranks_may_be_ready_in_any_order(ranks, rng):
    n = len(SHAPES)
    for seed in LATENCY_SEEDS:
        ready = [[bool((rank + seed) % n != index) for index in range(n)] for rank in range(4)]
        case, result, _ = fused(ranks, rng, 4, SHAPES, ready, 64, machine=rendezvous(), seed=seed)
        runs.check_requests(result, case)
        case, result = averaged(
            ranks, rng, 4, SHAPES, some_buckets(SHAPES, 4), machine=rendezvous(), seed=seed
        )
        runs.check_requests(result, case)


@points(5, "memory")
def test_one_flat_buffer_at_a_time(ranks, rng):
    shapes = [(2000,)] * 12
    buckets = some_buckets(shapes, 6)
    contributions = [drawn(shapes, rng) for _ in range(2)]
    case = average_call(2, [2000] * 12, buckets)
    result = ranks.call("callers:average_memory", 2, [(own, buckets) for own in contributions])
    assert_ran(result, case)
    means = oracle.mean(contributions)
    longest = 2 * 2000 * 8
    for rank, (gradients, held) in enumerate(result.values):
        runs.check_arrays(gradients, means, [abs(m) + 1 for m in means], case, "gradient")
        if held > 2 * longest + 8192:
            raise case.fail(
                f"rank {rank} held {held} bytes beside the gradients when an all-reduce began; "
                f"two buffers of the longest bucket, {2 * longest} bytes, are enough."
            )


@points(12, "speed")
def test_time_of_average_and_fusion(ranks, rng):
    machine, shapes = Machine.load("textbook"), [(8,)] * 40

    def average():
        buckets = oracle.assign([64] * 40, 640)
        case, result = averaged(ranks, rng, 16, shapes, buckets, machine=machine)
        assert_makespan(result, sum(ring_s(640, 16, machine) for _ in buckets), case)

    def fusion_cycle():
        ready = [[True] * 40] * 16
        case, result, _ = fused(ranks, rng, 16, shapes, ready, 640, machine=machine)
        bound_s = 4 * ring_s(640, 16, machine) + ring_s(8 * 40, 16, machine)
        assert_makespan(result, bound_s, case)

    runs.check_each({"average": average, "fusion_cycle": fusion_cycle})
