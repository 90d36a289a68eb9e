"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Call`` is what a verdict names; ``ranks.call`` runs something on simulated
ranks, through ``callers.py`` and ``callers_torch.py`` where it must be looked at from inside.
"""

import sys
from pathlib import Path

import numpy as np
from cases import average_call, ddp_call, drawn, fusion_call, greedy, ring_s, step_call
from examples import assert_overlaps, mean, training
from model import Model, loss_gradient, random_parameters

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    announced,
    assert_array,
    assert_declared_at_once,
    assert_makespan,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors
from ringside.trace import Kind


def typed(module, call):
    """The line that tries out a function that needs no ranks."""
    return f'python -c "import {module}; print({module}.{call})"'


def ask(ranks, target, calls):
    """Call a function that needs no ranks, inside one: per call ``(result, exception's type)``."""
    result = ranks.call("callers:several", 1, [(target, calls)])
    result.raise_for_error()
    return [(plain(value), error) for value, error, _ in result.values[0]]


def plain(value):
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def near(value, expected, call, what):
    """One array, to 1e-12 (1e-5 in float32) of its largest element."""
    expected = np.asarray(expected)
    if isinstance(value, np.ndarray) and value.shape == expected.shape:
        value, expected = value.reshape(-1), expected.reshape(-1)
    eps = np.finfo(expected.dtype).eps
    tolerance = 1e-12 if expected.dtype == np.float64 else 1e-5
    allowed = tolerance / (2 * (call.world_size + 1) * eps)
    scale = np.full(expected.shape, allowed * (1 + np.max(np.abs(expected), initial=0)))
    assert_array(value, expected, scale, call, what)


def all_near(values, expected, call, what):
    for number, (value, right) in enumerate(zip(values, expected, strict=True)):
        near(value, right, call, f"{what} {number}")


def all_reduces(result, rank):
    """Bytes of a rank's all-reduces, as the network counted them."""
    ops = [op for op in result.trace.ops[rank] if op.kind == Kind.COLLECTIVE]
    return [op.nbytes for op in ops if op.detail[0] == "allreduce"]


def order_of(result, rank, wanted):
    """A rank's passes and collectives whose names begin so, in the order that the network saw."""
    ops = result.trace.ops[rank]
    found = [(place, phase) for place, phase, _ in announced(ops)]
    found += [(k, str(op.detail[0])) for k, op in enumerate(ops) if op.kind == Kind.COLLECTIVE]
    return [what for _, what in sorted(found) if what.startswith(wanted)]


def only_all_reduces(result, wanted, call):
    """Each rank took part in all-reduces of these bytes, and sent nothing else."""
    for rank in range(call.world_size):
        counted = all_reduces(result, rank)
        if counted != wanted:
            raise call.fail(f"rank {rank}'s all-reduces have {counted} bytes; it must be {wanted}.")
    others = {record.name for record in result.collectives} - {"allreduce"}
    if others or sum(result.sent_messages()):
        raise call.fail("only all-reduces are allowed.")


def under_mpiexec(mpiexec, program, call):
    """Run a program on three real ranks."""
    words = [mpiexec, "-n", "3", sys.executable, "-c", program]
    assert_real_run(words, Path(__file__).parent, f"{call} under mpiexec")


# -- buckets ---------------------------------------------------------------------------------------

SHAPES = [(3, 4), (4,), (4, 5), (), (0, 3), (1,)]
ASSIGNED = (
    (([400, 40, 4000, 40, 80], 1000), [[4, 3], [2], [1, 0]]),
    (([100, 100, 100, 100], 200), [[3, 2], [1, 0]]),
    (([5, 0, 7], 5), [[2], [1, 0]]),
    (([], 10), []),
)


def check_assigned(ranks, cases, wrong):
    for call, example in cases:
        ((buckets, error),) = ask(ranks, "buckets:assign_buckets", [call])
        said = error or buckets
        if error or wrong(buckets, *call):
            raise Verdict(
                f"assign_buckets{call!r} is {said}; right is, for instance, {example}.",
                reproduce=typed("buckets", f"assign_buckets{call!r}"),
            )


@points(10, "values", "buckets")
def test_every_parameter_once_in_reverse_order(ranks):
    def wrong(buckets, sizes, *_):
        flat = [index for bucket in buckets for index in bucket]
        return flat != list(range(len(sizes)))[::-1] or not all(buckets)

    check_assigned(ranks, ASSIGNED, wrong)


@points(10, "values", "buckets")
def test_caps_are_kept_except_by_single_parameters(ranks):
    def wrong(buckets, sizes, cap):
        return any(len(b) > 1 and sum(sizes[i] for i in b) > cap for b in buckets)

    check_assigned(ranks, ASSIGNED, wrong)


@points(5, "values", "buckets")
def test_first_bucket_has_a_cap_of_its_own(ranks):
    cases = [(([100] * 6, 300, 100), [[5], [4, 3, 2], [1, 0]])]
    check_assigned(ranks, cases, lambda buckets, *_: [len(b) for b in buckets][:1] != [1])
    ((_, error),) = ask(ranks, "buckets:assign_buckets", [([8], 0)])
    if error != "ValueError":
        raise Verdict(f"assign_buckets([8], 0) raised {error}; it must be ValueError.")


@points(5, "communication", "buckets")
def test_as_few_buckets_as_the_caps_allow(ranks):
    cases = [(call, buckets) for call, buckets in ASSIGNED]
    for call, fewest in cases:
        count = len(fewest)
        check_assigned(ranks, [(call, fewest)], lambda b, *_, count=count: len(b) != count)


@points(10, "values", "buckets")
def test_pack_and_unpack_are_opposites(ranks, rng):
    for strided in (False, True):
        arrays = drawn(SHAPES, rng)
        result = ranks.call("callers:packed", 1, [(arrays, strided)])
        result.raise_for_error()
        flat, shared, changed, doubled, refused, spoilt = result.values[0]
        right = np.concatenate([array.reshape(-1) for array in arrays])
        if not np.array_equal(flat, right):
            raise Verdict("pack must give all elements, array by array, row by row.")
        if not all(np.array_equal(a, 2 * b) for a, b in zip(doubled, arrays, strict=True)):
            raise Verdict("unpack must write the buffer's elements into the arrays themselves.")
        if shared or changed or spoilt or refused != 2:
            raise Verdict("pack makes a new array; unpack refuses buffers of another length.")


def averaged(ranks, rng, p, buckets, shapes=SHAPES, dtype="float64", **options):
    """Run ``average``, and check the means."""
    contributions = [drawn(shapes, rng, dtype) for _ in range(p)]
    call = average_call(p, [int(np.prod(shape)) for shape in shapes], buckets, dtype)
    world_size = options.pop("world_size", p)
    arguments = [("average", own, (buckets,), False) for own in contributions]
    result = ranks.call("callers:averaged", world_size, arguments, **options)
    check_means(result, contributions, {i for b in buckets for i in b}, call)
    return call, result


def check_means(result, contributions, inside, call):
    assert_ran(result, call)
    for rank, (_, gradients, kept, _) in enumerate(result.values):
        for index, value in enumerate(gradients):
            mean = np.mean([own[index] for own in contributions], axis=0)
            right = mean if index in inside else contributions[rank][index]
            near(value, right, call, f"rank {rank}'s gradient {index}")
        if not kept:
            raise call.fail("the arrays are written to; the list stays as it was.")


def fused(ranks, rng, p, ready, threshold, **options):
    """Run ``fusion_cycle``, and check agreement and means."""
    contributions = [drawn(SHAPES, rng) for _ in range(p)]
    call = fusion_call(p, [int(np.prod(shape)) for shape in SHAPES], threshold)
    agreed = [index for index in range(len(SHAPES))[::-1] if all(own[index] for own in ready)]
    arguments = [
        ("fusion_cycle", own, (np.array(mine), threshold), False)
        for own, mine in zip(contributions, ready, strict=True)
    ]
    result = ranks.call("callers:averaged", p, arguments, **options)
    assert_ran(result, call)
    if any(value[0] != agreed for value in result.values):
        found = [value[0] for value in result.values]
        raise call.fail(f"the ranks returned {found}; ready on all of them are {agreed}.")
    check_means(result, contributions, set(agreed), call)
    return call, result


READY = [[True] * 6, [True, False, True, True, True, True], [True, True, True, False, True, True]]


@points(10, "values", "buckets")
def test_mean_on_two_and_three_ranks(ranks, rng):
    for p in (2, 3):
        averaged(ranks, rng, p, [[5, 4], [3, 2, 1], [0]])


@points(10, "values", "buckets")
def test_fusion_averages_what_is_ready_everywhere(ranks, rng):
    fused(ranks, rng, 3, READY, 120)
    fused(ranks, rng, 2, READY[:2], 10**6)


REAL_AVERAGE = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
from buckets import average
comm = watched(MPI.COMM_WORLD, 20.0)
gradients = [np.full(3, float(comm.Get_rank())), np.full((2, 2), 1.0)]
average(comm, gradients, [[1], [0]])
np.testing.assert_allclose(gradients[0], 1.0)
np.testing.assert_allclose(gradients[1], 1.0)
"""


@points(5, "reality", "buckets")
def test_average_under_mpiexec(ranks, rng, mpiexec):
    call, _ = averaged(ranks, rng, 3, [[1], [0]])
    under_mpiexec(mpiexec, REAL_AVERAGE, call)


@points(10, "communication", "buckets")
def test_average_calls_one_all_reduce_a_bucket(ranks, rng):
    for buckets, dtype in (
        ([[5, 4, 3, 2, 1, 0]], "float64"),
        ([[5, 4], [3, 2], [1], [0]], "float32"),
    ):
        call, result = averaged(ranks, rng, 3, buckets, dtype=dtype)
        unit = np.dtype(dtype).itemsize
        wanted = [unit * sum(int(np.prod(SHAPES[i])) for i in bucket) for bucket in buckets]
        ranks.record(call, result, {"all_reduce_bytes": wanted})
        only_all_reduces(result, wanted, call)


@points(5, "communication", "buckets")
def test_fusion_agrees_once_and_fuses(ranks, rng):
    call, result = fused(ranks, rng, 3, READY, 200)
    first, *fused_bytes = all_reduces(result, 0)
    # Ready everywhere are 5, 4, 2 and 0, of 8, 0, 160 and 96 bytes.
    if first > 8 * 6 or fused_bytes != [168, 96]:
        raise call.fail(
            f"all-reduces of {[first, *fused_bytes]} bytes; at most 48 to agree, then 168 and 96."
        )


@points(5, "communication", "buckets")
def test_given_communicator_is_used(ranks, rng):
    averaged(ranks, rng, 3, [[5, 4], [3, 2, 1], [0]], world_size=5, members=[3, 1, 4])


@points(5, "safety", "buckets")
def test_messages_may_be_slow(ranks, rng):
    for seed in LATENCY_SEEDS:
        call, result = fused(ranks, rng, 3, READY, 64, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(5, "memory", "buckets")
def test_one_flat_buffer_at_a_time(ranks, rng):
    contributions = [drawn([(2000,)] * 8, rng) for _ in range(2)]
    buckets = [[7, 6], [5, 4], [3, 2], [1, 0]]
    call = average_call(2, [2000] * 8, buckets)
    result = ranks.call("callers:average_memory", 2, [(own, buckets) for own in contributions])
    assert_ran(result, call)
    for gradients, held in result.values:
        near(gradients[7], (contributions[0][7] + contributions[1][7]) / 2, call, "gradient 7")
        if held > 2 * 32_000 + 8192:
            raise call.fail(f"{held} bytes were held; two buffers of 32000 bytes are enough.")


@points(5, "speed", "buckets")
def test_time_of_average(ranks, rng):
    machine = Machine.load("textbook")
    buckets = [list(range(20))[::-1], list(range(20, 40))[::-1]]
    call, result = averaged(ranks, rng, 8, buckets, [(8,)] * 40, machine=machine)
    assert_makespan(result, 2 * ring_s(20 * 64, 8, machine), call)


# -- overlap ---------------------------------------------------------------------------------------

WIDTHS = (5, 4, 6, 3)
BUCKETS = [[5, 4], [3, 2], [1, 0]]


def stepped(ranks, rng, p, buckets=BUCKETS, widths=WIDTHS, dtype="float64", steps=1, **options):
    """Train with ``overlap``, and compare with serial training."""
    call = step_call(p, widths, buckets, dtype)
    lr, work = (0.2 if steps > 1 else None), options.pop("work", 1.0)
    if options.pop("observed", False):
        options["factors"] = Factors.drawn(rng)
    params = random_parameters(widths, rng, dtype)
    batches = [
        [
            tuple(rng.standard_normal((3, d)).astype(dtype) for d in (widths[0], widths[-1]))
            for _ in range(steps)
        ]
        for _ in range(p)
    ]
    world_size = options.pop("world_size", p)
    arguments = [(params, own, buckets, lr, work, steps > 1) for own in batches]
    result = ranks.call("callers:overlapped", world_size, arguments, **options)
    assert_ran(result, call)
    seen = call.seen_in(result)
    right = training(params, batches, lr, result.factors)
    gradients, updated = (
        [each.astype(dtype) for each in right[name]] for name in ("gradients", "params")
    )
    for rank, value in enumerate(result.values):
        all_near(value["gradients"], gradients, seen, f"rank {rank}'s gradient")
        all_near(value["params"], updated, seen, f"rank {rank}'s parameter")
        inputs = [each.astype(dtype) for each in right["inputs"][rank]]
        what = f"rank {rank}'s gradient with respect to the input, step"
        all_near(value["inputs"], inputs, seen, what)
    if result.factors is not None:
        assert_declared_at_once(result, call)
    return call, result, params


@points(5, "schedule", "overlap", essential=True)
def test_an_all_reduce_is_under_way_in_the_backward_pass(ranks, rng):
    widths, buckets = (16,) * 5, [[7, 6], [5, 4], [3, 2], [1, 0]]
    params, call = random_parameters(widths, rng), step_call(4, widths, buckets)
    arguments = [
        (params, [tuple(rng.standard_normal((2, 3, 16)))], buckets, None) for _ in range(4)
    ]
    result = ranks.call("callers:overlapped", 4, arguments)
    assert_ran(result, call)
    assert_overlaps(result, call)


@points(10, "values", "overlap")
def test_gradients_are_the_mean(ranks, rng):
    for p in (2, 3):
        for buckets in (BUCKETS, [[5, 4, 3, 2, 1, 0]]):
            stepped(ranks, rng, p, buckets)


@points(15, "values", "overlap")
def test_three_steps_equal_serial_training(ranks, rng):
    stepped(ranks, rng, 3, steps=3)


@points(5, "values", "overlap")
def test_float32(ranks, rng):
    stepped(ranks, rng, 2, dtype="float32")


@points(10, "values", "overlap")
def test_gradients_are_parts_of_the_buffers(ranks, rng):
    call, result, _ = stepped(ranks, rng, 2)
    for value in result.values:
        if value["shared"] is not True:
            raise call.fail("every gradient must share memory with its bucket's buffer.")
        for bucket, flat in zip(BUCKETS, value["flats"], strict=True):
            right = np.concatenate([value["gradients"][index].reshape(-1) for index in bucket])
            assert_array(flat, right, None, call, f"the buffer of bucket {bucket}")


FINISH = (
    (([3.0, 2.0, 1.0], 3.0, [[2], [1], [0]], [1.0, 1.0, 1.0]), 4.0),
    (([3.0, 2.0, 1.0], 3.0, [[2], [1], [0]], [5.0, 1.0, 1.0]), 8.0),
    (([3.0, 2.0, 1.0], 5.0, [[2, 1, 0]], [1.0]), 5.0),
)


@points(10, "values", "overlap")
def test_finish_time(ranks):
    for call, right_s in FINISH:
        ((value, error),) = ask(ranks, "overlap:finish_s", [call])
        if error or not np.isclose(value, right_s):
            raise Verdict(
                f"finish_s{call!r} is {error or value}; it must be {right_s}.",
                reproduce=typed("overlap", f"finish_s{call!r}"),
            )


REAL_STEP = """
import numpy as np
from mpi4py import MPI
from ringside.jobs.real.watch import watched
import examples, overlap
from ringside.checking.inputs import Options
comm = watched(MPI.COMM_WORLD, 20.0)
options = Options(n=6)
arguments = examples.arguments("measured_step", 3, comm.Get_rank(), options)
right = examples.expected("measured_step", 3, comm.Get_rank(), options)
for a, b in zip(overlap.measured_step(comm, *arguments), right):
    np.testing.assert_allclose(a, b, 1e-10, 1e-12)
"""


@points(5, "reality", "overlap")
def test_step_under_mpiexec(ranks, rng, mpiexec):
    call, *_ = stepped(ranks, rng, 3)
    under_mpiexec(mpiexec, REAL_STEP, call)


@points(10, "communication", "overlap")
def test_one_all_reduce_a_bucket(ranks, rng):
    for buckets in (BUCKETS, [[5, 4, 3, 2, 1, 0]]):
        call, result, params = stepped(ranks, rng, 3, buckets)
        wanted = [sum(params[index].nbytes for index in bucket) for bucket in buckets]
        ranks.record(call, result, {"all_reduce_bytes": wanted})
        only_all_reduces(result, wanted, call)


@points(5, "communication", "overlap")
def test_communicator_of_some_ranks(ranks, rng):
    stepped(ranks, rng, 3, world_size=5, members=[3, 1, 4])


@points(5, "schedule", "overlap")
def test_launches_follow_the_order_of_buckets(ranks, rng):
    buckets = [[1, 4], [5, 0], [3, 2]]  # the first two are full last
    call, result, params = stepped(ranks, rng, 2, buckets, observed=True)
    only_all_reduces(result, [sum(params[i].nbytes for i in b) for b in buckets], call)


@points(5, "schedule", "overlap")
def test_all_reduces_begin_before_the_next_layer(ranks, rng):
    call, result, _ = stepped(ranks, rng, 2, observed=True)
    for rank in range(2):
        seen = order_of(result, rank, ("backward layer", "allreduce"))
        right = ["backward layer 2", "allreduce", "backward layer 1", "allreduce"]
        if seen[:4] != right:
            raise call.fail(f"rank {rank} did {seen[:4]}; it must be {right}.")


@points(5, "memory", "overlap")
def test_gradients_are_not_copied(ranks, rng):
    params = random_parameters((60,) * 5, rng)
    buckets = greedy([param.nbytes for param in params], 60_000)
    call = step_call(2, (60,) * 5, buckets)
    batch = tuple(rng.standard_normal((2, 3, 60)))
    result = ranks.call("callers:overlap_memory", 2, [(params, batch, buckets)] * 2)
    assert_ran(result, call)
    model = Model(params)
    model.backward(loss_gradient(model.forward(batch[0]), batch[1]))
    nbytes = sum(param.nbytes for param in params)
    for gradients, held in result.values:
        all_near(gradients, model.gradients(), call, "gradient")
        if held > nbytes // 4:
            raise call.fail(f"{held} bytes were held beside gradients of {nbytes} bytes.")


@points(5, "safety", "overlap")
def test_all_reduces_may_be_slow_and_are_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        call, result, _ = stepped(ranks, rng, 3, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(5, "speed", "overlap")
def test_time_of_a_step(ranks, rng):
    machine = Machine.load("textbook")
    widths = (16,) * 5
    buckets = [[7, 6], [5, 4], [3, 2], [1, 0]]
    bucket_s = ring_s(8 * 17 * 16, 8, machine)
    work = bucket_s * machine.flop_per_s / (4 * 3 * 16 * 16)  # one layer takes as long as a bucket
    call, result, _ = stepped(
        ranks, rng, 8, buckets, widths, work=work, machine=machine, observed=True
    )
    # Forward passes take half as long; then four layers, and the last bucket.
    assert_makespan(result, (4 * 0.5 + 4 + 1) * bucket_s, call, half=1.3)


# -- ddp_torch -------------------------------------------------------------------------------------

SPEC = {"width": 6, "num_layers": 4, "backward_s": 1e-6}
NUMBERS = {"lr": 0.2, "momentum": 0.5, "set_to_none": True}
ALL = [0, 1, 2, 3]


def shapes_of(spec):
    """Shapes of the parameters; a tied weight stands once."""
    tied = {j for _, j in spec.get("tied", ())}
    d = spec["width"]
    return [
        shape
        for layer in range(spec["num_layers"])
        for shape in ([] if layer in tied else [(d, d)]) + [(d,)]
    ]


def trained(ranks, rng, p, paths=None, cap=400, name="plain", set_to_none=True, **options):
    """Train with ``DDP``, and compare with the same training without a group.

    ``paths``: per rank, step and microbatch, the layers that are used. ``set_to_none``: what
    becomes of gradients between the steps, else they are zeros.
    """
    spec = SPEC | options.pop("spec", {})
    paths = [[[ALL]] * 2] * p if paths is None else paths
    call = ddp_call(p, name, cap, len(paths[0]))
    d, shapes = spec["width"], shapes_of(spec)
    params = [[rng.standard_normal(s) / np.sqrt(d) for s in shapes] for _ in range(p)]
    steps = [
        [[(*rng.standard_normal((2, 3, d)), path) for path in step] for step in own]
        for own in paths
    ]
    numbers = NUMBERS | {"bucket_bytes": cap, "set_to_none": set_to_none}
    world_size = options.pop("world_size", p)
    arguments = [(spec, params[rank], [], steps[rank], numbers) for rank in range(p)]
    result = ranks.call("callers_torch:train", world_size, arguments, **options)
    assert_ran(result, call)
    if result.factors is not None:  # each rank's passes have factors of their own
        call = call.seen_in(result)
        arguments = [(spec, params[0], steps[rank]) for rank in range(p)]
        own = ranks.call("callers_torch:alone", p, arguments, factors=result.factors)
        right = mean(own.raise_for_error().values)
        for rank, value in enumerate(result.values):
            all_near(value["gradients"][0], right, call, f"rank {rank}'s gradient")
        assert_declared_at_once(result, call, "backward")
        return call, result
    serial = ranks.call("callers_torch:serial", 1, [(spec, params[0], [], steps, numbers)])
    right = serial.raise_for_error().values[0]
    for rank, value in enumerate(result.values):
        all_near(value["begin"], params[0], call, f"at the begin rank {rank}'s parameter")
        all_near(value["params"], right, call, f"at the end rank {rank}'s parameter")
    return call, result


@points(5, "schedule", "ddp_torch", essential=True)
def test_an_all_reduce_begins_in_the_backward_pass(ranks, rng):
    call = ddp_call(4, "plain", 336)
    params = [rng.standard_normal(shape) / np.sqrt(6) for shape in shapes_of(SPEC)]
    steps = [[(*rng.standard_normal((2, 3, 6)), ALL)]]
    arguments = [(SPEC, params, [], steps, NUMBERS | {"bucket_bytes": 336})] * 4
    result = ranks.call("callers_torch:train", 4, arguments)
    assert_ran(result, call)
    assert_overlaps(result, call, waited=False)


@points(15, "values", "ddp_torch")
def test_training_equals_serial_training(ranks, rng):
    for p in (2, 3):
        trained(ranks, rng, p, set_to_none=p == 2)


@points(10, "values", "ddp_torch")
def test_ranks_begin_with_rank_0s_parameters(ranks, rng):
    trained(ranks, rng, 2, [[]] * 2, spec={"frozen": [1]})


@points(10, "values", "ddp_torch")
def test_unused_parameters_and_other_orders_on_each_rank(ranks, rng):
    trained(ranks, rng, 2, [[[ALL], [[3, 1]]], [[[1, 3]], [[0, 2, 3]]]], name="unused")


@points(10, "values", "ddp_torch")
def test_frozen_and_tied_parameters(ranks, rng):
    trained(ranks, rng, 2, name="frozen", spec={"frozen": [1]})
    trained(ranks, rng, 2, name="tied", spec={"tied": [(0, 2)]})


@points(10, "values", "ddp_torch")
def test_gradients_add_up_in_no_sync(ranks, rng):
    trained(ranks, rng, 2, [[[ALL] * 3] * 2] * 2)


@points(5, "values", "ddp_torch")
def test_buffers_are_rank_0s_in_each_forward(ranks, rng):
    spec = SPEC | {"num_layers": 1, "buffers": True}
    call = ddp_call(2, "plain", 400)
    batches = rng.standard_normal((2, 2, 3, 6))  # rank, step
    arguments = []
    for rank in range(2):
        params = [rng.standard_normal(shape) for shape in shapes_of(spec)]
        steps = [[(x, x, [0])] for x in batches[rank]]
        own = [np.full(6, float(rank)), np.array(5 * rank)]
        numbers = NUMBERS | {"bucket_bytes": 400, "between": True}
        arguments.append((spec, params, own, steps, numbers))
    result = ranks.call("callers_torch:train", 2, arguments)
    assert_ran(result, call)
    after_first = 0.1 * batches[0][0].mean(axis=0)  # of rank 0, on both ranks
    for rank, value in enumerate(result.values):
        right = 0.9 * after_first + 0.1 * batches[rank][1].mean(axis=0)
        near(value["buffers"][0], right, call, f"rank {rank}'s running mean")


def sizes_of(buckets):
    return [sum(8 * (36 if index % 2 == 0 else 6) for index in bucket) for bucket in buckets]


@points(5, "communication", "ddp_torch")
def test_ddp_calls_one_all_reduce_a_bucket(ranks, rng):
    buckets = [[7, 6], [5, 4], [3, 2], [1, 0]]  # 336 bytes each
    call, result = trained(ranks, rng, 3, cap=336)
    ranks.record(call, result, {"all_reduce_bytes": sizes_of(buckets) * 2})
    for rank in range(3):
        counted = all_reduces(result, rank)
        if counted != sizes_of(buckets) * 2:
            raise call.fail(
                f"rank {rank}'s all-reduces have {counted} bytes; it must be "
                f"{sizes_of(buckets)} in each of 2 steps."
            )


@points(5, "communication", "ddp_torch")
def test_nothing_is_sent_in_no_sync(ranks, rng):
    call, result = trained(ranks, rng, 2, [[[ALL] * 3]] * 2, cap=336)
    if len(all_reduces(result, 0)) != 4:
        raise call.fail("with 3 microbatches, 2 of them in no_sync, there are 4 all-reduces.")


@points(5, "communication", "ddp_torch")
def test_given_group_is_used(ranks, rng):
    trained(ranks, rng, 3, world_size=5, members=[3, 1, 4])


@points(5, "schedule", "ddp_torch")
def test_launches_before_the_last_gradient(ranks, rng):
    call, result = trained(ranks, rng, 2, [[[ALL]]] * 2, cap=336, factors=Factors.drawn(rng))
    for rank in range(2):
        seen = order_of(result, rank, ("backward layer", "allreduce"))
        right = ["backward layer 3", "allreduce", "backward layer 2", "allreduce"]
        if seen[:4] != right:
            raise call.fail(f"rank {rank} did {seen[:4]}; it must be {right}.")


@points(5, "safety", "ddp_torch")
def test_launches_in_one_order_whatever_is_ready_first(ranks, rng):
    orders = [ALL, ALL[::-1], [2, 0, 1]]
    for seed in LATENCY_SEEDS:
        paths = [[[orders[(rank + seed) % 3]]] for rank in range(3)]
        call, result = trained(ranks, rng, 3, paths, 336, "unused", machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(5, "memory", "ddp_torch")
def test_gradients_exist_once(ranks, rng):
    spec = {"width": 64, "num_layers": 6}
    nbytes = 6 * 8 * 64 * 65
    call, result = trained(ranks, rng, 2, [[[[0, 1, 2, 3, 4, 5]]] * 2] * 2, 70_000, spec=spec)
    for value in result.values:
        if value["held"] > 1.25 * nbytes + (1 << 16):
            raise call.fail(f"{value['held']} bytes are held for gradients of {nbytes} bytes.")


@points(5, "speed", "ddp_torch")
def test_time_of_a_ddp_step(ranks, rng):
    machine = Machine("slow wire", alpha_s=1e-4, beta_s_per_byte=1e-6)
    takes_s = ring_s(336, 4, machine)
    spec = {"backward_s": takes_s}
    _, none = trained(ranks, rng, 4, [[]] * 4, 336, spec=spec, machine=machine)
    call, one = trained(ranks, rng, 4, [[[ALL]]] * 4, 336, spec=spec, machine=machine)
    # Four layers, and the last bucket.
    assert_makespan(one, none.makespan_s + 5 * takes_s, call, half=1.3)
