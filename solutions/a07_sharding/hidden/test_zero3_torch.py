"""zero3_torch.py: shards that are gathered one layer ahead, and gradients that are scattered."""

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_declared_at_once,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a07_sharding import cases_torch as cases
from solutions.a07_sharding import observed_torch as observed
from solutions.a07_sharding import serial_torch

points = points_of("zero3_torch")

WIDTHS = (5, 7, 4, 6, 3)
COSTS = (1e-6, 2e-6)


def spec_of(widths=WIDTHS, **more):
    return {"widths": list(widths), "costs": list(COSTS), **more}


def trained(ranks, rng, p, spec=None, by_layer=False, *, optimizer="sgd", keep=False, **more):
    """Train, and compare everything with one process; returns case, result and layers.

    On simulated ranks passes are announced, so that the network sees which layer computes when. A
    program that gathers everything first is no sharding: it fails here, whatever its values.
    """
    spec = spec or spec_of()
    plan = {name: more.pop(name) for name in ("steps", "microbatches", "evaluate") if name in more}
    real = more.pop("real", False)
    case = cases.zero3_call(p, spec, by_layer, keep_zeros=keep, optimizer=optimizer, **plan)
    options = cases.options_of(optimizer, by_layer=by_layer, keep_zeros=keep)
    sample = cases.sample_training(rng, spec, p, by_layer, **plan)
    arguments = cases.training_arguments(spec, sample, options)
    world_size = more.pop("world_size", p)
    if not real:
        more["factors"] = Factors.drawn(rng)
    result = ranks.call("callers_torch:zero3_train", world_size, arguments, **more)
    assert_ran(result, case)
    factors = getattr(result, "factors", None)  # real ranks have none
    wanted = serial_torch.train(
        sample["params"], sample["steps"], sample["evaluated"], options, factors
    )
    case = case if factors is None else case.seen_in(result)
    for rank, value in enumerate(result.values):
        cases.check_zero3(value, wanted, rank, spec, by_layer, case)
    if not real:
        assert_declared_at_once(result, case)
        layers = cases.sharded(spec, p, by_layer)
        observed.assert_scheme(result, case, layers)
        return case, result, layers
    return case, result, []


# -- values ----------------------------------------------------------------------------------------


@points(14, "values")
def test_training_equals_serial_training_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        trained(ranks, rng, p, steps=3)


@points(4, "values")
def test_training_on_12_and_18_ranks(ranks, rng):
    for p in (12, 18):
        trained(ranks, rng, p, spec_of((4, 6, 2, 3)), steps=1)


@points(4, "values")
def test_layers_of_any_length(ranks, rng):
    trained(ranks, rng, 4, spec_of((1, 1, 2, 5), bias=False))
    trained(ranks, rng, 3, spec_of((2, 1, 1)))
    trained(ranks, rng, 2, spec_of((4, 3)))
    trained(ranks, rng, 2, spec_of((40, 60, 50)), steps=1)


@points(6, "values")
def test_gradients_add_up(ranks, rng):
    trained(ranks, rng, 2, microbatches=3)
    trained(ranks, rng, 3, keep=True, microbatches=2)


@points(5, "values")
def test_evaluation_in_between(ranks, rng):
    for p in (2, 3):
        trained(ranks, rng, p, evaluate=True)


@points(4, "values")
def test_layers_that_a_function_names(ranks, rng):
    blocks = spec_of((4, 5, 3, 6, 2, 4), blocks=[2, 1, 2])
    trained(ranks, rng, 2, blocks, by_layer=True)
    trained(ranks, rng, 3, blocks)


@points(4, "values")
def test_other_optimizers_and_float32(ranks, rng):
    trained(ranks, rng, 2, optimizer="adam", steps=3)
    trained(ranks, rng, 3, spec_of(dtype="float32"))


@points(4, "reality")
def test_real_gloo(gloo, rng):
    try:
        trained(gloo, rng, 2, evaluate=True, real=True)
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


# -- communication and schedule --------------------------------------------------------------------


@points(8, "communication")
def test_bytes_of_a_step(ranks, rng):
    large = spec_of((40, 60, 50))
    for p, spec, evaluate in (
        (2, spec_of(), False),
        (3, spec_of(), True),
        (4, spec_of((1, 1, 2, 5)), False),
        (5, spec_of(), False),
        (12, spec_of((4, 6, 2, 3)), False),
        (18, spec_of((4, 6, 2, 3)), False),
        (2, large, False),
    ):
        steps = 1 if p > 5 or spec is large else 2
        case, result, layers = trained(ranks, rng, p, spec, steps=steps, evaluate=evaluate)
        observed.assert_volume(result, case, layers, steps, 2 * steps * evaluate)
        ranks.record(case, result, {"layers": [layer.nbytes for layer in layers]})


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def call(**where):
        case, result, layers = trained(ranks, rng, 3, **where)
        if not where:
            observed.assert_volume(result, case, layers, 2)
        return case, result

    on_three_members(rng, call, comm="the group")


@points(8, "schedule")
def test_next_layer_is_gathered_before_it_is_needed(ranks, rng):
    for p, spec in ((2, spec_of()), (3, spec_of((4, 3, 5, 2, 6, 4, 3)))):
        case, result, layers = trained(ranks, rng, p, spec, evaluate=p == 3)
        observed.assert_one_ahead(result, case, layers)
    blocks = spec_of((4, 5, 3, 6, 2, 4), blocks=[2, 1, 2])
    case, result, layers = trained(ranks, rng, 2, blocks)
    observed.assert_one_ahead(result, case, layers)


@points(6, "schedule")
def test_gradients_are_reduced_while_the_next_layer_computes(ranks, rng):
    for p, spec in ((2, spec_of()), (3, spec_of((4, 3, 5, 2, 6, 4, 3)))):
        case, result, layers = trained(ranks, rng, p, spec, microbatches=p - 1)
        observed.assert_reduced(result, case, layers)


# -- safety, memory, speed -------------------------------------------------------------------------


@points(6, "safety")
def test_everything_is_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        case, result, _ = trained(ranks, rng, 3, evaluate=True, machine=rendezvous(), seed=seed)
        assert_requests_complete(result, case, [Kind.COLLECTIVE])


def memory_of(ranks, rng, evaluate):
    """Peaks of one step of 12 equal layers on 4 ranks, and the bytes of one layer."""
    width, layers, p = 64, 12, 4
    spec = spec_of((width,) * (layers + 1), bias=False)
    plan = {"steps": 1, "evaluate": evaluate}
    case = cases.zero3_call(p, spec, **plan)
    sample = cases.sample_training(rng, spec, p, **plan)
    arguments = [
        (spec, sample["handed"][rank], *sample["steps"][rank][0][0], evaluate) for rank in range(p)
    ]
    result = ranks.call("callers_torch:zero3_memory", p, arguments)
    assert_ran(result, case)
    right = serial_torch.train(
        sample["params"], sample["steps"], [[]] * p, cases.options_of(), None
    )["gradients"][0]
    for rank, value in enumerate(result.values):
        shards = [np.split(cases.flat(layer, p), p)[rank] for layer in right]
        cases.compare(value, shards, case, f"the gradient of rank {rank}'s shard")
    return case, result, 8 * width * width, layers // p


@points(9, "memory")
def test_two_layers_at_a_time(ranks, rng):
    for evaluate in (False, True):
        case, result, layer, share = memory_of(ranks, rng, evaluate)
        allowed = (2 * share + 5) * layer + layer // 2
        for rank, memory in enumerate(result.memory):
            if memory["peak"] > allowed:
                raise case.fail(
                    f"rank {rank} held tensors of {memory['peak']} bytes at one time; with layers "
                    f"of {layer} bytes {allowed} are allowed: shards and their gradients, two "
                    "layers, the gradients of three, and half a layer for the rest."
                )


@points(14, "speed")
def test_time_of_a_step_on_8_to_64_ranks(ranks, rng):
    machine = Machine("slow wire", alpha_s=1e-6, beta_s_per_byte=1e-6)
    widths = (40,) * 7
    length = cases.lengths_of({"widths": widths}, 4)[0]
    # A backward pass takes as long as its gather and reduce-scatter on 8 ranks, or twice as long.
    for share, worlds in ((2.0, (8, 64)), (1.0, (8, 32))):
        backward_s = 2 * observed.ring_s(length, 8, machine) * share
        costs = [backward_s / 2, backward_s]
        spec = spec_of(widths) | {"costs": costs}
        case, one, layers = trained(ranks, rng, 4, spec, steps=1, machine=machine)
        for world_size in worlds:
            observed.assert_time(one, case, layers, costs, world_size)
