"""Old sends are waited for while the pipeline runs; versions stand in a queue of fixed length."""

from collections import deque

import torch
import torch.distributed as dist
from model_torch import loss_of
from torch.func import functional_call


def train(group, module, optimizer, batch_sizes, inputs=None, targets=None, *, vertical_sync=False):
    members = dist.get_process_group_ranks(group)
    size, rank = len(members), dist.get_rank(group)
    count, under_way = len(batch_sizes), size - rank
    late = (size if vertical_sync else under_way) - 1
    params = dict(module.named_parameters())

    def frozen():
        return {name: each.detach().clone().requires_grad_() for name, each in params.items()}

    recent = deque([frozen()] * (late + 1))  # the last one is the newest
    kept, outgoing, losses, wanted = deque(), deque(), [], {}

    def ask(key):
        """Post a receive: the key tells which neighbour, and the minibatch."""
        step, m = key
        if 0 <= rank + step < size and m < count and key not in wanted:
            shape = batch_sizes[m], module.width_in if step < 0 else module.width_out
            buffer = next(iter(params.values())).new_empty(shape)
            wanted[key] = buffer, dist.irecv(buffer, members[rank + step], group)

    def answer(key):
        ask(key)
        buffer, work = wanted.pop(key)
        work.wait()
        return buffer

    def send(step, tensor):
        if 0 <= rank + step < size:
            outgoing.append((dist.isend(tensor, members[rank + step], group), tensor))
        while len(outgoing) > 2 * size + 1:  # so old that the neighbour has long used it
            outgoing.popleft()[0].wait()

    def forward(m, num_done, following):
        x = inputs[m] if rank == 0 else answer((-1, m)).requires_grad_()
        ask(following)
        used = recent[max(0, m - late) - (num_done - late)]
        y = functional_call(module, used, (x,))
        if rank == size - 1:
            y = loss_of(y, targets[m])
            losses.append(y.item())
        kept.append((x, used, y))
        send(1, y.detach())

    def backward(m, following):
        grad = None if rank == size - 1 else answer((1, m))
        ask(following)
        x, used, y = kept.popleft()
        leaves = list(used.values())
        if rank > 0:
            *grads, into = torch.autograd.grad(y, [*leaves, x], grad)
            send(-1, into)
        else:
            grads = torch.autograd.grad(y, leaves, grad)
        del x, used, y, leaves
        for each, gradient in zip(params.values(), grads, strict=True):
            each.grad = gradient
        del grads
        optimizer.step()
        optimizer.zero_grad()
        recent.popleft()
        recent.append(frozen())

    warm_up = min(under_way, count)
    for m in range(warm_up):
        forward(m, 0, (-1, m + 1) if m + 1 < warm_up else (1, 0))
    for m in range(count):
        more = m + under_way < count
        backward(m, (-1, m + under_way) if more else (1, m + 1))
        if more:
            forward(m + under_way, m + 1, (1, m + 1))
    while outgoing:
        outgoing.popleft()[0].wait()
    return losses if rank == size - 1 else None
