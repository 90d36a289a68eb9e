"""Functions that call attention in parts inside a rank: supplied.

The functions that begin with ``try_`` are for you: they make inputs of their own, compare with the
whole sequence on one rank, and run what a verdict names. The others are what the tests call.
"""

from importlib import import_module

import numpy as np
import torch
import torch.distributed as dist
from attention_torch import backward_block, forward_block
from ring_cases_torch import KEPT, RING, ZIGZAG, Attention, sample_attention


def ring_called(group, target, calls, lengths=None, causal=False, how="plain"):
    """Call a function of attention, forward and backward.

    Args:
        target: "ring_attention_torch:ring_attention" or "zigzag_torch:zigzag_attention".
        calls: for each call ``(q, k, v, dout)``, this rank's parts.
        lengths, causal: of the ring; zigzag is given neither.
        how: see ``ring_cases_torch.Attention``.

    Returns:
        A dict: ``calls`` (per call the result and the gradients of q, k and v) and ``changed``
        (whether an argument or an incoming gradient was changed).
    """
    name, function = target.split(":")
    call = getattr(import_module(name), function)
    rest = () if lengths is None else (list(lengths), causal)
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
    results = [
        [output.detach().clone(), *(None if x.grad is None else x.grad.clone() for x in own)]
        for output, own in zip(outputs, leaves, strict=True)
    ]
    if how == "forward":
        results = [each[:1] for each in results]
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


def long_sequence(group, target, positions, heads, kv_heads, width, causal=False):
    """Forward and backward pass over a long sequence, for a trace on fake tensors.

    Args:
        positions: of the whole sequence; each rank has as many.
    """
    own = positions // group.size()
    q, k, v, dout = (torch.randn(1, n, own, width) for n in (heads, kv_heads, kv_heads, heads))
    name, function = target.split(":")
    rest = ([own] * group.size(), causal) if target == RING else ()
    leaves = [each.requires_grad_() for each in (q, k, v)]
    getattr(import_module(name), function)(group, *leaves, *rest).backward(dout)


def blocks_alone(group, target, num_ranks, positions, heads, kv_heads, width):
    """The blocks that one of so many ranks computes in ``long_sequence``, and no message."""
    own = positions // num_ranks
    q, k, v, dout = (torch.randn(1, n, own, width) for n in (heads, kv_heads, kv_heads, heads))
    half = own // 2 if target == ZIGZAG else own
    each = [(k, v)] + [(k[:, :, :half], v[:, :, :half])] * (num_ranks - 1)
    for source, keys in enumerate(each):
        out, lse = forward_block(q, *keys, source)
    for source, keys in enumerate(each):
        backward_block(dout, q, *keys, out, lse, source)


def orders(group, x, num_ranks):
    """Cut a sequence with ``zigzag_torch.split``, and put it together with ``merge``.

    Returns:
        ``(parts, whole, error)``: the last is the name of an exception, or None.
    """
    zigzag = import_module("zigzag_torch")
    try:
        parts = [each.clone() for each in zigzag.split(x, num_ranks)]
        return parts, zigzag.merge([each.clone() for each in parts]).clone(), None
    except Exception as error:
        return None, None, type(error).__name__


def ring_refuses(group, lengths, positions):
    """The name of the exception that a call with impossible lengths raises, or None."""
    q = torch.zeros(1, 1, positions, 2)
    try:
        import_module("ring_attention_torch").ring_attention(group, q, q, q, list(lengths))
    except Exception as error:
        return type(error).__name__
    return None


# -- trying ----------------------------------------------------------------------------------------


def try_ring(
    group, lengths=None, heads=2, kv_heads=2, width=4, batch=2, causal=False,
    precision="float64", how="plain", spread=1.0,
):  # fmt: skip
    """Attention over a ring of sample parts; a verdict compares what it returns.

    Args:
        lengths: None: four positions on each rank.
    """
    lengths = lengths or [4] * group.size()
    case = Attention(tuple(lengths), heads, kv_heads, width, batch, causal, precision, how, spread)
    return ring_called(group, RING, _own(group, case), lengths, causal, how)


def try_zigzag(
    group, lengths=None, heads=2, kv_heads=2, width=4, batch=2, precision="float64",
    how="plain",
):  # fmt: skip
    """The same in zigzag order."""
    lengths = lengths or [4] * group.size()
    case = Attention(
        tuple(lengths), heads, kv_heads, width, batch, True, precision, how, zigzag=True
    )
    return ring_called(group, ZIGZAG, _own(group, case), how=how)


def try_orders(group, positions=8, num_ranks=2):
    """``split`` and ``merge`` of a sequence 0, 1, 2, ...; a verdict compares what they give."""
    return orders(group, torch.arange(float(positions)).reshape(1, 1, -1, 1), num_ranks)


def try_kept(group, positions=4, width=64):
    """A forward pass; ``--check ring_kept`` looks at what it keeps for the backward pass."""
    case = KEPT.given(lengths=(positions,) * group.size(), width=width)
    ((q, k, v, _),) = _own(group, case)
    return kept_for_backward(group, q, k, v, case.lengths)


def try_refused(group, lengths=(4, 4), positions=3):
    """``ring_attention`` with lengths that can't be right."""
    return ring_refuses(group, lengths, positions)


def _own(group, case):
    """This rank's tensors of sample calls, on the group's device."""
    if case.world_size != group.size():
        raise ValueError(
            f"lengths has {case.world_size} entries, and there are {group.size()} ranks: give one "
            "for each rank."
        )
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    sample = sample_attention(np.random.default_rng(0), case)
    rank = group.rank()
    return [[torch.tensor(each, device=device) for each in parts[rank]] for parts in sample]
