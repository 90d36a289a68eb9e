"""The next message is asked for before a pass begins; messages have tags."""

import numpy as np
import torch
import torch.distributed as dist
from gpt_torch import Grid, copy_to_axis, reduce_from_axis, split


def make_grid(group, pp_size, dp_size, tp_size):
    sizes = (pp_size, dp_size, tp_size)
    if int(np.prod(sizes)) != dist.get_world_size(group):
        raise ValueError("sizes whose product isn't the number of ranks")
    grid = np.arange(int(np.prod(sizes))).reshape(sizes)
    tp = split(group, grid.reshape(-1, tp_size).tolist())
    dp = split(group, grid.transpose(0, 2, 1).reshape(-1, dp_size).tolist())
    pipes = grid.transpose(1, 2, 0).reshape(-1, pp_size)
    pp = split(group, pipes.tolist())
    ends = pipes[:, [0, -1]] if pp_size > 1 else pipes
    return Grid(pp, dp, tp, split(group, ends.tolist()))


def run_layer(tp, layer, x):
    y = reduce_from_axis(tp, layer.attention(copy_to_axis(tp, layer.norm1(x))))
    x = x + (y + layer.attention_bias)
    y = reduce_from_axis(tp, layer.mlp(copy_to_axis(tp, layer.norm2(x))))
    return x + (y + layer.mlp_bias)


def run_pipeline(grid, stage, batch, actions):
    pp, asked, sending, held = grid.pp, {}, [], {}
    first, last = pp.rank == 0, pp.rank == pp.size - 1

    def ask(at):
        if at >= len(actions) or at in asked:
            return
        kind, i = actions[at]
        if (kind == "forward" and first) or (kind == "backward" and last):
            return
        source = pp.ranks[pp.rank - 1 if kind == "forward" else pp.rank + 1]
        buffer = stage.empty(batch.sizes[i])
        tag = 2 * i + (kind == "forward")
        asked[at] = buffer, dist.irecv(buffer, source, group=pp.group, tag=tag)

    def came(at):
        buffer, work = asked.pop(at)
        work.wait()
        return buffer

    def send(x, place, tag):
        x = x.detach().contiguous()
        sending.append((x, dist.isend(x, pp.ranks[place], group=pp.group, tag=tag)))

    tokens = grid.dp.size * sum(batch.sizes) * stage.config.sequence
    losses = [stage.empty(1).new_zeros(())]
    for at, (kind, i) in enumerate(actions):
        ask(at)
        ask(at + 1)
        if kind == "forward":
            x = stage.embed(batch.tokens[i]) if first else came(at).requires_grad_()
            y = x
            for layer in stage.layers:
                y = run_layer(grid.tp, layer, y)
            if last:
                y = stage.loss(y, batch.targets[i]) / tokens
                losses.append(y.detach())
            else:
                send(y, pp.rank + 1, 2 * i + 1)
            held[i] = x, y
        else:
            x, y = held.pop(i)
            y.backward(None if last else came(at))
            if not first:
                send(x.grad, pp.rank - 1, 2 * i)
    for _, work in sending:
        work.wait()
    return torch.stack(losses).sum()


def train_step(grid, stage, batch, actions, optimizer):
    optimizer.zero_grad()
    loss = run_pipeline(grid, stage, batch, actions)
    for parameter in reversed(list(stage.parameters())):
        dist.all_reduce(parameter.grad, group=grid.dp.group)
    if grid.ends is not None:
        dist.all_reduce(stage.words.grad, group=grid.ends.group)
    optimizer.step()
    dist.broadcast(loss, grid.pp.ranks[-1], group=grid.pp.group)
    dist.all_reduce(loss, group=grid.dp.group)
    return loss
