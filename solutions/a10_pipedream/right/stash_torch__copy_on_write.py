"""Versions share memory with the module, and the module moves away before each update."""

import torch
import torch.distributed as dist
from model_torch import loss_of
from torch.func import functional_call


class Stage:
    def __init__(self, group, module, optimizer, batch_sizes):
        self.group, self.module, self.optimizer, self.sizes = group, module, optimizer, batch_sizes
        self.size, self.rank = group.size(), group.rank()
        self.posted, self.sends, self.graphs = {}, [], {}
        self.versions, self.dropped = [self.seen()], 0

    def seen(self):
        """The module's parameters by name, in the memory where they lie now."""
        return {name: p.data.requires_grad_() for name, p in self.module.named_parameters()}

    def expect(self, step):
        kind, m = step
        other = self.rank + (1 if kind == "backward" else -1)
        if step not in self.posted and 0 <= other < self.size:
            width = self.module.width_out if kind == "backward" else self.module.width_in
            like = next(iter(self.versions[-1].values()))
            buffer = torch.empty(self.sizes[m], width, dtype=like.dtype, device=like.device)
            other = dist.get_global_rank(self.group, other)
            self.posted[step] = dist.irecv(buffer, other, self.group), buffer

    def get(self, step):
        self.expect(step)
        work, buffer = self.posted.pop(step, (None, None))
        if work is not None:
            work.wait()
        return buffer

    def send(self, tensor, other):
        if 0 <= other < self.size:
            other = dist.get_global_rank(self.group, other)
            self.sends.append((dist.isend(tensor, other, self.group), tensor))

    def forward(self, m, x, version):
        used = self.versions[version - self.dropped]
        x = x.detach().requires_grad_(self.rank > 0)
        y = functional_call(self.module, used, (x,))
        self.graphs[m] = x, used
        self.send(y.detach(), self.rank + 1)
        return y

    def backward(self, m, result, grad, needed):
        x, used = self.graphs.pop(m)
        sources = list(used.values()) + ([x] if self.rank else [])
        grads = list(torch.autograd.grad(result, sources, grad))
        if self.rank:
            self.send(grads.pop(), self.rank - 1)
        del x, used, sources, result
        del self.versions[: needed - self.dropped]
        self.dropped = max(self.dropped, needed)
        for param, each in zip(self.module.parameters(), grads, strict=True):
            param.data = param.data.clone()  # the old memory stays with its version
            param.grad = each
        del grads
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.versions.append(self.seen())


def train(group, module, optimizer, batch_sizes, inputs=None, targets=None, *, vertical_sync=False):
    stage, count = Stage(group, module, optimizer, batch_sizes), len(batch_sizes)
    warm, last = min(stage.size - stage.rank, count), stage.rank == stage.size - 1
    late = stage.size - 1 - (0 if vertical_sync else stage.rank)
    steps = [("forward", m) for m in range(warm)]
    for m in range(count - warm):
        steps += [("backward", m), ("forward", m + warm)]
    steps += [("backward", m) for m in range(count - warm, count)]
    results, losses = {}, []
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        kind, m = step
        given = stage.get(step)
        if following:
            stage.expect(following)
        if kind == "forward":
            y = stage.forward(m, inputs[m] if given is None else given, max(0, m - late))
            results[m] = loss_of(y, targets[m]) if last else y
            if last:
                losses.append(results[m].item())
            del y
        else:
            stage.backward(m, results.pop(m), given, max(0, m + 1 - late))
    for work, _ in stage.sends:
        work.wait()
    return losses if last else None
