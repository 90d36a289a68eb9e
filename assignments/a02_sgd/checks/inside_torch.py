"""Functions that call ``sgd_torch`` inside a rank, for the tests: nothing to write.

Its functions work on a model and an optimizer; these make both from arrays, and return what they
hold afterwards, so that it can be compared with ``sgd.py``. ``measured_step`` is for a real
machine, its CPU or its GPU; every rank makes the same step by itself::

    ringside launch checks/inside_torch.py:measured_step --site local -- --n 8192
"""

import gc
import weakref

import sgd_torch
import torch
from torch import nn


class Plain(nn.Module):
    """The network of ``sgd.py``, made without your ``from_numpy``; it notes how it is called.

    Args:
        params: tensors ``[W1, b1, ...]``, copied.
        frozen: indices of those that don't learn.
        dropout: share of the scores that is dropped in training mode.
    """

    def __init__(self, params, frozen=(), dropout=0.0):
        super().__init__()
        self.params = nn.ParameterList(
            nn.Parameter(p.clone(), requires_grad=k not in frozen) for k, p in enumerate(params)
        )
        self.dropout = nn.Dropout(dropout)
        self.passes = []  # of each pass: samples, in training mode?, are gradients on?
        self.graphs = weakref.WeakSet()  # of the passes whose graph is still there

    def forward(self, x):
        self.passes.append((len(x), self.training, torch.is_grad_enabled()))
        for layer in range(0, len(self.params), 2):
            x = x if layer == 0 else torch.relu(x)
            x = x @ self.params[layer] + self.params[layer + 1]  # (B, d_out)
        if x.requires_grad:
            held = _Held()
            self.graphs.add(held)
            x.register_hook(lambda gradient, held=held: None)
        return self.dropout(x)


class _Held:
    """What lives as long as the graph whose hook holds it."""


class Noted(torch.optim.SGD):
    """SGD that counts its steps."""

    steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super().step(closure)


def there_and_back(group, params):
    """``from_numpy``, then ``to_numpy``, before and after the model's parameters have changed.

    Returns:
        ``(names, scores, back, later, given, fresh, changed)``: the layers' classes, scores of
        ones, what came back; the same list after all parameters were doubled in place; the arrays
        that were given, then; what comes back after something was written to an earlier list; and
        what else was changed, "" if nothing.
    """
    _begin()
    given = [p.numpy() for p in params]
    model = sgd_torch.from_numpy(given)
    learns = all(p.requires_grad and p.is_leaf for p in model.parameters())
    names = [type(layer).__name__ for layer in model] + ([] if learns else ["(does not learn)"])
    scores = model(torch.ones(3, params[0].shape[0], dtype=params[0].dtype)).detach()
    changed = _changed()
    list(model.parameters())[-1].requires_grad_(False)
    mode, learning = model.training, _learning(model)
    back = sgd_torch.to_numpy(model)
    if model.training is not mode or _learning(model) != learning:
        changed = "the model's mode or which parameters learn"
    kept = [array.copy() for array in back]
    with torch.no_grad():
        for p in model.parameters():
            p *= 2
    doubled = sgd_torch.to_numpy(model)
    for array in doubled:
        array += 1
    fresh = sgd_torch.to_numpy(model)
    return names, scores, kept, back, given, fresh, changed or _changed()


def _begin():
    """As torch begins: what a call left behind earlier is not blamed on the next one."""
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)


def _changed():
    """What is not as ``_begin`` left it, "" if all is."""
    if torch.get_default_dtype() != torch.float32:
        return "torch's default dtype"
    return "" if torch.is_grad_enabled() else "whether gradients are on"


def _learning(model):
    return [p.requires_grad for p in model.parameters()]


def _number(value):
    """As a Python float; nothing is told as nothing."""
    return None if value is None else float(value)


def _alike(tensors, others):
    return all(map(torch.equal, tensors, others))


def steps(
    group, params, velocity, batches, lr, momentum, frozen=(), stale=False, training=True
):  # fmt: skip
    """One ``train_step`` a batch ``(x, y)`` with SGD and momentum.

    Args:
        frozen: indices of parameters that don't learn. The optimizer has them too.
        stale: let every parameter's ``grad`` hold something before the first step.
        training: is the model in training mode?

    Returns:
        ``(params, velocity, losses, told)``: of the last step, and the loss of each; how the model
        was called, whether x or y was changed, what of torch's was, whether losses are Python
        floats, and how many graphs are still there.
    """
    _begin()
    plain = Plain(params, frozen)
    model = nn.Sequential(plain).train(training)
    optimizer = Noted(model.parameters(), lr=lr, momentum=momentum)
    for p, v in zip(model.parameters(), velocity, strict=True):
        optimizer.state[p]["momentum_buffer"] = v.clone()
        if stale:
            p.grad = torch.full_like(p, 7.0)
    losses, kept = [], [(x.clone(), y.clone()) for x, y in batches]
    for x, y in batches:
        losses.append(sgd_torch.train_step(model, optimizer, x, y))
    changed = any(
        x.grad is not None or x.requires_grad or not _alike((x, y), copies)
        for (x, y), copies in zip(batches, kept, strict=True)
    )
    state = [optimizer.state[p]["momentum_buffer"] for p in model.parameters()]
    floats = all(type(loss) is float for loss in losses)
    numbers = [_number(loss) for loss in losses]
    arrays = [p.detach().clone() for p in model.parameters()]
    gc.collect()
    told = {
        "passes": plain.passes,
        "steps": optimizer.steps,
        "changed": changed,
        "besides": _changed(),
        "plain": floats,
        "graphs": len(plain.graphs),
    }
    return arrays, [v.clone() for v in state], numbers, told


def evaluation(group, params, x, y, training, dropout):
    """``evaluate`` on a model in training mode or not.

    Its parameters have gradients already, and the first of them doesn't learn.

    Returns:
        ``(loss, accuracy, told)``: and how the model was called, how it was left.
    """
    _begin()
    plain, copies = Plain(params, (0,), dropout), (x.clone(), y.clone())
    model = nn.Sequential(plain).train(training)
    for p in model.parameters():
        p.grad = torch.full_like(p, 3.0)
    learning = _learning(model)
    loss, accuracy = sgd_torch.evaluate(model, x, y) or (None, None)
    kept = _learning(model) == learning and all(
        p.grad is not None and bool((p.grad == 3).all()) and torch.equal(p, q)
        for p, q in zip(model.parameters(), params, strict=True)
    )
    told = {
        "passes": plain.passes,
        "kept": kept,
        "changed": not _alike((x, y), copies),
        "besides": _changed(),
        "mode": model.training is training and plain.dropout.training is training,
        "plain": type(loss) is float and type(accuracy) is float,
    }
    return _number(loss), _number(accuracy), told


def measured_step(group, params, velocity, x, y, lr, momentum):
    """One step on the device of ``params``; returns ``(params, velocity, loss)``."""
    model = sgd_torch.from_numpy([p.cpu().numpy() for p in params]).to(params[0].device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    # nn.Linear holds W's transpose, and so does its velocity.
    for p, v in zip(model.parameters(), velocity, strict=True):
        optimizer.state[p]["momentum_buffer"] = torch.t(v).clone()
    loss = sgd_torch.train_step(model, optimizer, x, y)
    velocity = [torch.t(optimizer.state[p]["momentum_buffer"]) for p in model.parameters()]
    return sgd_torch.to_numpy(model.cpu()), velocity, loss
