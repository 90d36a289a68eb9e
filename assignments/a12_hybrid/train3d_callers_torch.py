"""Functions that call ``train3d_torch`` inside a rank: supplied.

The functions that begin with ``try_`` are for you: they make a sample model and run what a verdict
names, and a verdict compares it with the same training on one process. The others are what the
tests call.
"""

from importlib import import_module

import gpt_torch
import numpy as np
import torch
import torch.distributed as dist
from gpt_torch import Batch, Config, Stage, names_of, part_of, shapes_of, split
from train3d_cases_torch import (
    AXES,
    MOMENTUM,
    RATE,
    Training,
    arguments_of,
    layer_case,
    layer_sample,
    parts_of,
    sample,
    training,
)


def trained(group, case, parts, tokens, targets):
    """Steps on the grid of a case.

    Args:
        case: the fields of a ``train3d_cases_torch.Training``.
        parts: this rank's parameters by name, as tensors.
        tokens, targets: per step and microbatch, or None where the rank has none.

    Returns:
        A dict: ``losses`` (what each step returned) and ``params`` (afterwards, by name).
    """
    student, case = import_module("train3d_torch"), training(case)
    grid = student.make_grid(group, case.pp, case.dp, case.tp)
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"

    def there(array):
        return torch.as_tensor(array, device=device)

    stage = Stage(case.config(), grid, {name: there(each) for name, each in parts.items()})
    optimizer = torch.optim.SGD(stage.parameters(), lr=RATE, momentum=MOMENTUM, foreach=False)
    actions = case.actions(grid.pp.rank)
    losses = []
    for step in range(case.steps):
        own = [
            None if each is None else [there(x) for x in each[step]] for each in (tokens, targets)
        ]
        batch = Batch(tuple(case.sizes), *own)
        loss = student.train_step(grid, stage, batch, actions, optimizer)
        losses.append(loss.detach().clone() if isinstance(loss, torch.Tensor) else loss)
    params = {name: each.detach().clone() for name, each in stage.named_parts().items()}
    return {"losses": losses, "params": params}


def grid_made(group, pp, dp, tp):
    """``make_grid`` alone.

    Returns:
        A dict: per axis ``(its group, as ranks of the grid; own place in it)``, or None.
    """
    grid = import_module("train3d_torch").make_grid(group, pp, dp, tp)
    places = {dist.get_global_rank(group, k): k for k in range(dist.get_world_size(group))}
    found = {}
    for name, axis in zip((*AXES, "ends"), (grid.pp, grid.dp, grid.tp, grid.ends), strict=True):
        found[name] = None if axis is None else ([places[r] for r in axis.ranks], axis.rank)
    return found


def layer_run(group, case, parts, x, dy):
    """``run_layer`` alone, forward and backward, on a tensor axis of all ranks."""
    case = training(case)
    tp = split(group, [list(range(dist.get_world_size(group)))])
    own = {name: torch.as_tensor(each) for name, each in parts.items()}
    layer = gpt_torch.Layer(0, case.config(), own)
    x = torch.as_tensor(x).clone().requires_grad_()
    y = import_module("train3d_torch").run_layer(tp, layer, x)
    y.backward(torch.as_tensor(dy))
    names = {name: param.grad for name, param in layer.named_parameters()}
    gradients = {f"layer0.{n}": None if g is None else g.clone() for n, g in names.items()}
    dx = None if x.grad is None else x.grad.clone()
    return {"y": y.detach().clone(), "dx": dx, "gradients": gradients}


def large_step(group, settings):
    """One step of a large model in float32, for a trace on fake tensors."""
    student = import_module("train3d_torch")
    sizes = settings["sizes"]
    config = Config(
        tuple(settings["layers"]), settings["hidden"], settings["heads"], settings["vocabulary"],
        settings["sequence"], "float32",
    )  # fmt: skip
    grid = student.make_grid(group, len(config.layers), settings["dp"], settings["tp"])
    shapes, parts = shapes_of(config), {}
    for name in names_of(config, grid.pp.rank):
        shape, cut = shapes[name]
        whole = torch.empty(shape, device="meta")
        parts[name] = torch.zeros(part_of(whole, cut, grid.tp.size, grid.tp.rank).shape)
    stage = Stage(config, grid, parts)
    shape = config.sequence
    tokens = [torch.zeros(n, shape, dtype=torch.int64) for n in sizes]
    first, last = grid.pp.rank == 0, grid.pp.rank == grid.pp.size - 1
    batch = Batch(tuple(sizes), tokens if first else None, tokens if last else None)
    optimizer = torch.optim.SGD(stage.parameters(), lr=RATE, momentum=MOMENTUM, foreach=False)
    actions = gpt_torch.one_f_one_b(grid.pp.rank, grid.pp.size, len(sizes))
    student.train_step(grid, stage, batch, actions, optimizer)


# -- trying ----------------------------------------------------------------------------------------


def try_training(
    group, layers=None, dp=1, tp=1, sizes=(2, 2, 2, 2), steps=1, schedule="one_f_one_b",
    hidden=12, heads=6, vocabulary=24,
):  # fmt: skip
    """Steps of a sample model; a verdict compares losses and parameters.

    Args:
        layers: of each stage; None: one layer on each of as many stages as there are ranks for.
    """
    layers = layers or (1,) * (dist.get_world_size(group) // (dp * tp))
    case = Training(tuple(layers), dp, tp, tuple(sizes), steps, schedule, hidden, heads, vocabulary)
    whole, data = sample(np.random.default_rng(0), case)
    _, parts, tokens, targets = arguments_of(case, whole, data, dist.get_rank(group))
    return trained(group, vars(case), parts, tokens, targets)


def try_grid(group, pp=None, dp=1, tp=1):
    """``make_grid``; a verdict compares the groups. None: as many stages as there are ranks for."""
    return grid_made(group, pp or dist.get_world_size(group) // (dp * tp), dp, tp)


def try_layer(group, n=2):
    """``run_layer`` on a tensor axis of all ranks; a verdict compares it with one rank."""
    case = layer_case(dist.get_world_size(group))
    whole, x, dy = layer_sample(np.random.default_rng(0), case)
    parts = parts_of(case, whole, dist.get_rank(group))
    return layer_run(group, vars(case), parts, x, dy)
