"""ddp_torch.py: hooks, buckets in reverse order, and the same launches on every rank."""

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_declared_at_once,
    assert_makespan,
    assert_ran,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a05_ddp.cases import ddp_call, greedy, ring_s
from solutions.a05_ddp.hidden import oracle, oracle_torch, runs
from solutions.a05_ddp.hidden.runs import examples

WIDTH, BATCH = 6, 3
SIZES = (8 * WIDTH * WIDTH, 8 * WIDTH)  # of a weight and a bias
CAPS = (1, 400, 1 << 20)
TAKES_S = 1e-6
TOLD = ("tied", "frozen", "buffers", "dtype")  # of a network, by verdicts

points = points_of("ddp_torch")


def spec_of(num_layers=4, **more):
    return {"width": WIDTH, "num_layers": num_layers, "backward_s": TAKES_S, **more}


def straight(p, num_layers, steps=1, microbatches=1):
    """Per rank, step and microbatch the path through all layers."""
    return [[[list(range(num_layers))] * microbatches] * steps] * p


def trained(ranks, rng, p, spec=None, paths=None, cap=400, **more):
    """Train, and compare everything with the oracle; returns case, result and network.

    ``observed=True``: the network says where the layers' passes are, and scales their inputs.
    ``values=False``: nothing is compared.
    """
    values = more.pop("values", True)
    if more.pop("observed", False):
        more["factors"] = Factors.drawn(rng)
    spec = spec or spec_of()
    paths = straight(p, spec["num_layers"], 2) if paths is None else paths
    options = {"bucket_bytes": cap, "lr": 0.2, "momentum": 0.5, "set_to_none": True}
    options |= more.pop("options", {})
    net = oracle_torch.Replica(spec)
    width = spec["width"]
    scale = 1 / np.sqrt(width)
    dtype = spec.get("dtype", "float64")
    params = [
        [(scale * rng.standard_normal(shape)).astype(dtype) for shape in net.shapes]
        for _ in range(p)
    ]
    buffers = [[np.asarray(each + rng.integers(1, 9)) for each in net.buffers()] for _ in range(p)]
    steps = [
        [
            [(*rng.standard_normal((2, BATCH, width)).astype(dtype), path) for path in step]
            for step in paths[rank]
        ]
        for rank in range(p)
    ]
    about = ", ".join(f"{k} {v}" for k, v in spec.items() if k in TOLD)
    if options.get("interrupted"):
        about = ", ".join(filter(None, [about, "after an exception inside no_sync"]))
    if options.get("between"):
        about = ", ".join(filter(None, [about, "evaluated between the steps"]))
    case = ddp_call(
        p, more.pop("network", "plain"), cap, len(steps[0]), about,
        max(map(len, steps[0]), default=1), options.get("nested", False),
    )  # fmt: skip
    world_size = more.pop("world_size", p)
    arguments = [(spec, params[r], buffers[r], steps[r], options) for r in range(p)]
    result = ranks.call("callers_torch:train", world_size, arguments, **more)
    assert_ran(result, case)
    if not values:
        return case, result, net
    factors = getattr(result, "factors", None)  # real ranks have none
    wanted = oracle_torch.train(spec, params[0], buffers[0], steps, options, factors)
    case = case if factors is None else case.seen_in(result)
    wanted = cast(wanted, dtype)
    for rank, value in enumerate(result.values):
        compare(value["begin"], params[0], case, f"after the constructor, rank {rank}'s parameter")
        compare(
            value["begin_buffers"], buffers[0], case, f"after the constructor, rank {rank}'s buffer"
        )
        for number, (found, right) in enumerate(
            zip(value["gradients"], wanted["gradients"], strict=True)
        ):
            compare_gradients(found, right, case, f"rank {rank}'s gradient in step {number}")
        compare(value["outputs"], wanted["outputs"][rank], case, f"rank {rank}'s output in step")
        compare(value["params"], wanted["params"], case, f"at the end, rank {rank}'s parameter")
        compare(
            value["buffers"], wanted["buffers"][rank], case, f"at the end, rank {rank}'s buffer"
        )
        if value["same"] is not True:
            raise case.fail(f"rank {rank}: ddp.module is not the module that was given.")
    if factors is not None:
        assert_declared_at_once(result, case, "backward")
    return case, result, net


def cast(value, dtype):
    """Arrays of floats, in lists and dicts, in this dtype."""
    if isinstance(value, dict):
        return {name: cast(each, dtype) for name, each in value.items()}
    if isinstance(value, list):
        return [cast(each, dtype) for each in value]
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(dtype)
    return value


def compare(values, expected, case, what):
    single = any(np.asarray(each).dtype == np.float32 for each in expected)
    tolerance, unit = (1e-5, "float32") if single else (1e-12, "float64")
    eps = 2 * (case.world_size + 1) * np.finfo(unit).eps
    scales = [
        np.full(np.shape(each), tolerance / eps * (1 + np.max(np.abs(each), initial=0)))
        for each in expected
    ]
    expected = [np.asarray(each) for each in expected]
    runs.check_arrays(values, expected, scales, case, what)


def compare_gradients(values, expected, case, what):
    """Means; frozen ones have none, and zeros may stand as None."""
    if not isinstance(values, list) or len(values) != len(expected):
        raise case.fail(f"{what}: not all of {len(expected)} came back.")
    for number, (value, right) in enumerate(zip(values, expected, strict=True)):
        if value is None and (right is None or not right.any()):
            continue
        if right is None:
            raise case.fail(f"{what}: parameter {number} is frozen, and must have no gradient.")
        compare([value], [right], case, f"{what}, of parameter {number}:")


# -- values ----------------------------------------------------------------------------------------


@points(12, "values")
def test_training_equals_serial_training_on_2_to_5_ranks(ranks, rng):
    def steps():
        for p in (2, 3, 4, 5):
            trained(ranks, rng, p, paths=straight(p, 4, 3))

    def caps():
        for p, cap in ((2, 1), (2, 1 << 20), (1, 400)):
            trained(ranks, rng, p, cap=cap, options={"set_to_none": False})

    runs.check_each({"three steps": steps, "any cap and zeroed gradients": caps})


@points(3, "values")
def test_ranks_begin_with_rank_0s_parameters_and_buffers(ranks, rng):
    for p in (2, 4):
        trained(ranks, rng, p, spec_of(2, buffers=True, frozen=[0]), straight(p, 2, 0))


@points(7, "values")
def test_unused_parameters_and_other_orders_on_each_rank(ranks, rng):
    a = [[[0, 1, 2, 3]], [[3, 1]], [[2, 0, 1]]]  # per step, one microbatch
    b = [[[1, 3]], [[3, 0, 1]], [[1, 0]]]
    c = [[[3, 2, 1, 0]], [[0]], [[1]]]
    for cap in (1, 400):
        trained(ranks, rng, 2, paths=[a, b], cap=cap, network="unused")
        trained(ranks, rng, 3, paths=[b, c, a], cap=cap, network="unused")


@points(8, "values")
def test_frozen_and_tied_parameters(ranks, rng):
    def frozen():
        for p, layers in ((2, [0]), (3, [1, 3]), (2, [3])):
            trained(ranks, rng, p, spec_of(frozen=layers), network="frozen")

    def tied():
        for p, pairs in ((2, [(0, 3)]), (3, [(1, 2)])):
            trained(ranks, rng, p, spec_of(tied=pairs), network="tied")

    runs.check_each({"frozen parameters": frozen, "tied parameters": tied})


@points(7, "values")
def test_gradients_add_up_in_no_sync(ranks, rng):
    for p in (2, 3):
        more = {"nested": p == 3}
        trained(ranks, rng, p, paths=straight(p, 4, 2, microbatches=3), options=more)
    trained(ranks, rng, 2, paths=straight(2, 4, 2, 2), options={"set_to_none": False})
    a = [[[0, 1, 2, 3], [3, 2]], [[1], [2]]]
    b = [[[2, 1], [0]], [[0, 1, 2, 3], [3]]]
    trained(ranks, rng, 2, paths=[a, b], network="unused")


@points(6, "values")
def test_buffers_are_rank_0s_in_each_forward(ranks, rng):
    spec = spec_of(3, buffers=True)
    trained(ranks, rng, 2, spec, straight(2, 3, 3), options={"between": True})
    for p in (2, 3):
        more = {"interrupted": p == 2}
        trained(ranks, rng, p, spec, straight(p, 3, 2, microbatches=2), options=more)
    check_evaluation(ranks, rng, spec)


@points(4, "reality")
def test_real_gloo(gloo, rng):
    try:
        trained(gloo, rng, 2)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


def check_evaluation(ranks, rng, spec):
    """In evaluation mode every rank keeps its own buffers, and nothing is communicated."""
    net = oracle_torch.Replica(spec)
    path = [0, 1, 2]
    case = ddp_call(2, "plain", 400, 0, "in evaluation mode")
    arguments, expected = [], []
    params = [rng.standard_normal(shape) for shape in net.shapes]
    for _ in range(2):
        buffers = [np.asarray(each + rng.integers(1, 9)) for each in net.buffers()]
        x = rng.standard_normal((BATCH, WIDTH))
        arguments.append((spec, params, buffers, x, path, 400))
        y = x - buffers[0]
        for layer in path:
            y = np.tanh(y @ params[net.place[layer][0]].T + params[net.place[layer][1]])
        expected.append([y, *buffers])
    result = ranks.call("callers_torch:evaluated", 2, arguments)
    assert_ran(result, case)
    for rank, (output, buffers) in enumerate(result.values):
        compare([output, *buffers], expected[rank], case, f"rank {rank}'s output and buffers:")


# -- communication ---------------------------------------------------------------------------------


def reduced(result, case, members=None):
    """Per rank, the bytes of its all-reduces; checks that there are broadcasts beside, no more."""
    if result.comm_calls or sum(result.sent_messages()):
        raise case.fail("only broadcasts and all-reduces on the given group are allowed.")
    found = []
    for place in range(case.world_size):
        rank = place if members is None else members[place]
        ops = runs.collectives(result, rank)
        others = {str(op.detail[0]) for op in ops} - {"allreduce", "bcast"}
        if others:
            raise case.fail(
                f"the library's {sorted(others)[0]} was called; only broadcasts and all-reduces "
                "are allowed."
            )
        found.append([op.nbytes for op in ops if op.detail[0] == "allreduce"])
    return found


def check_buckets(nbytes, net, cap, steps, case, rank):
    """The all-reduces of a rank are, step by step, buckets in reverse order under the cap."""
    unit = 4 if net.spec.get("dtype") == "float32" else 8
    sizes = [unit * int(np.prod(net.shapes[number])) for number in net.learning][::-1]
    fewest = len(greedy(sizes[::-1], cap))
    if len(nbytes) != fewest * steps:
        few = (
            f"; with fewer, some have more than {cap} bytes" if len(nbytes) < fewest * steps else ""
        )
        raise case.fail(
            f"rank {rank} took part in {len(nbytes)} all-reduces in {steps} steps; "
            f"{fewest} a step are asked for: one a bucket{few}."
        )
    for step in range(steps):
        mine, at = nbytes[step * fewest : (step + 1) * fewest], 0
        for number, size in enumerate(mine):
            count, filled = 0, 0
            while at + count < len(sizes) and filled < size:
                filled += sizes[at + count]
                count += 1
            if filled != size or (count > 1 and filled > cap):
                raise case.fail(
                    f"rank {rank}'s all-reduce number {number} of step {step} has {size} bytes; "
                    f"buckets in reverse order are made of parameters of {sizes} bytes, "
                    f"with at most {cap} bytes each."
                )
            at += count
    return fewest


@points(10, "communication")
def test_one_all_reduce_a_bucket(ranks, rng):
    for p, spec in (
        (2, spec_of()),
        (3, spec_of(tied=[(0, 2)])),
        (4, spec_of(frozen=[1])),
        (2, spec_of(dtype="float32")),
        (4, spec_of()),
        (12, spec_of()),
        (18, spec_of()),
    ):
        cap = CAPS[p % 3]
        case, result, net = trained(ranks, rng, p, spec, cap=cap)
        for rank, nbytes in enumerate(reduced(result, case)):
            check_buckets(nbytes, net, cap, 2, case, rank)
        ranks.record(case, result, {"all_reduces": [len(n) for n in reduced(result, case)]})


@points(5, "communication")
def test_nothing_is_sent_in_no_sync(ranks, rng):
    for spec, forwards in ((spec_of(tied=[(0, 2)], frozen=[1]), 0), (spec_of(3, buffers=True), 2)):
        layers = spec["num_layers"]
        case, result, net = trained(ranks, rng, 2, spec, straight(2, layers, 2, microbatches=3))
        for rank, nbytes in enumerate(reduced(result, case)):
            check_buckets(nbytes, net, 400, 2, case, rank)
            ops = runs.collectives(result, rank)
            count = sum(op.detail[0] == "bcast" for op in ops)
            buffers = len(net.buffers())
            most = len(net.shapes) + buffers + buffers * forwards
            if count > most:
                raise case.fail(
                    f"rank {rank} took part in {count} broadcasts; at most {most} are allowed: "
                    "one for each parameter and buffer, and one a buffer in each forward "
                    "outside no_sync."
                )


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def call(**where):
        case, result, net = trained(ranks, rng, 3, spec_of(3, buffers=True), **where)
        for rank, nbytes in enumerate(reduced(result, case, where.get("members"))):
            check_buckets(nbytes, net, 400, 2, case, rank)
        return case, result

    on_three_members(rng, call)


# -- schedule, safety, memory, speed ---------------------------------------------------------------


def check_launches(result, net, buckets, path, case):
    """Each all-reduce is launched before the backward pass of the layer after its last gradient.

    For one step through ``path``: the last layer of it comes first.
    """
    order = path[::-1]
    for rank, ops in enumerate(result.trace.ops):
        places = {layer: place for place, layer in examples.backward_phases(ops)}
        if [layer for layer, _ in sorted(places.items(), key=lambda each: each[1])] != order:
            raise case.fail(f"rank {rank} did not go backward through layers {order}, each once.")
        launches = [
            place
            for place, op in enumerate(ops)
            if op.kind == Kind.COLLECTIVE and op.detail[0] == "allreduce"
        ]
        latest = 0
        for number, (place, bucket) in enumerate(zip(launches, buckets, strict=True)):
            latest = max(latest, *(order.index(layer) for k in bucket for layer in net.layer_of[k]))
            if latest + 1 < len(order) and place > places[order[latest + 1]]:
                raise case.fail(
                    f"rank {rank} launched bucket {number} after the backward pass of layer "
                    f"{order[latest + 1]}; its last gradient was ready after layer {order[latest]}."
                )


def buckets_of(net, cap):
    """Numbers of parameters, under a cap that leaves one division only."""
    sizes = [8 * int(np.prod(net.shapes[number])) for number in net.learning]
    return [[net.learning[place] for place in bucket] for bucket in greedy(sizes, cap)]


@points(6, "schedule", essential=True)
def test_an_all_reduce_begins_in_the_backward_pass(ranks, rng):
    case, result, _ = trained(ranks, rng, 4, None, straight(4, 4, 1), sum(SIZES), values=False)
    examples.assert_overlaps(result, case, waited=False)


@points(6, "schedule")
def test_launches_before_the_last_gradient(ranks, rng):
    whole = sum(SIZES)  # a layer a bucket
    for p, spec, path in (
        (2, spec_of(6), [0, 1, 2, 3, 4, 5]),
        (3, spec_of(4), [1, 0, 3, 2]),
        (2, spec_of(4, frozen=[2]), [0, 1, 2, 3]),
    ):
        case, result, net = trained(ranks, rng, p, spec, [[[path]]] * p, cap=whole, observed=True)
        for rank, nbytes in enumerate(reduced(result, case)):
            check_buckets(nbytes, net, whole, 1, case, rank)
        check_launches(result, net, buckets_of(net, whole), path, case)


@points(7, "safety")
def test_launches_in_one_order_whatever_is_ready_first(ranks, rng):
    orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3]]
    for cap, seed in zip((1, 400, 700), LATENCY_SEEDS, strict=True):
        paths = [[[orders[(rank + seed) % 4]], [orders[(rank + 1) % 4]]] for rank in range(4)]
        case, result, net = trained(
            ranks, rng, 4, paths=paths, cap=cap, machine=rendezvous(), seed=seed, network="unused"
        )
        for rank, nbytes in enumerate(reduced(result, case)):
            check_buckets(nbytes, net, cap, 2, case, rank)
        runs.check_requests(result, case)


@points(5, "memory")
def test_gradients_exist_once(ranks, rng):
    spec = {"width": 64, "num_layers": 8, "backward_s": TAKES_S}
    net = oracle_torch.Replica(spec)
    nbytes = sum(8 * int(np.prod(shape)) for shape in net.shapes)
    case, result, _ = trained(ranks, rng, 2, spec, straight(2, 8, 2), cap=70_000)
    allowed = nbytes + nbytes // 4 + (1 << 16)
    for rank, value in enumerate(result.values):
        if value["held"] > allowed:
            raise case.fail(
                f"rank {rank} held tensors of {value['held']} bytes beside parameters and batches "
                f"at the end of the backward pass; the gradients have {nbytes} bytes, and "
                f"{allowed} are allowed."
            )


def check_declared(result, rank, asked_s, case):
    """The layers' backward passes took the time that the network was made to take."""
    spent_ps = sum(
        max(0, op.detail[2])
        for op in result.trace.ops[rank]
        if op.kind == Kind.COMPUTE and str(op.detail[3]).startswith("backward layer ")
    )
    if spent_ps < asked_s * 1e12 * (1 - 1e-6):
        raise case.fail(
            f"rank {rank}'s backward passes took {spent_ps / 1e12:.6g} s of virtual time; those of "
            f"the network that it was given take {asked_s:.6g} s."
        )


@points(10, "speed")
def test_time_of_a_step(ranks, rng):
    machine = Machine("slow wire", alpha_s=1e-4, beta_s_per_byte=1e-6)
    p, layers, cap = 8, 6, sum(SIZES)
    bucket_s = [ring_s(cap, p, machine)] * layers
    takes_s = bucket_s[0]
    spec = spec_of(layers) | {"backward_s": takes_s}
    case, none, net = trained(ranks, rng, p, spec, straight(p, layers, 0), cap, machine=machine)
    case, one, net = trained(
        ranks, rng, p, spec, straight(p, layers, 1), cap, machine=machine, observed=True
    )
    for rank, nbytes in enumerate(reduced(one, case)):
        check_buckets(nbytes, net, cap, 1, case, rank)
        check_declared(one, rank, takes_s * layers, case)
    ready_s = [takes_s * (layers - number // 2) for number in range(2 * layers)]
    bound_s = oracle.finish_s(ready_s, takes_s * layers, buckets_of(net, cap), bucket_s)
    assert_makespan(one, none.makespan_s + bound_s, case, half=1.3)
