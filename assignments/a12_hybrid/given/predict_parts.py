"""Parameters, FLOPs, days, and times of a message and of a ring: supplied for predict."""

from ringside.scale.hybrid_cost import axis_link


def num_parameters(model):
    """Parameters, without the last norm: a layer has ``12 h^2 + 13 h``, the ends ``(V + s) h``."""
    h = model.hidden
    return model.num_layers * (12 * h + 13) * h + (model.vocabulary + model.sequence) * h


def forward_flops(model):
    """``(layer, logits)``: FLOPs of one forward pass of a sequence through either."""
    s, h = model.sequence, model.hidden
    return 24 * s * h * h + 4 * s * s * h, 2 * s * h * model.vocabulary


def step_flops(model, recompute=True):
    """FLOPs of a step on all GPUs together: backward takes twice as many as forward.

    With ``recompute`` the layers, not the logits, run forward once more.
    """
    layer, logits = forward_flops(model)
    return model.batch * ((4 if recompute else 3) * model.num_layers * layer + 3 * logits)


def training_days(parameters, tokens, num_gpus, flop_per_s):
    """Days of training with recomputation: 8 FLOPs for each parameter and token.

    GPT-3's 174.6e9 parameters, 300e9 tokens on 384 GPUs that reach 153e12 FLOP/s: 82.6 days.
    """
    return 8 * tokens * parameters / (num_gpus * flop_per_s) / 86400


def message_s(nbytes, config, machine):
    """Seconds of a message from a stage to the next; 0 where there is one stage."""
    link = axis_link(config, "pipeline", machine)
    return link.alpha_s + nbytes * link.beta_s_per_byte


def ring_s(nbytes, config, axis, machine):
    """Seconds of a ring over an axis that sums ``nbytes`` bytes: an all-reduce.

    The axis is "tensor" or "data". A ring of one GPU takes no time.
    """
    p, link = getattr(config, axis), axis_link(config, axis, machine)
    return 2 * (p - 1) * (link.alpha_s + nbytes / p * link.beta_s_per_byte)
