"""Functions that call attention in parts inside a rank, for the tests: nothing to write."""

from importlib import import_module

import torch
from given.attention_torch import backward_block, forward_block

from ringside.checking import find


def ring(group, calls, *rest):
    """``ring_attention_torch.ring_attention``: see ``called``."""
    return called(group, "ring_attention_torch:ring_attention", calls, *rest)


def zigzag(group, calls, *rest):
    """``zigzag_torch.zigzag_attention``: see ``called``."""
    return called(group, "zigzag_torch:zigzag_attention", calls, *rest)


def called(group, target, calls, *rest):
    """Call a function of attention, forward and backward.

    Args:
        target: "ring_attention_torch:ring_attention" or "zigzag_torch:zigzag_attention".
        calls: for each call ``(q, k, v, dout)``, this rank's parts.
        rest: what else the function gets; then ``how``, as ``RingAttention`` of
            ``checks/cases_ring_torch.py`` says.

    Returns:
        A dict: ``calls`` (per call a dict of the result, ``out``, and the gradients, ``dq``, ``dk``
        and ``dv``) and ``changed`` (whether an argument or an incoming gradient was changed).
    """
    call = find(target)
    *rest, how = rest
    given, leaves, outputs = [], [], []
    for tensors in calls:
        kept = [_with_gaps(each) if how == "gaps" else each.clone() for each in tensors]
        given.append((tensors, kept))
        leaves.append([each.requires_grad_() for each in kept[:3]])
        with torch.set_grad_enabled(how != "forward"):
            outputs.append(call(group, *leaves[-1], *rest))
        if how not in ("together", "forward"):
            outputs[-1].backward(kept[3])
    if how == "together":
        for output, (_, kept) in reversed(list(zip(outputs, given, strict=True))):
            output.backward(kept[3])
    changed = any(
        not torch.equal(a, b.detach())
        for tensors, kept in given
        for a, b in zip(tensors, kept, strict=True)
    )
    results = []
    for output, own in zip(outputs, leaves, strict=True):
        gradients = [None if x.grad is None else x.grad.clone() for x in own]
        names = zip(("dq", "dk", "dv"), gradients, strict=True)
        results.append({"out": output.detach().clone(), **dict(names)})
    return {"calls": results, "changed": changed}


def _with_gaps(x):
    """The same numbers, not side by side in memory: positions are the outermost dimension."""
    return x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)


def kept_for_backward(group, q, k, v, lengths):
    """A forward pass whose graph is still there at the last operator: the test reads the memory."""
    ring_attention = import_module("ring_attention_torch").ring_attention
    leaves = [each.requires_grad_() for each in (q, k, v)]
    out = ring_attention(group, *leaves, list(lengths))
    torch.zeros(1)  # the last operator
    return out.detach()


def refused(group, lengths, positions):
    """The name of the exception that a call with impossible lengths raises; empty: none."""
    q = torch.zeros(1, 1, positions, 2)
    try:
        import_module("ring_attention_torch").ring_attention(group, q, q, q, list(lengths))
    except Exception as error:
        return type(error).__name__
    return ""


def orders(group, x, num_ranks):
    """Cut a sequence with ``zigzag_torch.split``, and put it together with ``merge``.

    Returns:
        ``(parts, whole, error)``: the last is the name of an exception; empty: there was none.
    """
    zigzag = import_module("zigzag_torch")
    try:
        parts = [each.clone() for each in zigzag.split(x, num_ranks)]
        return parts, zigzag.merge([each.clone() for each in parts]).clone(), ""
    except Exception as error:
        return None, None, type(error).__name__


def long_sequence(group, target, positions, heads, kv_heads, width, causal=False):
    """Forward and backward pass over a long sequence, for a trace on fake tensors.

    Args:
        positions: of the whole sequence; each rank has as many.
    """
    own = positions // group.size()
    q, k, v, dout = (torch.randn(1, n, own, width) for n in (heads, kv_heads, kv_heads, heads))
    rest = () if target.startswith("zigzag") else ([own] * group.size(), causal)
    leaves = [each.requires_grad_() for each in (q, k, v)]
    find(target)(group, *leaves, *rest).backward(dout)


def blocks_alone(group, target, num_ranks, positions, heads, kv_heads, width):
    """The blocks that one of so many ranks computes in ``long_sequence``, and no message."""
    own = positions // num_ranks
    q, k, v, dout = (torch.randn(1, n, own, width) for n in (heads, kv_heads, kv_heads, heads))
    half = own // 2 if target.startswith("zigzag") else own
    each = [(k, v)] + [(k[:, :, :half], v[:, :, :half])] * (num_ranks - 1)
    for source, keys in enumerate(each):
        out, lse = forward_block(q, *keys, source)
    for source, keys in enumerate(each):
        backward_block(dout, q, *keys, out, lse, source)
