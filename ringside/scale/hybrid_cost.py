"""What a training step of a GPT costs when several schemes are mixed: a formula to search with.

A planner asks for the cost of thousands of mixtures, so no mixture is run or replayed here: each
is a sum of closed forms. It is coarse on purpose; what it leaves out is listed at the end.

    rank grid         data x tensor x pipeline; ``order`` says which axis runs fastest
    a stage           L / p layers in a row, each cut t ways, for each of M microbatches
    1F1B              step = (M + (p - 1) / v) * (compute + tensor + hops of one microbatch) + data

The links of an axis follow from its stride, the product of the axes that run faster. Ranks of a
group that is inside a node talk over the links there. A group that spans nodes moves at the pace of
the link between nodes, and where a node has one port, its ``min(stride, ranks_per_node)`` groups
share it::

    4 GPUs a node, order ("tensor", "data", "pipeline"), tensor 2, data 4:
    node 0 | 0 1 | 2 3 |   node 1 | 4 5 | 6 7 |      tensor groups (0 1) (2 3) ..: inside a node
                                                     data groups (0 2 4 6) (1 3 5 7): between nodes,
                                                     stride 2, so two groups share a node's port

Bytes are those of mixed precision: 2 for a weight, a gradient and an activation, 12 more for a
parameter's optimizer state. ``zero`` is ZeRO's stage.

Left out: kernels that are slower on small pieces, the sum of the tied embedding's gradients between
first and last stage, the all-reduces of norms and loss, dropout, buffers of communication.

Sources: Narayanan et al. 2021 (operations of a step, parameters, bubble), Rajbhandari et al. 2020
(ZeRO), Korthikanti et al. 2022 (activations).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ringside.errors import TargetError
from ringside.timing.machine import LinkModel, Machine

AXES = ("tensor", "data", "pipeline")
WORD_BYTES = 2  # of a weight, a gradient, an activation
STATE_BYTES = 12  # of a parameter's optimizer state


@dataclass(frozen=True)
class Model:
    """A GPT, and how it is trained.

    Attributes:
        num_layers, hidden, num_heads, vocabulary: its sizes.
        sequence: tokens of a sequence.
        batch: sequences of a step, of all GPUs together.
    """

    num_layers: int
    hidden: int
    num_heads: int
    batch: int
    vocabulary: int = 51200
    sequence: int = 2048

    def layer_parameters(self) -> int:
        """Of one layer."""
        return (12 * self.hidden + 13) * self.hidden

    def embedding_parameters(self) -> int:
        """Words, which serve as the last matrix too, and positions."""
        return (self.vocabulary + self.sequence) * self.hidden

    def num_parameters(self) -> int:
        """All of them, with the last norm."""
        return self.num_layers * self.layer_parameters() + self.embedding_parameters() + (
            2 * self.hidden
        )  # fmt: skip

    def layer_flops(self) -> float:
        """Of one layer's forward pass over one sequence."""
        s, h = self.sequence, self.hidden
        return 24.0 * s * h * h + 4.0 * s * s * h

    def logits_flops(self) -> float:
        """Of the last matrix's forward pass over one sequence."""
        return 2.0 * self.sequence * self.hidden * self.vocabulary


@dataclass(frozen=True)
class Config:
    """One mixture of schemes.

    Attributes:
        data, tensor, pipeline: sizes of the axes; their product is the number of GPUs.
        microbatch_size: sequences of a microbatch.
        interleave: pieces of the model a stage holds (v); 1 is plain 1F1B.
        zero: ZeRO's stage, 0 to 3, over the data axis.
        recompute: each layer runs forward again in the backward pass, and keeps its input alone.
        order: the axes, the one that runs fastest over the ranks first.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    microbatch_size: int = 1
    interleave: int = 1
    zero: int = 0
    recompute: bool = True
    order: tuple[str, ...] = AXES

    @property
    def num_gpus(self) -> int:
        """Of all axes."""
        return self.data * self.tensor * self.pipeline

    def num_microbatches(self, model: Model) -> int:
        """Of a pipeline, in a step."""
        return model.batch // (self.data * self.microbatch_size)

    def stride(self, axis: str) -> int:
        """How many ranks apart two neighbours on an axis are."""
        faster = self.order[: self.order.index(axis)]
        return math.prod(getattr(self, other) for other in faster)


@dataclass(frozen=True)
class Cost:
    """Seconds of a step and bytes of the GPU that needs most.

    Attributes:
        step_s: the sum of the five below.
        compute_s: arithmetic of the busiest stage.
        tensor_s: its all-reduces inside the layers.
        hops_s: its messages to and from the neighbouring stages.
        bubble_s: waiting while the pipeline fills and drains.
        data_s: gradients (and with ZeRO-3 weights) over the data axis, as far as nothing hides it.
        memory_bytes: weights, gradients, optimizer state and activations.
    """

    step_s: float
    compute_s: float
    tensor_s: float
    hops_s: float
    bubble_s: float
    data_s: float
    memory_bytes: int


def why_illegal(model: Model, config: Config) -> str:
    """Why a mixture can't run, in words; an empty string where it can."""
    c = config
    sizes = (c.data, c.tensor, c.pipeline, c.microbatch_size, c.interleave)
    if not all(type(n) is int and n >= 1 for n in sizes):
        return f"sizes must be whole numbers of at least 1: {c}"
    if c.zero not in range(4):
        return f"zero ({c.zero}) must be 0 to 3"
    if sorted(c.order) != sorted(AXES):
        return f"order {c.order} must name {', '.join(AXES)} once each"
    if model.num_heads % c.tensor:
        return f"tensor ({c.tensor}) must divide the heads ({model.num_heads})"
    if c.pipeline * c.interleave > model.num_layers:
        return f"{c.pipeline} * {c.interleave} pieces are more than {model.num_layers} layers"
    if model.batch % (c.data * c.microbatch_size):
        return (
            f"data * microbatch_size ({c.data} * {c.microbatch_size}) must divide the batch "
            f"({model.batch})"
        )
    if c.interleave > 1:
        if c.pipeline == 1:
            return "interleave needs a pipeline"
        if model.num_layers % (c.pipeline * c.interleave):
            return (
                f"pipeline * interleave ({c.pipeline} * {c.interleave}) must divide the layers "
                f"({model.num_layers})"
            )
        if c.num_microbatches(model) % c.pipeline:
            return (
                f"pipeline ({c.pipeline}) must divide the microbatches "
                f"({c.num_microbatches(model)}) where stages are interleaved"
            )
    return ""


def configs(model: Model, num_gpus: int) -> Iterator[Config]:
    """Every mixture that can run on a number of GPUs, without regard to memory.

    Mixtures that can't differ come once: ``zero`` is 0 where there is one replica, and ``order``
    keeps axes of size 1 where ``AXES`` has them.
    """
    for tensor in _divisors(num_gpus):
        for pipeline in _divisors(num_gpus // tensor):
            data = num_gpus // (tensor * pipeline)
            if model.num_heads % tensor or pipeline > model.num_layers or model.batch % data:
                continue
            sizes = {"tensor": tensor, "data": data, "pipeline": pipeline}
            for microbatch_size, interleave, zero, recompute, order in itertools.product(
                _divisors(model.batch // data),
                _divisors(model.num_layers // pipeline) if pipeline > 1 else [1],
                range(4) if data > 1 else [0],
                (True, False),
                itertools.permutations(AXES),
            ):
                ones = [axis for axis in order if sizes[axis] == 1]
                if ones != [axis for axis in AXES if sizes[axis] == 1] or (
                    order[3 - len(ones) :] != tuple(ones)
                ):
                    continue
                config = Config(
                    data, tensor, pipeline, microbatch_size, interleave, zero, recompute, order
                )
                if not why_illegal(model, config):
                    yield config


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def axis_link(config: Config, axis: str, machine: Machine) -> LinkModel:
    """Return the link at whose pace a ring over an axis moves; the module's text says how."""
    size, stride, node = getattr(config, axis), config.stride(axis), machine.ranks_per_node
    if size == 1:
        return LinkModel(0.0, 0.0)
    span = size * stride
    if node > 1 and (config.num_gpus <= node or node % span == 0):
        return machine.link(0, 1)
    alpha, beta = machine.link(0, node)
    return LinkModel(alpha, beta * min(stride, node) if machine.shared_nic else beta)


def _ring_s(nbytes: float, p: int, link: LinkModel, passes: int) -> float:
    """Seconds of a ring: one pass for an all-gather or a reduce-scatter, two for an all-reduce."""
    return passes * (p - 1) * (link.alpha_s + nbytes / p * link.beta_s_per_byte) if p > 1 else 0.0


def _stage_layers(model: Model, config: Config) -> list[int]:
    """Layers of the first stage, and of the last one: the first stages have one more."""
    whole, more = divmod(model.num_layers, config.pipeline)
    return [whole + (more > 0), whole]


def memory_bytes(model: Model, config: Config) -> int:
    """Bytes of the GPU that needs most: the first stage, which holds most microbatches."""
    c, s, h = config, model.sequence, model.hidden
    layers = _stage_layers(model, c)[0]
    parameters = layers * model.layer_parameters() + model.embedding_parameters()
    parameters = math.ceil(parameters / c.tensor)
    shard = math.ceil(parameters / c.data)
    kept = {0: (parameters,) * 3, 1: (parameters, parameters, shard),
            2: (parameters, shard, shard), 3: (shard, shard, shard)}[c.zero]  # fmt: skip
    state = WORD_BYTES * (kept[0] + kept[1]) + STATE_BYTES * kept[2]
    b = c.microbatch_size
    inside = s * b * (10 * h + 24 * h / c.tensor + 5 * model.num_heads * s / c.tensor)
    held: float = min(c.num_microbatches(model), c.pipeline) * layers  # layers' activations
    if c.interleave > 1:
        held += (c.pipeline - 1) * layers / c.interleave
    activations = held * 2 * s * b * h + inside if c.recompute else held * inside
    logits = 4 * s * b * model.vocabulary / c.tensor if c.pipeline == 1 else 0
    return math.ceil(state + activations + logits)


def cost(model: Model, config: Config, machine: Machine) -> Cost:
    """Return what a step costs.

    Args:
        model: the GPT, with its batch.
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
    passes = 4 if c.recompute else 3  # of a layer: forward, backward (two of it), and again
    first, last = _stage_layers(model, c)
    layers_flops = b * passes * model.layer_flops() / c.tensor
    logits_flops = b * 3 * model.logits_flops() / c.tensor
    if c.pipeline == 1:
        flops = first * layers_flops + logits_flops
    else:
        flops = max(first * layers_flops, last * layers_flops + logits_flops)
    compute_s = flops / machine.flop_per_s

    message = b * model.sequence * model.hidden * WORD_BYTES
    rings = first * (6 if c.recompute else 4)  # all-reduces of a microbatch
    tensor_s = rings * _ring_s(message, c.tensor, axis_link(c, "tensor", machine), 2)
    hop = axis_link(c, "pipeline", machine)
    hops_s = 2 * c.interleave * (hop.alpha_s + message * hop.beta_s_per_byte)  # 0 for one stage

    one_s = compute_s + tensor_s + hops_s
    bubble_s = (c.pipeline - 1) / c.interleave * one_s

    parameters = first * model.layer_parameters() + model.embedding_parameters()
    link = axis_link(c, "data", machine)
    ring_s = _ring_s(parameters / c.tensor * WORD_BYTES, c.data, link, 1)
    if c.zero < 2:  # an all-reduce, or a reduce-scatter and an all-gather, at the end
        sent_s, hides_s = 2 * ring_s, compute_s * (passes - 1) / passes
    elif c.zero == 2:  # a reduce-scatter each microbatch: no rank keeps all gradients
        sent_s, hides_s = (m + 1) * ring_s, m * compute_s * (passes - 1) / passes
    else:  # weights gathered for forward and for backward, gradients scattered
        sent_s, hides_s = 3 * m * ring_s, m * compute_s
    data_s = max(0.0, sent_s - hides_s)
    return Cost(
        m * one_s + bubble_s + data_s,
        m * compute_s,
        m * tensor_s,
        m * hops_s,
        bubble_s,
        data_s,
        memory_bytes(model, config),
    )
