"""A training step of a GPT: the model, the mixture of schemes, and which mixtures can run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

AXES = ("tensor", "data", "pipeline")
RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True)
class Model:
    """A GPT or a Llama, dense or with experts, and how it is trained.

    Attributes:
        num_layers, hidden, num_heads, vocabulary: its sizes.
        sequence: tokens of a sequence.
        batch: sequences of a step, of all GPUs together.
        ffn: the MLP's inner width; None: four times ``hidden``.
        kv_heads: heads of keys and of values; None: ``num_heads``.
        gated: blocks of Llama's kind: an MLP of three matrices, no biases, no dropout, rotary
            positions in place of a table.
        tied: the embedding serves as the last matrix, too.
        experts: MLPs of each layer that tokens are sent to; 0: the MLP alone. With experts ``ffn``
            is the width of the one that all tokens pass besides, 0 for none.
        expert_ffn: an expert's inner width.
        top_k: experts of a token.
    """

    num_layers: int
    hidden: int
    num_heads: int
    batch: int
    vocabulary: int = 51200
    sequence: int = 2048
    ffn: int | None = None
    kv_heads: int | None = None
    gated: bool = False
    tied: bool = True
    experts: int = 0
    expert_ffn: int = 0
    top_k: int = 1

    @cached_property
    def ffn_width(self) -> int:
        """Of the MLP, inside."""
        return 4 * self.hidden if self.ffn is None else self.ffn

    @cached_property
    def kv_width(self) -> int:
        """Of all keys, or all values, of a token."""
        heads = self.num_heads if self.kv_heads is None else self.kv_heads
        return self.hidden * heads // self.num_heads

    def layer_products(self) -> int:
        """Elements of a layer's matrices, without experts."""
        h = self.hidden
        return 2 * h * (h + self.kv_width) + (3 if self.gated else 2) * h * self.ffn_width

    def expert_parameters(self) -> int:
        """Of one expert."""
        return (3 if self.gated else 2) * self.hidden * self.expert_ffn

    def layer_parameters(self) -> int:
        """Of one layer, with norms, biases and gate, without experts; of GPT ``(12 h + 13) h``."""
        h = self.hidden
        rest = 2 * h if self.gated else 7 * h + 2 * self.kv_width + self.ffn_width
        return self.layer_products() + rest + h * self.experts

    def embedding_parameters(self) -> int:
        """Of the tokens, and of GPT's positions."""
        return (self.vocabulary + (0 if self.gated else self.sequence)) * self.hidden

    def head_parameters(self) -> int:
        """Of the last matrix, if it isn't the embedding."""
        return 0 if self.tied else self.vocabulary * self.hidden

    def num_parameters(self) -> int:
        """All of them, with the last norm."""
        norm = self.hidden if self.gated else 2 * self.hidden
        ends = self.embedding_parameters() + self.head_parameters() + norm
        layer = self.layer_parameters() + self.experts * self.expert_parameters()
        return self.num_layers * layer + ends

    def layer_flops(self) -> float:
        """Of one layer's forward pass over one sequence; of GPT ``24 s h^2 + 4 s^2 h``."""
        active = self.layer_products()
        if self.experts:
            active += self.top_k * self.expert_parameters()
        return 2.0 * self.sequence * active + self.scores_flops()

    def scores_flops(self) -> float:
        """Of the attention's two products of that pass, both halves of a causal mask."""
        return 4.0 * self.sequence * self.sequence * self.hidden

    def logits_flops(self) -> float:
        """Of the last matrix's forward pass over one sequence."""
        return 2.0 * self.sequence * self.hidden * self.vocabulary


@dataclass(frozen=True)
class Config:
    """One mixture of schemes.

    Attention is cut tensor x context x data x pipeline ways. Experts are cut expert_tensor x expert
    ways, over the same ranks of a stage: what is left of ``tensor * context * data`` are replicas.

    Attributes:
        data, tensor, pipeline: sizes of the axes; their product with ``context`` is the number of
            GPUs.
        microbatch_size: sequences of a microbatch.
        interleave: pieces of the model a stage holds (v); 1 is plain 1F1B.
        zero: ZeRO's stage, 0 to 3, over the data axis, context ranks included.
        recompute: what runs forward again in the backward pass: "none", "selective" (norms and
            activation functions) or "full" (whole layers, which keep their inputs alone).
        order: the axes, the one that runs fastest over the ranks first. Context ranks of a replica
            are neighbours on the data axis; expert_tensor and expert run fastest of all.
        sequence_parallel: tensor ranks share what they would all keep, and all send.
        gradient_bytes: 2, as in ZeRO's paper: 16 bytes of a parameter in all. 4: in fp32, as runs
            in bf16 have them: 18. 6: in fp32 beside 16 bits.
        logits_chunks: so many parts of the logits are in fp32 one after another; 1: all at once.
        context: ranks that have a part of each sequence, and pass keys and values around.
        expert: ranks among which the experts of a layer are divided.
        expert_tensor: ranks among which each of them is cut.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    microbatch_size: int = 1
    interleave: int = 1
    zero: int = 0
    recompute: str = "full"
    order: tuple[str, ...] = AXES
    sequence_parallel: bool = False
    gradient_bytes: int = 2
    logits_chunks: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1

    @property
    def num_gpus(self) -> int:
        """Of all axes."""
        return self.data * self.context * self.tensor * self.pipeline

    @property
    def expert_data(self) -> int:
        """Ranks that have the same part of the same experts."""
        ranks = self.data * self.context * self.tensor
        return ranks // (self.expert * self.expert_tensor)

    def num_microbatches(self, model: Model) -> int:
        """Of a pipeline, in a step."""
        return model.batch // (self.data * self.microbatch_size)

    def stage_layers(self, model: Model) -> tuple[int, int]:
        """Layers of the first stage, and of the last one: the first stages have one more."""
        whole, more = divmod(model.num_layers, self.pipeline)
        return whole + (more > 0), whole

    def size(self, axis: str) -> int:
        """Ranks of a group: on "data" all that share a gradient, so context ranks as well."""
        number: int = getattr(self, axis)
        return number * self.context if axis == "data" else number

    def stride(self, axis: str) -> int:
        """How many ranks apart two neighbours on an axis are."""
        if axis == "expert_tensor":
            return 1
        if axis.startswith("expert"):
            return self.expert_tensor * (self.expert if axis == "expert_data" else 1)
        faster = self.order[: self.order.index("data" if axis == "context" else axis)]
        return math.prod(map(self.size, faster))


def why_illegal(model: Model, config: Config) -> str:
    """Why a mixture can't run, in words; an empty string where it can."""
    c = config
    sizes = (
        *(c.data, c.tensor, c.pipeline, c.microbatch_size, c.interleave, c.logits_chunks),
        *(c.context, c.expert, c.expert_tensor),
    )
    if not all(type(n) is int and n >= 1 for n in sizes):
        return f"sizes must be whole numbers of at least 1: {c}"
    if c.zero not in range(4):
        return f"zero ({c.zero}) must be 0 to 3"
    if c.recompute not in RECOMPUTE:
        return f"recompute ({c.recompute!r}) must be one of {', '.join(RECOMPUTE)}"
    if c.gradient_bytes not in (2, 4, 6):
        return f"gradient_bytes ({c.gradient_bytes}) must be 2, 4 or 6"
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
    if model.sequence % c.context:
        return f"context ({c.context}) must divide the sequence ({model.sequence})"
    if c.expert * c.expert_tensor > 1 and (problem := _why_experts_are_illegal(model, c)):
        return problem
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


def _why_experts_are_illegal(model: Model, config: Config) -> str:
    c = config
    if model.experts % c.expert:
        return f"expert ({c.expert}) must divide the experts ({model.experts})"
    if not model.experts:
        return f"expert ({c.expert}) and expert_tensor ({c.expert_tensor}) need experts"
    if c.data * c.context * c.tensor % (c.expert * c.expert_tensor):
        return (
            f"expert * expert_tensor ({c.expert} * {c.expert_tensor}) must divide the ranks of a "
            f"stage ({c.data * c.context * c.tensor})"
        )
    if c.pipeline > 1 and c.order[-1] != "pipeline":
        return f"order {c.order} must end with pipeline where experts are divided"
    return ""


def configs(
    model: Model, num_gpus: int, *, contexts: Sequence[int] = (1,), experts: Sequence[int] = (1,)
) -> Iterator[Config]:
    """Every mixture that can run on a number of GPUs, without regard to memory.

    Mixtures that can't differ come once: ``zero`` is 0 where there is one replica, and ``order``
    has axes of size 1 last. The fields after ``order`` keep their defaults,
    but ``context`` and ``expert``: their sizes are those to be tried.
    """
    for context, expert in itertools.product(contexts, experts):
        for tensor, pipeline, data in _factors(num_gpus, context):
            if model.num_heads % tensor or pipeline > model.num_layers or model.batch % data:
                continue
            orders = _orders({"tensor": tensor, "data": data * context, "pipeline": pipeline})
            for microbatch_size, interleave, zero, recompute, order in itertools.product(
                _divisors(model.batch // data),
                _divisors(model.num_layers // pipeline) if pipeline > 1 else [1],
                range(4) if data * context > 1 else [0],
                RECOMPUTE,
                orders,
            ):
                config = Config(
                    data, tensor, pipeline, microbatch_size, interleave, zero, recompute, order,
                    context=context, expert=expert,
                )  # fmt: skip
                if not why_illegal(model, config):
                    yield config


def _factors(num_gpus: int, context: int) -> Iterator[tuple[int, int, int]]:
    """Sizes of tensor, pipeline and data."""
    if num_gpus % context:
        return
    for tensor in _divisors(num_gpus // context):
        for pipeline in _divisors(num_gpus // context // tensor):
            yield tensor, pipeline, num_gpus // (context * tensor * pipeline)


def _orders(sizes: dict[str, int]) -> list[tuple[str, ...]]:
    """Of the axes: all that differ, those of size 1 last."""
    ones = [axis for axis in AXES if sizes[axis] == 1]
    others = [axis for axis in AXES if sizes[axis] > 1]
    return [(*order, *ones) for order in itertools.permutations(others)]


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
