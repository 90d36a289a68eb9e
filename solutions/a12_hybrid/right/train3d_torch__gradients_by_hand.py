"""``torch.autograd.grad`` instead of ``backward``; own messages; sums that are started together."""

import torch
import torch.distributed as dist
from gpt_torch import Grid, copy_to_axis, reduce_from_axis, split


def make_grid(group, pp_size, dp_size, tp_size):
    world_size = dist.get_world_size(group)
    if world_size != pp_size * dp_size * tp_size:
        raise ValueError("the grid has another number of ranks than the group")
    ranks = list(range(world_size))
    across = dp_size * tp_size
    pipes = [ranks[k::across] for k in range(across)]
    tensors = [ranks[k : k + tp_size] for k in range(0, world_size, tp_size)]
    datas = [
        ranks[k * across : (k + 1) * across][t::tp_size]
        for k in range(pp_size)
        for t in range(tp_size)
    ]
    ends = [[pipe[0], pipe[-1]] if pp_size > 1 else pipe for pipe in pipes]
    return Grid(
        pp=split(group, pipes),
        dp=split(group, datas),
        tp=split(group, tensors),
        ends=split(group, ends),
    )


def run_layer(tp, layer, x):
    def added(norm, piece, bias, x):
        return x + (reduce_from_axis(tp, piece(norm(x))) + bias)

    attended = added(
        lambda x: copy_to_axis(tp, layer.norm1(x)), layer.attention, layer.attention_bias, x
    )
    return added(lambda x: copy_to_axis(tp, layer.norm2(x)), layer.mlp, layer.mlp_bias, attended)


class _Pipe:
    def __init__(self, grid, stage, batch):
        self.grid, self.stage, self.batch = grid, stage, batch
        self.axis, self.works, self.alive = grid.pp, [], {}
        self.loss = 0.0
        self.sums = None

    def _send(self, x, step):
        x = x.detach().contiguous()
        dest = self.axis.ranks[self.axis.rank + step]
        self.works.append((dist.isend(x, dest, group=self.axis.group), x))

    def _receive(self, i, step):
        x = self.stage.empty(self.batch.sizes[i])
        source = self.axis.ranks[self.axis.rank + step]
        dist.irecv(x, source, group=self.axis.group).wait()
        return x

    def forward(self, i):
        tokens = self.batch.tokens
        x = self._receive(i, -1).requires_grad_() if self.axis.rank else None
        y = self.stage.embed(tokens[i]) if x is None else x
        for layer in self.stage.layers:
            y = run_layer(self.grid.tp, layer, y)
        if self.axis.rank == self.axis.size - 1:
            y = self.stage.loss(y, self.batch.targets[i])
            self.loss = self.loss + y.detach()
        else:
            self._send(y, 1)
        self.alive[i] = x, y

    def backward(self, i):
        x, y = self.alive.pop(i)
        last = self.axis.rank == self.axis.size - 1
        tokens = self.grid.dp.size * sum(self.batch.sizes) * self.stage.config.sequence
        dy = torch.full_like(y, 1 / tokens) if last else self._receive(i, 1)
        wanted = [*self.stage.parameters(), *([] if x is None else [x])]
        found = torch.autograd.grad(y, wanted, dy)
        if x is not None:
            self._send(found[-1], -1)
            found = found[:-1]
        self.sums = found if self.sums is None else [
            a + b for a, b in zip(self.sums, found, strict=True)
        ]

    def end(self):
        for work, _ in self.works:
            work.wait()
        tokens = self.grid.dp.size * sum(self.batch.sizes) * self.stage.config.sequence
        for parameter, each in zip(self.stage.parameters(), self.sums, strict=True):
            parameter.grad = each.contiguous()
        return self.loss / tokens + self.stage.empty(1).new_zeros(())


def run_pipeline(grid, stage, batch, actions):
    pipe = _Pipe(grid, stage, batch)
    for kind, i in actions:
        getattr(pipe, kind)(i)
    return pipe.end()


def train_step(grid, stage, batch, actions, optimizer):
    loss = run_pipeline(grid, stage, batch, actions)
    works = [
        dist.all_reduce(each.grad, group=grid.dp.group, async_op=True)
        for each in stage.parameters()
    ]
    works.append(dist.all_reduce(loss, group=grid.dp.group, async_op=True))
    for work in works:
        work.wait()
    if grid.ends is not None:
        dist.all_reduce(stage.words.grad, group=grid.ends.group)
    optimizer.step()
    dist.broadcast(loss, src=grid.pp.ranks[-1], group=grid.pp.group)
    return loss
