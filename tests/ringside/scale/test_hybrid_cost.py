"""The planner's cost model against sums made by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ringside.errors import TargetError
from ringside.scale.hybrid_cost import AXES, Config, Model, axis_link, configs, cost, why_illegal
from ringside.timing.machine import Machine

SMALL = Model(num_layers=4, hidden=64, num_heads=4, batch=16, vocabulary=512, sequence=32)
BILLIONS = Model(num_layers=36, hidden=4096, num_heads=32, batch=512)  # 7.5 billion parameters
ZARATAN = Machine.load("zaratan")


def test_one_gpu_by_hand() -> None:
    found = cost(SMALL, Config(microbatch_size=2, recompute=False), ZARATAN)
    layer = 24 * 32 * 64 * 64 + 4 * 32 * 32 * 64
    flops = 16 * 3 * (4 * layer + 2 * 32 * 64 * 512)
    assert found.step_s == pytest.approx(flops / ZARATAN.flop_per_s, rel=1e-12)
    assert (found.tensor_s, found.hops_s, found.bubble_s, found.data_s) == (0.0, 0.0, 0.0, 0.0)


def test_rings_and_hops_by_hand() -> None:
    config = Config(data=2, tensor=2, pipeline=2)  # 8 microbatches of one sequence
    found = cost(SMALL, config, ZARATAN)
    message = 32 * 64 * 2
    ring_s = 2 * (0.6e-6 + message / 2 / 100e9)  # two ranks inside a node
    assert found.tensor_s == pytest.approx(8 * 2 * 6 * ring_s, rel=1e-12)
    hop_s = 2.7e-6 + message * 4 / 12.5e9  # stride 4: all four GPUs of a node share its port
    assert found.hops_s == pytest.approx(8 * 2 * hop_s, rel=1e-12)
    one_s = (found.compute_s + found.tensor_s + found.hops_s) / 8
    assert found.bubble_s == pytest.approx(one_s, rel=1e-12)
    parts = found.compute_s, found.tensor_s, found.hops_s, found.bubble_s, found.data_s
    assert found.step_s == pytest.approx(sum(parts), rel=1e-12)


def test_interleaving_divides_the_bubble_and_multiplies_the_hops() -> None:
    model = replace(SMALL, num_layers=8)
    plain = cost(model, Config(pipeline=2), ZARATAN)
    twice = cost(model, Config(pipeline=2, interleave=2), ZARATAN)
    assert twice.hops_s == pytest.approx(2 * plain.hops_s)
    work = twice.compute_s + twice.tensor_s + twice.hops_s
    assert twice.bubble_s == pytest.approx(work / 16 / 2)


@pytest.mark.parametrize(
    ("order", "axis", "shared"),
    [
        (("tensor", "data", "pipeline"), "tensor", 0),  # inside a node
        (("tensor", "data", "pipeline"), "data", 2),
        (("data", "tensor", "pipeline"), "data", 1),  # 8 in a row over two nodes: one group
        (("data", "tensor", "pipeline"), "tensor", 4),
    ],
)
def test_which_link_an_axis_has(order: tuple[str, ...], axis: str, shared: int) -> None:
    link = axis_link(Config(data=8, tensor=2, order=order), axis, ZARATAN)
    assert link.beta_s_per_byte == pytest.approx(shared * 8e-11 if shared else 1e-11)


def test_one_gpu_of_a_group_has_no_link() -> None:
    assert axis_link(Config(data=8), "tensor", ZARATAN) == (0.0, 0.0)


@pytest.mark.parametrize(("zero", "gb"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_memory_without_activations_is_zeros(zero: int, gb: float) -> None:
    """ZeRO's own example: 7.5 billion parameters on 64 GPUs."""
    model = replace(BILLIONS, batch=64, sequence=1)  # one token: activations are nothing
    found = cost(model, Config(data=64, zero=zero), ZARATAN)
    assert found.memory_bytes / 1e9 == pytest.approx(gb, rel=0.01)


def test_every_mixture_of_eight_gpus_comes_once() -> None:
    found = list(configs(SMALL, 8))
    assert len(found) == len(set(found))
    expected = 0
    for data, tensor, pipeline in itertools.product((1, 2, 4, 8), repeat=3):
        if data * tensor * pipeline != 8:
            continue
        axes = sum(size > 1 for size in (data, tensor, pipeline))
        orders = {1: 1, 2: 2, 3: 6}[axes]
        for microbatch, interleave, zero in itertools.product(
            (1, 2, 4, 8, 16), (1, 2, 4), range(4)
        ):
            config = Config(data, tensor, pipeline, microbatch, interleave, zero)
            if not why_illegal(SMALL, config) and (data > 1 or zero == 0):
                expected += 2 * orders
    assert len(found) == expected


def test_more_bandwidth_is_never_slower() -> None:
    faster = ZARATAN.with_(beta_s_per_byte=4e-11, intra_beta_s_per_byte=5e-12)
    for config in configs(replace(SMALL, batch=8), 8):
        slow, fast = (cost(SMALL, config, machine).step_s for machine in (ZARATAN, faster))
        assert fast <= slow


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (Config(tensor=3), "heads"),
        (Config(data=3), "batch"),
        (Config(pipeline=5), "layers"),
        (Config(interleave=2), "pipeline"),
        (Config(zero=4), "zero"),
        (Config(order=("data", "tensor")), "order"),
        (Config(data=0), "at least 1"),
    ],
)
def test_what_cannot_run_is_refused(config: Config, word: str) -> None:
    with pytest.raises(TargetError, match=word):
        cost(SMALL, config, ZARATAN)


def test_axes_are_named() -> None:
    config = Config(data=2, tensor=4, pipeline=8)
    assert [config.stride(axis) for axis in AXES] == [1, 4, 8]
    assert config.num_gpus == 64
