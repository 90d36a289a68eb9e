"""What a training step of a GPT costs when several schemes are mixed: a formula to search with.

A planner asks for the cost of thousands of mixtures, so no mixture is run or replayed here: each
is a sum of closed forms. It is coarse on purpose; what it leaves out is listed at the end.

    rank grid         data x context x tensor x pipeline; ``order`` says which axis runs fastest
    a stage           L / p layers in a row, each cut t ways, for each of M microbatches
    1F1B              step = (M + (p - 1) / v) * (compute + messages of one microbatch) + data

The links of an axis follow from its stride, the product of the axes that run faster. A group inside
a node talks over the links there. A group that spans nodes is cut by a library into as many rings
as it has members at a node, k. Each ring enters and leaves a node by another member's port to the
network, its rail. All groups of an axis do so at the same time, ``min(stride, gpus_per_nic)`` of
them over one port::

    8 GPUs a node, each with a port of rate b; tensor 2, data 8, the tensor axis runs fastest:

    node 0 | 0 1 | 2 3 | 4 5 | 6 7 |     tensor groups (0 1) (2 3) ..: inside a node
    node 1 | 8 9 | ...                   data groups (0 2 4 6 8 ..) and (1 3 5 7 9 ..): stride 2,
                                         k = 4 members at a node, so 4 rings: rate 4 b
    two GPUs a port:                     both groups use each port: rate 2 b
    one port a node:                     b / 2

A ring's rate is at most that of the links inside the node, over which it passes the other members.
A message from a stage to the next is one message by one port. Every round of a ring waits for its
slowest link, so it takes the latency between nodes where it spans nodes. ZeRO 2 and 3 have a ring
for each layer and microbatch, so on many GPUs their latencies count.

Left out: groups whose span neither divides a node nor is a multiple of one, of which two may share
a port; what switches that add gain (``switch_gain``); kernels that are slower on small pieces; the
sum of the tied embedding's gradients between first and last stage; the all-reduces of norms and
loss.

Sources: Narayanan et al. 2021 (operations of a step, parameters, bubble), Rajbhandari et al. 2020
(ZeRO). ``hybrid_memory`` has the bytes of a GPU and their sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ringside.errors import TargetError
from ringside.scale.hybrid_config import AXES, RECOMPUTE, Config, Model, configs, why_illegal
from ringside.scale.hybrid_memory import WORD_BYTES, kept_bytes, memory_bytes
from ringside.timing.machine import LinkModel, Machine

__all__ = [
    "AXES",
    "RECOMPUTE",
    "Config",
    "Cost",
    "Model",
    "axis_link",
    "configs",
    "cost",
    "memory_bytes",
    "why_illegal",
]


@dataclass(frozen=True)
class Cost:
    """Seconds of a step and bytes of the GPU that needs most.

    Attributes:
        step_s: the sum of the seven below.
        compute_s: arithmetic of the busiest stage, and what it computes again.
        tensor_s: its all-reduces inside the layers.
        context_s: keys and values passed on, as far as attention doesn't hide it.
        expert_s: tokens on the way to experts and back.
        hops_s: its messages to and from the neighbouring stages.
        bubble_s: waiting while the pipeline fills and drains.
        data_s: gradients (and with ZeRO-3 weights) over the data axis, as far as nothing hides it.
        memory_bytes: weights, gradients, optimizer state and activations.
    """

    step_s: float
    compute_s: float
    tensor_s: float
    context_s: float
    expert_s: float
    hops_s: float
    bubble_s: float
    data_s: float
    memory_bytes: int


def axis_link(config: Config, axis: str, machine: Machine) -> LinkModel:
    """Return the link at whose pace an axis moves; the module's text says how.

    Of "tensor", "data" and "expert_data" it is that of a library's rings, all together, and of
    "pipeline", "context" and "expert" that of messages.
    """
    size = config.size(axis)
    if size == 1:
        return LinkModel(0.0, 0.0)
    stride, node = config.stride(axis), machine.ranks_per_node
    span = size * stride
    if node > 1 and (config.num_gpus <= node or node % span == 0):
        return machine.link(0, 1)
    alpha, beta = machine.link(0, node)
    gpus_per_nic = min(machine.gpus_per_nic, node)
    if axis == "expert":  # all ranks send to other nodes
        return LinkModel(alpha, beta * gpus_per_nic)
    beta *= min(stride, gpus_per_nic)  # groups that share a port
    if axis in ("pipeline", "context"):
        return LinkModel(alpha, beta)
    # Groups start at multiples of the span: the fewest ranks in a row that one has at a node.
    row = math.gcd(span, node)
    ports = row // stride if stride > gpus_per_nic else -(-row // gpus_per_nic)
    beta /= max(1, ports)  # of a group at a node
    if row >= 2 * stride:
        beta = max(beta, machine.link(0, 1).beta_s_per_byte)
    return LinkModel(alpha, beta)


def _ring_s(nbytes: float, p: int, link: LinkModel, passes: int = 1, rings: int = 1) -> float:
    """Seconds of rings one after another, of ``nbytes`` together.

    One pass is an all-gather or a reduce-scatter, two are an all-reduce.
    """
    if p == 1:
        return 0.0
    return passes * (p - 1) * (rings * link.alpha_s + nbytes / p * link.beta_s_per_byte)


def _context_s(model: Model, config: Config, machine: Machine) -> float:
    """What a layer's ring attention waits in a forward pass; twice as long in a backward one.

    Each of ``context - 1`` rounds passes a part of keys and values on, beside attention over the
    part before it. Backward, their gradients travel as well, beside twice the arithmetic.
    """
    c = config
    if c.context == 1:
        return 0.0
    link = axis_link(c, "context", machine)
    part = c.microbatch_size * model.sequence / c.context * 2 * model.kv_width / c.tensor
    round_s = link.alpha_s + part * WORD_BYTES * link.beta_s_per_byte
    flops = c.microbatch_size * model.scores_flops() / (c.tensor * c.context**2)
    return (c.context - 1) * max(0.0, round_s - flops / machine.flop_per_s)


def _expert_s(model: Model, config: Config, machine: Machine) -> float:
    """The way to the experts of a layer and back, in one pass; tokens are spread evenly.

    In an all-to-all each GPU sends by its own port, so rails are no gain. Rows for another node and
    those for members at the own one travel at the same time. Where an expert is cut, its ranks
    gather the rows and scatter the sums.
    """
    c, size, node = config, config.expert, machine.ranks_per_node
    if not model.experts or size * c.expert_tensor == 1:
        return 0.0
    tokens = c.microbatch_size * model.sequence / (c.context * c.tensor)
    nbytes = tokens * model.top_k * model.hidden * WORD_BYTES
    span = size * c.stride("expert")
    inside_one = c.num_gpus <= node or node % span == 0
    near = size if inside_one else max(1, math.gcd(span, node) // c.stride("expert"))  # at a node
    inside, link = machine.link(0, 1), axis_link(c, "expert", machine)
    far_s = nbytes * (size - near) / size * link.beta_s_per_byte
    near_s = nbytes * (near - 1) / size * inside.beta_s_per_byte
    gather = axis_link(c, "expert_tensor", machine)
    gathered_s = _ring_s(nbytes * c.expert_tensor, c.expert_tensor, gather, passes=2)
    return 2 * (link.alpha_s + max(far_s, near_s)) + gathered_s


def _replicas_s(model: Model, config: Config, machine: Machine, layers: int) -> tuple[float, float]:
    """An all-gather of a stage's weights over replicas, and a reduce-scatter of its gradients."""
    c = config
    dense = layers * model.layer_parameters() + model.embedding_parameters()
    if c.pipeline == 1:
        dense += model.head_parameters()
    # A ring for each layer if it isn't whole afterwards, and one for the embedding.
    parts = [("data", c.size("data"), dense / c.tensor, layers + 1)]
    if model.experts:
        experts = layers * model.experts * model.expert_parameters()
        parts.append(("expert_data", c.expert_data, experts / (c.expert * c.expert_tensor), layers))
    weights_s = gradients_s = 0.0
    for axis, replicas, parameters, units in parts:
        link, rings = axis_link(c, axis, machine), units if c.zero > 1 else 1
        weights_s += _ring_s(parameters * WORD_BYTES, replicas, link, rings=rings)
        nbytes = parameters * min(c.gradient_bytes, 4)
        gradients_s += _ring_s(nbytes, replicas, link, rings=rings)
    return weights_s, gradients_s


def cost(model: Model, config: Config, machine: Machine) -> Cost:
    """Return what a step costs.

    Args:
        model: the GPT or Llama, with its batch.
        config: the mixture.
        machine: links, ranks per node and the rate of arithmetic; memory isn't compared.

    Raises:
        TargetError: the mixture can't run; ``why_illegal`` says why.
    """
    problem = why_illegal(model, config)
    if problem:
        raise TargetError(f"{problem}.")
    c, b = config, config.microbatch_size
    m = c.num_microbatches(model)
    passes = 4 if c.recompute == "full" else 3  # of a layer: forward, backward (two of it), again
    first, last = c.stage_layers(model)
    cut = c.tensor * c.context
    layers_flops = b * passes * model.layer_flops() / cut
    logits_flops = b * 3 * model.logits_flops() / cut
    if c.pipeline == 1:
        flops = first * layers_flops + logits_flops
    else:
        flops = max(first * layers_flops, last * layers_flops + logits_flops)
    compute_s = flops / machine.flop_per_s
    if c.recompute == "selective":  # bound by memory: as many bytes read as written
        again = kept_bytes(model, c, "none") - kept_bytes(model, c, "selective")
        compute_s += first * 2 * again / machine.memory_bytes_per_s

    message = b * model.sequence * model.hidden * WORD_BYTES / c.context
    # Two in each pass of a layer; ``passes`` counts the backward one twice, for its arithmetic.
    rings = first * 2 * (passes - 1)  # all-reduces of a microbatch
    tensor_s = rings * _ring_s(message, c.tensor, axis_link(c, "tensor", machine), passes=2)
    context_s = first * passes * _context_s(model, c, machine)
    expert_s = first * (passes - 1) * _expert_s(model, c, machine)
    hop = axis_link(c, "pipeline", machine)
    hop_bytes = message / (c.tensor if c.sequence_parallel else 1)
    hops_s = 2 * c.interleave * (hop.alpha_s + hop_bytes * hop.beta_s_per_byte)  # 0 for one stage

    one_s = compute_s + tensor_s + context_s + expert_s + hops_s
    bubble_s = (c.pipeline - 1) / c.interleave * one_s

    weights_s, gradients_s = _replicas_s(model, c, machine, first)
    hides_s = compute_s * (passes - 1) / passes  # beside the backward pass
    if c.zero == 0:  # an all-reduce at the end
        sent_s = 2 * gradients_s
    elif c.zero == 1:  # a reduce-scatter and an all-gather at the end
        sent_s = gradients_s + weights_s
    elif c.zero == 2:  # a reduce-scatter each microbatch: no rank keeps all gradients
        sent_s, hides_s = m * gradients_s + weights_s, m * hides_s
    else:  # weights gathered for forward and for backward, gradients scattered
        sent_s, hides_s = m * (2 * weights_s + gradients_s), m * compute_s
    data_s = max(0.0, sent_s - hides_s)
    return Cost(
        m * one_s + bubble_s + data_s,
        m * compute_s,
        m * tensor_s,
        m * context_s,
        m * expert_s,
        m * hops_s,
        bubble_s,
        data_s,
        memory_bytes(model, config),
    )
