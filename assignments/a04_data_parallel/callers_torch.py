"""Functions that call ``step_torch`` inside a rank, for the tests: supplied, nothing to write.

Its functions change a model and an optimizer; these make both from tensors, and return what they
hold afterwards. So they look like those of ``step.py``, and so can be compared::

    ringside run callers_torch.py:train_step --ranks 3 -- --n 11 --sizes 4,0,7 --widths 64,32,10
"""

import step_torch
import torch
import torch.distributed as dist
from model_torch import Network
from torch.nn.functional import cross_entropy

from ringside.checking.callers_torch import failures_on_gloo


def broadcast_parameters(group, params, frozen=(), inside=False):
    """Call, with a network or one inside another module; returns the parameters."""
    model = Network(params, frozen)
    model = torch.nn.Sequential(model) if inside else model
    step_torch.broadcast_parameters(group, model)
    return _copies(model.parameters())


def train_step(group, params, velocity, x, y, lr, momentum):
    """Make one step; returns ``(params, velocity, loss)``."""
    params, velocity, losses = steps(group, params, velocity, [(x, y)], [lr], momentum)
    return params, velocity, losses[0]


def steps(group, params, velocity, batches, lrs, momentum, frozen=(), stale=False):
    """Make one step a batch.

    Args:
        batches: this rank's, one ``(x, y)`` a step.
        lrs: one learning rate a step.
        frozen: indices of parameters that don't learn. The optimizer has them too.
        stale: let every parameter's ``grad`` hold something before the first step.

    Returns:
        ``(params, velocity, losses)``: of the last step, and the loss of each.
    """
    model = Network(params, frozen)
    optimizer = torch.optim.SGD(model.parameters(), lr=lrs[0], momentum=momentum)
    return _taken(group, model, optimizer, velocity, batches, lrs, stale)


def steps_of_another(group, params, velocity, batches, lrs, momentum):
    """``steps`` of a network inside another module, by an optimizer that has two groups.

    Before, there is a step of a network of its own, which the others know nothing of.

    Returns:
        ``(params, velocity, losses, calls)``: and how often its ``step()`` was called.
    """
    first = [0.5 * p for p in params]
    train_step(group, first, velocity, *batches[0], lrs[0], momentum)
    model = torch.nn.Sequential(Network(params))
    halves = [{"params": [p for p in model.parameters() if p.ndim == n]} for n in (2, 1)]
    optimizer = Noted(halves, lr=lrs[0], momentum=momentum)
    return *_taken(group, model, optimizer, velocity, batches, lrs), optimizer.calls


class Noted(torch.optim.SGD):
    """SGD that counts its steps."""

    calls = 0

    def step(self, closure=None):
        self.calls += 1
        return super().step(closure)


def _taken(group, model, optimizer, velocity, batches, lrs, stale=False):
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
    return _copies(model.parameters()), _copies(state), losses


def _copies(tensors):
    return [each.detach().clone() for each in tensors]


def assert_two_steps(group):
    """Compare two steps with serial training."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    torch.manual_seed(0)
    params = [torch.randn(shape, dtype=torch.float64) for shape in ((6, 5), (5,), (5, 3), (3,))]
    x, y = torch.randn(12, 6, dtype=torch.float64), torch.randint(3, (12,))
    mine = range(rank, 12, world_size)
    alone, shared = Network(params), Network([p + rank for p in params])
    step_torch.broadcast_parameters(group, shared)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (alone, shared)]
    for _ in range(2):
        optimizers[0].zero_grad()
        cross_entropy(alone(x), y).backward()
        optimizers[0].step()
        step_torch.train_step(group, shared, optimizers[1], x[mine], y[mine])
    for right, got in zip(alone.parameters(), shared.parameters(), strict=True):
        torch.testing.assert_close(got, right, rtol=0, atol=1e-12)


def try_gloo(world_size):
    """Compare two steps on real ranks of this machine; returns how many failed."""
    return failures_on_gloo(assert_two_steps, world_size)
