# fails: test_step_without_stages
"""beta is taken as bytes per second: a message takes alpha + m / beta."""

import math

from given.predict_parts import forward_flops

from ringside.scale.hybrid_cost import axis_link


def num_parameters(model):
    h = model.hidden
    return model.num_layers * (12 * h + 13) * h + (model.vocabulary + model.sequence) * h


def step_flops(model, recompute=True):
    layer, logits = forward_flops(model)
    return model.batch * ((4 if recompute else 3) * model.num_layers * layer + 3 * logits)


def training_days(parameters, tokens, num_gpus, flop_per_s):
    return 8 * tokens * parameters / (num_gpus * flop_per_s) / 86400


def state_bytes(parameters, data, zero):
    cut = (0, 12, 14, 16)[zero]
    return (16 - cut) * parameters + cut * math.ceil(parameters / data)


def step_s(model, config, machine, element_bytes=2):
    c, b = config, config.microbatch_size
    message = model.sequence * b * model.hidden * element_bytes
    layer, logits = (b * each / (c.tensor * machine.flop_per_s) for each in forward_flops(model))

    def ring(nbytes, axis):
        p, link = getattr(c, axis), axis_link(c, axis, machine)
        rate = link.beta_s_per_byte or 1.0
        return 2 * (p - 1) * (link.alpha_s + nbytes / p / rate)

    layer_s = 3 * layer + 4 * ring(message, "tensor")
    stage_s = model.num_layers / c.pipeline * layer_s + 3 * logits
    m = model.batch // (c.data * b)
    return (m + c.pipeline - 1) * stage_s + ring(2 * num_parameters(model), "data")
