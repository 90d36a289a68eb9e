"""Functions that call yours of the torch modules inside a rank, for the tests: supplied."""

import torch

from ringside.checking import find

# -- conv_torch ------------------------------------------------------------------------------------


def conv_torch_called(group, x, weight, bias, dy, needs="all", how="plain", kind="float64"):
    """``conv_torch.conv2d`` of this rank's rows, and its gradients.

    Args:
        bias: None for none.
        dy: the gradient of the result.
        needs: which gradients: "all", "x" (weight and bias are frozen), "weights" (x is data),
            "bias" (only that), or "none" (no backward pass).
        how: "plain"; "gaps" (``x`` and ``dy`` are transposed tensors); "sum" (``dy`` is the
            gradient of a sum, one number in memory); "together" (a second call with 3 x, and both
            backward passes afterwards, the last one first).
        kind: the tensors' dtype.

    Returns:
        A dict: ``y``, ``dx``, ``dw``, ``db`` (None where nobody asked) and ``changed``, whether
        an argument or ``dy`` was changed.
    """
    call = find("conv_torch:conv2d")
    x, weight, bias, dy = (
        None if each is None else each.to(getattr(torch, kind)) for each in (x, weight, bias, dy)
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


def conv_torch_refused(group, kernel, height):
    """``conv_torch.conv2d`` with a kernel or a height that can't be: its error."""
    x, weight = torch.ones(1, 1, height, 4), torch.ones(1, 1, kernel, kernel)
    return error_of_torch("conv_torch:conv2d", group, x, weight)


# -- what several of them need ---------------------------------------------------------------------


def error_of_torch(target, *arguments):
    """The type of the exception that a call raises; empty if it returns."""
    try:
        find(target)(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""
