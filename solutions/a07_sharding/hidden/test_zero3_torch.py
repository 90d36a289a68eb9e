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
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a07_sharding import cases_torch as cases
from solutions.a07_sharding import observed_torch as observed
from solutions.a07_sharding import serial_torch

points = points_of("zero3_torch")

WIDTHS = (5, 12, 24, 12, 12)  # 2, 3 and 4 ranks divide each layer's elements
UNEVEN = (5, 7, 4, 6, 3)
COSTS = (1e-6, 2e-6)


def spec_of(widths=WIDTHS, **more):
    return {"widths": list(widths), "costs": list(COSTS), **more}


def trained(ranks, rng, p, spec=None, by_layer=False, *, optimizer="sgd", keep=False, **more):
    """Train, and compare everything with one process; returns case, result and layers.

    On simulated ranks passes are announced, so that the network sees which layer computes when.
    """
    spec = spec or spec_of()
    plan = {name: more.pop(name) for name in ("steps", "microbatches", "evaluate") if name in more}
    real, told = more.pop("real", False), {"keep_zeros": keep, "second": more.pop("second", False)}
    case = cases.zero3_call(p, spec, by_layer, optimizer=optimizer, **told, **plan)
    options = cases.options_of(optimizer, by_layer=by_layer, **told)
    sample = cases.sample_training(rng, spec, p, by_layer, **plan)
    arguments = cases.training_arguments(spec, sample, options)
    world_size = more.pop("world_size", p)
    if not real and not told["second"]:  # passes are told apart by their order
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
    return case, result, cases.sharded(spec, p, by_layer)


# -- values ----------------------------------------------------------------------------------------


@points(16, "values")
def test_training_equals_serial_training_on_2_to_18_ranks(ranks, rng):
    def check(each):
        p, widths = each
        trained(ranks, rng, p, spec_of(widths), steps=3 if p < 5 else 1)

    tried = [(2, WIDTHS), (4, WIDTHS), (3, WIDTHS), (12, (5, 12, 12)), (18, (5, 18, 18))]
    check_kinds(tried, lambda each: "2 and 4 ranks" if each[0] in (2, 4) else "other worlds", check)


@points(8, "values")
def test_layers_of_any_length(ranks, rng):
    trained(ranks, rng, 5, spec_of(UNEVEN))
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
    blocks = spec_of((4, 6, 12, 6, 6, 12), blocks=[2, 1, 2])
    trained(ranks, rng, 2, blocks, by_layer=True)
    trained(ranks, rng, 3, blocks)


@points(4, "values")
def test_other_optimizers_and_float32(ranks, rng):
    trained(ranks, rng, 2, optimizer="adam", steps=3, second=True)
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
    large = spec_of((40, 60, 48))

    def check(each):
        p, spec, evaluate = each
        steps = 1 if p > 5 or spec is large else 2
        case, result, layers = trained(ranks, rng, p, spec, steps=steps, evaluate=evaluate)
        observed.assert_collectives(result, case)
        observed.assert_volume(result, case, layers, steps, 2 * steps * evaluate)
        ranks.record(case, result, {"layers": [layer.nbytes for layer in layers]})

    tried = [
        (2, spec_of(), False), (3, spec_of(), True), (4, spec_of((1, 1, 2, 5)), False),
        (5, spec_of(UNEVEN), False), (12, spec_of((5, 12, 12)), False),
        (18, spec_of((5, 18, 18)), False), (2, large, False),
    ]  # fmt: skip
    check_kinds(
        tried, lambda each: divided(*each[:2]), check, weights={"lengths that p divides": 2}
    )


def divided(p, spec):
    own = [sum(int(np.prod(shape)) for shape in layer) for layer in cases.shapes_of(spec)]
    return f"lengths that p {'does not divide' if any(n % p for n in own) else 'divides'}"


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def call(**where):
        case, result, layers = trained(ranks, rng, 3, **where)
        if not where:
            observed.assert_volume(result, case, layers, 2)
        return case, result

    on_three_members(rng, call, comm="the group")


@points(14, "schedule", essential=True)
def test_one_layer_is_gathered_ahead(ranks, rng):
    """Its first part asks whether layers are gathered one by one at all, whatever their values."""

    def one_by_one():
        p, spec = 4, {"widths": [12] * 8, "costs": list(COSTS)}
        case, options = cases.zero3_call(p, spec, steps=1), cases.options_of()
        sample = cases.sample_training(rng, spec, p, steps=1)
        arguments = cases.training_arguments(spec, sample, options)
        factors = Factors.drawn(rng)
        result = ranks.call("callers_torch:zero3_train", p, arguments, factors=factors)
        assert_ran(result, case)
        observed.assert_one_by_one(result, case, cases.sharded(spec, p))

    def check(spec):
        if spec is None:
            one_by_one()
            return
        p = 3 if len(spec["widths"]) > 6 else 2
        case, result, layers = trained(ranks, rng, p, spec, evaluate=p == 3)
        observed.assert_one_ahead(result, case, layers)

    blocks = spec_of((4, 6, 12, 6, 6, 12), blocks=[2, 1, 2])
    specs = [None, spec_of(), blocks, spec_of((4, 3, 6, 3, 6, 12, 3))]
    kinds = "gathering one by one", "gathering one ahead"
    check_kinds(specs, lambda spec: kinds[spec is not None], check)


@points(6, "schedule")
def test_gradients_are_reduced_while_the_next_layer_computes(ranks, rng):
    for p, spec in ((2, spec_of()), (3, spec_of((4, 3, 6, 3, 6, 12, 3)))):
        case, result, layers = trained(ranks, rng, p, spec, microbatches=p - 1)
        observed.assert_reduced(result, case, layers)


# -- safety, memory, speed -------------------------------------------------------------------------


@points(5, "safety")
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


@points(8, "memory")
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


@points(8, "speed")
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
