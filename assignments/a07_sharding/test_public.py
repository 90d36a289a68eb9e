"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. A ``Call`` is what a verdict names; ``ranks.call`` runs something on simulated
ranks, through ``callers_torch.py`` where it must be looked at from inside.
"""

import cases_torch as cases
import numpy as np
import observed_torch as observed
import serial_torch

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    assert_array,
    assert_declared_at_once,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    magnitude,
    rendezvous,
)
from ringside.checking.points import points
from ringside.checking.ring_bytes import sent_as_ring
from ringside.factors import Factors
from ringside.trace import Kind

# -- zero3_torch -----------------------------------------------------------------------------------

NETWORK = {"widths": [4, 6, 5, 3], "costs": [1e-6, 2e-6]}


def zero3(ranks, rng, p, spec=NETWORK, by_layer=False, *, optimizer="sgd", keep=False, **more):
    """Train in ``ZeRO3``, and compare with one process: what each rank keeps, and the scheme."""
    plan = {name: more.pop(name) for name in ("steps", "microbatches", "evaluate") if name in more}
    call = cases.zero3_call(p, spec, by_layer, keep_zeros=keep, optimizer=optimizer, **plan)
    options = cases.options_of(optimizer, by_layer=by_layer, keep_zeros=keep)
    sample = cases.sample_training(rng, spec, p, by_layer, **plan)
    arguments = cases.training_arguments(spec, sample, options)
    world_size = more.pop("world_size", p)
    result = ranks.call(
        "callers_torch:zero3_train", world_size, arguments, factors=Factors.drawn(rng), **more
    )
    assert_ran(result, call)
    right = serial_torch.train(
        sample["params"], sample["steps"], sample["evaluated"], options, result.factors
    )
    for rank, value in enumerate(result.values):
        cases.check_zero3(value, right, rank, spec, by_layer, call.seen_in(result))
    assert_declared_at_once(result, call)
    layers = cases.sharded(spec, p, by_layer)
    observed.assert_scheme(result, call, layers)
    return call, result, layers


@points(20, "values", "zero3_torch")
def test_training_equals_serial_training(ranks, rng):
    for p in (2, 3):
        zero3(ranks, rng, p)
    zero3(ranks, rng, 18, steps=1)


@points(5, "values", "zero3_torch")
def test_layers_with_fewer_elements_than_ranks(ranks, rng):
    zero3(ranks, rng, 4, {"widths": [2, 1, 1, 3], "bias": False})


@points(8, "values", "zero3_torch")
def test_gradients_add_up(ranks, rng):
    zero3(ranks, rng, 2, microbatches=2)
    zero3(ranks, rng, 2, keep=True)


@points(6, "values", "zero3_torch")
def test_evaluation_in_between(ranks, rng):
    zero3(ranks, rng, 2, evaluate=True)


@points(5, "values", "zero3_torch")
def test_layers_that_a_function_names(ranks, rng):
    zero3(ranks, rng, 2, NETWORK | {"blocks": [2, 1]}, by_layer=True)
    zero3(ranks, rng, 2, NETWORK | {"blocks": [1, 2]})


@points(5, "values", "zero3_torch")
def test_adam_and_float32(ranks, rng):
    zero3(ranks, rng, 2, optimizer="adam")
    zero3(ranks, rng, 2, NETWORK | {"dtype": "float32"})


@points(6, "values", "zero3_torch")
def test_as_torchs_own_fully_shard(ranks, rng):
    p, options = 3, cases.options_of()
    call, sample = cases.zero3_call(p, NETWORK), cases.sample_training(rng, NETWORK, 3)
    mine = ranks.call(
        "callers_torch:zero3_train", p, cases.training_arguments(NETWORK, sample, options)
    )
    whole = [each for layer in sample["params"] for each in layer]
    arguments = [(NETWORK, whole, steps, options | {"whole": False}) for steps in sample["steps"]]
    theirs = ranks.call("callers_torch:with_fully_shard", p, arguments)
    assert_ran(mine, call)
    assert_ran(theirs, call)
    for rank in range(p):
        sent, allowed = (sent_as_ring(each)[rank] for each in (mine, theirs))
        if not 0 < sent <= allowed:
            raise call.fail(f"rank {rank} sent {sent:.0f} bytes; fully_shard sends {allowed:.0f}.")
    arguments = [(NETWORK, whole, steps, options) for steps in sample["steps"]]
    ends = iter(ranks.call("callers_torch:with_fully_shard", p, arguments).values[0])
    layers = [[next(ends) for _ in layer] for layer in sample["params"]]
    for rank, value in enumerate(mine.values):
        shards = [np.split(cases.flat(layer, p), p)[rank] for layer in layers]
        cases.compare(value["shards"], shards, call, f"beside fully_shard, rank {rank}'s shard")


@points(8, "communication", "zero3_torch")
def test_bytes_of_a_step(ranks, rng):
    for p in (2, 5):
        call, result, layers = zero3(ranks, rng, p)
        observed.assert_volume(result, call, layers, steps=2)
        total = sum(layer.nbytes for layer in layers)
        ranks.record(call, result, {"two steps": 6 * total * (p - 1) // p})


@points(5, "communication", "zero3_torch")
def test_given_group_is_used(ranks, rng):
    zero3(ranks, rng, 3, world_size=5, members=[3, 1, 4])


@points(8, "schedule", "zero3_torch")
def test_next_layer_is_gathered_before_it_is_needed(ranks, rng):
    call, result, layers = zero3(ranks, rng, 2, NETWORK | {"widths": [4, 3, 5, 2, 6]})
    observed.assert_one_ahead(result, call, layers)


@points(6, "schedule", "zero3_torch")
def test_gradients_are_reduced_while_the_next_layer_computes(ranks, rng):
    call, result, layers = zero3(ranks, rng, 2, NETWORK | {"widths": [4, 3, 5, 2, 6]})
    observed.assert_reduced(result, call, layers)


@points(4, "safety", "zero3_torch")
def test_everything_is_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        call, result, _ = zero3(ranks, rng, 3, evaluate=True, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(6, "memory", "zero3_torch")
def test_two_layers_at_a_time(ranks, rng):
    spec, p, layer = {"widths": [64] * 13, "bias": False}, 4, 8 * 64 * 64
    for evaluate in (False, True):
        call = cases.zero3_call(p, spec, steps=1, evaluate=evaluate)
        sample = cases.sample_training(rng, spec, p, steps=1, evaluate=evaluate)
        arguments = [
            (spec, sample["handed"][rank], *sample["steps"][rank][0][0], evaluate)
            for rank in range(p)
        ]
        result = ranks.call("callers_torch:zero3_memory", p, arguments)
        assert_ran(result, call)
        allowed = 11 * layer + layer // 2  # half a layer for activations and the like
        for rank, memory in enumerate(result.memory):
            if memory["peak"] > allowed:
                raise call.fail(
                    f"rank {rank} held tensors of {memory['peak']} bytes at one time; {allowed} "
                    f"are allowed with 12 layers of {layer} bytes."
                )


@points(8, "speed", "zero3_torch")
def test_time_of_a_zero3_step(ranks, rng):
    machine = Machine("slow wire", alpha_s=1e-6, beta_s_per_byte=1e-6)
    spec = {"widths": [40] * 7}
    length = cases.lengths_of(spec, 4)[0]
    backward_s = 2 * observed.ring_s(length, 8, machine)
    costs = [backward_s / 2, backward_s]
    call, result, layers = zero3(ranks, rng, 4, spec | {"costs": costs}, steps=1, machine=machine)
    for world_size in (8, 32):
        observed.assert_time(result, call, layers, costs, world_size)


# -- hsdp_torch ------------------------------------------------------------------------------------


def hsdp(ranks, rng, function, replicas, size, parts=(3, 0, 2), dtype="float64", **more):
    """Call a function of ``hsdp_torch``, and see that each message goes its way."""
    p, lengths = replicas * size, [size * n for n in parts]
    call = cases.hsdp_call(function, replicas, size, lengths, dtype)
    if function == "gather":
        wholes = [rng.standard_normal((1, n)).astype(dtype) for n in lengths]
        own = [[np.split(each[0], size)[r % size] for each in wholes] for r in range(p)]
    else:
        wholes = [rng.standard_normal((p, n)).astype(dtype) for n in lengths]
        own = [[each[r] for each in wholes] for r in range(p)]
    world_size = more.pop("world_size", p)
    arguments = [(function, size, each) for each in own]
    result = ranks.call("callers_torch:hsdp", world_size, arguments, **more)
    assert_ran(result, call)
    for rank, (found, changed) in enumerate(result.values):
        if not isinstance(found, list) or len(found) != len(wholes) or changed:
            raise call.fail(f"rank {rank} must return {len(wholes)} tensors, and change none.")
        for value, whole in zip(found, wholes, strict=True):
            right, scale = whole.astype("float64").mean(axis=0), magnitude(list(whole))
            if function == "synchronise":
                right, scale = (np.split(each, size)[rank % size] for each in (right, scale))
            assert_array(value, right.astype(dtype), scale, call, f"rank {rank}'s layer")
    return call, result


@points(15, "values", "hsdp_torch")
def test_gather(ranks, rng):
    for replicas, size in ((2, 2), (1, 3)):
        hsdp(ranks, rng, "gather", replicas, size)


@points(25, "values", "hsdp_torch")
def test_mean_of_gradients(ranks, rng):
    for replicas, size in ((2, 2), (3, 1), (2, 3)):
        hsdp(ranks, rng, "synchronise", replicas, size)
    hsdp(ranks, rng, "synchronise", 2, 2, dtype="float32")


@points(5, "values", "hsdp_torch")
def test_empty_lists_and_lengths_that_cant_be_cut(ranks, rng):
    for function in ("gather", "synchronise"):
        hsdp(ranks, rng, function, 2, 2, parts=())
    call = cases.hsdp_call("synchronise", 2, 2, (4, 3))
    arguments = [("synchronise", 2, [np.ones(4), np.ones(3)])] * 4
    result = ranks.call("callers_torch:hsdp_refuses", 4, arguments)
    if result.values != ["ValueError"] * 4 or result.collectives:
        raise call.fail("3 elements on 2 ranks: every rank raises ValueError before any message.")


@points(25, "communication", "hsdp_torch")
def test_bytes_inside_and_between(ranks, rng):
    for function in ("gather", "synchronise"):
        call, result = hsdp(ranks, rng, function, 2, 3, parts=(8, 4))
        observed.assert_ways(result, call, function, 3, (24, 12))


@points(5, "communication", "hsdp_torch")
def test_given_groups_are_used(ranks, rng):
    members = [1, 2, 4, 5]
    for function in ("gather", "synchronise"):
        call, result = hsdp(ranks, rng, function, 2, 2, world_size=6, members=members)
        observed.assert_ways(result, call, function, 2, (6, 0, 4))


@points(10, "safety", "hsdp_torch")
def test_hsdp_waits_for_everything(ranks, rng):
    for seed in LATENCY_SEEDS:
        for function in ("gather", "synchronise"):
            more = {"machine": rendezvous(), "seed": seed}
            call, result = hsdp(ranks, rng, function, 2, 2, **more)
            assert_requests_complete(result, call, [Kind.COLLECTIVE])


@points(10, "speed", "hsdp_torch")
def test_both_levels_work_at_once(ranks, rng):
    nodes = Machine(
        "even links", alpha_s=2.7e-6, beta_s_per_byte=8e-11, intra_alpha_s=6e-7,
        intra_beta_s_per_byte=8e-11, ranks_per_node=4, shared_nic=True,
        memory_bytes_per_s=1e18, flop_per_s=1e18,
    )  # fmt: skip
    call, result = hsdp(ranks, rng, "synchronise", 2, 4, (40_000,) * 6, "float32", machine=nodes)
    bound_s = cases.hsdp_s([160_000] * 6, 2, 4, nodes, 4)
    assert_makespan(result, bound_s, call, half=1.3)


@points(5, "speed", "hsdp_torch")
def test_a_step_beats_plain_sharding_over_slow_links(ranks, rng):
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0, memory_bytes_per_s=1e18)
    lengths = [80_000] * 4
    call = cases.hsdp_call("synchronise", 2, 4, lengths)
    mine = ranks.call("callers_torch:hsdp_step", 8, [(4, lengths)] * 8, machine=machine)
    plain = ranks.call("callers_torch:flat_step", 8, [(lengths,)] * 8, machine=machine)
    assert_ran(mine, call)
    if mine.makespan_s > 0.6 * plain.makespan_s:
        raise call.fail(
            f"a step takes {mine.makespan_s * 1e6:.0f} µs, and {plain.makespan_s * 1e6:.0f} µs "
            "with plain sharding; at most 0.6 times that is asked for."
        )
