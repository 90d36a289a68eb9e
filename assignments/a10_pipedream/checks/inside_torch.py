"""Functions that call ``stash_torch`` inside a rank, for the tests: nothing to write."""

import torch
from given.model_torch import Piece

from ringside.checking import find


def trained(
    group, widths, costs, optimizer, params, batch_sizes, calls, vertical_sync, watched
):  # fmt: skip
    """Calls of ``stash_torch.train`` on one module, with one optimizer.

    Args:
        widths: input, hidden, output.
        costs: seconds of a forward and of a backward pass.
        optimizer: "sgd" or "momentum".
        params: weight, bias, weight, bias; weights of shape ``(out, in)``.
        calls: inputs and targets of each call, each a list or None.
        watched: keep nothing beside the call, so that its memory can be seen.

    Returns:
        A dict: ``params`` afterwards, ``losses`` (of each call), ``kept`` (are inputs and targets
        as they were, and the module's parameters the same objects?), ``cleared`` (is every
        ``grad`` None?).
    """
    train = find("stash_torch:train")
    module = Piece(widths, group.rank(), *costs).to(params[0].device)
    with torch.no_grad():
        for mine, value in zip(module.parameters(), params, strict=True):
            mine.copy_(value)
    if watched:
        params.clear()
    held = list(module.parameters())
    momentum = 0.6 if optimizer == "momentum" else 0.0
    steps = torch.optim.SGD(held, lr=0.1, momentum=momentum)
    tensors = [tensor for call in calls for own in call for tensor in own or [] if not watched]
    before = [tensor.clone() for tensor in tensors]
    losses = []
    for inputs, targets in calls:
        data = batch_sizes, inputs, targets
        losses.append(train(group, module, steps, *data, vertical_sync=vertical_sync))
    now = list(module.parameters())
    same = len(now) == len(held) and all(a is b for a, b in zip(now, held, strict=True))
    return {
        "params": [param.detach() for param in now],
        "losses": losses,
        "kept": same and all(map(torch.equal, tensors, before)),
        "cleared": all(param.grad is None for param in now),
    }
