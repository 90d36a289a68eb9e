"""Functions that call ``moe_torch`` inside a rank, for the tests: nothing to write."""

from importlib import import_module

import torch
from given.experts import drawn_experts, shard_bounds
from given.experts_torch import Expert, Gate


def layer(group, num_experts, hidden, seed, gate_weight, experts, kept, x, dy, how):
    """``moe_torch.Experts`` and its gradients on this rank's tokens.

    Args:
        how: "plain", "forward" (no backward pass), or "twice" (before the backward pass comes
            another forward pass, of tokens that no expert takes).

    Returns:
        ``[y]``, and unless "forward" the gradients of x, of the gate, of the shared expert's w1 and
        w2, and a list with those of each expert of this rank. What has none gives zeros.
    """
    p, dtype = group.size(), str(x.dtype).removeprefix("torch.")
    drawn = drawn_experts(num_experts + 1, len(gate_weight), hidden, seed, dtype)
    *every, shared = (Expert(each.w1, each.w2) for each in drawn)
    own = every[slice(*shard_bounds(num_experts, p, group.rank()))]
    gate = Gate(gate_weight, experts, kept)
    moe = import_module("moe_torch").Experts(group, gate, own, shared, num_experts).to(x.device)
    before = x.clone(), dy.clone()
    x.requires_grad_(how != "forward")
    with torch.set_grad_enabled(how != "forward"):
        y = moe(x)
        if how == "twice":
            gate.kept = torch.zeros_like(gate.kept)
            moe(x.detach().clone().requires_grad_())
    if how != "forward":
        y.backward(dy)
    if not (torch.equal(x.detach(), before[0]) and torch.equal(dy, before[1])):
        raise AssertionError("Experts changed x or dy")
    if how == "forward":
        return [y.detach()]
    parts = gradients([x, gate.weight, shared.w1, shared.w2])
    return [y.detach(), *parts, [gradients([each.w1, each.w2]) for each in own]]


def gradients(tensors):
    """Those of each, zeros where there is none."""
    return [torch.zeros_like(each) if each.grad is None else each.grad for each in tensors]
