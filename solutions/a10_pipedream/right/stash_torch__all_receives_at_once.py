"""Every receive is posted at the start, with tags; a table says which version is used when."""

import torch
import torch.distributed as dist
from model_torch import loss_of
from torch.func import functional_call


def train(group, module, optimizer, batch_sizes, inputs=None, targets=None, *, vertical_sync=False):
    size, rank, count = group.size(), group.rank(), len(batch_sizes)
    before = dist.get_global_rank(group, rank - 1) if rank > 0 else None
    after = dist.get_global_rank(group, rank + 1) if rank < size - 1 else None
    own = list(module.parameters())
    names = [name for name, _ in module.named_parameters()]
    coming, going = {}, []
    for m, samples in enumerate(batch_sizes):
        if before is not None:
            buffer = own[0].new_zeros(samples, module.width_in)
            coming["x", m] = buffer, dist.irecv(buffer, before, group, tag=2 * m)
        if after is not None:
            buffer = own[0].new_zeros(samples, module.width_out)
            coming["g", m] = buffer, dist.irecv(buffer, after, group, tag=2 * m + 1)

    def wait(key):
        buffer, work = coming.pop(key)
        work.wait()
        return buffer

    table = [max(0, m - (size - 1 - (0 if vertical_sync else rank))) for m in range(count)]
    stash = {0: [each.detach().clone().requires_grad_() for each in own]}
    graphs, losses = {}, []

    def forward(m):
        x = inputs[m] if before is None else wait(("x", m)).requires_grad_()
        y = functional_call(module, dict(zip(names, stash[table[m]], strict=True)), x)
        if after is None:
            graphs[m] = x, loss_of(y, targets[m])
            losses.append(graphs[m][1].tolist())
        else:
            graphs[m] = x, y
            sent = y.detach()
            going.append((dist.isend(sent, after, group, tag=2 * m), sent))

    def backward(m):
        x, y = graphs.pop(m)
        grad = None if after is None else wait(("g", m))
        leaves = stash[table[m]]
        found = torch.autograd.grad(y, leaves + [x] * (before is not None), grad)
        del x, y, leaves
        if before is not None:
            going.append((dist.isend(found[-1], before, group, tag=2 * m + 1), found[-1]))
        for each, gradient in zip(own, found, strict=False):
            each.grad = gradient
        optimizer.step()
        optimizer.zero_grad()
        for version in [k for k in stash if k not in table[m + 1 :]]:
            del stash[version]
        if m + 1 in table:
            stash[m + 1] = [each.detach().clone().requires_grad_() for each in own]

    under_way = min(size - rank, count)
    for m in range(under_way):
        forward(m)
    for m in range(count):
        backward(m)
        if m + under_way < count:
            forward(m + under_way)
    for work, _ in going:
        work.wait()
    return losses if after is None else None
