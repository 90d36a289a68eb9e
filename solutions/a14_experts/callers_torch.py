"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import torch
from experts import drawn_experts, shard_bounds
from experts_torch import Expert, Gate

from ringside.checking import find

# -- moe_torch -------------------------------------------------------------------------------------


def moe_layer(group, num_experts, hidden, seed, gate_weight, experts, kept, dtype):
    """This rank's ``moe_torch.Experts``; the shared expert is one more of those drawn."""
    d = len(gate_weight)
    lo, hi = shard_bounds(num_experts, group.size(), group.rank())
    drawn = drawn_experts(num_experts + 1, d, hidden, seed, dtype)
    every = [Expert(each.w1, each.w2) for each in drawn]
    gate = Gate(gate_weight, experts, kept)
    return find("moe_torch:Experts")(group, gate, every[lo:hi], every[-1], num_experts)


def moe_called(
    group, num_experts, hidden, seed, gate_weight, experts, kept, x, dy, dtype, how="plain"
):
    """``moe_torch.Experts`` and its gradients on this rank's tokens.

    Args:
        how: "plain", "forward" (no backward pass), or "twice" (before the backward pass comes
            another forward pass, of tokens that no expert takes).

    Returns:
        A dict: ``y``, ``dx``, ``dgate``, ``dshared`` and ``dexperts`` (lists of dw1, dw2), and
        ``changed``: was x or dy changed?
    """
    layer = moe_layer(group, num_experts, hidden, seed, gate_weight, experts, kept, dtype)
    layer = layer.to(x.device)
    x, dy = (each.to(getattr(torch, dtype)) for each in (x, dy))
    before = x.clone(), dy.clone()
    x.requires_grad_(how != "forward")
    with torch.set_grad_enabled(how != "forward"):
        y = layer(x)
        if how == "twice":
            given, layer.gate.kept = layer.gate.kept, torch.zeros_like(layer.gate.kept)
            layer(x.detach().clone().requires_grad_())
            layer.gate.kept = given
    if how != "forward":
        y.backward(dy)

    def gradients(module):
        return [None if each.grad is None else each.grad for each in module.parameters()]

    return {
        "y": y.detach(),
        "dx": x.grad,
        "dgate": layer.gate.weight.grad,
        "dshared": gradients(layer.shared),
        "dexperts": [gradients(each) for each in layer.experts],
        "changed": not (torch.equal(x.detach(), before[0]) and torch.equal(dy, before[1])),
    }
