"""The planner's cost model against sums made by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ringside.errors import TargetError
from ringside.scale.hybrid_cost import (
    AXES,
    Config,
    Model,
    axis_link,
    configs,
    cost,
    why_illegal,
)
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

SMALL = Model(num_layers=4, hidden=64, num_heads=4, batch=16, vocabulary=512, sequence=32)
BILLIONS = Model(num_layers=36, hidden=4096, num_heads=32, batch=512)  # 7.5 billion parameters
ZARATAN = Machine.load("zaratan")
DGX = Machine.load("dgx_a100")
MIXTURE = replace(SMALL, experts=8, expert_ffn=128, top_k=2, ffn=0)


def test_one_gpu_by_hand() -> None:
    found = cost(SMALL, Config(microbatch_size=2, recompute="none"), ZARATAN)
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
    assert found.context_s == found.expert_s == 0.0
    assert found.step_s == pytest.approx(sum(parts), rel=1e-12)


def test_zero_2_and_3_pay_the_latencies_of_every_layer() -> None:
    """Four layers and the embedding, 15 rounds a ring, on GPUs that compute in no time."""
    free = {"beta_s_per_byte": 0.0, "intra_beta_s_per_byte": 0.0, "flop_per_s": 1e30}
    machine = ZARATAN.with_(**free, alpha_s=1e-5)
    for zero, rings in ((0, 2), (1, 2), (2, 4 * 5 + 5), (3, 4 * 3 * 5)):
        model = replace(SMALL, batch=64)  # 4 microbatches
        found = cost(model, Config(data=16, zero=zero), machine)
        assert found.data_s == pytest.approx(rings * 15 * 1e-5)


def test_gradients_in_fp32_are_twice_as_long() -> None:
    machine = ZARATAN.with_(alpha_s=0.0, flop_per_s=1e30)
    for zero, longer in ((0, 2.0), (1, 1.5), (2, 9 / 5), (3, 4 / 3)):
        configs = [Config(data=16, zero=zero, gradient_bytes=n) for n in (2, 4)]
        less, more = (cost(replace(SMALL, batch=64), each, machine).data_s for each in configs)
        assert more / less == pytest.approx(longer)


def test_selective_recomputation_moves_its_bytes_again() -> None:
    less, more = (
        cost(SMALL, Config(tensor=2, recompute=recompute), ZARATAN)
        for recompute in ("none", "selective")
    )
    again = 16 * 4 * 2 * (4 + 8 / 2) * 32 * 64  # two norms whole, GELU's output in halves
    assert more.compute_s - less.compute_s == pytest.approx(again / ZARATAN.memory_bytes_per_s)
    assert more.tensor_s == less.tensor_s


def test_tensor_ranks_share_a_message_between_stages_with_sequence_parallelism() -> None:
    machine = ZARATAN.with_(alpha_s=0.0)
    sizes = {"tensor": 4, "pipeline": 2}
    whole, shared = (
        cost(SMALL, Config(**sizes, sequence_parallel=on), machine).hops_s for on in (False, True)
    )
    assert whole == pytest.approx(4 * shared)


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


@pytest.mark.parametrize(
    ("sizes", "axis", "ports"),
    [
        ((64, 1), "data", 8),  # all members of a node's eight GPUs are in the group
        ((64, 2), "data", 4),
        ((64, 4), "data", 2),
        ((64, 8), "data", 1),
        ((64, 16), "data", 1),
        ((2, 16), "tensor", 8),
        ((4, 12), "tensor", 4),  # 0-11, 12-23: each has four ranks at the second node
        ((3, 3), "tensor", 1),  # 0-2, 3-5, 6-8: one rank at the second node
        ((8, 3), "data", 2),  # 0 3 6 | 9 12 15 | 18 21
    ],
)
def test_a_librarys_rings_use_the_ports_of_all_members(
    sizes: tuple[int, int], axis: str, ports: int
) -> None:
    link = axis_link(Config(*sizes), axis, DGX)
    assert link.alpha_s == DGX.alpha_s
    assert link.beta_s_per_byte == pytest.approx(DGX.beta_s_per_byte / ports)


def test_links_inside_a_node_limit_a_ring_over_many_ports() -> None:
    slow = DGX.with_(intra_beta_s_per_byte=3e-11)
    assert axis_link(Config(data=64), "data", slow).beta_s_per_byte == 3e-11
    one_a_node = axis_link(Config(data=8, tensor=8), "data", slow)  # it passes no other GPU
    assert one_a_node.beta_s_per_byte == DGX.beta_s_per_byte


@pytest.mark.parametrize("order", [*itertools.permutations(AXES)])
def test_one_port_a_node_is_shared_by_the_groups_of_a_node(order: tuple[str, ...]) -> None:
    for sizes in itertools.product((1, 2, 3, 4, 6, 8), repeat=3):
        config = Config(*sizes, order=order)
        for axis in AXES:
            size, stride = getattr(config, axis), config.stride(axis)
            if size > 1 and config.num_gpus > 4 and 4 % (size * stride):
                link = axis_link(config, axis, ZARATAN)
                assert link.beta_s_per_byte == pytest.approx(8e-11 * min(stride, 4))


@pytest.mark.parametrize("gpus_per_nic", [1, 2, 4])
@pytest.mark.parametrize(("data", "tensor"), [(8, 1), (4, 2), (16, 1), (4, 3), (12, 2), (8, 4)])
def test_all_groups_at_once_take_in_a_replay_what_a_link_says(
    data: int, tensor: int, gpus_per_nic: int
) -> None:
    """Every data group sums 24 MB; latencies are nothing, since a replay hides some of them."""
    machine = Machine(
        "nodes of four", 0.0, 1 / 24e9, 0.0, 1 / 240e9, ranks_per_node=4,
        gpus_per_nic=gpus_per_nic, collectives={"allreduce": "ring"},
    )  # fmt: skip
    config, nbytes = Config(data, tensor), 24_000_000
    ops = []
    for rank in range(config.num_gpus):
        members = tuple(range(rank % tensor, config.num_gpus, tensor))
        detail = ("allreduce", 1 + rank % tensor, 0, members, (nbytes,))
        ops.append([Op(Kind.COLLECTIVE, request=0, detail=detail), Op(Kind.WAIT, detail=(0,))])
    link = axis_link(config, "data", machine)
    ring_s = 2 * (data - 1) / data * nbytes * link.beta_s_per_byte
    assert replay(Trace(len(ops), ops), machine).makespan_s == pytest.approx(ring_s, rel=1e-6)


def test_one_gpu_of_a_group_has_no_link() -> None:
    assert axis_link(Config(data=8), "tensor", ZARATAN) == (0.0, 0.0)


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
                expected += 3 * orders
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
        (Config(recompute=True), "True.* none, selective, full"),  # type: ignore[arg-type]
        (Config(gradient_bytes=3), "gradient_bytes"),
        (Config(logits_chunks=0), "at least 1"),
        (Config(order=("data", "tensor")), "order"),
        (Config(data=0), "at least 1"),
        (Config(context=3), "context .* sequence"),
        (Config(data=2, expert=2), "need experts"),
    ],
)
def test_what_cannot_run_is_refused(config: Config, word: str) -> None:
    with pytest.raises(TargetError, match=word):
        cost(SMALL, config, ZARATAN)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (Config(data=16, expert=16), "divide the experts"),
        (Config(data=2, expert=4), "ranks of a stage"),
        (Config(4, 1, 2, expert=2, order=("pipeline", "data", "tensor")), "end with pipeline"),
    ],
)
def test_experts_that_cannot_be_divided_are_refused(config: Config, word: str) -> None:
    with pytest.raises(TargetError, match=word):
        cost(MIXTURE, config, ZARATAN)


def test_context_ranks_by_hand() -> None:
    """Sixteen ranks have two tokens each of 32; keys and values take long, attention no time."""
    machine = ZARATAN.with_(flop_per_s=1e30)
    config = Config(context=16, recompute="none", gradient_bytes=4)
    found = cost(SMALL, config, machine)
    round_s = 2.7e-6 + 2 * 2 * 64 * 2 * 8e-11
    assert found.context_s == pytest.approx(16 * 4 * 3 * 15 * round_s)
    parameters = SMALL.num_parameters() - 2 * 64
    ring_s = 2 * 15 * (2.7e-6 + parameters * 4 / 16 * 8e-11)  # context ranks share gradients
    assert found.data_s == pytest.approx(ring_s)
    slow = cost(SMALL, config, ZARATAN.with_(flop_per_s=1e8))
    assert slow.context_s == 0.0  # hidden behind attention
    whole = cost(SMALL, replace(config, context=1), ZARATAN)
    assert whole.compute_s == pytest.approx(16 * cost(SMALL, config, ZARATAN).compute_s)


def test_context_ranks_are_neighbours_on_the_data_axis() -> None:
    config = Config(data=2, tensor=4, pipeline=2, context=8)
    assert config.num_gpus == 128
    strides = [config.stride(axis) for axis in ("tensor", "context", "data", "pipeline")]
    assert strides == [1, 4, 4, 64]
    assert axis_link(config, "context", DGX).beta_s_per_byte == DGX.beta_s_per_byte  # one port
    assert axis_link(config, "data", DGX).beta_s_per_byte == DGX.beta_s_per_byte / 2  # two rails


@pytest.mark.parametrize(
    ("machine", "far", "near"),
    [
        (DGX, 8 / 16 * DGX.beta_s_per_byte, 7 / 16 * 4.167e-12),
        (DGX.with_(gpus_per_nic=4), 8 / 16 * 4 * DGX.beta_s_per_byte, 0.0),
        (DGX.with_(intra_beta_s_per_byte=1e-9), 0.0, 7 / 16 * 1e-9),
    ],
)
def test_tokens_travel_by_their_own_ports(machine: Machine, far: float, near: float) -> None:
    """Each of 16 GPUs has 32 tokens of two experts, half of them for the other node."""
    model = replace(MIXTURE, experts=16)
    found = cost(model, Config(data=16, expert=16, recompute="none"), machine)
    way_s = machine.alpha_s + 32 * 2 * 64 * 2 * max(far, near)
    assert found.expert_s == pytest.approx(4 * 2 * 2 * way_s)  # layers, passes, there and back


def test_experts_by_hand() -> None:
    layer = 4 * 64 * 64 + (7 + 2) * 64 + 64 * 8  # no MLP besides; with the gate
    assert MIXTURE.layer_parameters() == layer
    expert = 2 * 64 * 128
    ends = (512 + 32 + 2) * 64
    assert MIXTURE.num_parameters() == 4 * (layer + 8 * expert) + ends
    assert MIXTURE.layer_flops() == 2 * 32 * (4 * 64 * 64 + 2 * expert) + 4 * 32 * 32 * 64
    config = Config(data=4, tensor=2, expert=4, expert_tensor=2, recompute="none")
    assert [config.stride(axis) for axis in ("expert_tensor", "expert", "expert_data")] == [1, 2, 8]
    assert config.expert_data == 1
    cut, whole = (cost(MIXTURE, each, DGX) for each in (config, Config(4, 2, recompute="none")))
    assert whole.memory_bytes - cut.memory_bytes == 16 * 4 * 8 * expert * 7 // 8
    assert whole.expert_s == 0.0 < cut.expert_s


def test_the_axes_of_experts_and_context_are_tried_where_that_is_wanted() -> None:
    model = replace(MIXTURE, batch=8)
    found = list(configs(model, 8, contexts=(1, 2, 4), experts=(1, 2, 8)))
    assert len(found) == len(set(found))
    assert {(c.context, c.expert) for c in found} == set(itertools.product((1, 2, 4), (1, 2, 8)))
    assert all(c.num_gpus == 8 and not why_illegal(model, c) for c in found)
    assert any(c.data == 1 and c.zero == 3 for c in found)  # shards over context ranks
    assert {c.context for c in configs(model, 8)} == {1}


def test_axes_are_named() -> None:
    config = Config(data=2, tensor=4, pipeline=8)
    assert [config.stride(axis) for axis in AXES] == [1, 4, 8]
    assert config.num_gpus == 64
