"""Each version is a module of its own, a deep copy."""

import copy

import torch
import torch.distributed as dist
from model_torch import loss_of


def order(in_flight, count):
    """1F1B, one pass after another."""
    done_f = done_b = 0
    while done_b < count:
        if done_f < count and done_f - done_b < in_flight:
            yield True, done_f
            done_f += 1
        else:
            yield False, done_b
            done_b += 1


def train(group, module, optimizer, batch_sizes, inputs=None, targets=None, *, vertical_sync=False):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    place = dist.get_process_group_ranks(group)
    first, last = rank == 0, rank == size - 1
    device = next(module.parameters()).device
    passes = list(order(size - rank, len(batch_sizes)))
    behind = size - 1 if vertical_sync else size - 1 - rank
    copies = [copy.deepcopy(module)]  # of versions, the oldest that is needed first
    oldest, pending, buffers, graphs, losses = 0, [], {}, {}, []

    def post(key):
        forward, m = key
        if (first if forward else last) or key in buffers:
            return
        shape = batch_sizes[m], module.width_in if forward else module.width_out
        buffer = torch.empty(shape, dtype=torch.float64, device=device)
        source = place[rank - 1] if forward else place[rank + 1]
        buffers[key] = buffer, dist.irecv(buffer, src=source, group=group)

    def arrived(key):
        post(key)
        if key not in buffers:
            return None
        buffer, work = buffers.pop(key)
        work.wait()
        return buffer

    for k, (forward, m) in enumerate(passes):
        given = arrived((forward, m))
        if k + 1 < len(passes):
            post(passes[k + 1])
        if forward:
            used = copies[max(0, m - behind) - oldest]
            x = inputs[m] if first else given.requires_grad_()
            y = used(x)
            if last:
                y = loss_of(y, targets[m])
                losses.append(float(y.detach()))
            else:
                out = y.detach().clone()
                pending.append((dist.isend(out, dst=place[rank + 1], group=group), out))
            graphs[m] = x, y, used
        else:
            x, y, used = graphs.pop(m)
            y.backward(given)
            for param, old in zip(module.parameters(), used.parameters(), strict=True):
                param.grad, old.grad = old.grad, None
            if not first:
                pending.append((dist.isend(x.grad, dst=place[rank - 1], group=group), x.grad))
            del x, y, used
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if m >= behind:
                del copies[0]
                oldest += 1
            copies.append(copy.deepcopy(module))
    for work, _ in pending:
        work.wait()
    return losses if last else None
