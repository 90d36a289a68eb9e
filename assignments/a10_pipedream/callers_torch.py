"""Functions that call the torch modules inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What a rank alone can make, such as a
module and its optimizer, is here.
"""

import torch
from model_torch import Piece

from ringside.checking import find


def stash_torch_trained(group, spec, params, batch_sizes, calls, vertical_sync=False):
    """Calls of ``stash_torch.train`` on one module, with one optimizer.

    Args:
        spec: a dict: ``widths`` (input, hidden, output), ``costs`` (seconds of a forward and of a
            backward pass), ``optimizer`` ("sgd" or "momentum").
        params: weight, bias, weight, bias; weights of shape ``(out, in)``.
        calls: inputs and targets of each call, each a list or None.

    Returns:
        A dict: ``params`` afterwards, ``losses`` (of each call), ``kept`` (are inputs and targets
        as they were, and the module's parameters the same objects?), ``cleared`` (is every
        ``grad`` None?).
    """
    module = Piece(spec["widths"], group.rank(), *spec["costs"]).to(params[0].device)
    held = list(module.parameters())
    with torch.no_grad():
        for mine, given in zip(held, params, strict=True):
            mine.copy_(given)
    optimizer = stash_torch_optimizer(held, spec["optimizer"])
    data = [each for call in calls for own in call for each in own or []]
    before = [each.clone() for each in data]
    losses = []
    for inputs, targets in calls:
        given = batch_sizes, inputs, targets, vertical_sync
        losses.append(_stash_torch(group, module, optimizer, *given))
    now = list(module.parameters())
    return {
        "params": [each.detach().clone() for each in now],
        "losses": losses,
        "kept": all(map(torch.equal, data, before))
        and len(now) == len(held)
        and all(a is b for a, b in zip(now, held, strict=True)),
        "cleared": all(each.grad is None for each in now),
    }


def _stash_torch(group, module, optimizer, batch_sizes, inputs, targets, vertical_sync):
    train = find("stash_torch:train")
    given = group, module, optimizer, batch_sizes, inputs, targets
    return train(*given, vertical_sync=vertical_sync)


def stash_torch_optimizer(params, name):
    """ "sgd" or "momentum"."""
    return torch.optim.SGD(params, lr=0.1, momentum=0.6 if name == "momentum" else 0.0)


def stash_torch_memory(group, spec, params, batch_sizes, calls, vertical_sync=False):
    """One call with nothing beside it, so that its memory can be seen; parameters and losses."""
    module = Piece(spec["widths"], group.rank(), *spec["costs"])
    with torch.no_grad():
        for mine in module.parameters():
            mine.copy_(params.pop(0))
    optimizer = stash_torch_optimizer(module.parameters(), spec["optimizer"])
    losses = _stash_torch(group, module, optimizer, batch_sizes, *calls[0], vertical_sync)
    return {"params": [each.detach() for each in module.parameters()], "losses": [losses]}
