"""The memory of a training step: of the GPU that needs most, by formulas.

In 16 bits, with Adam's state in fp32; ``zero`` is ZeRO's stage:

    a parameter       2 for the weight, ``gradient_bytes`` (2, or 4 where they are kept in fp32), 12
                      of state; and with ZeRO 3 the weights of two units (layers, or the embedding),
                      one at work and one that we assume to be gathered ahead
    a layer keeps     of each sequence, of s tokens, with FlashAttention, which keeps no scores (h
                      hidden, k keys or values, f the MLP's width, t tensor ranks):
        none          s (10 h + (4 h + 4 k + 4 f) / t), of GPT: s h (10 + 24 / t)
        selective     s (6 h + (4 h + 4 k + 2 f) / t): norms and the activation function run again
        full          2 s h: its input alone; the layer that runs again keeps all for a while
        a gated MLP   4 f (kept), 2 f (selective) more, and 2 h less: no masks of dropout
    experts           of each token ``top_k`` rows there and back (4 h) and what is kept between,
                      cut t ways, if tokens are spread evenly
    logits            of each sequence s V (4 + 10 / ``logits_chunks``) / t: 14 if whole (2 in 16
                      bits, 12 of an fp32 copy, of the softmax and of the gradient)

We assume that context ranks divide all that is kept. With sequence parallelism tensor ranks divide
what isn't cut by t above, too. What Korthikanti et al. call selective, the scores again, is what
FlashAttention does anyway. torchtitan's "selective" computes every second product again too, and
keeps less.

Left out: buffers of communication and the allocator's rest. Leave 10 to 15 % of a GPU free. The
formulas are compared with measured memory in ``tests/ringside/scale/test_hybrid_memory.py``.

Sources: Rajbhandari et al. 2020 (ZeRO), Korthikanti et al. 2022 (activations), Zhao et al. 2023
(FSDP's units).
"""

from __future__ import annotations

import math

from ringside.scale.hybrid_config import Config, Model

WORD_BYTES = 2  # of a weight, an activation
STATE_BYTES = 12  # of a parameter's optimizer state: a copy in fp32 and Adam's two moments


def kept_bytes(model: Model, config: Config, recompute: str) -> float:
    """What a layer keeps of a microbatch for its backward pass."""
    h, k, f, gated = model.hidden, model.kv_width, model.ffn_width, model.gated
    if recompute == "full":
        whole, cut = 2 * h, 0
    elif recompute == "selective":
        whole, cut = (4 if gated else 6) * h, 4 * h + 4 * k + (4 if gated else 2) * f
    else:
        whole, cut = (8 if gated else 10) * h, 4 * h + 4 * k + (8 if gated else 4) * f
    if model.experts and recompute != "full":  # rows there and back, and those within
        rows = {"none": 8 if gated else 4, "selective": 4 if gated else 2}[recompute]
        cut += model.top_k * (4 * h + rows * model.expert_ffn)
    row = whole / (config.tensor if config.sequence_parallel else 1) + cut / config.tensor
    return config.microbatch_size * model.sequence / config.context * row


def _in_flight(model: Model, config: Config, behind: int) -> float:
    """Microbatches that a stage holds at most, which has so many stages behind it."""
    m, p, v = config.num_microbatches(model), config.pipeline, config.interleave
    if v == 1:
        return min(m, behind + 1)
    # Megatron-LM's warm-up of (v - 1) p + 2 behind, and the one at work.
    return min(m * v, (v - 1) * p + 2 * behind + 1) / v  # pieces of 1 / v of a stage


def _state_bytes(config: Config, parameters: int, replicas: int) -> int:
    """Of weights, gradients and optimizer state, in shards as ZeRO's stage has them."""
    shard = math.ceil(parameters / replicas)
    weights, gradients, states = (shard if config.zero >= k else parameters for k in (3, 2, 1))
    return WORD_BYTES * weights + config.gradient_bytes * gradients + STATE_BYTES * states


def _stage_bytes(
    model: Model, config: Config, layers: int, ends: int, behind: int, *, logits: bool
) -> float:
    """Bytes of a GPU of a stage; ``ends``: parameters of its embedding and last matrix."""
    c = config
    layer, replicas = model.layer_parameters(), c.data * c.context
    parameters = math.ceil((layers * layer + ends) / c.tensor)
    nbytes: float = _state_bytes(c, parameters, replicas)
    if c.zero == 3 and replicas > 1:
        units = math.ceil((layer + max(layer, ends)) / c.tensor)
        nbytes += WORD_BYTES * min(parameters, units)
    if model.experts:
        experts = model.experts * model.expert_parameters() // (c.expert * c.expert_tensor)
        nbytes += _state_bytes(c, layers * experts, c.expert_data)
        if c.zero == 3 and c.expert_data > 1:
            nbytes += WORD_BYTES * min(layers, 2) * experts
    held = _in_flight(model, c, behind) * layers
    # One layer has all: it is at work.
    nbytes += (held - 1) * kept_bytes(model, c, c.recompute) + kept_bytes(model, c, "none")
    if logits:
        tokens = c.microbatch_size * model.sequence / c.context
        nbytes += (4 + 10 / c.logits_chunks) * tokens * model.vocabulary / c.tensor
    return nbytes


def memory_bytes(model: Model, config: Config) -> int:
    """Bytes of the GPU that needs most.

    It is on the first stage, which holds most microbatches, or on the last one, which has logits.
    """
    p, (first, last) = config.pipeline, config.stage_layers(model)
    start, end = model.embedding_parameters(), model.head_parameters()
    if p == 1:
        return math.ceil(_stage_bytes(model, config, first, start + end, 0, logits=True))
    end = model.vocabulary * model.hidden  # a tied matrix has a copy on either stage
    return math.ceil(
        max(
            _stage_bytes(model, config, first, start, p - 1, logits=False),
            _stage_bytes(model, config, last, end, 0, logits=True),
        )
    )
