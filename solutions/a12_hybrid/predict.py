"""A training step of a GPT on a grid of GPUs, predicted on the back of an envelope.

    model      l layers of width h, a heads, V words, s tokens a sequence, B sequences a step
    config     d replicas x t tensor ranks x p stages; microbatches of b sequences, M = B / (d b)

    stage 0      F0 F1 F2 .  .  B0 F3 B1 F4 B2 ..        the first microbatch passes all stages, and
    stage 1         F0 F1 .  B0 F2 B1 F3 B2 F4 ..        the slowest stage sets the pace:
    stage 2            F0 B0 F1 B1 F2 B2 F3 B3 ..        sum of all stages + (M - 1) slowest

``model`` has the attributes ``num_layers``, ``hidden``, ``num_heads``, ``vocabulary``, ``sequence``
and ``batch`` (l, h, a, V, s, B), and no methods. ``given/predict_parts.py`` has the formulas that
are only sums: parameters, FLOPs, days of training, a message and a ring. ``config`` is a
``Config`` of ``ringside.scale.hybrid_cost``, with ``data``, ``tensor``, ``pipeline``,
``microbatch_size``, ``interleave``, ``zero`` and ``recompute``, which is "none" or "full" in the
tests: a word, so compare it, since both count as true. No function needs ranks.

**The example below** is l = 2, h = 4, a = 2, V = 5, s = 3, B = 8, on d = t = p = 2 with b = 1, so
M = 4, nothing recomputed, elements of 2 bytes. Memory must be right within 0.5 %; bytes exactly.

Sources: Narayanan et al., Megatron-LM, SC 2021, sections 3 and 5; Rajbhandari et al., ZeRO, SC
2020; Korthikanti et al., Reducing Activation Recomputation, 2022, section 4.
"""

import math

from given.predict_parts import forward_flops, message_s, ring_s

from ringside import Machine
from ringside.scale.hybrid_cost import Config


def state_bytes(parameters: int, data: int, zero: int) -> float:
    """Bytes of weights (2 a parameter), gradients (2) and optimizer state (12) on a GPU.

    ZeRO stage 1 cuts the optimizer state into ``data`` shards, stage 2 also the gradients, stage 3
    also the weights. A shard of n parameters on d GPUs has ceil(n / d). 7.5e9 parameters on 64
    GPUs: 120, 31.4, 16.6 and 1.9 GB (1 GB = 10^9 bytes).
    """
    ### BEGIN SOLUTION
    shard = -(-parameters // data)
    kept = (0, 12, 14, 16)[zero]  # bytes of a parameter that are cut
    return (16 - kept) * parameters + kept * shard
    ### END SOLUTION


def memory_bytes(model, config: Config) -> float:
    """Bytes of the GPU that needs most: on the first stage, which holds most microbatches.

    - It has n = ceil(l / p) layers, and ((12 h + 13) h n + (V + s) h) / t parameters, with
      ``state_bytes`` over the data axis.
    - It holds min(M, p) microbatches. Of each, a layer keeps s b (10 h + 24 h / t) bytes. That is
      with FlashAttention: without it, the scores and their softmax add 5 a s / t to the bracket.
    - With recomputation a layer keeps 2 s b h bytes instead. Beside all of them, the one layer that
      has just been computed again has its s b (10 h + 24 h / t) bytes, once.
    - Logits, gathered weights and buffers are left out; ``ringside.scale.hybrid_memory`` has them.

    The tests don't interleave here. The example: 138 parameters and 2,208 bytes of state, and 2
    microbatches of 264 bytes, 2,736 in all.
    """
    ### BEGIN SOLUTION
    s, h, b, t = model.sequence, model.hidden, config.microbatch_size, config.tensor
    layers = math.ceil(model.num_layers / config.pipeline)
    parameters = math.ceil(((12 * h + 13) * h * layers + (model.vocabulary + s) * h) / t)
    inside = s * b * (10 * h + 24 * h / t)
    held = layers * min(model.batch // (config.data * b), config.pipeline)
    kept = held * 2 * s * b * h + inside if config.recompute == "full" else held * inside
    return state_bytes(parameters, config.data, config.zero) + kept
    ### END SOLUTION


def sent_bytes(model, config: Config, element_bytes: int = 2) -> dict[str, float]:
    """Bytes that a GPU of an inner stage sends in a step, by axis.

    The result is a dict with the keys "tensor", "pipeline" and "data". A ring over p GPUs that
    sums m bytes sends 2 (p - 1) / p m from each of them; a ring that only scatters the sum, or
    gathers, sends half. The tests' p divides l here.

    - tensor: four rings that sum s b h elements, for each of the GPU's layers and each microbatch.
      Two of them are forward, so there are six with recomputation.
    - pipeline: s b h elements to each neighbour, for each microbatch, ``interleave`` times. Take
      two neighbours where p > 2, one where p = 2.
    - data: the gradients of the GPU's layers. A layer has (12 h^2 + 7 h) / t + 6 h elements: norms
      and two biases aren't cut. ZeRO 0 and 1: summed once a step. ZeRO 2: scattered for each
      microbatch, and the weights gathered once a step. ZeRO 3: for each microbatch scattered once,
      and the weights gathered twice.

    The example: 384, 96 and 268 bytes.
    """
    ### BEGIN SOLUTION
    c, h, b = config, model.hidden, config.microbatch_size
    m = model.batch // (c.data * b)
    layers = model.num_layers // c.pipeline
    message = model.sequence * b * h * element_bytes
    rings = (6 if c.recompute == "full" else 4) * layers * m
    weights = layers * ((12 * h * h + 7 * h) / c.tensor + 6 * h) * element_bytes
    passes = (2, 2, m + 1, 3 * m)[c.zero]
    return {
        "tensor": rings * 2 * (c.tensor - 1) / c.tensor * message,
        "pipeline": min(c.pipeline - 1, 2) * c.interleave * m * message,
        "data": passes * (c.data - 1) / c.data * weights,
    }
    ### END SOLUTION


def step_s(model, config: Config, machine: Machine, element_bytes: int = 2) -> float:
    """Seconds of a step with 1F1B: sum of all stages + (M - 1) slowest stage + data.

    - A stage takes for both passes of a microbatch: its FLOPs / (t ``machine.flop_per_s``); the
      tensor axis's rings, one after another; and, where p > 1, two messages. The first and the last
      stage count two as well.
    - The last stage has the logits as well. The first l mod p stages have one layer more than the
      others.
    - Interleaving: every stage has v = ``interleave`` times as many messages, 2 v for a microbatch,
      and filling and draining is v times shorter: M slowest + (sum of all - slowest) / v.
    - data: at the end of a step the gradients of the first stage are summed, its embedding
      ((V + s) h / t elements) with them, in one ring. Nothing hides that. The tests don't ask for
      ZeRO 2 and 3 here.

    The tests allow 5 %, on both sides, to the replay of a traced GPT (``checks/replays.py``; there
    this formula is within 4.5 %), and 5 % to this formula where they interleave, recompute or
    divide layers unevenly. Right terms may be added. More bandwidth or FLOP/s is never slower.
    """
    ### BEGIN SOLUTION
    c, h, b = config, model.hidden, config.microbatch_size
    m = model.batch // (c.data * b)
    message = model.sequence * b * h * element_bytes
    layer, logits = (b * each / (c.tensor * machine.flop_per_s) for each in forward_flops(model))
    passes, rings = (4, 6) if c.recompute == "full" else (3, 4)
    layer_s = passes * layer + rings * ring_s(message, c, "tensor", machine)
    hops_s = 2 * c.interleave * message_s(message, c, machine)
    whole, more = divmod(model.num_layers, c.pipeline)
    stages = [(whole + (stage < more)) * layer_s + hops_s for stage in range(c.pipeline)]
    elements = (whole + (more > 0)) * (12 * h + 13) * h + (model.vocabulary + model.sequence) * h
    stages[-1] += 3 * logits
    fill_s = (sum(stages) - max(stages)) / c.interleave
    data_s = ring_s(elements / c.tensor * element_bytes, c, "data", machine)
    return m * max(stages) + fill_s + data_s
    ### END SOLUTION
