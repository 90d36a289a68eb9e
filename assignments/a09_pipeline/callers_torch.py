"""Functions that call ``pipeline_torch`` inside a rank, for the tests: supplied, nothing to write.

``try_pipeline`` is for you: it makes inputs of its own, and runs what a verdict names.
``measured_pipeline`` is for real ranks, over gloo::

    ringside launch callers_torch.py:measured_pipeline --site zaratan -- --n 1024
"""

from importlib import import_module

import numpy as np
import torch
from actions import Forward, parse
from callers import held, number, words_of
from model_torch import Piece


def stepped(group, spec, params, words, batch_sizes, inputs, targets, recompute=False):
    """One step of ``pipeline_torch.run``.

    Args:
        spec: a dict: ``widths`` (per chunk: input, hidden, output), ``costs``, ``dropout``.
        params: per chunk weight, bias, weight, bias; weights of shape ``(out, in)``.
        words: this stage's actions as text.

    Returns:
        A dict: ``loss``, ``grads`` (per chunk, None where there is none), ``kept`` (are parameters,
        tensors that were given and the lists of them as they were, and the modules in training
        mode?), ``drawn`` (a random number drawn afterwards); with dropout ``alone``, the same
        after nothing but the forward passes of the list.
    """
    modules = made(group, spec, params)
    data = [*(inputs or []), *(targets or [])]
    given = [*data, *(p for m in modules for p in m.parameters())]
    before, lists = [each.detach().clone() for each in given], held(inputs, targets)
    torch.manual_seed(17 + group.rank())
    run = import_module("pipeline_torch").run
    loss = run(group, modules, parse(words), batch_sizes, inputs, targets, recompute=recompute)
    kept = all(torch.equal(a, b) for a, b in zip(given, before, strict=True))
    kept = kept and lists == held(inputs, targets) and all(each.training for each in modules)
    kept = kept and not any(each.requires_grad or each.grad is not None for each in data)
    value = {"loss": number(loss), "grads": grads_of(modules), "kept": kept}
    value["drawn"] = torch.rand(()).item()
    if spec["dropout"]:
        value["alone"] = drawn_after_forward(modules, parse(words), batch_sizes, 17 + group.rank())
    return value


def drawn_after_forward(modules, actions, batch_sizes, seed):
    """A random number drawn after the list's forward passes, in training mode."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for action in actions:
            if isinstance(action, Forward):
                module = modules[action.chunk].train()
                rows = batch_sizes[action.microbatch]
                module(torch.zeros(rows, module.width_in, dtype=torch.float64))
    return torch.rand(()).item()


def second_step(group, spec, params, words, batch_sizes, inputs, targets, recompute=False):
    """What ``stepped`` returns of a second step, after one with other numbers."""
    turned = [each and each[::-1] for each in (batch_sizes, inputs, targets)]
    stepped(group, spec, [[each / 2 for each in own] for own in params], words, *turned, recompute)
    return stepped(group, spec, params, words, batch_sizes, inputs, targets, recompute)


def step_memory(group, spec, params, words, batch_sizes, inputs, targets, recompute=False):
    """One step with nothing beside it, so that its memory can be seen; loss and gradients."""
    modules = made(group, spec, params)
    run = import_module("pipeline_torch").run
    loss = run(group, modules, parse(words), batch_sizes, inputs, targets, recompute=recompute)
    return {"loss": number(loss), "grads": grads_of(modules)}


def made(group, spec, params):
    """This stage's modules."""
    modules = []
    for chunk, (widths, own) in enumerate(zip(spec["widths"], params, strict=True)):
        number = chunk * group.size() + group.rank()
        module = Piece(widths, number, tuple(spec["costs"]), spec["dropout"])
        with torch.no_grad():
            for mine, given in zip(module.parameters(), own, strict=True):
                mine.copy_(given)
        modules.append(module)
    return modules


def grads_of(modules):
    """Per chunk the gradients; None where there is none."""
    return [[copied(param.grad) for param in module.parameters()] for module in modules]


def copied(grad):
    return None if grad is None else grad.detach().clone()


def try_pipeline(group, schedules, batch_sizes, chunks=1, recompute=False, steps=1, dropout=0.0):
    """One step on a sample model; returns loss, whether all that was given is kept, gradients.

    With dropout also ``drawn`` and ``alone`` of ``stepped``.

    Args:
        schedules: one text a stage, such as ``['F0 F1 B0 B1', 'F0 B0 F1 B1']``; or the name of a
            function of your ``schedule.py``.
        steps: 2 for those of a second step, after one with other numbers.
    """
    rank, num_stages = group.rank(), group.size()
    words = words_of(schedules, num_stages, len(batch_sizes), rank, chunks)
    params, inputs, targets = torch_sample(num_stages * chunks, batch_sizes)
    mine = [params[chunk * num_stages + rank] for chunk in range(chunks)]
    widths = [(own[0].shape[1], own[0].shape[0], own[2].shape[0]) for own in mine]
    spec = {"widths": widths, "costs": (1e-6, 2e-6), "dropout": dropout}
    tensors = [[torch.as_tensor(each) for each in own] for own in mine]
    x = [torch.as_tensor(each) for each in inputs] if rank == 0 else None
    y = [torch.as_tensor(each) for each in targets] if rank == num_stages - 1 else None
    step = stepped if steps == 1 else second_step
    value = step(group, spec, tensors, words, batch_sizes, x, y, recompute)
    shown = ("loss", "kept", *(("drawn", "alone") if dropout else ()), "grads")
    return {name: value[name] for name in shown}


def torch_sample(num_pieces, batch_sizes, widths=(5, 7, 4)):
    """Parameters per piece, inputs and targets as arrays; pieces take turns in their widths."""
    rng = np.random.default_rng(3)
    ends = [widths[2 * (piece % 2)] for piece in range(num_pieces + 1)]
    params = []
    for piece in range(num_pieces):
        shapes = [(widths[1], ends[piece]), (widths[1],), (ends[piece + 1], widths[1])]
        shapes.append((ends[piece + 1],))
        params.append([rng.standard_normal(shape) / 2 for shape in shapes])
    inputs = [rng.standard_normal((size, ends[0])) for size in batch_sizes]
    targets = [rng.standard_normal((size, ends[-1])) for size in batch_sizes]
    return params, inputs, targets


def measured_pipeline(group, params, words, batch_sizes, inputs, targets):
    """One step with one piece on each stage, on the device of ``params``; returns its gradients.

    Args:
        params: weight, bias, weight, bias; weights of shape ``(in, out)``.
        words: this stage's actions as text.
    """
    widths = [*params[0].shape, params[2].shape[1]]
    module = Piece(widths, group.rank()).to(params[0].device)
    with torch.no_grad():
        for mine, given in zip(module.parameters(), params, strict=True):
            mine.copy_(_turned(given))
    run = import_module("pipeline_torch").run
    run(group, [module], parse(words), batch_sizes, inputs, targets)
    return [_turned(p.grad) for p in module.parameters()]


def _turned(tensor):
    """A weight transposed, a bias as it is."""
    return tensor.T if tensor.ndim == 2 else tensor
