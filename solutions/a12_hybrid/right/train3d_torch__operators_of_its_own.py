"""Own operators, generators for rows, and gradients that are cut and gathered on the data axis."""

import itertools

import torch
import torch.distributed as dist
from gpt_torch import Grid, Messages, split


class _F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, tp):
        ctx.tp = tp
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(dy, group=ctx.tp.group)
        return dy, None


class _G(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, tp):
        x = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(x, group=tp.group)
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy, None


def make_grid(group, pp_size, dp_size, tp_size):
    sizes = (pp_size, dp_size, tp_size)
    if dist.get_world_size(group) != pp_size * dp_size * tp_size:
        raise ValueError(f"{sizes} are not the ranks of the group")
    places = list(itertools.product(*map(range, sizes)))
    axes = []
    for axis in range(3):
        rows = {}
        for rank, place in enumerate(places):
            rows.setdefault(place[:axis] + place[axis + 1 :], []).append(rank)
        axes.append(list(rows.values()))
    ends = [[row[0], row[-1]][: min(2, pp_size)] for row in axes[0]]
    made = [split(group, rows) for rows in (ends, *axes)]
    return Grid(*made[1:], made[0])


def run_layer(tp, layer, x):
    x = x + layer.attention_bias + _G.apply(layer.attention(_F.apply(layer.norm1(x), tp)), tp)
    return x + layer.mlp_bias + _G.apply(layer.mlp(_F.apply(layer.norm2(x), tp)), tp)


def run_pipeline(grid, stage, batch, actions):
    messages, kept = Messages(grid.pp), {}
    here, ends_at = grid.pp.rank, grid.pp.size - 1
    weight = 1.0 / (grid.dp.size * sum(batch.sizes) * stage.config.sequence)
    loss = torch.zeros((), dtype=stage.empty(1).dtype)
    for kind, i in actions:
        if kind == "backward":
            x, y = kept.pop(i)
            if here == ends_at:
                (y * weight).backward()
            else:
                torch.autograd.backward([y], [messages.receive(here + 1, torch.empty_like(y))])
            if here:
                messages.send(x.grad, here - 1)
            continue
        x = None
        if here:
            x = messages.receive(here - 1, stage.empty(batch.sizes[i])).requires_grad_(True)
        y = x if here else stage.embed(batch.tokens[i])
        for layer in stage.layers:
            y = run_layer(grid.tp, layer, y)
        if here < ends_at:
            messages.send(y, here + 1)
        else:
            y = stage.loss(y, batch.targets[i])
            loss += weight * y.detach()
        kept[i] = x, y
    messages.wait()
    return loss


def train_step(grid, stage, batch, actions, optimizer):
    optimizer.zero_grad(set_to_none=False)
    loss = run_pipeline(grid, stage, batch, actions)
    if grid.ends is not None:
        dist.all_reduce(stage.words.grad, group=grid.ends.group)
    grads = [each.grad for each in stage.parameters()]
    flat = torch.cat([each.reshape(-1) for each in grads])
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % grid.dp.size))
    own = padded.new_empty(len(padded) // grid.dp.size)
    dist.reduce_scatter_tensor(own, padded, group=grid.dp.group)
    dist.all_gather_into_tensor(padded, own, group=grid.dp.group)
    parts = padded[: len(flat)].split([each.numel() for each in grads])
    for each, part in zip(grads, parts, strict=True):
        each.copy_(part.view_as(each))
    optimizer.step()
    dist.all_reduce(loss, group=grid.dp.group)
    dist.all_reduce(loss, group=grid.pp.group)
    return loss
