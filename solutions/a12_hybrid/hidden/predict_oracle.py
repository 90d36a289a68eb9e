"""What predict.py answers, written another way: term by term, over lists of stages and passes."""

import math
from types import SimpleNamespace

from ringside import Machine
from ringside.scale.hybrid_cost import AXES, Config, axis_link


def revived(told):
    """A model, a configuration or a machine for what a call writes down."""
    if isinstance(told, dict) and "num_layers" in told:
        return SimpleNamespace(**told)
    if isinstance(told, dict):
        return Config(**{**told, "order": tuple(told.get("order", AXES))})
    return Machine.load(told) if isinstance(told, str) else told


def num_parameters(model):
    l, h = model.num_layers, model.hidden  # noqa: E741
    share = 13 / (12 * h) + (model.vocabulary + model.sequence) / (12 * l * h)
    return 12 * l * h**2 * (1 + share)


def step_flops(model, recompute=True):
    l, h, s = model.num_layers, model.hidden, model.sequence  # noqa: E741
    whole, words = (96, 16) if recompute else (72, 12)
    return (
        whole * model.batch * s * l * h**2 * (1 + s / (6 * h) + model.vocabulary / (words * l * h))
    )


def training_days(parameters, tokens, num_gpus, flop_per_s):
    return tokens * parameters * 8 / num_gpus / flop_per_s / (24 * 60 * 60)


def state_bytes(parameters, data, zero):
    shard = math.ceil(parameters / data)
    weights = shard if zero == 3 else parameters
    gradients = shard if zero >= 2 else parameters
    states = shard if zero >= 1 else parameters
    return 2 * weights + 2 * gradients + 12 * states


def memory_bytes(model, config):
    s, h, b, t = model.sequence, model.hidden, config.microbatch_size, config.tensor
    layers = -(-model.num_layers // config.pipeline)
    embedding = (model.vocabulary + s) * h
    parameters = math.ceil((layers * (12 * h * h + 13 * h) + embedding) / t)
    whole = s * b * h * (10 + 24 / t)
    held = min(microbatches(model, config), config.pipeline) * layers
    activations = 2 * s * b * h * held + whole if config.recompute == "full" else whole * held
    return state_bytes(parameters, config.data, config.zero) + activations


def microbatches(model, config):
    return model.batch // config.data // config.microbatch_size


def sent_bytes(model, config, element_bytes=2):
    m, layers = microbatches(model, config), model.num_layers // config.pipeline
    h, t, d, p = model.hidden, config.tensor, config.data, config.pipeline
    message = model.sequence * config.microbatch_size * h * element_bytes
    rings = m * layers * (6 if config.recompute == "full" else 4)
    gradients = layers * ((12 * h * h + 7 * h) / t + 6 * h) * element_bytes
    once = gradients * (d - 1) / d
    neighbours = {1: 0, 2: 1}.get(p, 2)
    return {
        "tensor": rings * message * 2 * (t - 1) / t,
        "pipeline": neighbours * message * m * config.interleave,
        "data": {0: 2 * once, 1: 2 * once, 2: (m + 1) * once, 3: 3 * m * once}[config.zero],
    }


def step_s(model, config, machine, element_bytes=2):
    s, h, b, t, p = model.sequence, model.hidden, config.microbatch_size, config.tensor, 0
    message = s * b * h * element_bytes
    passes, rings = (4, 6) if config.recompute == "full" else (3, 4)

    def ring(nbytes, axis):
        size, link = getattr(config, axis), axis_link(config, axis, machine)
        return 2 * (size - 1) * (link.alpha_s + nbytes / size * link.beta_s_per_byte)

    rate = t * machine.flop_per_s
    layer = passes * b * (24 * s * h * h + 4 * s * s * h) / rate + rings * ring(message, "tensor")
    hop = axis_link(config, "pipeline", machine)
    hops = 2 * config.interleave * (hop.alpha_s + message * hop.beta_s_per_byte)
    p = config.pipeline
    counts = [model.num_layers // p + (stage < model.num_layers % p) for stage in range(p)]
    stages = [count * layer + hops for count in counts]
    stages[-1] += 3 * b * 2 * s * h * model.vocabulary / rate
    slowest = max(stages)
    first = counts[0] * (12 * h + 13) * h + (model.vocabulary + s) * h
    return (
        microbatches(model, config) * slowest
        + (sum(stages) - slowest) / config.interleave
        + ring(first / t * element_bytes, "data")
    )
