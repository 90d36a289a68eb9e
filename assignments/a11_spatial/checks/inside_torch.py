"""Functions that call yours of the torch modules inside a rank, for the tests: nothing to write."""

import math

import torch

from ringside.checking.callers import error_of, find

# -- conv_torch ------------------------------------------------------------------------------------


def convolved(group, x, weight, bias, dy, needs="all", how="plain", dtype="float64"):
    """``conv_torch.conv2d`` of this rank's rows, and its gradients.

    Args:
        bias: None for none.
        dy: the gradient of the result.
        needs, how, dtype: as ``Conv2d`` of ``checks/cases_torch.py`` says.

    Returns:
        A dict: ``y``, ``dx``, ``dw``, ``db`` (None where nobody asked) and ``changed``, whether
        an argument or ``dy`` was changed.
    """
    call = find("conv_torch:conv2d")
    x, weight, bias, dy = (
        None if each is None else each.to(getattr(torch, dtype)) for each in (x, weight, bias, dy)
    )
    if how == "gaps":
        x, dy = (each.transpose(0, 3).contiguous().transpose(0, 3) for each in (x, dy))
    before = [None if each is None else each.clone() for each in (x, weight, bias, dy)]
    x.requires_grad_(needs in ("all", "x"))
    weight.requires_grad_(needs in ("all", "weights"))
    if bias is not None:
        bias.requires_grad_(needs in ("all", "weights", "bias"))
    y = call(group, x, weight, bias)
    if how == "together":
        second = call(group, 3 * x, weight, bias)
        second.backward(dy)
    if how == "sum":
        y.sum().backward()
    elif needs != "none":
        y.backward(dy)
    found = {"y": y.detach(), "dx": x.grad, "dw": weight.grad}
    found["db"] = None if bias is None else bias.grad
    now = (x.detach(), weight.detach(), None if bias is None else bias.detach(), dy)
    found["changed"] = not all(
        then is None or torch.equal(each, then) for each, then in zip(now, before, strict=True)
    )
    return found


def refused_conv(group, kernel, height):
    """``conv_torch.conv2d`` with a kernel or a height that can't be: its error."""
    x, weight = torch.ones(1, 1, height, 4), torch.ones(1, 1, kernel, kernel)
    return error_of("conv_torch:conv2d", group, x, weight)


# -- ulysses_torch ---------------------------------------------------------------------------------


def attention(sees):
    """An attention of some heads over the whole sequence.

    Args:
        sees: "before" (a query sees keys up to its own position) or "near" (keys at most two
            positions away).
    """

    def attend(q, k, v):
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[3])
        place = torch.arange(q.shape[2], device=q.device)
        behind = place[:, None] - place
        hidden = behind < 0 if sees == "before" else behind.abs() > 2
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v

    return attend


def dealt_out(group, q, k, v, dy, sees="before", backward=True, how="plain", dtype="float64"):
    """``ulysses_torch.attention`` of this rank's positions, and its gradients.

    Args:
        dy: the gradient of the result.
        sees, backward, how, dtype: as ``Ulysses`` of ``checks/cases_torch.py`` says.

    Returns:
        A dict: ``y``, ``dq``, ``dk``, ``dv`` (None without a backward pass) and ``changed``,
        whether an argument or ``dy`` was changed.
    """
    call, attend = find("ulysses_torch:attention"), attention(sees)
    given = [each.to(getattr(torch, dtype)) for each in (q, k, v, dy)]
    if how == "gaps":
        given = [each.transpose(1, 3).contiguous().transpose(1, 3) for each in given]
    before = [each.clone() for each in given]
    *leaves, dy = given
    for each in leaves:
        each.requires_grad_(backward)
    y = call(group, *leaves, attend)
    if how == "together":
        call(group, leaves[0], leaves[1], 2 * leaves[2], attend).backward(dy)
    if how == "sum":
        y.sum().backward()
    elif backward:
        y.backward(dy)
    found = {"y": y.detach()}
    found |= {f"d{name}": each.grad for name, each in zip("qkv", leaves, strict=True)}
    now = [*(each.detach() for each in leaves), dy]
    found["changed"] = not all(map(torch.equal, now, before))
    return found


def refused_ulysses(group, heads, kv_heads):
    """``ulysses_torch.attention`` with heads that the ranks can't share: its error."""
    q, k = torch.ones(1, heads, 2, 4), torch.ones(1, kv_heads, 2, 4)
    return error_of("ulysses_torch:attention", group, q, k, k, attention("before"))
