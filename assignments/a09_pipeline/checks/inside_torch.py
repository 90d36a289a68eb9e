"""Functions that call ``pipeline_torch`` inside a rank, for the tests: nothing to write.

``measured_pipeline`` is for real ranks, over gloo::

    ringside launch checks/inside_torch.py:measured_pipeline --site zaratan -- --n 1024
"""

from importlib import import_module

import torch
from given.actions import Forward, parse
from given.model_torch import Piece

from checks.inside import held_by, number


def stepped(
    group, params, words, batch_sizes, inputs, targets, costs, before, recompute=False, dropout=0.0
):
    """One step of ``pipeline_torch.run``.

    Args:
        params: per chunk weight, bias, weight, bias; weights of shape ``(d_in, d_out)``.
        words: this stage's actions as text.
        costs: seconds of a forward and of a backward pass through a piece.
        before: another step is made first, with other numbers and twice as many samples.

    Returns:
        A dict: ``loss``, ``grads`` (per chunk as ``params``, None where there is none), ``kept``
        (are parameters, tensors that were given and the lists of them as they were, and the modules
        in training mode?), ``drawn`` (a random number drawn afterwards); with dropout ``alone``,
        the same after nothing but the forward passes of the list.
    """
    if before:
        halves, sizes = [[each / 2 for each in own] for own in params], [2 * n for n in batch_sizes]
        twice = [own and [torch.cat([each, each]) for each in own] for own in (inputs, targets)]
        stepped(group, halves, words, sizes, *twice, costs, False, recompute, dropout)
    modules = [
        module_of(own, chunk * group.size() + group.rank(), costs, dropout)
        for chunk, own in enumerate(params)
    ]
    data = [*(inputs or []), *(targets or [])]
    given = [*data, *(param for module in modules for param in module.parameters())]
    values, held = bytes_of(given), held_by(inputs, targets)
    torch.manual_seed(17 + group.rank())
    run = import_module("pipeline_torch").run
    loss = run(group, modules, parse(words), batch_sizes, inputs, targets, recompute=recompute)
    same = values == bytes_of(given) and held == held_by(inputs, targets)
    same = same and not any(each.requires_grad or each.grad is not None for each in data)
    value = {
        "loss": number(loss),
        "grads": [[turned_of(param.grad) for param in module.parameters()] for module in modules],
        "kept": same and all(module.training for module in modules),
        "drawn": torch.rand(()).item(),
    }
    if dropout:
        torch.manual_seed(17 + group.rank())
        value["alone"] = drawn_after_forward(modules, parse(words), batch_sizes)
    return value


def drawn_after_forward(modules, actions, batch_sizes):
    """A random number drawn after the list's forward passes, in training mode."""
    with torch.no_grad():
        for action in actions:
            if isinstance(action, Forward):
                module = modules[action.chunk].train()
                rows = batch_sizes[action.microbatch]
                module(torch.zeros(rows, module.width_in, dtype=torch.float64))
    return torch.rand(()).item()


def module_of(params, number, costs=(1e-6, 2e-6), dropout=0.0):
    """A module with these parameters, on their device."""
    weights = [torch.as_tensor(param) for param in params]
    widths = [*weights[0].shape, weights[2].shape[1]]
    module = Piece(widths, number, tuple(costs), dropout).to(weights[0].device)
    with torch.no_grad():
        for param, given in zip(module.parameters(), weights, strict=True):
            param.copy_(turned_of(given))
    return module


def turned_of(tensor):
    """A weight transposed, a bias as it is; None stays None."""
    return tensor.T if tensor is not None and tensor.ndim == 2 else tensor


def bytes_of(tensors):
    """The values of tensors, where no tensor holds them."""
    return [each.detach().cpu().numpy().tobytes() for each in tensors]


def measured_pipeline(group, params, words, batch_sizes, inputs, targets):
    """One step with one piece on each stage, on the device of ``params``; returns its gradients.

    Args:
        params: weight, bias, weight, bias; weights of shape ``(d_in, d_out)``.
        words: this stage's actions as text.
    """
    module = module_of(params, group.rank())
    run = import_module("pipeline_torch").run
    run(group, [module], parse(words), batch_sizes, inputs, targets)
    return [turned_of(param.grad) for param in module.parameters()]
