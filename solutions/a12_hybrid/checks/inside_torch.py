"""Functions that call ``train3d_torch`` inside a rank, for the tests: nothing to write.

``trained`` is for real ranks, too, on CPUs or GPUs::

    ringside launch checks/inside_torch.py:trained --site zaratan --gpus-per-node 4 -- --tp 4
"""

from importlib import import_module

import torch
import torch.distributed as dist
from given.gpt import Config, names_of, one_f_one_b, part_of, shapes_of
from given.gpt_torch import Batch, Layer, Stage, split


def trained(group, spec, dp, tp, parts, batches, sizes, actions, rates):
    """Steps on a grid.

    Args:
        spec: arguments of ``Config``.
        parts: this rank's parameters by name, as tensors.
        batches: per step ``(tokens, targets)``: those of each microbatch, or None where the rank
            has none.
        sizes: sequences of each microbatch.
        actions: this stage's passes, in their order.
        rates: learning rate and momentum.

    Returns:
        A dict: ``losses`` (what each step returned) and ``params`` (afterwards, by name).
    """
    student = import_module("train3d_torch")
    config = Config(tuple(spec[0]), *spec[1:])
    grid = student.make_grid(group, len(config.layers), dp, tp)
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"

    def there(array):
        return torch.as_tensor(array, device=device)

    stage = Stage(config, grid, {name: there(each).clone() for name, each in parts.items()})
    optimizer = _optimizer(stage, rates)
    actions = [tuple(action) for action in actions]
    losses = []
    for step in batches:
        own = [None if each is None else [there(x) for x in each] for each in step]
        loss = student.train_step(grid, stage, Batch(tuple(sizes), *own), actions, optimizer)
        losses.append(loss.detach().clone() if isinstance(loss, torch.Tensor) else loss)
    params = {name: each.detach().clone() for name, each in stage.named_parts().items()}
    return {"losses": losses, "params": params}


def _optimizer(stage, rates):
    learning_rate, momentum = rates
    return torch.optim.SGD(stage.parameters(), lr=learning_rate, momentum=momentum, foreach=False)


def grid_made(group, pp, dp, tp):
    """``make_grid`` alone: per axis ``(its group, as ranks of the grid; own place in it)``."""
    grid = import_module("train3d_torch").make_grid(group, pp, dp, tp)
    places = {dist.get_global_rank(group, k): k for k in range(dist.get_world_size(group))}
    axes = {"pipeline": grid.pp, "data": grid.dp, "tensor": grid.tp, "ends": grid.ends}
    return {
        name: None if axis is None else ([places[r] for r in axis.ranks], axis.rank)
        for name, axis in axes.items()
    }


def layer_run(group, spec, parts, x, dy):
    """``run_layer`` alone, forward and backward, on a tensor axis of all ranks."""
    tp = split(group, [list(range(dist.get_world_size(group)))])
    config = Config(tuple(spec[0]), *spec[1:])
    layer = Layer(0, config, {name: torch.as_tensor(each) for name, each in parts.items()})
    x = torch.as_tensor(x).clone().requires_grad_()
    y = import_module("train3d_torch").run_layer(tp, layer, x)
    y.backward(torch.as_tensor(dy))
    gradients = {"x": x.grad}
    gradients |= {f"layer0.{name}": param.grad for name, param in layer.named_parameters()}
    gradients = {name: None if g is None else g.clone() for name, g in gradients.items()}
    return {"y": y.detach().clone(), "gradients": gradients}


def large_step(group, spec, dp, tp, sizes):
    """One step of a large model in float32, for a trace on fake tensors."""
    student = import_module("train3d_torch")
    config = Config(tuple(spec[0]), *spec[1:])
    grid = student.make_grid(group, len(config.layers), dp, tp)
    shapes, parts = shapes_of(config), {}
    for name in names_of(config, grid.pp.rank):
        shape, cut = shapes[name]
        whole = torch.empty(shape, device="meta")
        parts[name] = torch.zeros(part_of(whole, cut, grid.tp.size, grid.tp.rank).shape)
    stage = Stage(config, grid, parts)
    tokens = [torch.zeros(n, config.sequence, dtype=torch.int64) for n in sizes]
    first, last = grid.pp.is_first, grid.pp.is_last
    batch = Batch(tuple(sizes), tokens if first else None, tokens if last else None)
    actions = one_f_one_b(grid.pp.rank, grid.pp.size, len(sizes))
    student.train_step(grid, stage, batch, actions, _optimizer(stage, (0.5, 0.9)))
