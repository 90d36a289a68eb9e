"""FLOPs of a layer, and times of a message and of a ring: supplied for predict."""

from ringside.scale.hybrid_cost import axis_link


def forward_flops(model):
    """``(layer, logits)``: FLOPs of one forward pass of a sequence through either."""
    s, h = model.sequence, model.hidden
    return 24 * s * h * h + 4 * s * s * h, 2 * s * h * model.vocabulary


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
