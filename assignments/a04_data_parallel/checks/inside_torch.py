"""Functions that call ``step_torch`` inside a rank, for the tests: nothing to write.

Its functions change a model and an optimizer; these make both from tensors, and return what they
hold afterwards. So they look like those of ``step.py``, and so can be compared::

    ringside run checks/inside_torch.py:train_step --ranks 3 -- --sizes 4,0,7 --widths 64,32,10
"""

import step_torch
import torch
from given.model_torch import Network


def train_step(group, params, velocity, x, y, lr, momentum):
    """Make one step; returns ``(params, velocity, loss)``."""
    made = steps(group, params, velocity, [(x, y)], [lr], momentum)
    return made["params"], made["velocity"], made["losses"][0]


def broadcast(group, params, frozen, nested):
    """Call, with a network or one inside another module; returns the parameters."""
    model = Network(params, frozen)
    model = torch.nn.Sequential(model) if nested else model
    step_torch.broadcast_parameters(group, model)
    return {"params": copies(model.parameters())}


def steps(
    group, params, velocity, batches, lrs, momentum, frozen=(), stale=False, nested=False
):  # fmt: skip
    """Make one step a batch.

    Args:
        batches: this rank's, one ``(x, y)`` a step.
        lrs: one learning rate a step.
        frozen: indices of parameters that don't learn. The optimizer has them too.
        stale: let every parameter's ``grad`` hold something before the first step.
        nested: the network is inside another module, and its optimizer has two groups. Before,
            there is a step of a network of its own, which the others know nothing of.

    Returns:
        A dict: ``params`` and ``velocity`` of the last step, ``losses``, and ``calls`` of the
        optimizer's ``step()``.
    """
    model = Network(params, frozen)
    groups = [{"params": list(model.parameters())}]
    if nested:
        steps(group, [0.5 * p for p in params], velocity, batches[:1], lrs[:1], momentum)
        model = torch.nn.Sequential(model)
        groups = [{"params": [p for p in model.parameters() if p.ndim == n]} for n in (2, 1)]
    optimizer = Noted(groups, lr=lrs[0], momentum=momentum)
    for p, v in zip(model.parameters(), velocity, strict=True):
        optimizer.state[p]["momentum_buffer"] = v.clone()
        if stale:
            p.grad = torch.full_like(p, 7.0)
    losses = []
    for (x, y), lr in zip(batches, lrs, strict=True):
        for each in optimizer.param_groups:
            each["lr"] = lr
        losses.append(step_torch.train_step(group, model, optimizer, x, y))
    state = [optimizer.state[p]["momentum_buffer"] for p in model.parameters()]
    return {
        "params": copies(model.parameters()),
        "velocity": copies(state),
        "losses": losses,
        "calls": optimizer.calls,
    }


class Noted(torch.optim.SGD):
    """SGD that counts its steps."""

    calls = 0

    def step(self, closure=None):
        self.calls += 1
        return super().step(closure)


def copies(tensors):
    """Detached copies."""
    return [each.detach().clone() for each in tensors]
