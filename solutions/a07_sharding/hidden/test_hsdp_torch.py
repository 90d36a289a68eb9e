"""hsdp_torch.py: gathers inside a replica, gradients on two levels."""

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_array,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    magnitude,
    members_of_world,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.trace import Kind
from solutions.a07_sharding.cases_torch import hsdp_call, hsdp_s
from solutions.a07_sharding.observed_torch import assert_two_levels, assert_ways

points = points_of("hsdp_torch")

GRIDS = ((2, 2), (3, 1), (1, 3), (2, 3), (3, 4))
LAYERS = (3, 1, 5)  # elements of a part


def ran(ranks, rng, function, grid, parts=LAYERS, dtype="float64", real=False, only=None, **more):
    """Call a function on R x S ranks, compare, and perhaps see that each message goes its way."""
    replicas, size = grid
    p, lengths = replicas * size, [size * n for n in parts]
    case = hsdp_call(function, replicas, size, lengths, dtype)
    if function == "gather":
        wholes = [rng.standard_normal((1, n)).astype(dtype) for n in lengths]
        own = [[np.split(each[0], size)[r % size] for each in wholes] for r in range(p)]
    else:
        wholes = [rng.standard_normal((p, n)).astype(dtype) for n in lengths]
        own = [[each[r] for each in wholes] for r in range(p)]
    world_size = more.pop("world_size", p)
    result = ranks.call(
        "callers_torch:hsdp", world_size, [(function, size, each) for each in own], **more
    )
    assert_ran(result, case)
    case = case if real else case.seen_in(result)
    for rank, (found, _) in enumerate(result.values):
        if not isinstance(found, list) or len(found) != len(wholes):
            raise case.fail(f"rank {rank} must return a list of {len(wholes)} tensors.")
        for number, (value, whole) in enumerate(zip(found, wholes, strict=True)):
            right = whole.astype("float64").mean(axis=0)
            scale = magnitude(list(whole)) / len(whole)
            if function == "synchronise":
                right, scale = (np.split(each, size)[rank % size] for each in (right, scale))
            what = f"rank {rank}'s layer {number}"
            assert_array(value, right.astype(dtype), scale, case, what)
    if only is not None:
        assert_ways(result, case, function, size, lengths, dtype, only)
    return case, result


def one_way(grid):
    return "one shard, or one replica" if 1 in grid else "several shards and replicas"


MORE = {"several shards and replicas": 3.0}  # weights of kinds of cases


@points(14, "values")
def test_gather(ranks, rng):
    check_kinds(GRIDS[:4], one_way, lambda grid: ran(ranks, rng, "gather", grid), weights=MORE)
    ran(ranks, rng, "gather", (2, 2), dtype="float32")


@points(20, "values")
def test_mean_of_gradients(ranks, rng):
    check_kinds(GRIDS[:4], one_way, lambda grid: ran(ranks, rng, "synchronise", grid), weights=MORE)
    ran(ranks, rng, "synchronise", (2, 2), dtype="float32")


@points(6, "values")
def test_inputs_stay_and_other_lengths(ranks, rng):
    for function in ("gather", "synchronise"):
        ran(ranks, rng, function, (2, 2), parts=())
        case, result = ran(ranks, rng, function, (2, 2), parts=(3, 0, 5))
        for rank, (_, changed) in enumerate(result.values):
            if changed:
                raise case.seen_in(result).fail(f"rank {rank} changed its input.")
    case = hsdp_call("synchronise", 2, 2, (4, 3))
    arguments = [("synchronise", 2, [np.ones(4), np.ones(3)])] * 4
    result = ranks.call("callers_torch:hsdp_refuses", 4, arguments)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        if value != "ValueError" or result.collectives:
            raise case.fail(
                f"rank {rank} must raise a ValueError before any message: 3 elements on 2 ranks."
            )
    ran(ranks, rng, "synchronise", (2, 2))


@points(4, "reality")
def test_real_gloo(gloo, rng):
    try:
        ran(gloo, rng, "gather", (1, 2), real=True)
        ran(gloo, rng, "synchronise", (2, 1), real=True)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


@points(10, "communication")
def test_bytes_inside(ranks, rng):
    for grid in ((2, 4), (3, 4), (4, 5)):
        ran(ranks, rng, "gather", grid, only="inside")
    case, result = ran(ranks, rng, "synchronise", (2, 4), only="inside")
    ranks.record(case, result, {})


@points(14, "communication", essential=True)
def test_bytes_between(ranks, rng):
    """Its first part asks whether there are two levels at all, whatever the values are."""

    def check(grid):
        if grid is None:
            case = hsdp_call("synchronise", 2, 2, (16, 8))
            own = [[rng.standard_normal(n) for n in (16, 8)] for _ in range(4)]
            arguments = [("synchronise", 2, each) for each in own]
            result = ranks.call("callers_torch:hsdp", 4, arguments)
            assert_ran(result, case)
            assert_two_levels(result, case, 2)
            return
        parts = (5000, 3) if grid == (2, 2) else LAYERS
        case, result = ran(ranks, rng, "synchronise", grid, parts=parts, only="between")
        ranks.record(case, result, {})

    kinds = "two levels", "bytes between"
    check_kinds([None, (4, 2), (3, 4), (4, 5), (2, 2)], lambda grid: kinds[grid is not None], check)


@points(6, "communication")
def test_given_groups_are_used(ranks, rng):
    members, world_size = members_of_world(rng, 4)
    members = sorted(members)  # so are those of torch's new groups
    for function in ("gather", "synchronise"):
        where = {"world_size": world_size, "members": members}
        ran(ranks, rng, function, (2, 2), only="", **where)


@points(10, "safety")
def test_everything_is_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        for function in ("gather", "synchronise"):
            more = {"machine": rendezvous(), "seed": seed}
            case, result = ran(ranks, rng, function, (2, 2), **more)
            assert_requests_complete(result, case, [Kind.COLLECTIVE])


@points(10, "speed")
def test_both_levels_work_at_once(ranks, rng):
    nodes = Machine(
        "even links", alpha_s=2.7e-6, beta_s_per_byte=8e-11, intra_alpha_s=6e-7,
        intra_beta_s_per_byte=8e-11, ranks_per_node=4, gpus_per_nic=4,
        memory_bytes_per_s=1e18, flop_per_s=1e18,
    )  # fmt: skip
    case, result = ran(ranks, rng, "synchronise", (2, 4), (40_000,) * 6, "float32", machine=nodes)
    assert_makespan(result, hsdp_s([160_000] * 6, 2, 4, nodes, 4), case, half=1.3)


@points(6, "speed")
def test_a_step_beats_plain_sharding_over_slow_links(ranks, rng):
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0, memory_bytes_per_s=1e18)
    replicas, size, lengths = 2, 4, [80_000] * 4
    p = replicas * size
    case = hsdp_call("synchronise", replicas, size, lengths)
    result = ranks.call("callers_torch:hsdp_step", p, [(size, lengths)] * p, machine=machine)
    assert_ran(result, case)
    right = (sum(range(size)) * 20_000.0, sum(range(p)) / p * 20_000.0)
    for rank, value in enumerate(result.values):
        if value != tuple([each] * len(lengths) for each in right):
            raise case.fail(f"in a whole step, rank {rank} gathers or synchronises other numbers.")
    plain = ranks.call("callers_torch:flat_step", p, [(lengths,)] * p, machine=machine)
    assert_ran(plain, case)
    if result.makespan_s > 0.6 * plain.makespan_s:
        raise case.fail(
            f"a step takes {result.makespan_s * 1e6:.0f} µs on two nodes of zaratan; plain "
            f"sharding takes {plain.makespan_s * 1e6:.0f} µs, and at most 0.6 times that is asked "
            "for."
        )
