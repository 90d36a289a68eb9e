"""Rows made by loops, one flat buffer of gradients, means of replicas that are averaged."""

import torch
import torch.distributed as dist
from gpt_torch import Grid, Messages, copy_to_axis, reduce_from_axis, split


def make_grid(group, pp_size, dp_size, tp_size):
    if dist.get_world_size(group) != pp_size * dp_size * tp_size:
        raise ValueError("sizes and ranks don't agree")

    def at(p, d, t):
        return (p * dp_size + d) * tp_size + t

    pipes = [[at(p, d, t) for p in range(pp_size)] for d in range(dp_size) for t in range(tp_size)]
    datas = [[at(p, d, t) for d in range(dp_size)] for p in range(pp_size) for t in range(tp_size)]
    tensors = [
        [at(p, d, t) for t in range(tp_size)] for p in range(pp_size) for d in range(dp_size)
    ]
    ends = [sorted({pipe[0], pipe[-1]}) for pipe in pipes]
    tp, dp = split(group, tensors), split(group, datas)
    return Grid(split(group, pipes), dp, tp, split(group, ends))


def run_layer(tp, layer, x):
    for norm, piece, bias in (
        (layer.norm1, layer.attention, layer.attention_bias),
        (layer.norm2, layer.mlp, layer.mlp_bias),
    ):
        x = bias + (reduce_from_axis(tp, piece(copy_to_axis(tp, norm(x)))) + x)
    return x


def run_pipeline(grid, stage, batch, actions):
    messages, inputs, outputs, losses = Messages(grid.pp), {}, {}, []
    before, after = grid.pp.rank - 1, grid.pp.rank + 1
    rows = sum(batch.sizes)
    for kind, i in actions:
        if kind == "forward":
            if before < 0:
                x = stage.embed(batch.tokens[i])
            else:
                x = messages.receive(before, stage.empty(batch.sizes[i]))
                x.requires_grad = True
            inputs[i] = x
            for layer in stage.layers:
                x = run_layer(grid.tp, layer, x)
            outputs[i] = x
            if after < grid.pp.size:
                messages.send(x, after)
            else:
                outputs[i] = stage.loss(x, batch.targets[i]) / (rows * stage.config.sequence)
                losses.append(outputs[i].detach())
        elif after < grid.pp.size:
            outputs[i].backward(messages.receive(after, stage.empty(batch.sizes[i])))
        else:
            outputs[i].backward()
        if kind == "backward":
            if before >= 0:
                messages.send(inputs[i].grad, before)
            del inputs[i], outputs[i]
    messages.wait()
    return sum(losses) if losses else torch.zeros(())


def train_step(grid, stage, batch, actions, optimizer):
    for parameter in stage.parameters():
        parameter.grad = None
    loss = run_pipeline(grid, stage, batch, actions).reshape(()).to(stage.empty(1).dtype)
    gradients = [parameter.grad for parameter in stage.parameters()]
    flat = torch.cat([each.flatten() for each in gradients] + [loss.flatten()])
    dist.all_reduce(flat, group=grid.dp.group)
    flat /= grid.dp.size
    at = 0
    for each in gradients:
        each.copy_(flat[at : at + each.numel()].view_as(each))
        at += each.numel()
    if grid.ends is not None and grid.ends.size > 1:
        dist.all_reduce(stage.words.grad, group=grid.ends.group)
    optimizer.step()
    loss = flat[-1].clone()
    dist.all_reduce(loss, group=grid.pp.group)
    return loss
